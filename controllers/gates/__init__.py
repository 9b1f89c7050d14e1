"""Gates: removes our scheduling gate from Pods, with their tolerations, and adds late what admission missed.

Hazard: down, gated Pods wait and new ones are gated until it is back; doubled, the second patch fails its `test` and
nothing is written twice; behind, Pods start late, and never on a wrong node.
"""
