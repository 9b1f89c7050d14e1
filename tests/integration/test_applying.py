"""What `tollbar dev` adds to a cluster where some of it was there before, and what it takes away again."""

from tollbar.api import crds
from tollbar.api.gates import CONTROLLERS, shipped_gate
from tollbar.cli.applying import Applied
from tollbar.devplane.kubectl import Kubectl
from tollbar.model.resources import SCHEDULING_GATES
from tollbar.runtime.client import Client

CRD = "customresourcedefinition.apiextensions.k8s.io"
NAMES = [f"crd/{crd['metadata']['name']}" for crd in crds.all_crds()]


async def owners(admin: Client) -> list[str]:
    found = await admin.get(SCHEDULING_GATES, "tolerations")
    return list(found["spec"]["owners"])


async def test_what_was_there_before_stays_and_becomes_what_it_was(
    admin: Client, kubectl: Kubectl, definitions: None
) -> None:
    kubectl.apply(shipped_gate())
    try:
        applied = Applied(admin, lambda _line: None)
        await applied.take_over()
        await applied.apply_definitions()
        user = await applied.apply_gate()
        during = await owners(admin)
        await applied.undo()

        assert (during, await owners(admin)) == ([CONTROLLERS, user], [CONTROLLERS])
        assert kubectl("get", "-o", "name", *NAMES).split() == [name.replace("crd", CRD, 1) for name in NAMES]
    finally:
        kubectl("delete", "schedulinggate", "tolerations")


async def test_a_webhook_that_the_api_server_cannot_reach_is_noticed(
    admin: Client, kubectl: Kubectl, definitions: None
) -> None:
    applied = Applied(admin, lambda _line: None)
    await applied.apply_webhooks("https://127.0.0.1:9", b"no certificate")
    reached = await applied.is_reached(timeout=0.5)
    await applied.undo()

    configurations = kubectl("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name")
    assert (reached, "zz-tollbar" in configurations) == (False, False)


async def test_doing_it_all_twice_and_undoing_it_twice_is_harmless(
    admin: Client, kubectl: Kubectl, definitions: None
) -> None:
    for _ in range(2):
        applied = Applied(admin, lambda _line: None)
        await applied.apply_definitions()
        await applied.apply_gate()
        await applied.undo()
        await applied.undo()

    assert kubectl("get", "schedulinggates", "-o", "name") == ""
