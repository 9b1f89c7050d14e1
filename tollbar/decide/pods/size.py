"""The limit on the size of a package: for a larger one rules about claims are false, because evaluating them would take
long."""

from typing import Final

from tollbar.model import pods
from tollbar.model.objects import Object, spec

MAX_PARTS: Final = 1024
"""Of the Pod, references to claims and resources of its containers; of the package, claims and what their requests
may turn into.  Some milliseconds."""


def is_too_large(pod: Object) -> bool:
    """Whether the package exceeds the limit by the Pod alone; cheap for every Pod."""
    body = spec(pod)
    parts = len(pods.claim_references(pod))
    for kind in ("initContainers", "containers"):
        for container in body.get(kind) or ():
            if resources := container.get("resources"):
                parts += max(len(resources.get("limits") or ()), len(resources.get("requests") or ()))
    return parts > MAX_PARTS
