"""Decisions about ResourceClaims: their life, their reservations, tolerations of their devices, and whether the mode in
which Tollbar looks after them fits the cluster.
"""
