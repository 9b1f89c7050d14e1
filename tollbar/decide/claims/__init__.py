"""Decisions about ResourceClaims: their life, who reserves them, and the mode in which Tollbar looks after them."""
