"""`tollbar dev`: webhook and controllers from source, against a cluster whose API server reaches this machine.

For development: start it, apply something, read both logs in one terminal, Ctrl-C, change the code, start it again.
`suite` starts and ends everything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from tollbar import wellknown
from tollbar.cli import console, locations, suite
from tollbar.cli.gates import classes
from tollbar.cli.processes import ProcessDied
from tollbar.cli.suite import Suite
from tollbar.gates import Gate

_STYLES: Final = {"dev": "bold", "webhook": "cyan", "controllers": "magenta"}
_WIDTH: Final = max(map(len, _STYLES))


class Terminal:
    """Lines of several sources, each behind its name."""

    def __init__(self, out: Console) -> None:
        self._out = out

    def line(self, name: str, text: str) -> None:
        """One line, without interpreting markup in it."""
        self._out.print(Text.assemble((f"{name:<{_WIDTH}} | ", _STYLES.get(name, "")), text), soft_wrap=True)

    def say(self, text: str) -> None:
        self.line("dev", text)


@click.command("dev")
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    required=True,
    metavar="FILE",
    show_envvar=True,
    help="Which cluster; its API server must be able to call this machine's loopback.",
)
@click.option(
    "--admission",
    type=click.Choice(["Auto", "Gate", "Never"]),
    default="Auto",
    show_default=True,
    help="When the webhook gates a Pod: as `admission` in the configuration file.",
)
@click.option(
    "--claims",
    type=click.Choice(["Complement", "Replace", "Disabled"]),
    default="Complement",
    show_default=True,
    help="What the controllers do with ResourceClaims: as `claims` in the configuration file.",
)
@click.option(
    "--gates",
    default="",
    metavar="NAMES",
    help="Gate classes to run as well, separated by commas; `tollbar gates` lists them.",
)
def command(kubeconfig: str, admission: str, claims: str, gates: str) -> None:
    """Run webhook and controllers on this machine against a cluster, until Ctrl-C.

    Applies the CRDs and a SchedulingGate, makes certificates, starts both processes, and registers the webhook by URL
    on 127.0.0.1.  Ctrl-C stops gating, releases every Pod that waits, ends the processes and removes what was applied.
    CRDs that existed before stay.  The others are deleted, and with them every TolerationRule and WorkloadClaim that
    was created meanwhile; a claim that was made for a WorkloadClaim is deleted with it.
    """
    try:
        console.run(_dev(kubeconfig, admission, claims, classes(gates), Terminal(console.stderr())))
    except ProcessDied as died:
        died.show()
        raise click.exceptions.Exit(died.code) from died


async def _dev(kubeconfig: str, admission: str, claims: str, gates: Mapping[str, Gate], terminal: Terminal) -> None:
    async with console.connected(console.Cluster(kubeconfig), "dev") as client:
        terminal.say(f"connected to {client.host}")
        async with suite.running(
            client,
            kubeconfig,
            admission=admission,
            claims=claims,
            gates=gates,
            report=terminal.say,
            sink=terminal.line,
        ) as started:
            _invite(terminal, started, kubeconfig)
            await started.until_interrupted()
            terminal.say("stopping (again Ctrl-C to skip a step)")
        terminal.say("everything is removed again")


def _invite(terminal: Terminal, started: Suite, kubeconfig: str) -> None:
    if not started.reached:
        terminal.say(f"warning: the API server does not reach {started.webhook_url}: it runs on another machine.")
        terminal.say("warning: nothing is decided or held at admission; tolerations come late, by the controllers")
    files = locations.quickstart()
    terminal.say(f"ready: webhook at {started.webhook_url}.  Try it, in another terminal:")
    for line in (
        f"export KUBECONFIG={Path(kubeconfig).absolute()}",
        f"kubectl apply -f {files}/rule.yaml -f {files}/claim-templates.yaml -f {files}/pod-b.yaml",
        f"kubectl get pods -l {wellknown.LABEL_GATE}={wellknown.GATE_HELD}     # held: its device class is missing",
        f"kubectl apply -f {files}/late-device-class.yaml     # and released",
    ):
        terminal.say(f"  {line}")
    terminal.say("Ctrl-C drains, and removes what was applied here")
