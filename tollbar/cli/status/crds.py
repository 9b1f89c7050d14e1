"""Whether the CRDs of a cluster are as new as this version of Tollbar, for `tollbar status`.

Compared are the fields: the API server refuses or drops one that a CRD lacks.  They are read from the OpenAPI document
of tollbar.dev, which every user may read who is authenticated (ClusterRole system:discovery).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

import tollbar
from tollbar import wellknown
from tollbar.api import crds
from tollbar.cli.reading import Reading
from tollbar.model.objects import Object

_DOCUMENT: Final = f"/openapi/v3/apis/{wellknown.API_VERSION}"
_GVK: Final = "x-kubernetes-group-version-kind"
_NAMED: Final = 3
"""The most fields of one CRD that are named."""


async def look(reading: Reading) -> tuple[str, ...] | None:
    """The problems of the CRDs, None where the document may not be read or is not there (yet).

    Raises ApiError when the API server does not answer.
    """
    text = await reading.document(_DOCUMENT)
    try:
        document = None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return tuple(problems(document)) if isinstance(document, dict) else None


def problems(document: Object) -> Iterator[str]:
    """One line for each CRD that is not served, or lacks fields, by the OpenAPI document of the group version."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    served = {str(each.get("kind")): schema for schema in schemas.values() for each in schema.get(_GVK) or ()}
    for crd in crds.all_crds():
        name, schema = crd["metadata"]["name"], served.get(crd["spec"]["names"]["kind"])
        if schema is None:
            yield f"CRD {name} is not served: apply the manifests of tollbar {tollbar.__version__}"
            continue
        (version,) = crd["spec"]["versions"]
        lacking = list(_lacking(version["schema"]["openAPIV3Schema"], schema))
        if lacking:
            yield (
                f"CRD {name} is older than this tollbar ({tollbar.__version__}), it lacks {_named(lacking)}: apply the"
                " manifests of this version"
            )


def _lacking(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The fields that are ours alone, such as `spec.match.type`; those inside of such a field are not listed."""
    present = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        if name in present:
            yield from _lacking(schema, present[name], f"{path}{name}.")
        else:
            yield f"{path}{name}"
    for elements in ("items", "additionalProperties"):
        if isinstance(ours.get(elements), dict) and isinstance(theirs.get(elements), dict):
            yield from _lacking(ours[elements], theirs[elements], path)


def _named(fields: list[str]) -> str:
    named = fields[:_NAMED]
    more = [f"{len(fields) - _NAMED} more"] if len(fields) > _NAMED else []
    *first, last = [*named, *more]
    return f"{', '.join(first)} and {last}" if first else last
