"""Validation of built-in kinds: pure functions from objects to field errors with the API server's texts.

Only what Tollbar relies on (tests/contract) is checked; anything else passes.
"""
