"""The `tollbar` command, also installed as the kubectl plugin `kubectl tollbar`.

Subcommands have one module each and are imported only when they are called, so that `tollbar plane` need not import the
CEL parser.  The table below has the help lines, so that `tollbar --help` imports none of them.

Exit codes: 0 done, 1 failed or findings, 2 wrong usage, or a file other than a kubeconfig that cannot be read or
written; those of one command besides are in its help.  Data goes to stdout, progress and errors to stderr.
"""

import atexit
import gc
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click


class Subcommand(NamedTuple):
    """Where a subcommand is (`module:attribute`) and its line in the help."""

    target: str
    help: str


SUBCOMMANDS: Final = {
    "certs": Subcommand("tollbar.cli.certs:command", "Make a CA and a certificate for the webhook."),
    "controllers": Subcommand("controllers.__main__:command", "Run the controllers."),
    "demo": Subcommand("tollbar.cli.demo.command:command", "See Tollbar at work, explained step by step."),
    "dev": Subcommand("tollbar.cli.dev:command", "Run webhook and controllers on this machine against a cluster."),
    "drain": Subcommand("tollbar.cli.drain:command", "Stop gating and release every Pod that waits."),
    "diff-rules": Subcommand(
        "tollbar.cli.diffrules:command", "Show which Pods would get other tolerations with other rules."
    ),
    "dump": Subcommand("tollbar.cli.dump:command", "Write a copy of a cluster, for simulate, diff-rules and drift."),
    "drift": Subcommand("tollbar.cli.drift:command", "Find tolerations that no rule justifies any more."),
    "eval": Subcommand("tollbar.cli.eval:command", "Evaluate expressions on JSON lines."),
    "explain": Subcommand(
        "tollbar.cli.explain:command", "Show why a Pod waits, or the state of a claim, a rule or a Node."
    ),
    "gates": Subcommand("tollbar.cli.gates:command", "List gate classes, and print what a cluster needs for them."),
    "lint": Subcommand("tollbar.cli.lint:command", "Check rules and gates in files, as the webhook would."),
    "plane": Subcommand("tollbar.cli.plane:plane", "Start or stop a control plane on this machine."),
    "scheduler": Subcommand("controllers.scheduler.__main__:command", "Run the scheduler."),
    "simulate": Subcommand("tollbar.cli.simulate:command", "Show what would happen to Pods, without a cluster."),
    "status": Subcommand(
        "tollbar.cli.status.command:command", "Show what is wrong with Tollbar in a cluster, if anything is."
    ),
    "webhook": Subcommand("webhooks.__main__:command", "Run the admission webhook."),
}


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Wrong usage is reported in one line, which names the help."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # it is the help
    except click.UsageError as error:
        if error.ctx is None:
            raise
        said = " ".join(error.format_message().split())
        raise click.UsageError(f"{said.removesuffix('.')}; see `{error.ctx.command_path} --help`") from error


class LazyGroup(click.Group):
    """A group whose members come from SUBCOMMANDS."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_line():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = pkgutil.resolve_name(SUBCOMMANDS[cmd_name].target)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name].help) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tollbar")
def main() -> None:
    """Give Pods the tolerations their devices need, before they are scheduled."""
    atexit.register(gc.freeze)  # as in `tollbar.runtime.collector`
