"""What all commands of `tollbar` share: output, errors, running a coroutine, interruption.

Data goes to standard output (`emit`), everything else to standard error (`say`), so that `tollbar ... -o json | jq`
works while progress is shown.

A user's mistake, an unreachable cluster or a refusal by the API server is one line, never a traceback.  The exit code
is 1, or 2 for wrong usage and for a file other than a kubeconfig that cannot be read or written.
The first Ctrl-C or SIGTERM cancels the command, whose `finally` blocks clean up; another one, a second later or more,
interrupts the clean-up step that is running.
"""

import asyncio
import json
import math
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import click
import yaml
from rich.console import Console

from tollbar import wellknown
from tollbar.api import durations
from tollbar.cli.unusable import Unusable
from tollbar.model.fields import printable
from tollbar.model.texts import columns
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, KubeconfigError, Unreachable
from tollbar.runtime.metrics import Metrics

Output: TypeAlias = Literal["table", "json", "yaml"]

_T = TypeVar("_T")
_SAME_SIGNAL_SECONDS: Final = 1.0
INTERRUPTED: Final = 130
"""The exit code of an interrupted command, as shells have it for SIGINT."""

output_option: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)
installation_option: Final = click.option(
    "--namespace",
    "-n",
    default=wellknown.SYSTEM_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where Tollbar is installed.",
)
kubeconfig_option: Final = click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Which cluster.  Default: $KUBECONFIG, the service account of the Pod, ~/.kube/config.",
)


class _RequestTimeout(click.ParamType[float]):
    """A duration such as 1s or 2m, or a number of seconds, as kubectl takes it; 0 is no limit."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            seconds = float(text) if text.isdigit() else durations.parse(text)
        except ValueError:
            self.fail(f"{text!r} is not a duration such as 5s or 1m", param, ctx)
        return seconds or math.inf


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster a command is for; `request_timeout` in seconds, None for the usual deadlines."""

    kubeconfig: str | None = None
    context: str | None = None
    request_timeout: float | None = None


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """--kubeconfig, --context and --request-timeout: together the parameter `cluster` of a command."""

    @wraps(command)
    def with_cluster(
        *, kubeconfig: str | None, context: str | None, request_timeout: float | None, **others: Any
    ) -> None:
        command(cluster=Cluster(kubeconfig, context, request_timeout), **others)

    timeout = click.option(
        "--request-timeout",
        type=_RequestTimeout(),
        metavar="DURATION",
        help="How long to wait for the answer to a single request, such as 5s or 1m; 0 for no limit.  Without it, 15 s"
        " for most, and what fails is tried again.",
    )
    context_option = click.option(
        "--context", metavar="NAME", help="Which context of the kubeconfig.  Default: its current one."
    )
    return kubeconfig_option(context_option(timeout(with_cluster)))


class UnwritableFile(Unusable):
    """A file cannot be written."""


class Interrupted(Exception):
    """The command was interrupted and has cleaned up."""


def stderr() -> Console:
    """A console for progress: plain text unless it is a terminal that wants colours (rich honours NO_COLOR)."""
    return Console(file=sys.stderr, highlight=False)


def say(line: str) -> None:
    """One line of progress."""
    click.echo(printable(line), err=True)


def emit(rows: Sequence[dict[str, Any]], data: object, output: Output) -> None:
    """Print the result: `rows`, which all have the same keys, as a table; `data` as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(data, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(data, sort_keys=False).rstrip())
    elif rows:
        table = [
            [head.upper() for head in rows[0]],
            *([printable(str(value)) for value in row.values()] for row in rows),
        ]
        click.echo("\n".join(columns(table)))


def is_terminal(shown: Console) -> bool:
    """Whether it is a terminal, where progress may be shown; FORCE_COLOR makes none of a file."""
    return shown.file.isatty()


@contextmanager
def reading() -> Iterator[Callable[[str, int], None]]:
    """For a block that reads a cluster kind by kind: is told each kind with how many there are, and shows it.

    On a terminal alone.
    """
    terminal = stderr()
    if not is_terminal(terminal):
        yield lambda _kind, _count: None
        return
    with terminal.status("reading the cluster") as status:
        yield lambda kind, count: status.update(f"reading the cluster: {count:,} of kind {kind}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """For a block that writes this file.  Raises UnwritableFile where the block raises OSError."""
    try:
        yield
    except OSError as error:
        raise UnwritableFile(f"cannot write {path}: {error.strerror}") from error


@asynccontextmanager
async def connected(cluster: Cluster, command: str) -> AsyncGenerator[Client, None]:
    """A client for a command, named in the API server's logs; closed at the end.  Raises KubeconfigError."""
    client = await Client.connect(
        kubeconfig=cluster.kubeconfig,
        context=cluster.context,
        metrics=Metrics(),
        user_agent=f"tollbar-{command}",
        request_timeout=cluster.request_timeout,
    )
    try:
        yield client
    finally:
        await client.close()


def run(main: Coroutine[Any, Any, _T], failure: type[click.ClickException] = click.ClickException) -> _T:
    """Run a command's coroutine to its end.

    Raises `failure`, whose exit code is that of the command, where the cluster cannot be asked or refuses.
    """
    try:
        return asyncio.run(_interruptible(main))
    except Interrupted:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (ApiError, KubeconfigError) as error:
        raise failure(explain(error)) from error


def explain(error: ApiError | KubeconfigError) -> str:
    """One line about a failure, for a person."""
    if isinstance(error, Unreachable):
        return f"the API server does not answer: {error.message}"
    return f"the API server refused: {error}" if isinstance(error, ApiError) else str(error)


@contextmanager
def terminable() -> Iterator[None]:
    """For a block that is not a coroutine: SIGINT and SIGTERM end it by an exception, so that `finally` blocks run.

    Both even where SIGINT is ignored, as for the background jobs of a script.
    """
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _interruptible(main: Coroutine[Any, Any, _T]) -> _T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    last = -_SAME_SIGNAL_SECONDS
    interrupted = False

    def on_signal() -> None:
        nonlocal last, interrupted
        now, before = time.monotonic(), last
        last = now
        if now - before >= _SAME_SIGNAL_SECONDS:
            interrupted = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        if interrupted:
            raise Interrupted from None
        raise
