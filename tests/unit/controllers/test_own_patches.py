"""A Pod that becomes what our patch was to make of it is not decided again; anything else is."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from clusters.strategies import World
from fakes.clocks import Aged
from fakes.engine import FakeEngine, expression, has_label
from objects import patching
from objects.builders import Pod, namespace, pod, scheduling_gate, toleration_rule

from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.errors import ApiError, error_from_status
from tollbar.runtime.store import Store
from tollbar.runtime.workqueue import WorkQueue

HELD = pod().gated().labelled(app="web").but("metadata.resourceVersion", "6")
WANTED: Object = {"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule"}
ENGINE = FakeEngine(
    {
        "is an app": has_label("app").program,  # type: ignore[dict-item]
        "is called web": expression(
            lambda given: given["pod"]["metadata"]["name"] == "web", "pod.metadata.name"
        ).program,
        "has an annotation": expression(
            lambda given: "a" in given["pod"]["metadata"].get("annotations", {}), "pod.metadata.annotations.a"
        ).program,
        "tolerates nothing": expression(
            lambda given: not given["pod"]["spec"].get("tolerations"), "pod.spec.tolerations"
        ).program,
    }
)


class Api:
    """Applies the patch; then comes what others do to the Pod (`change`), the watch's event, and the answer."""

    def __init__(self, change: Callable[[Pod], Object], *, is_watch_quicker: bool, code: int) -> None:
        self.pods: Store | None = None
        self.patched = HELD
        self._change = change
        self._is_watch_quicker = is_watch_quicker
        self._code = code

    async def patch(self, *given: Any, **_: Any) -> Object:
        # the API leaves out what is empty
        self.patched = Pod(patching.apply(HELD, given[2])).but("spec.schedulingGates", None)
        stored = self._change(self.patched.but("metadata.resourceVersion", "7").but("metadata.generation", 2))
        if self._is_watch_quicker and self.pods is not None:
            self.pods.apply(stored)
        if self._code != 200:
            raise error_from_status({"code": self._code})
        return stored


async def woken_after(
    rule: str, change: Callable[[Pod], Object], *, is_watch_quicker: bool = False, code: int = 200
) -> Any:
    """Who waits in the gates controller's queue when HELD was released under this rule."""
    api = Api(change, is_watch_quicker=is_watch_quicker, code=code)
    cluster = (HELD, namespace(), scheduling_gate(), toleration_rule("r1").cel(rule).giving(WANTED))
    world = World(cluster, {}, engine=ENGINE, client=api, clock=Aged())
    api.pods, controller = world.pods, world.controllers["gates"]
    controller.connect()
    key = await controller.queue.get()
    with suppress(ApiError):  # which the loop takes care of
        await controller.reconcile(key)
    controller.queue.done(key)
    assert key == key_of(HELD)
    woken = len(controller.queue)
    await drain(controller.queue)
    world.pods.apply(HELD.but("metadata.resourceVersion", "8"))
    await drain(controller.queue)
    world.pods.apply(api.patched.but("metadata.resourceVersion", "9"))
    assert len(controller.queue) == 1, "what a patch is to make of the Pod is known no longer than its call takes"
    return woken


async def drain(queue: WorkQueue[Key]) -> None:
    while len(queue):
        queue.done(await queue.get())


def nothing(it: Pod) -> Object:
    return it


CASES: dict[str, tuple[str, Callable[[Pod], Object], int]] = {
    "nothing else": ("is an app", nothing, 0),
    "nothing else, and no rule was true": ("has an annotation", nothing, 0),
    "a condition": ("is an app", lambda it: it.but("status.conditions", [{"type": "PodScheduled"}]), 0),
    "an annotation that no rule reads": ("is an app", lambda it: it.annotated({"a": "b"}), 0),
    "an annotation that a rule reads": ("has an annotation", lambda it: it.annotated({"a": "b"}), 1),
    "a label": ("is an app", lambda it: it.labelled(app="db"), 1),
    "another toleration": ("is an app", lambda it: it.tolerating({"key": "b", "operator": "Exists"}), 1),
    "our toleration was taken away": ("is an app", lambda it: it.but("spec.tolerations", None), 1),
    "somebody gated it": ("is an app", lambda it: it.gated("example.com/other"), 1),
    "its deletion": ("is an app", lambda it: it.deleting(), 1),
    "nothing else, but a rule reads tolerations": ("tolerates nothing", nothing, 1),
}


@pytest.mark.parametrize("is_watch_quicker", [False, True], ids=["the answer is first", "the watch is first"])
@pytest.mark.parametrize(("rule", "change", "woken"), CASES.values(), ids=CASES)
async def test_besides_our_patch_there_was(
    rule: str, change: Callable[[Pod], Object], woken: int, is_watch_quicker: bool
) -> None:
    assert await woken_after(rule, change, is_watch_quicker=is_watch_quicker) == woken


async def test_another_pod_of_that_name_is_decided_however_alike() -> None:
    assert await woken_after("is an app", lambda it: it.but("metadata.uid", "another"), is_watch_quicker=True) == 1


@pytest.mark.parametrize("code", [404, 409, 422, 500])
async def test_a_patch_that_failed_hides_no_later_change(code: int) -> None:
    assert await woken_after("is an app", nothing, code=code) == 0
