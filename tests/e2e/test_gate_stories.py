"""The gate classes that ship with Tollbar, beside a real control plane: their examples, as the READMEs tell them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.rights import granted, missing, unused, used
from planes.objects import Cluster
from planes.policies import gate_rights
from processes.stack import CONTROLLERS, OVERLAYS, WEBHOOK, Stack, eventually, installed
from processes.transcripts import play

from tollbar.api.webhooks import GATES_NAME, at_service, at_url, gates_configuration
from tollbar.cli import gates
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates import registry
from tollbar.gates.evaluation import webhook_of
from tollbar.model.objects import Object

pytestmark = pytest.mark.timeout(400)

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
CLASSES = ("quota", "placement", "ordinal")
STORIES = ("pod-quota", "device-quota", "placement", "ordered-migration")


def manifests() -> list[Object]:
    """What `tollbar gates` writes about these classes."""
    return list(gates.objects(registry.enabled(CLASSES), "tollbar-system"))


@pytest.fixture(scope="module")
def since(plane: RealPlane) -> int:
    """Where the audit log of this file begins."""
    return plane.audit_fence() if isinstance(plane, RealPlane) else 0


@pytest.fixture(scope="module")
def stack(plane: RealPlane, since: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Installed with these classes, by the manifests that `tollbar gates` writes, beside the component ceiling."""
    kubectl, classes = plane.kubectl, registry.enabled(CLASSES)
    with installed(plane, tmp_path_factory.mktemp("stories")) as running, gate_rights(kubectl, classes):
        running.webhook(gates=list(CLASSES))
        running.controllers(gates=list(CLASSES))
        running.register()
        here = at_url(f"https://127.0.0.1:{running.serving}", running.authority)
        kubectl.apply(gates_configuration(here, [webhook_of(each) for each in classes]))
        try:
            yield running
        finally:
            kubectl("delete", "--ignore-not-found", "mutatingwebhookconfiguration", GATES_NAME)


@pytest.fixture(scope="module")
def told() -> set[str]:
    """The stories that have come to their end."""
    return set()


@pytest.mark.parametrize("name", STORIES)
def test_what_the_readme_says_is_what_happens(
    cluster: Cluster, stack: Stack, tmp_path: Path, name: str, told: set[str]
) -> None:
    play(EXAMPLES / name, cluster.kubectl, cluster.namespace, tmp_path)
    assert stack.tracebacks() == ""
    told.add(name)


def test_the_rights_of_the_manifests_are_those_that_the_stories_take(
    stack: Stack, own_plane: RealPlane, since: int, told: set[str]
) -> None:
    """The last one: the API server asks a Service about these gates from then on, as in a cluster."""
    if told != set(STORIES):
        pytest.skip("not all stories were told")
    kubectl = own_plane.kubectl
    kubectl.apply(gates_configuration(at_service(), [webhook_of(each) for each in registry.enabled(CLASSES)]))
    bundle = ("get", "mutatingwebhookconfiguration", GATES_NAME, "-o", "jsonpath={..caBundle}")
    eventually(lambda: kubectl(*bundle), what="the controllers have written whom to trust")
    own_plane.audit_fence()
    overlay = yaml.safe_load_all(kubectl("kustomize", str(OVERLAYS / "default")))
    own = manifests()
    everything = [*overlay, *own]
    for user, account in ((CONTROLLERS, "tollbar-controllers"), (WEBHOOK, "tollbar-webhook")):
        uses, grants = used(own_plane.audit.records(since), user), granted(own, account)
        of_policies = {str(each) for each in grants if each.verb in ("release", "narrow")}
        assert (missing(granted(everything, account), uses), unused(grants, uses)) == (set(), of_policies)
