"""Running Pods whose claims were replaced: which changes wake the controller, what it tells, and when it evicts."""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.engine import FakeEngine, expression, wants_class
from fakes.manager import Managed, drained
from objects.builders import CREATED, claim, device_class, namespace, pod, toleration_rule

from controllers import swaps
from tollbar import wellknown
from tollbar.model import claims
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Failed, RetryAfter
from tollbar.runtime import asking
from tollbar.runtime.errors import error_from_status
from tollbar.views import kinds

ACCOUNT = expression(
    lambda inputs: inputs["pod"]["spec"].get("serviceAccountName") == "a", "claims", "pod.spec.serviceAccountName"
)
CLASSES = expression(wants_class("gpu").program.evaluate, "claims", "deviceClasses.spec")
PROGRAMS = {"gpu": wants_class("gpu").program, "account": ACCOUNT.program, "classes": CLASSES.program}
ENGINE = FakeEngine(PROGRAMS)  # type: ignore[arg-type]
GIVEN = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
RECORD = [{"rule": "gpu", "generation": 1, "added": [GIVEN], "via": "admission"}]
PENDING = pod().annotated({wellknown.ANNOTATION_PROVENANCE: json.dumps(RECORD)}).claims("mine")
WEB, KEY = PENDING.bound(), Key("ml", "web")
EMPTY = claim("mine").created(CREATED + 1)
RESERVED = EMPTY.allocated().reserved(claims.pod_entry(WEB))
LARGE = RESERVED.annotated({"example.com/note": "x" * kinds.MOST_BYTES})
TOLD = "Pod web: TolerationUnjustified"


def refused(code: int, reason: str, **details: Any) -> Exception:
    return error_from_status({"code": code, "reason": reason, "message": "no", "details": details})


@dataclass
class Api:
    """Evicts, or fails as it is told to."""

    fails: Exception | None = None
    whole: Object = field(default_factory=lambda: dict(WEB))
    evicted: list[str] = field(default_factory=list)
    read: int = 0

    async def evict(self, pod: Object) -> None:
        if self.fails is not None:
            raise self.fails
        self.evicted.append(pod["metadata"]["uid"])

    async def get(self, *_: Any) -> Object:
        self.read += 1
        return self.whole


class Running(Managed):
    """A Pod that runs, the claim that is reserved for it now, and a rule."""

    def __init__(self, api: Api, *, rule: str = "gpu", action: str = "Report", web: Object = WEB) -> None:
        super().__init__(api, onUnjustifiedToleration=action)
        self.controller = swaps.setup(self, self.gatherer(ENGINE))
        written = toleration_rule("gpu").created(CREATED - 1).cel(rule).giving(GIVEN)
        self.fill([namespace(), device_class("gpu"), written, web, RESERVED])

    async def look(self) -> Any:
        return await self.controller.reconcile(KEY)

    def counted(self, metric: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric, labels)


async def test_it_is_told_and_counted_once_and_not_evicted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="controllers.swaps")
    api = Api()
    running = Running(api)
    outcomes = [await running.look(), await running.look()]
    lines = [(vars(each)["object"], vars(each)["rule"], vars(each)["toleration"]) for each in caplog.records]
    assert (outcomes, running.told.reasons, lines, api) == (
        [DONE, DONE],
        [TOLD],
        [("ml/web", "gpu", "example.com/gpu:NoSchedule op=Exists")],
        Api(),
    )
    assert running.counted("tollbar_tolerations_unjustified_total", rule="gpu") == 1


async def test_another_pod_of_that_name_is_told_of_again() -> None:
    running = Running(Api())
    await running.look()
    running.remove(WEB)
    await running.look()
    running.fill([WEB])
    await running.look()
    assert running.told.reasons == [TOLD, TOLD]


BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "no"}]}
EVICTIONS: dict[str, tuple[Exception | None, Any, str]] = {
    "it goes": (None, DONE, "evicted"),
    "a PodDisruptionBudget keeps it": (refused(429, "TooManyRequests", **BUDGET), RetryAfter(5.0), "budget"),
    "the API server is busy": (refused(429, "TooManyRequests"), RetryAfter(5.0), "failed"),
    "the right is missing": (refused(403, "Forbidden"), Failed("EvictionForbidden", 300.0), "failed"),
    "it is gone": (refused(404, "NotFound"), DONE, ""),
    "another Pod has its name": (refused(409, "Conflict"), DONE, ""),
}


@pytest.mark.parametrize(("fails", "outcome", "result"), EVICTIONS.values(), ids=EVICTIONS)
async def test_an_eviction(fails: Exception | None, outcome: Any, result: str) -> None:
    running = Running(Api(fails), action="Evict")
    assert await running.look() == outcome
    counted = {
        each: running.counted("tollbar_evictions_total", result=each) for each in ("evicted", "budget", "failed")
    }
    assert {each for each, count in counted.items() if count} == ({result} if result else set())


