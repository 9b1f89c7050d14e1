"""`tollbar demo`: the control plane, two Nodes of a fake kubelet, Tollbar as real processes, and all chapters.

On the embedded control plane Tollbar makes the claims (`claims: Replace`) and schedules, on the real one
kube-controller-manager and kube-scheduler do.

The exit code is 0 only when every step was seen.  No process is left in any case, and no file unless it failed.
"""

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import click
from rich.console import Console

from tollbar import wellknown
from tollbar.cli import console, locations, processes, suite
from tollbar.cli.demo import claims, gates, tolerations
from tollbar.cli.demo.narrator import Narrator
from tollbar.cli.demo.stage import DRIVER, LABEL, NAMESPACE, PLAIN, RESERVED, TAINT, Stage, show_pods
from tollbar.devplane.binaries import Binaries, BuildError
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.plane import PlaneError
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates import Gate, ordinal, registry
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES
from tollbar.runtime.clock import SystemClock

Plane: TypeAlias = RealPlane | EmbeddedPlane

EMBEDDED: Final = "embedded"
REAL: Final = "real"
_OTHERS: Final = ("tollbar-demo", "tollbar-fake-kubelet")
"""User agents that begin with `tollbar` and are not of Tollbar's processes."""
_SYSTEM: Final[Object] = {**NAMESPACES.type_meta, "metadata": {"name": wellknown.SYSTEM_NAMESPACE}}
"""Tollbar's own namespace, in which the controllers try whether another controller makes claims."""
_DEVICES: Final = 2
_FOLDERS: Final = {
    "manifests/examples": "more rules, each with the Pods that show it",
    "docs": "concepts, tasks, reference",
}
_PLAIN_WIDTH: Final = 100
"""Columns where there is no terminal."""


@click.command("demo")
@click.option(
    "--plane",
    "kind",
    type=click.Choice([EMBEDDED, REAL]),
    default=EMBEDDED,
    show_default=True,
    help="Which control plane: one in memory, or etcd and the Kubernetes components, built on first use.",
)
@click.option(
    "--gates",
    "with_gates",
    is_flag=True,
    help="Also show PodQuotas, PlacementRules and the move of a StatefulSet.",
)
@click.option("--keep", is_flag=True, help="Leave everything running at the end, until Ctrl-C.")
def command(kind: str, with_gates: bool, keep: bool) -> None:
    """See Tollbar at work: on a control plane of its own, explained step by step.

    Starts a control plane, two nodes and Tollbar, applies the quickstart, shows what happens, and stops everything
    again.  Needs no cluster.
    """
    clock = SystemClock()
    began = clock.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="tollbar-demo-"))
    out = Console(highlight=False)
    tell = Narrator(out if out.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH))
    tell.title(
        "The Tollbar demonstration",
        "Nodes with precious devices carry a taint, so that only Pods that need a device go there.  Such a Pod must"
        " tolerate the taint, and people forget that.  Tollbar adds the toleration, by a rule that is written once.",
        "Every line with a mark was seen in the API; the times are counted from the request that caused it.",
    )
    try:
        with console.terminable():
            _on_a_plane(kind, directory, tell, with_gates=with_gates, keep=keep)
    except (BuildError, PlaneError, click.ClickException) as error:
        tell.failure(error.format_message() if isinstance(error, click.ClickException) else str(error))
        if any(directory.rglob("*.log")):
            tell.line(f"the logs are in {directory / 'logs'}")
        else:
            shutil.rmtree(directory)
        raise click.ClickException("the demonstration did not come to its end") from error
    except click.exceptions.Exit:
        shutil.rmtree(directory)
        tell.heading("Interrupted: everything is stopped again, and nothing is left.")
        raise
    shutil.rmtree(directory)
    tell.heading(
        f"Everything is stopped again, and nothing is left, after {clock.monotonic() - began:.0f} seconds in all."
    )


def _on_a_plane(kind: str, directory: Path, tell: Narrator, *, with_gates: bool, keep: bool) -> None:
    clock = SystemClock()
    tell.heading("The stage")
    binaries = locate(report=console.say) if kind == REAL else None
    started = clock.monotonic()
    with _plane(binaries, directory, tell) as plane:
        memory = "a control plane in memory, which answers like Kubernetes, with Tollbar's own scheduler"
        what = "a Kubernetes control plane" if binaries else memory
        tell.proof(what, clock.monotonic() - started)
        console.run(_play(plane, tell, with_gates=with_gates, keep=keep))


def _plane(binaries: Binaries | None, directory: Path, tell: Narrator) -> Plane:
    if binaries is None:
        return EmbeddedPlane(directory, claims=False)
    return RealPlane(binaries, directory, report=lambda line: tell.line(line.replace(" s)", "s)")))


