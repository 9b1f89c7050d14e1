"""An API server that misbehaves towards the gate controller, one fault at a time.

Invariants: every Pod leaves our gate with its toleration, by one effective patch; no other gate is touched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from faultproxy import (
    Cut,
    Delay,
    Expire,
    FaultProxy,
    Hang,
    ProxiedPlane,
    Refuse,
    Replay,
    Reset,
    Rule,
    Slow,
    Truncate,
    too_many,
)
from faultproxy.faults import Fault
from planes.objects import RESERVED, Cluster, a_ready_rule, fresh_namespace, gpu_rule
from planes.parameters import needs_kubectl
from processes.stack import Stack, eventually, installed

from tollbar.model.objects import Object

PODS = 24
FOREIGN = {"name": "other.dev/quota"}
SOME = range(1, 9)
FEW = range(1, 4)


def patches(fault: Fault, nth: Sequence[int] | None = None, **more: float) -> tuple[Rule, ...]:
    """The fault affects some of our patches of Pods."""
    chosen = {"nth": nth} if nth else {}
    return (Rule("patch", fault, verbs={"patch"}, resources={"pods"}, subresource="", **chosen, **more),)


def lists(fault: Fault, nth: Sequence[int] = FEW, **more: object) -> tuple[Rule, ...]:
    return (Rule("list", fault, verbs={"list"}, nth=nth, **more),)


def watches(fault: Fault, nth: Sequence[int] = SOME) -> tuple[Rule, ...]:
    return (Rule("watch", fault, verbs={"watch"}, resources={"pods"}, nth=nth),)


@dataclass(frozen=True)
class Case:
    rules: tuple[Rule, ...]
    page_size: str = ""


CASES = {
    "patches are reset before the server hears of them": Case(patches(Reset(), SOME)),
    "answers to patches are lost": Case(patches(Reset(after=True), SOME)),
    "answers to patches end within the body": Case(patches(Truncate(), SOME)),
    "patches meet conflicts that are none": Case(patches(Refuse(409, "Conflict"), SOME)),
    "the server is busy: 429 with Retry-After": Case(patches(too_many(), FEW)),
    "a third of the patches fails with 500": Case(patches(Refuse(500, "InternalError"), probability=0.33)),
    "patches are done and answered with 503": Case(patches(Refuse(503, "ServiceUnavailable", after=True), SOME)),
    "every patch is slow": Case(patches(Slow(0.3))),
    "two patches hang, one of them done": Case(patches(Hang(), [1]) + patches(Hang(after=True), [2])),
    "the first lists fail with 500": Case(lists(Refuse(500, "InternalError"))),
    "the first lists are cut": Case(lists(Truncate())),
    "the first lists are refused with 429": Case(lists(too_many(), [1])),
    "continuations of lists have expired": Case(
        lists(Refuse(410, "Expired"), where=lambda request: request.is_continuation), page_size="2"
    ),
    "watches are reset again and again": Case(watches(Cut(15, reset=True))),
    "watches end within an event": Case(watches(Cut(15, within=True))),
    "watches end well, and at once": Case(watches(Cut(0), FEW)),
    "watches answer 410": Case(watches(Refuse(410, "Expired"), FEW)),
    "watches expire while they run, and lists after it are stale": Case(
        (*watches(Expire(15), FEW), Rule("list", Replay(), verbs={"list"}, resources={"pods"}, nth=range(2, 4)))
    ),
    "what watches say is a second old": Case(watches(Delay(1.0))),
}


ON_REAL = (
    "answers to patches are lost",
    "the server is busy: 429 with Retry-After",
    "patches are done and answered with 503",
    "the first lists are cut",
    "continuations of lists have expired",
    "watches are reset again and again",
    "watches answer 410",
    "watches expire while they run, and lists after it are stale",
    "what watches say is a second old",
)
"""Where the server's own part matters: what it stored, what it says of versions."""
WHERE = [
    *(pytest.param("plane", case, marks=pytest.mark.real) for case in ON_REAL),
    *(pytest.param("embedded", case, marks=pytest.mark.real) for case in CASES if case not in ON_REAL),
]
"""The embedded plane has kubectl of the real one's binary."""


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Any:
    """A plane, by the name of its fixture."""
    found = request.getfixturevalue(request.param)
    needs_kubectl(found)
    return found


@pytest.fixture
def namespace(target: Any) -> Iterator[str]:
    with fresh_namespace(target.kubectl) as name:
        yield name


@pytest.fixture(scope="module")
def proxy(target: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultProxy]:
    with FaultProxy(target.kubeconfig, tmp_path_factory.mktemp("proxy"), seed=1) as running:
        yield running


@pytest.fixture(scope="module")
def stack(target: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The webhook, which no fault affects."""
    with installed(target, tmp_path_factory.mktemp("stack")) as running:
        running.webhook()
        running.register()
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("target", "case"), WHERE, indirect=["target"], scope="module")
def test_every_pod_is_released_once(case: str, target: Any, proxy: FaultProxy, stack: Stack, cluster: Cluster) -> None:
    given = CASES[case]
    proxy.page_size = given.page_size
    through = replace(stack, plane=ProxiedPlane(stack.plane, proxy), running={})
    before = proxy.hits.copy()
    late = cluster.unique("late")
    names = {f"web-{number}" for number in range(PODS)}
    cluster.create(cluster.template("mine", late))
    with proxy.faults(*given.rules):
        controllers = through.controllers(cluster.namespace, ready=False)
        try:
            eventually(controllers.is_ready, what="ready in spite of it")
            a_ready_rule(cluster, gpu_rule(late))
            cluster.create(*(cluster.pod(name).templates("mine") for name in sorted(names)))
            cluster.create(
                cluster.pod("foreign").templates("mine").but("spec.schedulingGates", [FOREIGN]),
            )
            assert cluster.held() == names | {"foreign"}
            cluster.class_("late")
            eventually(lambda: not cluster.held(), what="released")
            eventually(controllers.is_ready, what="ready")
            assert {rule.name for rule in given.rules} == set(proxy.hits - before), (
                "no fault was met: nothing was tested"
            )
        finally:
            controllers.stop()
    assert {each["metadata"]["name"]: released(each) for each in cluster.pods()} == {
        **dict.fromkeys(names, (2, True, [])),
        "foreign": (2, True, [FOREIGN]),
    }


def released(pod: Object) -> tuple[int, bool, list[Object]]:
    """How often it was changed, counted from its creation as 1; whether it has its toleration; its gates."""
    spec = pod["spec"]
    return pod["metadata"]["generation"], RESERVED in spec["tolerations"], spec.get("schedulingGates", [])
