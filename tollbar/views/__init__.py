"""The kinds that Tollbar caches, and views over these stores and over state that several controllers share.

Views never await.
"""
