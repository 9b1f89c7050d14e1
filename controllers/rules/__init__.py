"""Rules: compiles TolerationRules, says in their status whether they are in force and how many Pods wait under them.

Hazard: down, statuses are old and nothing else; doubled, the same status is written twice; behind, an administrator
waits for an answer that the validating webhook has given already.
"""
