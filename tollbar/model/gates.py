"""SchedulingGates as the API server stores them, valid or not, and the gates that the controllers say they release."""

from collections.abc import Iterable, Mapping
from typing import Any

from tollbar.model.objects import Object, spec
from tollbar.wellknown import ANNOTATION_GATES


def gate_name(gate: Object) -> str:
    """The name of the gate that it declares, as Pods have it."""
    return str(spec(gate).get("gateName"))


def released_text(gates: Iterable[str]) -> str:
    """The gates of gate classes that the controllers release, as the annotation `tollbar.dev/gates` of their Lease."""
    return ",".join(gates)


def released_gates(annotations: Mapping[str, Any]) -> frozenset[str] | None:
    """The gates in that annotation; None for a Lease without it, which does not say which gates are released."""
    said = annotations.get(ANNOTATION_GATES)
    return None if said is None else frozenset(str(said).split(","))
