"""SchedulingGates as the API server stores them, valid or not."""

from tollbar.model.objects import Object, spec


def gate_name(gate: Object) -> str:
    """The name of the gate that it declares, as Pods have it."""
    return str(spec(gate).get("gateName"))
