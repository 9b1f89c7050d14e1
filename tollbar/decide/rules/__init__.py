"""TolerationRules, PlacementRules and SchedulingGates: compiled, validated, and what their status says."""
