"""TolerationRules and SchedulingGates: compiled, validated, and what their status says."""
