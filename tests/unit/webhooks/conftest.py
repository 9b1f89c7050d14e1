"""A small cluster in caches, and a handler over it, with the real engine."""

from collections.abc import Callable, Iterator

import pytest
from blockbuster import blockbuster_ctx
from fakes.manager import Managed
from objects.builders import claim, device_class, namespace, template, toleration_rule
from objects.reviews import GPU_CLAIM

from tollbar.cel import CelEngine, engine
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.runtime.metrics import Metrics
from tollbar.views.gatherer import Gatherer
from webhooks.pods import PodHandler

GPU, NIC = "gpu.example.com", "nic.example.com"


@pytest.fixture(autouse=True)
def _no_blocking() -> Iterator[None]:
    with blockbuster_ctx("webhooks"):
        yield


@pytest.fixture(scope="session")
def cel() -> CelEngine:
    return engine()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def gatherer(cel: CelEngine) -> Gatherer:
    """Namespace ml; classes gpu and nic; a template for each way to ask for them; the rule gpu."""
    gatherer = Managed().gatherer(cel)
    lookup = gatherer.lookup
    lookup.namespaces.replace([namespace("ml"), namespace("tollbar-system")])
    lookup.classes.replace([device_class(GPU), device_class(NIC)])
    either = template("two-to-the-eighth")
    for _ in range(8):
        either = either.request(GPU, NIC)
    lookup.templates.replace(
        [
            template("one-gpu").request(GPU),
            template("one-nic").request(NIC),
            template("gpu-or-nic").request(GPU, NIC),
            template("gpu-or-gpu").request(GPU, GPU),
            template("sixteen-times-gpu").request(*[GPU] * 16),
            template("of-no-class").request("none.example.com"),
            either,
        ]
    )
    lookup.claims.replace([claim("shared").request(GPU)])
    gatherer.rules.replace([toleration_rule("gpu").cel(GPU_CLAIM)])
    gatherer.gates.replace([])
    return gatherer


@pytest.fixture
def handler(gatherer: Gatherer, metrics: Metrics) -> Callable[..., PodHandler]:
    def build(mode: AdmissionMode = "Auto") -> PodHandler:
        return PodHandler(gatherer, mode=mode, metrics=metrics, releasing=lambda: True)

    return build
