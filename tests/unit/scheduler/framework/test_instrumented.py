"""How long extension points and single plugins take, and how often plugins are called, is measured."""

from plugins.toys import POD, MaskToy, Measured, PreFilterToy, done, framework, handle, snapshot

from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.status import SKIP, failed

NODES = snapshot("a", "b", "c")


def measured(*, every_plugin: bool) -> list[str]:
    ticks = iter(range(100))
    found = Measured()
    plugins = (PreFilterToy("p", SKIP), MaskToy("m"), PreFilterToy("q", failed("broken")))
    own = framework(*plugins, handle=handle(clock=lambda: float(next(ticks)), metrics=found))
    state = CycleState()
    state.record_metrics = every_plugin
    done(own.pre_filter(state, POD, NODES))
    own.filter_nodes(state, POD, NODES)
    return found.noted


def test_points_are_timed_and_evaluations_counted_but_for_those_that_skip() -> None:
    assert measured(every_plugin=False) == [
        "PreFilter of q 1 times",
        "PreFilter: Error after 1",
        "Filter of m 3 times",
    ]


def test_plugins_are_timed_in_cycles_that_record_it() -> None:
    assert measured(every_plugin=True) == [
        "PreFilter of p: Skip after 1",
        "PreFilter of q: Error after 1",
        "PreFilter of q 1 times",
        "PreFilter: Error after 5",
        "Filter of m: Success after 1",
        "Filter of m 3 times",
    ]