async def test_a_rule_that_reads_more_of_the_pod_has_it_read_whole() -> None:
    found, justified = Api(), Api(whole=WEB.but("spec.serviceAccountName", "a"))
    running = Running(found, rule="account"), Running(justified, rule="account")
    for each in running:
        await each.look()
    assert ([each.told.reasons for each in running], found.read, justified.read) == ([[TOLD], []], 1, 1)


@pytest.mark.parametrize(
    ("answered", "want"),
    [(LARGE, [TOLD]), (LARGE.request("gpu"), []), (LARGE.but("status", {}), [])],
    ids=["it is empty", "it justifies the toleration", "it is not reserved for the Pod any more"],
)
async def test_a_claim_that_is_too_large_for_the_caches_is_read(answered: Object, want: list[str]) -> None:
    api = Api(whole=answered)
    running = Running(api)
    running.fill([LARGE])
    await running.look()
    assert (running.told.reasons, api.read) == (want, 1)


async def test_while_an_eviction_is_tried_again_and_again_no_claim_is_read_again() -> None:
    api = Api(refused(429, "TooManyRequests", **BUDGET), whole=LARGE)
    running = Running(api, action="Evict")
    running.fill([LARGE])
    outcomes = [await running.look() for _ in range(3)]
    read = api.read
    running.fill([LARGE.but("metadata.uid", "other").but("metadata.resourceVersion", "9")])
    await running.look()
    assert (outcomes, read, api.read) == ([RetryAfter(5.0)] * 3, 1, 2)


async def test_while_an_eviction_is_tried_again_a_change_of_the_class_saves_the_pod() -> None:
    """What it was created with cannot be told then."""
    api = Api(refused(429, "TooManyRequests", **BUDGET), whole=LARGE.request("other"))
    running = Running(api, action="Evict", rule="classes")
    other = device_class("other").created(CREATED - 1).but("metadata.generation", 1)
    running.fill([LARGE, other])
    before = await running.look()
    running.fill([other.but("metadata.generation", 2).but("metadata.resourceVersion", "9")])
    assert (before, await running.look(), api.read) == (RetryAfter(5.0), DONE, 2)


async def test_pods_that_went_while_another_process_led_are_forgotten() -> None:
    api = Api(whole=LARGE)
    running = Running(api)
    running.fill([LARGE])
    running.controller.connect()
    await drained(running.controller.queue)
    await running.look()
    running.controller.queue.shut_down()
    running.remove(WEB)
    running.controller.connect()
    assert await drained(running.controller.queue) == [KEY]


async def test_what_was_decided_about_a_pod_is_forgotten_with_it() -> None:
    api = Api(whole=LARGE)
    running = Running(api)
    running.fill([LARGE])
    await running.look()
    running.remove(WEB)
    await running.look()
    running.fill([WEB])
    await running.look()
    assert api.read == 2


async def test_claims_that_take_too_much_memory_are_not_judged_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asking, "MOST_BYTES", 100)
    api = Api(whole=LARGE)
    running = Running(api)
    running.fill([LARGE])
    outcomes = [await running.look(), await running.look()]
    assert (outcomes, api.read, running.told.said, caplog.messages) == (
        [DONE, DONE],
        1,
        [],
        ["the claims that a Pod runs with are too large to be judged"],
    )


CHANGES: dict[str, tuple[list[Object], list[Object], list[Key]]] = {
    "the Pod gets its Node": ([PENDING], [WEB], [KEY]),
    "its claim is reserved for it": ([WEB, EMPTY.allocated()], [RESERVED], [KEY]),
    "its claim is reserved for somebody else, too": (
        [WEB, RESERVED],
        [RESERVED.reserved({"resource": "pods", "name": "other", "uid": "other"})],
        [],
    ),
    "its status changes": ([WEB], [WEB.phase("Running")], []),
    "a Pod without a record gets its Node": ([pod().claims("mine")], [pod().claims("mine").bound()], []),
    "the claim of a Pod that has no Node is reserved": ([PENDING, EMPTY], [RESERVED], []),
}


@pytest.mark.parametrize(("before", "change", "want"), CHANGES.values(), ids=CHANGES)
async def test_what_wakes_it(before: list[Object], change: list[Object], want: list[Key]) -> None:
    manager = Managed(Api())
    controller = swaps.setup(manager, manager.gatherer(ENGINE))
    manager.fill(before)
    controller.connect()
    await drained(controller.queue)
    manager.fill(change)
    assert await drained(controller.queue) == want
