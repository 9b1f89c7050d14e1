"""What the API server refuses in objects, in its own words: pure functions from objects to field errors.

Called by the strategies.  Only what Tollbar's contract with the API server lists is checked; anything else passes.
"""
