"""The gate classes that ship with Tollbar, beside a real control plane: their examples, as the READMEs tell them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from stack import Stack, installed
from transcripts import play

from tollbar.api.webhooks import GATES_NAME, at_url, gates_configuration
from tollbar.cli import gates
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates import registry
from tollbar.gates.sight import told_of

pytestmark = pytest.mark.timeout(400)

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
CLASSES = ("quota", "placement", "ordinal")
STORIES = ("pod-quota", "device-quota", "placement", "ordered-migration")


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Installed with these classes, by the manifests that `tollbar gates` writes, beside the component ceiling."""
    classes = registry.enabled(CLASSES)
    with installed(plane, tmp_path_factory.mktemp("stories")) as running:
        kubectl = plane.kubectl
        manifests = list(gates.objects(classes, "tollbar-system"))
        kubectl.apply(*(each for each in manifests if each["kind"] != "MutatingWebhookConfiguration"))
        running.webhook(gates=list(CLASSES))
        running.controllers(gates=list(CLASSES))
        running.register()
        here = at_url(f"https://127.0.0.1:{running.serving}", running.authority)
        kubectl.apply(gates_configuration(here, [told_of(each) for each in classes]))
        try:
            yield running
        finally:
            kubectl("delete", "--ignore-not-found", "mutatingwebhookconfiguration", GATES_NAME)


@pytest.mark.parametrize("name", STORIES)
def test_what_the_readme_says_is_what_happens(cluster: Cluster, stack: Stack, tmp_path: Path, name: str) -> None:
    play(EXAMPLES / name, cluster.kubectl, cluster.namespace, tmp_path)
    assert stack.tracebacks() == ""
