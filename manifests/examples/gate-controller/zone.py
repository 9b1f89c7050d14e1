"""Zone: a Pod labelled `example.com/batch` runs in the zone that the ConfigMap `zone` of its namespace names."""

from typing import Final

from tollbar.gates import Answer, Facts, Gate, Hold, Mutation, NotMine, Reads, Release
from tollbar.model.objects import Key, key_of, labels_of, spec
from tollbar.model.resources import CONFIG_MAPS
from tollbar.runtime.caches import Cached

MAPS: Final = Cached(
    "zones",
    CONFIG_MAPS,
    field_selector="metadata.name=zone",
    accepts=lambda found: key_of(found).name == "zone",
)
ZONE: Final = "topology.kubernetes.io/zone"


class Zone(Gate):
    name = "example.com/zone"
    reads = (Reads(MAPS, lambda pod: [Key(key_of(pod).namespace, "zone")]),)
    applies_to = "has(object.metadata.labels) && 'example.com/batch' in object.metadata.labels"
    max_hold = "10m"

    def decide(self, facts: Facts) -> Answer:
        if "example.com/batch" not in labels_of(facts.pod):
            return NotMine()
        if ZONE in (spec(facts.pod).get("nodeSelector") or {}):  # its author has chosen
            return NotMine()
        for found in facts.of(MAPS):
            if zone := (found.get("data") or {}).get("zone"):
                return Release(Mutation(node_selector={ZONE: zone}), gives=f"zone {zone}")
        return Hold("ZoneMissing", f"key zone of ConfigMap {key_of(facts.pod).namespace}/zone")
