"""What all of CEL stands on: the interface of the engines, limits and costs, values, and static types."""
