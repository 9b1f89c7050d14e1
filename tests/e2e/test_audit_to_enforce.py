"""The way of a rule from Audit to Enforce, as docs/tasks/write-a-rule.md tells it: every command is run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from objects.builders import device_class, toleration_rule
from planes.objects import RESERVED, Cluster, is_compiled
from processes.stack import Stack, eventually
from processes.transcripts import Terminal, steps

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object

pytestmark = [pytest.mark.timeout(400), pytest.mark.real]

PAGE = (Path(__file__).parents[2] / "docs" / "tasks" / "write-a-rule.md").read_text()
MOMENT_AND_PLACE = re.compile(r'^I.*?\] | reconcileID="\w+"', re.MULTILINE)
MANY = 100


@pytest.fixture(scope="module")
def nodes(plane: RealPlane) -> Iterator[BackgroundKubelet]:
    """`gpu-1`, with devices and an extended resource, which the reader is about to taint.

    There are as many devices as elsewhere: claims of earlier tests may still hold some of the pool of this name.
    """
    with BackgroundKubelet(plane.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec("gpu-1", capacity={"example.com/gpu": str(MANY)}))
        kubelet.publish_devices("gpu-1", "gpu.example.com", [{"name": f"gpu-{index}"} for index in range(64)])
        yield kubelet


def matches(stack: Stack, rule: str) -> tuple[float, list[str]]:
    """How many Pods the rule has matched, by the metric, and the lines of the log about it."""
    controllers = stack.running["controllers"]
    counted = controllers.metrics().get("tollbar_rule_matches_total", {}).get(f'rule="{rule}"', 0.0)
    return counted, [line for line in controllers.log().splitlines() if "rule in Audit" in line and rule in line]


def test_what_the_page_says_is_what_happens(cluster: Cluster, stack: Stack, tmp_path: Path) -> None:
    cluster.create(device_class("gpu.example.com").selecting('device.driver == "gpu.example.com"'))
    reader = Terminal(cluster.kubectl, cluster.namespace, tmp_path, tmp_path)
    for step in steps(PAGE.replace("default/", f"{cluster.namespace}/")):
        said = ""

        def shown(commands: str = step.commands, output: str = step.output) -> bool:
            """Soon: a status is written every 30 seconds, and each command here may be typed twice."""
            nonlocal said
            said = reader.types(commands)
            if "logs" in commands:  # of Pods, which this control plane does not run
                said, output = (
                    MOMENT_AND_PLACE.sub("", text) for text in ("\n".join(matches(stack, "gpu-nodes")[1]), output)
                )
            return reader.told(output) in reader.told(said)

        try:
            eventually(shown, seconds=120, what=f"{step.output}\nafter\n{step.commands}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nbut\n{said}") from None
    counted, lines = matches(stack, "gpu-nodes")
    assert (counted, len(lines)) == (2.0, 1), "train in Audit, and train-too in force"


def test_every_pod_is_told_once_although_kube_scheduler_binds_it_at_once(
    cluster: Cluster, stack: Stack, own_plane: RealPlane
) -> None:
    name = cluster.unique("plain")
    rule = toleration_rule(name).extended("example.com/gpu").giving(RESERVED).mode("Audit")
    cluster.create(rule)
    is_compiled(cluster, rule)
    since = own_plane.audit_fence()
    cluster.create(*(wants_a_gpu(cluster, f"web-{number}") for number in range(MANY)))
    for number in range(MANY):
        cluster.bound_to(f"web-{number}")
    eventually(lambda: matches(stack, name)[0] == MANY, what="all are counted")
    assert len(matches(stack, name)[1]) == MANY
    last = ("get", "tolerationrule", name, "-o", "jsonpath={.status.lastMatch}")
    found = json.loads(eventually(lambda: cluster.kubectl(*last), what="the last match is written"))
    assert (found["namespace"], found["pod"].startswith("web-")) == (cluster.namespace, True)
    own_plane.audit_fence()
    writes = [record for record in own_plane.audit.writes(since, resource="tolerationrules") if record.name == name]
    assert 1 <= len(writes) <= 3, "the matches of a burst are written together"


def test_a_rule_that_is_deleted_takes_its_series_along(cluster: Cluster, stack: Stack) -> None:
    name = cluster.unique("gone")
    rule = toleration_rule(name).extended("example.com/gpu").giving(RESERVED).mode("Audit")
    cluster.create(rule)
    is_compiled(cluster, rule)
    cluster.create(wants_a_gpu(cluster, "web"))
    eventually(lambda: matches(stack, name)[0] == 1, what="counted")
    cluster.kubectl("delete", "tolerationrule", name)
    eventually(lambda: name not in stack.running["controllers"].exposed(), what="no series")


def wants_a_gpu(cluster: Cluster, name: str) -> Object:
    amount = {"example.com/gpu": "1"}
    container = {"name": "main", "image": "example.com/app", "resources": {"requests": amount, "limits": amount}}
    tainted = [{"key": "example.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    return cluster.pod(name).but("spec.containers", [container]).tolerating(*tainted)
