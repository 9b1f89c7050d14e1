"""What commands share: output formats, errors as one line, and interruption."""

import asyncio
import os
import signal
import sys
from typing import Any

import click
import pytest
from unit.cli.terminals import Terminal

from tollbar.cli import console
from tollbar.runtime.errors import ApiError, Forbidden, KubeconfigError, Unreachable

ROWS = [{"pod": "ns/a", "released": 1}, {"pod": "ns/long-name", "released": 10}]


@pytest.mark.parametrize(
    ("output", "want"),
    [
        ("table", "POD            RELEASED\nns/a           1\nns/long-name   10\n"),
        ("json", '{\n  "pods": [\n    "a"\n  ]\n}\n'),
        ("yaml", "pods:\n- a\n"),
    ],
)
def test_a_result_is_printed_as_asked(output: console.Output, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    console.emit(ROWS, {"pods": ["a"]}, output)

    assert capsys.readouterr() == (want, "")


ERRORS: dict[str, dict[str, Any]] = {
    "no answer": {
        "given": Unreachable("ClientConnectorError: refused"),
        "want": "the API server does not answer: ClientConnectorError: refused",
    },
    "a refusal": {
        "given": Forbidden(403, "Forbidden", "pods is forbidden"),
        "want": "the API server refused: 403 Forbidden: pods is forbidden",
    },
    "another answer": {
        "given": ApiError(418, "Teapot", "no"),
        "want": "the API server refused: 418 Teapot: no",
    },
    "no way to the cluster": {
        "given": KubeconfigError("no kubeconfig at x"),
        "want": "no kubeconfig at x",
    },
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_what_a_user_can_do_something_about_is_one_line(case: dict[str, Any]) -> None:
    async def fails() -> None:
        raise case["given"]

    with pytest.raises(click.ClickException) as caught:
        console.run(fails())

    assert (caught.value.format_message(), caught.value.exit_code) == (case["want"], 1)


def test_a_mistake_of_ours_is_not_hidden() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        console.run(fails())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_after_its_clean_up(number: signal.Signals) -> None:
    done = []

    async def main() -> None:
        try:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a process group's double is not a second wish
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    with pytest.raises(click.exceptions.Exit) as caught:
        console.run(main())

    assert (caught.value.exit_code, done) == (130, ["cleaned up"])


def test_a_later_signal_interrupts_the_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_SAME_SIGNAL_SECONDS", 0.0)
    done = []

    async def main() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            done.append("began to clean up")
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(click.exceptions.Exit):
        console.run(main())

    assert done == ["began to clean up"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_block_that_is_no_coroutine_ends_with_130_though_interrupts_are_ignored(number: signal.Signals) -> None:
    """As they are for the background jobs of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(click.exceptions.Exit) as caught, console.terminable():
            os.kill(os.getpid(), number)
        assert (caught.value.exit_code, signal.getsignal(signal.SIGINT)) == (130, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    console.say("half way")

    assert capsys.readouterr() == ("", "half way\n")


def test_progress_is_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.stderr().print("[bold]half[/] way")

    assert (capsys.readouterr().err, sys.stderr.isatty()) == ("half way\n", False)


def test_what_is_read_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    terminal = shown.console()
    monkeypatch.setattr(console, "stderr", lambda: terminal)
    with console.reading() as progress:
        progress("Pod", 50_000)
        terminal.print("done")
    assert "reading the cluster: 50,000 of kind Pod" in shown.getvalue()


@pytest.mark.parametrize("forced", ["", "1"])
def test_without_a_terminal_nothing_is_shown_of_what_is_read(
    forced: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FORCE_COLOR is for logs that show colours, not for what moves."""
    monkeypatch.setenv("FORCE_COLOR", forced)
    with console.reading() as progress:
        progress("Pod", 50_000)
    assert capsys.readouterr() == ("", "")
