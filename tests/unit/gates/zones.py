"""The gate class of manifests/examples/gate-controller, also as one of tollbar.dev, which is released when overdue."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from plugins import examples

from tollbar.gates import Facts, Gate
from tollbar.model.objects import Object

_EXAMPLE: Final = examples.module(examples.EXAMPLES / "gate-controller" / "zone.py")
MAPS: Final = _EXAMPLE.MAPS
ZONE: Final = _EXAMPLE.ZONE
BATCH: Final = {"example.com/batch": ""}
"""Labels of a Pod that is the class's business."""


class Reporting(_EXAMPLE.Zone):  # type: ignore[misc, name-defined]
    """As an author outside tollbar.dev has it."""


class Zone(Reporting):
    name = "tollbar.dev/zone"
    max_hold = "60s"
    on_expiry = "Release"


class Closed(Zone):
    fails_open = False


def saying(answer: Callable[[Facts], Any], **declared: Any) -> Gate:
    """A gate that answers so."""
    members = {"decide": lambda _self, facts: answer(facts), "__module__": __name__, **declared}
    made: Gate = type("Saying", (Zone,), members)()
    return made


def config_map(zone: str = "a", namespace: str = "ml") -> Object:
    meta: Mapping[str, str] = {"name": "zone", "namespace": namespace, "uid": f"zone-of-{namespace}"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**meta, "resourceVersion": "1"},
        "data": {"zone": zone},
    }
