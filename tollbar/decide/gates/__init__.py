"""What all scheduling gates of Tollbar have in common: answers, what a release may change, the chains around them.

A gate answers `Hold`, `Release` or `NotMine` for a Pod (`answers`).  From that, `creation` makes the answer of the
webhook and `release` the plan of the controller; `mutations` checks and writes what a release changes.
"""
