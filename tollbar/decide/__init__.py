"""Pure decisions: `decide(facts, now) -> plan`.  Total on user data; no clock, no I/O, no logging.

The webhook, the controllers and the command line share them, so that the answer to "what would Tollbar do with this
Pod?" has one home.
"""
