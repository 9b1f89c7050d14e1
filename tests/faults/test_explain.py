"""`tollbar explain --watch` while the API server does not answer: it goes on, and tells what has changed meanwhile."""

import subprocess
import sys
from pathlib import Path

import pytest
from faultproxy import FaultProxy, Reset, Rule
from planes.objects import Cluster
from processes.stack import Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model import conditions

pytestmark = pytest.mark.timeout(300)


def test_a_pod_that_is_watched_gets_its_node_in_an_outage(
    cluster: Cluster, stack: Stack, kubelet: BackgroundKubelet, tmp_path: Path
) -> None:
    cluster.create(cluster.pod().but("spec.nodeSelector", {"kubernetes.io/hostname": "late"}))
    eventually(lambda: conditions.of(cluster.get(), "PodScheduled").get("message"), what="kube-scheduler finds no Node")
    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy") as proxy:
        command = ["explain", "pod", "web", "-n", cluster.namespace, "--watch", f"--kubeconfig={proxy.kubeconfig()}"]
        with subprocess.Popen(
            [sys.executable, "-m", "tollbar.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            first = watching.stdout.readline()
            with proxy.faults(Rule("away", Reset())):
                kubelet.add_node(NodeSpec("late"))
                cluster.bound_to("web")
                away = watching.stderr.readline()
            answers, back = watching.communicate(timeout=60)
    pod = f"Pod {cluster.namespace}/web: "
    assert first.startswith(f"{pod}Pending")
    assert away.startswith("the API server does not answer: ")
    assert away.endswith("; trying again until it answers\n")
    assert [" on node late" in line for line in answers.splitlines() if line.startswith(pod)] == [True]
    assert (watching.returncode, back) == (0, "the API server answers again\n")
