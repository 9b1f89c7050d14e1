"""Decisions about ResourceClaims: their life, their reservations, and the mode in which Tollbar looks after them."""
