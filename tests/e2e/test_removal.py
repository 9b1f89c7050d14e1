"""Tollbar is removed after its processes were killed, as docs/tasks/remove.md tells it: nothing of it is left.

The page is about the default overlay; the others are installed, do their work and go the same way.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.workloads import PINNED, Shared, deployment, for_web
from planes.loading import VOLUME
from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule, is_compiled
from planes.parameters import since
from processes.stack import CEILING, OVERLAYS, ROOT, Stack, eventually, installed
from processes.transcripts import Terminal, steps

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.real,
    since("1.36", "reservations need claims: Replace"),
]

PAGE = (ROOT / "docs" / "tasks" / "remove.md").read_text()
FOR_IDLE = {"tollbar.dev/reserved-for": "deployments.apps/idle"}


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """One of its own: the whole installation goes."""
    with RealPlane(binaries, tmp_path_factory.mktemp("plane"), Options()) as plane:
        yield plane


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """As the default overlay installs it, running."""
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        plane.kubectl("delete", *(f"--filename={path}" for path in CEILING))
        running.webhook()
        running.controllers()
        running.register()
        yield running


@pytest.fixture
def cluster(stack: Stack, nodes: BackgroundKubelet, namespace: str) -> Cluster:
    """Nothing in it has to be cleared: the control plane ends with this file."""
    return Cluster(stack.plane.kubectl, namespace)


@pytest.fixture
def reader(stack: Stack, namespace: str, tmp_path: Path) -> Terminal:
    """Somebody in the repository, with kubectl and tollbar."""
    found = Terminal(stack.plane.kubectl, namespace, ROOT, tmp_path)
    command = shlex.join(["env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, "-m", "tollbar.cli"])
    program = tmp_path / "bin" / "tollbar"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return found


def test_what_the_page_says_is_what_happens(cluster: Cluster, stack: Stack, reader: Terminal) -> None:
    shared, spare = Shared(cluster), Shared(cluster, "spare")
    gpu, late = cluster.class_(), cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(gpu), gpu_rule(late))
    cluster.create(cluster.template("one", gpu), cluster.template("late", late))
    cluster.create(cluster.claim("spare", gpu).annotated(FOR_IDLE))
    shared.apply(for_web(), deployment("web", "device"), deployment("idle", "spare"))
    shared.until(shared.entries, PINNED)
    spare.until(spare.entries, ["deployments/idle", "pods"])
    shared.run("scale", "deployment/idle", "--replicas=0")
    spare.until(spare.entries, ["deployments/idle"])
    (running,) = shared.running()
    device = shared.device()
    cluster.create(cluster.pod("late").templates("late"))
    assert cluster.is_held("late")
    for process in stack.running.values():
        process.kill()

    for step in steps(PAGE.replace("default/", f"{cluster.namespace}/")):
        said = reader.types(step.commands)
        assert reader.told(step.output) in reader.told(said), said

    assert (cluster.is_held("late"), cluster.tolerations("late")) == (False, [])
    assert (shared.entries(), shared.device(), shared.running()) == (["pods"], device, [running])
    assert (spare.entries(), spare.device()) == ([], None)
    eventually(lambda: left(stack) == [], what="nothing is left")
    claim = (shared.claim() or {})["metadata"]
    assert {"ownerReferences", "deletionTimestamp"}.isdisjoint(claim), "it stays although its WorkloadClaim is gone"


OTHERS: dict[str, dict[str, object]] = {
    "dev": {},
    "ha": {},
    "minimal": {"claims": "Disabled"},
    "policy-only": {"certificates__managed": False},
}
"""What the controllers of the other overlays are told."""
LIKE_THE_DEFAULT = {
    name: pytest.mark.skipif(VOLUME == 1, reason="only has objects of the default overlay; part of make test-long")
    for name in ("dev", "ha", "minimal")
}


@pytest.mark.parametrize("overlay", [pytest.param(name, marks=LIKE_THE_DEFAULT.get(name, ())) for name in OTHERS])
def test_an_overlay_is_installed_does_its_work_and_is_gone(
    plane: RealPlane, namespace: str, tmp_path: Path, overlay: str
) -> None:
    kubectl, cluster = plane.kubectl, Cluster(plane.kubectl, namespace)
    with installed(plane, tmp_path, overlay) as stack:
        kubectl("delete", *(f"--filename={path}" for path in CEILING))
        stack.controllers(**OTHERS[overlay])
        if overlay != "policy-only":
            stack.webhook()
            stack.register()
        gpu, late = cluster.class_(), cluster.unique("late")
        cluster.create(gpu_rule(gpu), gpu_rule(late), cluster.template("one", gpu), cluster.template("late", late))
        is_compiled(cluster, gpu_rule(gpu), gpu_rule(late))

        def held() -> bool:
            """A Pod that is created now: webhook and policies learn of what is new from watches of their own."""
            cluster.kubectl("delete", "pod", "late", "-n", namespace, "--ignore-not-found", "--now")
            cluster.create(cluster.pod("late").templates("late"))
            return cluster.is_held("late")

        eventually(held, what="a Pod that waits for a class is held")
        cluster.create(cluster.pod("decided").templates("one"))
        eventually(lambda: cluster.tolerations("decided") == [RESERVED], what="a Pod has its tolerations")
        for process in stack.running.values():
            process.kill()
        drained = stack.tollbar("drain")
        assert (drained.returncode, cluster.is_held("late"), cluster.tolerations("late")) == (0, False, []), drained
        kubectl("delete", "--ignore-not-found", "-k", str(OVERLAYS / overlay))
        eventually(lambda: left(stack) == [], what="nothing is left")
        assert cluster.tolerations("decided") == [RESERVED]


def left(stack: Stack) -> list[str]:
    """Kind and name of everything in the cluster that is Tollbar's."""
    kubectl = stack.plane.kubectl
    kinds = [line.split()[0] for line in kubectl("api-resources", "--verbs=list,delete", "-o", "name").splitlines()]
    ours = kubectl("get", ",".join(kinds), "-A", "-l", "app.kubernetes.io/name=tollbar", "-o", "name").splitlines()
    own_kinds = [kind for kind in kinds if kind.endswith("tollbar.dev")]
    namespace = kubectl("get", "namespace", "tollbar-system", "--ignore-not-found", "-o", "name").splitlines()
    return [*ours, *own_kinds, *namespace]
