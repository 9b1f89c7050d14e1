"""How `tollbar status` compares the CRDs of a cluster with those of this version."""

from typing import Any

import pytest

import tollbar
from tollbar.api import crds
from tollbar.cli.reading import Reading
from tollbar.cli.status.crds import look, problems
from tollbar.model.objects import Object
from tollbar.runtime.errors import NotFound

RULES = "CRD tolerationrules.tollbar.dev"
OLDER = f"{RULES} is older than this tollbar ({tollbar.__version__}), it lacks"
APPLY = "apply the manifests of this version"


def schemas() -> dict[str, Any]:
    """As the API server publishes those of this version, by kind."""
    return {
        crd["spec"]["names"]["kind"]: {
            **crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            "x-kubernetes-group-version-kind": [{"kind": crd["spec"]["names"]["kind"]}],
        }
        for crd in crds.all_crds()
    }


def without(*fields: str, kind: str = "TolerationRule") -> Object:
    """The document of a cluster whose CRD lacks these fields; `[]` is in the place of a list's or a map's elements."""
    given = schemas()
    for field in fields:
        *way, last = field.split(".")
        schema = given[kind]
        for step in way:
            schema = schema["properties"][step.removesuffix("[]")]
            if step.endswith("[]"):
                schema = schema.get("items") or schema["additionalProperties"]
        del schema["properties"][last]
    return document(given)


def document(given: Object) -> Object:
    published = {f"dev.tollbar.v1alpha1.{kind}": schema for kind, schema in given.items()}
    return {"components": {"schemas": {**published, "io.k8s.apimachinery.pkg.apis.meta.v1.Status": {}}}}


def newer() -> Object:
    given = schemas()
    given["PodQuota"]["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    return document(given)


CLUSTERS: dict[str, tuple[Object, list[str]]] = {
    "of this version": (without(), []),
    "of a newer one": (newer(), []),
    "without a field": (without("spec.deviceTolerations"), [f"{OLDER} spec.deviceTolerations: {APPLY}"]),
    "without a field of a status": (
        without("status.lastMatch", "status.pendingMatches"),
        [f"{OLDER} status.pendingMatches and status.lastMatch: {APPLY}"],
    ),
    "without a field in a list": (without("spec.tolerations[].effect"), [f"{OLDER} spec.tolerations.effect: {APPLY}"]),
    "without a field in a map": (
        without("spec.match.device.prototypes[].attributes[].version"),
        [f"{OLDER} spec.match.device.prototypes.attributes.version: {APPLY}"],
    ),
    "without more fields than are named": (
        without("spec.mode", "spec.tolerations", "spec.deviceTolerations", "spec.allowReservedKeys", "status"),
        [f"{OLDER} spec.mode, spec.tolerations, spec.deviceTolerations and 2 more: {APPLY}"],
    ),
    "without a CRD": (
        document({kind: schema for kind, schema in schemas().items() if kind != "TolerationRule"}),
        [f"{RULES} is not served: apply the manifests of tollbar {tollbar.__version__}"],
    ),
}


@pytest.mark.parametrize(("given", "want"), CLUSTERS.values(), ids=CLUSTERS)
def test_what_the_crds_of_a_cluster_lack(given: Object, want: list[str]) -> None:
    assert list(problems(given)) == want


@pytest.mark.parametrize("answer", [b"<html>", b"[]", NotFound(404, "NotFound", "not published yet")])
async def test_without_a_document_nothing_is_known(answer: bytes | Exception) -> None:
    class Server:
        async def raw(self, *_: str) -> bytes:
            if isinstance(answer, Exception):
                raise answer
            return answer

    reading = Reading(Server())  # type: ignore[arg-type]
    assert (await look(reading), reading.unread) == (None, [])
