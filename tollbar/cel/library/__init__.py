"""The functions, methods and arithmetic operators of the language: `table` holds all of them, each module one family.

Nothing is imported here, so that one family can be used without the others (patterns need RE2).
"""
