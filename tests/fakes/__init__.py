"""Stand-ins for what Tollbar is given: a clock, a CEL engine, a manager, an exec credential plugin."""