async def _play(plane: Plane, tell: Narrator, *, with_gates: bool, keep: bool) -> None:
    """Set up the rest of the stage, play the chapters, and say how to look further."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        kubeconfig = str(plane.kubeconfig)
        cluster = console.Cluster(kubeconfig)
        client = await stack.enter_async_context(console.connected(cluster, "demo"))
        nodes = await stack.enter_async_context(console.connected(cluster, "fake-kubelet"))
        kubelet = await stack.enter_async_context(FakeKubelet(nodes))
        started = clock.monotonic()
        await kubelet.add_node(NodeSpec(PLAIN))
        await kubelet.add_node(NodeSpec(RESERVED, {LABEL: "true"}, (TAINT,)))
        await kubelet.publish_devices(RESERVED, DRIVER, [{"name": f"gpu-{number}"} for number in range(_DEVICES)])
        taint = f"{TAINT['key']}={TAINT['value']}:{TAINT['effect']}"
        tell.proof(
            f"two nodes: {PLAIN}, and {RESERVED} with {_DEVICES} devices and taint {taint}",
            clock.monotonic() - started,
        )
        started = clock.monotonic()
        replacing = isinstance(plane, EmbeddedPlane)
        await client.create(NAMESPACES, _SYSTEM)
        suite_ = suite.running(
            client,
            kubeconfig,
            admission="Auto",
            claims="Replace" if replacing else "Complement",
            gates=_classes(replacing) if with_gates else {},
            report=lambda _line: None,
            sink=partial(_log, plane.layout.root / "logs"),
            draining=False,
        )
        with tell.waiting("Tollbar is starting"):
            running = await stack.enter_async_context(suite_)
        if not running.reached:
            raise click.ClickException(f"the API server does not reach the webhook at {running.webhook_url}")
        pids = ", ".join(f"{name} (pid {child.pid})" for name, child in running.processes.items())
        tell.proof(f"Tollbar: {pids}", clock.monotonic() - started)
        chapters = _tell(Stage(client, tell, clock, partial(_writes, plane), replacing), with_gates=with_gates)
        await processes.unless_died(chapters, running.died())
        _look_further(tell, plane, keep)
        if keep:
            await running.until_interrupted()


def _classes(embedded: bool) -> Mapping[str, Gate]:
    """The gate classes that ship with Tollbar; in memory there are no StatefulSets, without which `ordinal` waits."""
    names = [name for name in registry.IN_TREE if not (embedded and name == ordinal.NAME)]
    return dict(zip(names, registry.enabled(names), strict=True))


async def _tell(stage: Stage, *, with_gates: bool) -> None:
    started = stage.clock.monotonic()
    chapters = (*tolerations.CHAPTERS, *claims.CHAPTERS, *(gates.CHAPTERS if with_gates else ()))
    for chapter in chapters:
        await chapter(stage)
    seconds = stage.clock.monotonic() - started
    stage.tell.heading(
        f"All of it happened: {stage.tell.proofs} things shown, the {len(chapters)} chapters in {seconds:.1f} s"
    )
    await show_pods(stage, wellknown.LABEL_GATE)


def _look_further(tell: Narrator, plane: Plane, keep: bool) -> None:
    tell.heading("Look further")
    kubectl, held = plane.layout.kubectl, f"kubectl get pods -A -l {wellknown.LABEL_GATE}={wellknown.GATE_HELD}"
    if keep:
        tell.table(
            [
                (f"export KUBECONFIG={plane.kubeconfig}", "in another terminal"),
                *([(f"alias kubectl={kubectl}", "if you have none")] if kubectl.exists() else []),
                ("kubectl describe pod pod-b", "its events tell the story"),
                ("kubectl get tolerationrules,schedulinggates", "the rules, and who may remove the gate"),
                ("kubectl delete deviceclass/large-gpu.example.com pod/pod-b", "take away what pod-b waited for"),
                (f"kubectl apply -f {locations.quickstart()}/pod-b.yaml", "and it waits again"),
                (held, "who is held now"),
                (f"tail -f {plane.layout.root}/logs/controllers.log", "all logs are there"),
            ]
        )
        tell.heading("Everything keeps running until Ctrl-C")
        return
    program = locations.program()
    folders = ((locations.folder(name), what) for name, what in _FOLDERS.items())
    tell.table(
        [
            (f"{program} demo --keep", "the same, and it stays up for you to look around"),
            (f"{program} demo --gates", "also Pods that wait for room, pools of nodes by rule, StatefulSets that move"),
            (f"{program} dev --kubeconfig FILE", "Tollbar from here against a cluster of yours"),
            (held, "Pods that are held, in any cluster with Tollbar"),
            *((f"{path}/", what) for path, what in folders if path is not None),
        ]
    )


def _writes(plane: Plane, pod: str) -> list[str]:
    """The verbs of all that Tollbar's processes wrote to a Pod, from the audit log; where its claims are recorded, in
    its status, is left out."""
    plane.audit_fence()
    return [
        record.verb
        for record in plane.audit.writes(user_agent="tollbar", resource="pods", namespace=NAMESPACE)
        if record.name == pod and not record.subresource and not record.user_agent.startswith(_OTHERS)
    ]


def _log(directory: Path, name: str, line: str) -> None:
    with (directory / f"{name}.log").open("a") as log:
        log.write(line + "\n")
