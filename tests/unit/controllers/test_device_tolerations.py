"""Claims that Tollbar generates get the tolerations of devices that rules give, whether or not a webhook is asked."""

import json
from typing import Any

from fakes.manager import Managed
from objects.builders import (
    Template,
    device_class,
    namespace,
    pod,
    template,
    toleration,
    toleration_rule,
    workload_claim,
)

from controllers import claims, reservations
from controllers.claims.mappers import ClaimKey
from tollbar import wellknown
from tollbar.cel import engine
from tollbar.model.objects import Key, Object, annotations_of
from tollbar.model.resources import RESOURCE_CLAIMS, Resource
from tollbar.views import kinds
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

GPU = toleration("example.com/gpu")
RULE = (
    toleration_rule("gpu")
    .cel('claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))')
    .giving_devices(GPU)
)
ONE: Template = template("one").request("nic", "gpu")


class Api:
    """Creates everything, and tells which claims."""

    def __init__(self) -> None:
        self.claims: list[Object] = []

    async def list(self, _resource: Resource, _namespace: str = "", **_: Any) -> Object:
        return {"items": [], "metadata": {"resourceVersion": "1"}}

    async def create(self, resource: Resource, obj: Object) -> Object:
        if resource == RESOURCE_CLAIMS:
            self.claims.append(obj)
        return {**obj, "metadata": {"name": "made", **obj["metadata"], "uid": "u", "resourceVersion": "2"}}

    async def patch(self, _resource: Resource, _name: str, body: Any, **_: Any) -> Object:
        return {**body, "metadata": {"name": "web", "namespace": "ml", "uid": "u", "resourceVersion": "3"}}


def filled(manager: Managed, *objects: Object) -> None:
    """As decoded JSON: the engine takes nothing else."""
    there = (namespace(), device_class("gpu"), device_class("nic"), ONE, RULE, *objects)
    manager.fill(json.loads(json.dumps(there)))


def tolerated(claim: Object) -> list[Any]:
    """Of each entry of the list."""
    return [each.get("tolerations") for each in claim["spec"]["devices"]["requests"][0]["firstAvailable"]]


def counted(manager: Managed) -> float | None:
    return manager.metrics.registry.get_sample_value(
        "tollbar_device_tolerations_total", {"rule": "gpu", "mode": "Enforce"}
    )


async def of_a_workload_claim(manager: Managed, given: DeviceTolerations) -> None:
    states = ReservationStates(manager.metrics)
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    _, controller = reservations.setup(manager, None, states, oscillations, given)
    filled(manager, workload_claim(resourceClaimTemplateName="one").but("metadata.resourceVersion", "1"))
    await controller.reconcile(Key("ml", "web-gpu"))


async def test_the_claim_of_a_workload_claim() -> None:
    api = Api()
    manager = Managed(api)
    await of_a_workload_claim(manager, manager.device_tolerations(engine()))
    (claim,) = api.claims
    written = annotations_of(claim)
    assert (tolerated(claim), counted(manager)) == ([None, [GPU]], 1)
    assert json.loads(written[wellknown.ANNOTATION_PROVENANCE])[0]["request"] == "r0/o1"
    assert written[wellknown.ANNOTATION_WORKLOAD_CLAIM] == "web-gpu"


async def test_where_they_are_dropped_a_claim_is_made_without_and_without_a_record() -> None:
    api = Api()
    manager = Managed(api)
    given = DeviceTolerations(manager.gatherer(engine()), manager.metrics, kept=lambda: False)
    await of_a_workload_claim(manager, given)
    (claim,) = api.claims
    assert (tolerated(claim), counted(manager)) == ([None, None], None)
    assert wellknown.ANNOTATION_PROVENANCE not in annotations_of(claim)


async def test_the_claim_of_a_pod() -> None:
    api = Api()
    manager = Managed(api, claims="Replace", workers=1)
    takeover = Takeover()
    runner = claims.setup(manager, takeover, manager.device_tolerations(engine()))
    filled(manager, pod().templates("one").but("metadata.resourceVersion", "1"))
    manager.caches.stores["claims"].resource_version = "1"
    await runner.unseen.begin()
    takeover.found(None)
    await runner.controller.reconcile(ClaimKey("Pod", "ml", "web"))
    (claim,) = api.claims
    assert (tolerated(claim), counted(manager)) == ([None, [GPU]], 1)
    assert annotations_of(claim)[wellknown.POD_CLAIM_NAME_ANNOTATION] == "one"
