"""What all scheduling gates of Tollbar have in common: answers, what a release may change, the chains around them.

A gate says of a Pod `Hold`, `Release` or `NotMine` (`answers`).  `creation` makes of that what the webhook answers,
`release` what the controller does; `mutations` checks and writes what a release changes.
"""
