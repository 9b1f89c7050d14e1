"""Gate classes that do wrong, on a real control plane.

Each is told by name, its Pods go as its SchedulingGate says, and the gates of others go on.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from planes.objects import Cluster, as_written
from planes.policies import gate_rights
from plugins import examples
from processes.stack import Stack, eventually, installed, patient

from tollbar.api.webhooks import GATES_NAME, at_url, gates_configuration
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates import registry
from tollbar.gates.evaluation import webhook_of
from tollbar.model import pods
from tollbar.model.objects import spec

pytestmark = pytest.mark.timeout(240)

CLASSES = ("raises", "forbidden", "forever", "good")
MODULE = """
from tollbar.gates import Answer, Facts, Gate, Hold, Mutation, Release


class Tried(Gate):
    max_hold = "4s"
    on_expiry = "Release"

    def __init_subclass__(cls) -> None:
        cls.applies_to = f"object.metadata.?labels[?'try'].orValue('') == '{cls.of}'"


class Raises(Tried):
    of = "raises"
    name = "tollbar.dev/raises"

    def decide(self, facts: Facts) -> Answer:
        return facts.pod["nothing"]


class Forbidden(Tried):
    of = "forbidden"
    name = "tollbar.dev/forbidden"

    def decide(self, facts: Facts) -> Answer:
        return Release(Mutation(node_selector={"example.com/pool": "other"}))


class Forever(Tried):
    of = "forever"
    name = "example.com/forever"
    on_expiry = "Report"

    def decide(self, facts: Facts) -> Answer:
        return Hold("Never", "what never comes")


class Good(Tried):
    of = "good"
    name = "tollbar.dev/good"

    def decide(self, facts: Facts) -> Answer:
        if facts.at_admission:
            return Hold("Later", "the controllers")
        return Release(Mutation(node_selector={"example.com/pool": "good"}))
"""


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("classes")
    (folder / "wrong.py").write_text(MODULE)
    entries = {name: f"wrong:{name.capitalize()}" for name in CLASSES}
    examples.declare({"name": "wrong", "version": "1", "entry-points": {registry.GROUP: entries}}, folder)
    with ExitStack() as until_the_end:
        patched = until_the_end.enter_context(pytest.MonkeyPatch.context())
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        classes = registry.enabled(CLASSES)
        running = until_the_end.enter_context(installed(plane, tmp_path_factory.mktemp("wrong")))
        until_the_end.enter_context(gate_rights(plane.kubectl, classes))
        running.webhook(gates=list(CLASSES))
        running.controllers(gates=list(CLASSES))
        running.register()
        here = at_url(f"https://127.0.0.1:{running.serving}", running.authority)
        plane.kubectl.apply(patient(gates_configuration(here, [webhook_of(each) for each in classes])))
        try:
            yield running
        finally:
            plane.kubectl("delete", "--ignore-not-found", "mutatingwebhookconfiguration", GATES_NAME)


def gated(cluster: Cluster, name: str) -> bool:
    return bool(pods.gate_names(cluster.get(name)))


def events(cluster: Cluster, name: str, reason: str) -> str:
    return "\n".join(note for found, note in cluster.events(name) if found == reason)


def test_each_is_told_by_name_and_the_others_go_on(cluster: Cluster, stack: Stack) -> None:
    def tried(name: str, **more: Any) -> list[str]:
        """The gates that it is created with."""
        made = cluster.pod(name)
        body = {**as_written(made, labels={"try": name}), "spec": {**spec(made), **more}}
        return pods.gate_names(json.loads(cluster.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(body))))

    def is_asked() -> bool:
        if tried("good"):
            return True
        cluster.kubectl("delete", "pod", "good", "-n", cluster.namespace)
        return False

    eventually(is_asked, what="the webhooks of the classes are asked")
    assert tried("raises") == ["tollbar.dev/raises"]
    assert tried("forever") == ["example.com/forever"]
    assert tried("forbidden", nodeSelector={"example.com/pool": "mine"}) == ["tollbar.dev/forbidden"]
    eventually(
        lambda: spec(cluster.get("good")).get("nodeSelector") == {"example.com/pool": "good"},
        what="the good one goes on",
    )
    for name, said in {
        "raises": "tollbar.dev/raises: gate class wrong.Raises raised KeyError: 'nothing'",
        "forbidden": "tollbar.dev/forbidden: gate class wrong.Forbidden asks for a change that the API server refuses",
    }.items():
        eventually(lambda name=name: not gated(cluster, name), what=f"{name}: released at maxHold")  # type: ignore[misc]
        eventually(lambda name=name, said=said: said in events(cluster, name, "GateFailed"), what=said)  # type: ignore[misc]
        eventually(lambda name=name: "GateOverdue" in dict(cluster.events(name)), what="GateOverdue")  # type: ignore[misc]
    overdue = "example.com/forever: held for more than 4s, waiting for what never comes"
    eventually(lambda: overdue in events(cluster, "forever", "GateOverdue"), what=overdue)
    assert gated(cluster, "forever")
    counted = stack.running["controllers"].metrics()["tollbar_gate_errors_total"]
    assert {labels for labels, count in counted.items() if count} == {
        'gate="tollbar.dev/forbidden",reason="ForbiddenMutation"',
        'gate="tollbar.dev/raises",reason="Raised"',
    }
    assert stack.tracebacks() == ""
