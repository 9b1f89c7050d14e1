"""Pure decisions: the `decide(facts, now) -> plan` of each module, with `now` (epoch seconds) where time matters.

Facts and plans are frozen dataclasses.  Decisions are total on user data, and have no clock, no I/O and no logging.

The webhook, the controllers and the command line share them, so that the answer to "what would Tollbar do with this
Pod?" has one home.
"""
