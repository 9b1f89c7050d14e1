"""The sample QOSSort: the order of Pods in the queue."""

import pytest
from plugins.samples import module
from plugins.tables import Waiting, handle, pod

from tollbar.scheduler.framework.interface import QueueSort

QOSSort = module("qos_sort").QOSSort


def waiting(qos_class: str, *, priority: int = 0, since: float = 0) -> Waiting:
    return Waiting(pod(priority=priority, status={"qosClass": qos_class} if qos_class else {}), since)


FIRST: dict[str, tuple[Waiting, Waiting]] = {
    "priority counts more than the class": (waiting("BestEffort", priority=1), waiting("Guaranteed")),
    "Guaranteed before Burstable": (waiting("Guaranteed", since=9), waiting("Burstable")),
    "Burstable before BestEffort": (waiting("Burstable", since=9), waiting("BestEffort")),
    "Guaranteed before BestEffort": (waiting("Guaranteed", since=9), waiting("BestEffort")),
    "of one class, the older one": (waiting("Burstable", since=1), waiting("Burstable", since=2)),
    "no class is BestEffort": (waiting("", since=1), waiting("BestEffort", since=2)),
    "a class that nobody knows is BestEffort": (waiting("Burstable", since=2), waiting("Gold", since=1)),
}


@pytest.mark.parametrize(("first", "second"), FIRST.values(), ids=FIRST)
def test_less(first: Waiting, second: Waiting) -> None:
    sort = QOSSort({}, handle())

    assert (sort.less(first, second), sort.less(second, first)) == (True, False)


def test_equals_have_no_order() -> None:
    assert not QOSSort({}, handle()).less(waiting("Burstable"), waiting("Burstable"))


@pytest.mark.behaviour(32, 35)
def test_it_is_a_queue_sort_plugin_without_arguments() -> None:
    assert isinstance(QOSSort({}, handle()), QueueSort)
    with pytest.raises(ValueError, match=r"^unknown fields: a, b$"):
        QOSSort({"b": 1, "a": 2}, handle())
