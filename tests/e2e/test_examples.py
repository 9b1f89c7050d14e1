"""The examples as their READMEs tell them: every command is run, and every output shown is what comes out."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import Cluster
from stack import eventually

from tollbar.devplane.real import kubeconfig
from tollbar.devplane.real.launcher import RealPlane

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AGE = re.compile(r"\b\d+m?\d*s\b")


@dataclass(frozen=True)
class Step:
    """Commands of a README, and what it says they print in the end; empty when it says nothing."""

    commands: str
    output: str = ""


def steps(readme: str) -> list[Step]:
    found: list[Step] = []
    for language, text in BLOCK.findall(readme):
        if language == "sh":
            found.append(Step(text))
        elif not language:
            found[-1] = Step(found[-1].commands, text)
    return found


def told(output: str) -> str:
    """Without what only time and the width of columns change."""
    return "\n".join(" ".join(AGE.sub("AGE", line).split()) for line in output.splitlines()).strip()


class Reader:
    """Somebody who types what the README of one folder says, in a namespace of their own."""

    def __init__(self, plane: RealPlane, namespace: str, folder: Path, scratch: Path) -> None:
        own = plane.kubectl.json("config", "view", "--minify", "--raw", "--flatten")
        own["contexts"][0]["context"]["namespace"] = namespace
        self._folder = folder
        self._environment = {
            **plane.kubectl.environment(),
            "KUBECONFIG": str(kubeconfig.write(scratch / "kubeconfig", own)),
            "PATH": f"{plane.layout.kubectl.parent}:/usr/bin:/bin",
        }

    def types(self, commands: str) -> str:
        """What the terminal shows; one command failing does not keep the next from being typed."""
        done = subprocess.run(
            ["bash"],
            input=commands,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout


@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/README.md")))
def test_what_the_readme_says_is_what_happens(
    own_plane: RealPlane, cluster: Cluster, tmp_path: Path, name: str
) -> None:
    reader = Reader(own_plane, cluster.namespace, EXAMPLES / name, tmp_path)
    for step in steps((EXAMPLES / name / "README.md").read_text()):
        seen = [reader.types(step.commands)]

        def shown(step: Step = step, seen: list[str] = seen) -> bool:
            """Now, or soon: an Event takes its time, and each command here may be typed twice."""
            if told(step.output) in told(seen[-1]):
                return True
            seen.append(reader.types(step.commands))
            return False

        eventually(shown, what=f"{step.output}\nafter\n{step.commands}\nnot\n{seen[0]}")


def test_every_example_shows_an_output() -> None:
    silent = [
        readme.parent.name
        for readme in EXAMPLES.glob("*/README.md")
        if not any(step.output for step in steps(readme.read_text()))
    ]
    assert silent == []
