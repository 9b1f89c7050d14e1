"""Decisions about ResourceClaims: their life, their reservations, tolerations of their devices, and whether the
configured mode (`claims`) fits the cluster.
"""
