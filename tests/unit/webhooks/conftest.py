"""A small cluster in caches, and a handler over it, with the real engine."""

from collections.abc import Callable, Iterator

import pytest
from blockbuster import blockbuster_ctx
from builders import claim, device_class, namespace, template, toleration_rule
from unit.webhooks.reviews import GPU_CLAIM

from tollbar.cel import CelEngine, engine
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.runtime.metrics import Metrics
from tollbar.views.caches import Caches
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
def caches(cel: CelEngine) -> Caches:
    """Namespace ml; classes gpu and nic; a template for each way to ask for them; the rule gpu."""
    caches = Caches(engine=cel, managed_namespaces={}, system_namespace="tollbar-system")
    caches.namespaces.replace([namespace("ml"), namespace("tollbar-system")])
    caches.classes.replace([device_class(GPU), device_class(NIC)])
    either = template("two-to-the-eighth")
    for _ in range(8):
        either = either.request(GPU, NIC)
    caches.templates.replace(
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
    caches.claims.replace([claim("shared").request(GPU)])
    caches.rules.replace([toleration_rule("gpu").cel(GPU_CLAIM)])
    caches.gates.replace([])
    return caches


@pytest.fixture
def handler(caches: Caches, cel: CelEngine, metrics: Metrics) -> Callable[..., PodHandler]:
    def build(mode: AdmissionMode = "Auto") -> PodHandler:
        return PodHandler(caches, engine=cel, mode=mode, metrics=metrics)

    return build
