"""The command line as a whole: every command can be asked for help, and wrong usage is exit code 2."""

import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from tollbar.cli import SUBCOMMANDS, main


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
    "no such command": {"given": ("drian",), "want": "No such command 'drian'"},
    "no such option": {"given": ("drain", "--now"), "want": "No such option"},
    "no such format": {"given": ("drain", "-o", "xml"), "want": "'xml' is not one of"},
    "no cluster named": {"given": ("dev",), "want": "Missing option '--kubeconfig'"},
    "no such mode": {"given": ("dev", "--kubeconfig", "x", "--admission", "Off"), "want": "'Off' is not one of"},
    "no such plane": {"given": ("demo", "--plane", "toy"), "want": "'toy' is not"},
    "a configuration that is not there": {"given": ("webhook", "--config", "/nowhere"), "want": "cannot read /nowhere"},
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_explained(case: dict[str, Any]) -> None:
    done = CliRunner(env={"KUBECONFIG": None}).invoke(main, list(case["given"]))

    assert (done.exit_code, done.stdout, case["want"] in done.stderr) == (2, "", True), done.stderr


@pytest.mark.parametrize("name", ["dev", "drain"])
def test_a_kubeconfig_that_is_not_there_is_one_line(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--kubeconfig", "/nowhere"])

    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: no kubeconfig at /nowhere\n")
