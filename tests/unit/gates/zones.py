"""A gate class for tests: a Pod waits for the ConfigMap `zone` of its namespace, and goes to the zone that it names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tollbar.gates import Answer, Facts, Gate, Hold, Mutation, NotMine, Reads, Release
from tollbar.model.objects import Key, Object, key_of, labels_of
from tollbar.model.resources import CONFIG_MAPS
from tollbar.runtime.caches import Cached

MAPS: Final = Cached("zones", CONFIG_MAPS)
ZONE: Final = "topology.kubernetes.io/zone"


class Zone(Gate):
    name = "tollbar.dev/zone"
    reads = (Reads(MAPS, lambda pod: [Key(key_of(pod).namespace, "zone")]),)
    max_hold = "60s"
    on_expiry = "Release"

    def decide(self, facts: Facts) -> Answer:
        if "batch" not in labels_of(facts.pod):
            return NotMine()
        for each in facts.of(MAPS):
            return Release(Mutation(node_selector={ZONE: each["data"]["zone"]}), gives="the zone of its team")
        return Hold("ZoneMissing", f"ConfigMap {key_of(facts.pod).namespace}/zone")


class Reporting(Zone):
    """As an author outside tollbar.dev would have it."""

    name = "example.com/zone"
    max_hold = "60s"
    on_expiry = "Report"


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
