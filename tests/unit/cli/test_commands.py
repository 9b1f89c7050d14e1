"""The command line as a whole: every command can be asked for help, and wrong usage is exit code 2."""

import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tollbar.cli import SUBCOMMANDS, console, main


def test_every_command_is_listed_without_importing_any() -> None:
    script = "import sys; from tollbar.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    helped, _, modules = done.stdout.rstrip().rpartition("\n")
    assert [name for name in SUBCOMMANDS if f"  {name} " not in helped] == []
    assert {"celpy", "kopf", "kubernetes", "webhooks", "controllers", "rich"} & set(modules.split()) == set()


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_command_explains_itself(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--help"])

    assert (done.exit_code, done.stdout.startswith(f"Usage: main {name} ")) == (0, True)


WRONG: dict[str, dict[str, Any]] = {
    "no such option of all": {"given": ("--now",), "want": "No such option"},
    "no such command": {"given": ("drian",), "want": "No such command 'drian'"},
    "no such option": {"given": ("drain", "--now"), "want": "No such option"},
    "no such format": {"given": ("drain", "-o", "xml"), "want": "'xml' is not one of"},
    "no cluster named": {"given": ("dev",), "want": "Missing option '--kubeconfig'"},
    "no duration": {"given": ("status", "--request-timeout", "soon"), "want": "'soon' is not a duration such as 5s"},
    "no such mode": {"given": ("dev", "--kubeconfig", "x", "--admission", "Off"), "want": "'Off' is not one of"},
    "no such plane": {"given": ("demo", "--plane", "toy"), "want": "'toy' is not"},
    "an older Kubernetes in memory": {
        "given": ("plane", "up", "--kubernetes", "1.35"),
        "want": "--kubernetes needs --real",
    },
    "flags with a quotation that has no end": {
        "given": ("plane", "up", "--real", "--controller-manager-flags", "'--v=2"),
        "want": '"\'--v=2" is not a list of flags: No closing quotation',
    },
    "a configuration that is not there": {"given": ("webhook", "--config", "/nowhere"), "want": "cannot read /nowhere"},
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_explained(case: dict[str, Any]) -> None:
    done = CliRunner(env={"KUBECONFIG": None}).invoke(main, list(case["given"]))

    assert (done.exit_code, done.stdout, case["want"] in done.stderr) == (2, "", True), done.stderr
    assert (done.stderr.count("\n"), done.stderr.startswith("Error: ")) == (1, True), done.stderr


def test_without_arguments_the_help_is_shown() -> None:
    done = CliRunner().invoke(main, ["explain"])

    assert done.stderr.startswith("Usage: main explain [OPTIONS] COMMAND")


@pytest.mark.parametrize("name", ["dev", "drain"])
def test_a_kubeconfig_that_is_not_there_is_one_line(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--kubeconfig", "/nowhere"])

    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: no kubeconfig at /nowhere\n")


NOT_READ: dict[str, tuple[str, ...]] = {
    "drift": (),
    "diff-rules": ("FILE", "--live"),
    "simulate": ("-f", "FILE", "--live"),
}


@pytest.mark.parametrize(("name", "arguments"), NOT_READ.items(), ids=NOT_READ)
def test_a_cluster_that_cannot_be_asked_is_exit_code_2_where_1_is_an_answer(
    name: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}")
    given = (argument.replace("FILE", str(file)) for argument in arguments)

    done = CliRunner().invoke(main, [name, *given, "--kubeconfig", "/nowhere"])

    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "Error: no kubeconfig at /nowhere\n")


def test_a_directory_that_cannot_be_used_for_a_plane_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    done = CliRunner().invoke(main, ["plane", "up", "--dir", str(file / "plane")])

    said = f"Error: {file / 'plane'} cannot be used: Not a directory\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("content", ["{", '{"format": 1}', "[]"])
def test_a_state_file_that_is_none_is_named(content: str, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(content)

    done = CliRunner().invoke(main, ["plane", "down", "--dir", str(tmp_path)])

    said = f"Error: {state} is not a state file of this version\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


def test_a_state_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.mkdir()

    done = CliRunner().invoke(main, ["plane", "down", "--dir", str(tmp_path)])

    said = f"Error: {state} cannot be used: Is a directory\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize(("name", "code"), [("status", 4), ("drain", 1), ("certs", 1)])
def test_a_server_that_hangs_is_one_line_when_the_time_of_a_request_is_over(
    name: str, code: int, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection, and nobody reads
        cluster = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}
        config = tmp_path / "config"
        config.write_text(
            json.dumps(
                {
                    "clusters": [cluster],
                    "users": [{"name": "a", "user": {}}],
                    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                    "current-context": "a",
                }
            )
        )
        arguments = [name, "--kubeconfig", str(config), "--request-timeout", "500ms"]
        done = CliRunner().invoke(main, [*arguments, "--apply"] if name == "certs" else arguments)
    said = "Error: the API server does not answer: no answer in time\n"
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", said)


def test_a_context_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(json.dumps({"clusters": [], "users": [], "contexts": [], "current-context": "a"}))

    done = CliRunner().invoke(main, ["drain", "--kubeconfig", str(config), "--context", "b"])

    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f'Error: context "b" does not exist in {config}\n')


TIMEOUTS = {"5s": 5.0, "1m30s": 90.0, "7": 7.0, "0": math.inf, "0s": math.inf}


@pytest.mark.parametrize(("text", "want"), TIMEOUTS.items(), ids=TIMEOUTS)
def test_a_request_timeout_is_written_as_kubectl_has_it(text: str, want: float) -> None:
    @click.command()
    @console.cluster_options
    def command(cluster: console.Cluster) -> None:
        click.echo(cluster.request_timeout)

    done = CliRunner().invoke(command, ["--request-timeout", text])
    assert done.stdout == f"{want}\n"
