"""`kubectl get` without kubectl: the table that the API server makes of objects (meta.k8s.io/v1 Table), as lines."""

from collections.abc import Sequence
from typing import Any, Final

from tollbar.model.objects import labels_of
from tollbar.model.resources import Resource
from tollbar.model.texts import columns
from tollbar.runtime.client import Client, decoded

_AS_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def get(client: Client, resource: Resource, namespace: str = "", *, labels: Sequence[str] = ()) -> list[str]:
    """What `kubectl get RESOURCE -n NAMESPACE -L LABELS` prints.  Raises ApiError."""
    table = decoded("GET", await client.raw("GET", resource.path(namespace), accept=_AS_TABLE))
    return lines(table, labels)


def lines(table: dict[str, Any], labels: Sequence[str] = ()) -> list[str]:
    """The columns that kubectl shows without `-o wide`, then one for each label, named by its last part."""
    shown = [index for index, each in enumerate(table["columnDefinitions"]) if not each.get("priority")]
    titles = [table["columnDefinitions"][index]["name"].upper() for index in shown]
    rows = [[*titles, *(label.rpartition("/")[2].upper() for label in labels)]]
    for row in table["rows"]:
        found = labels_of(row["object"])
        rows.append([*(str(row["cells"][index]) for index in shown), *(found.get(label, "") for label in labels)])
    return columns(rows)
