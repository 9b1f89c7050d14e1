"""The sample Coscheduling: groups of Pods that are bound together or not at all."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from plugins.samples import module
from plugins.tables import SHAPES, cluster, handle, hinted, info, node, obj, said

from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.framework.interface import Wait
from tollbar.scheduler.framework.waiting import PermitWait, Waits

coscheduling = module("coscheduling")


def member(name: str, group: str = "g", *, of: str | None = "3", namespace: str = "ml", on: str = "") -> PodInfo:
    labels = {coscheduling.GROUP: group} if group else {}
    if of is not None:
        labels[coscheduling.MIN_AVAILABLE] = of
    return SHAPES.pod_info(
        obj(name, namespace=namespace, labels=labels, spec={"containers": [{"name": "main"}], "nodeName": on})
    )


A, B, C, OTHER = member("a"), member("b"), member("c"), member("other", "h")


class World:
    """The plugin, with these Pods in the cluster; those with a Node run on it, and `waiting` are held by Permit."""

    def __init__(self, pods: Iterable[PodInfo] = (), waiting: Iterable[PodInfo] = (), **args: object) -> None:
        self.waiting = {each.uid: PermitWait(each, Waits({"Coscheduling": 60.0}), 0.0) for each in waiting}
        placed = [*(each for each in pods if each.node_name), *self.held]
        self.handle = handle(
            cluster(info(node("n"), *(replace(each, node_name="n") for each in placed))),
            pods=[each.object for each in (*pods, *self.held)],
        )
        self.handle.waiting_pods = self.waiting
        self.handle.activate = self.activate
        self.activated: list[str] = []
        self.plugin = coscheduling.Coscheduling(args, self.handle)

    @property
    def held(self) -> list[PodInfo]:
        return [each.pod for each in self.waiting.values()]

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated += [each.key.name for each in pods]

    def pre_filter(self, pod: PodInfo) -> tuple[str, ...]:
        return said(self.plugin.pre_filter(CycleState(), pod, self.handle.snapshot))

    def permit(self, pod: PodInfo) -> Any:
        return self.plugin.permit(CycleState(), pod, "n")

    def decided(self) -> dict[str, str]:
        """What became of the Pods that waited: their messages, empty for those that were allowed."""
        return {
            each.pod.key.name: each.status.message if each.status else ""
            for each in self.waiting.values()
            if each.status or not each.pending_plugins
        }


PRE_FILTER: dict[str, tuple[list[PodInfo], PodInfo, tuple[str, ...]]] = {
    "a Pod without a group": ([], member("x", "", of=None), ("Success",)),
    "all Pods of the group are there": ([A, B, C], A, ("Success",)),
    "more than are needed": ([A, B, C, member("d")], A, ("Success",)),
    "some run already": ([A, member("b", on="n"), member("c", on="n")], A, ("Success",)),
    "some are missing": (
        [A, B],
        A,
        ("UnschedulableAndUnresolvable", "pod group ml/g has 2 Pods of at least 3"),
    ),
    "Pods of other groups and namespaces do not count": (
        [A, B, OTHER, member("c", namespace="web")],
        A,
        ("UnschedulableAndUnresolvable", "pod group ml/g has 2 Pods of at least 3"),
    ),
    **{
        f"min-available is {text!r}": (
            [A, B, C],
            member("x", of=text),
            (
                "UnschedulableAndUnresolvable",
                "label scheduling.example.com/min-available must be a whole number of at least 1, not " + repr(text),
            ),
        )
        for text in ("0", "-1", "all")
    },
    "min-available is missing": (
        [A, B, C],
        member("x", of=None),
        (
            "UnschedulableAndUnresolvable",
            "label scheduling.example.com/min-available must be a whole number of at least 1, not ''",
        ),
    ),
}


@pytest.mark.parametrize(("pods", "given", "want"), PRE_FILTER.values(), ids=PRE_FILTER)
def test_pre_filter(pods: list[PodInfo], given: PodInfo, want: tuple[str, ...]) -> None:
    assert World(pods).pre_filter(given) == want


WAIT = Wait(60)
PERMIT: dict[str, tuple[World, PodInfo, tuple[Any, dict[str, str], list[str]]]] = {
    "a Pod without a group passes": (World([A, B]), member("x", "", of=None), (None, {}, [])),
    "a group of one passes": (World(), member("x", of="1"), (None, {}, [])),
    "the first one waits, and the others are tried": (World([A, B, C, OTHER]), A, (WAIT, {}, ["b", "c"])),
    "the second one waits": (World([B, C], [A]), B, (WAIT, {}, [])),
    "the last one lets all pass, and no other group": (
        World([C], [A, B, OTHER]),
        C,
        (None, {"a": "", "b": ""}, []),
    ),
    "Pods that run count": (
        World([member("a", on="n"), member("b", on="n"), C]),
        C,
        (None, {}, []),
    ),
    "a Pod more than is needed passes": (
        World([member("d")], [A, B, C]),
        member("d"),
        (None, dict.fromkeys("abc", ""), []),
    ),
    "a group of the same name in another namespace does not count": (
        World([A], [member("b", namespace="web"), member("c", namespace="web")]),
        A,
        (WAIT, {}, []),
    ),
}


@pytest.mark.parametrize(("world", "given", "want"), PERMIT.values(), ids=PERMIT)
def test_permit(world: World, given: PodInfo, want: tuple[Any, dict[str, str], list[str]]) -> None:
    assert (world.permit(given), world.decided(), world.activated) == want


def test_a_pod_that_is_not_bound_takes_its_group_with_it() -> None:
    world = World([C], [A, B, OTHER])
    world.plugin.unreserve(CycleState(), C, "n")

    message = "pod c of the same group could not be scheduled"
    assert world.decided() == {"a": message, "b": message}


def test_a_pod_without_a_group_takes_nobody_with_it() -> None:
    world = World([], [A, B])
    world.plugin.unreserve(CycleState(), member("x", "", of=None), "n")

    assert world.decided() == {}


LABEL = Action.UPDATE_POD_LABEL
HINTS: dict[str, tuple[EventResource, Action, PodInfo | None, PodInfo, str]] = {
    "a Pod of the group gets a Node": (EventResource.POD, Action.ADD, None, B, "Queue"),
    "one of another group does": (EventResource.POD, Action.ADD, None, OTHER, "QueueSkip"),
    "one of another namespace does": (EventResource.POD, Action.ADD, None, member("b", namespace="web"), "QueueSkip"),
    "a Pod joins the group": (EventResource.POD, LABEL, OTHER, member("other"), "Queue"),
    "the Pod itself gets another label": (EventResource.POD, LABEL, A, member("a", "h"), "Queue"),
}


@pytest.mark.parametrize(("resource", "action", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(resource: EventResource, action: Action, old: PodInfo | None, new: PodInfo, want: str) -> None:
    assert hinted(World().plugin, resource, action, A, old, new) == want


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a text": (
        {"permitWaitingTimeSeconds": "60s"},
        "permitWaitingTimeSeconds: must be a whole number of at least 1, not '60s'",
    ),
    "no time": (
        {"permitWaitingTimeSeconds": 0},
        "permitWaitingTimeSeconds: must be a whole number of at least 1, not 0",
    ),
    "a truth": (
        {"permitWaitingTimeSeconds": True},
        "permitWaitingTimeSeconds: must be a whole number of at least 1, not True",
    ),
    "another field": ({"timeout": 1}, "unknown fields: timeout"),
}


@pytest.mark.parametrize(("args", "text"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_are_refused(args: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        World(**args)
