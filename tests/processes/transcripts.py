"""Terminal sessions as documents: blocks of commands (```sh), each with what it prints (a block without language)."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from processes.stack import eventually
from tollbar.devplane import kubeconfig
from tollbar.devplane.kubectl import Kubectl

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AGE = re.compile(r"\b(?:\d+[ms])+\b")
MOMENT = re.compile(r"\w{3}, \d{2} \w{3} \d{4} [\d:]{8} [+-]\d{4}|\d{4}-\d{2}-\d{2}T[\d:.]+Z")
UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VERSION = re.compile(r"(?<=Resource Version:)( +)\d+")
WHENCE = re.compile(r" from \S+ namespace$", re.MULTILINE)
"""What only newer versions of kubectl say of what they delete."""


@dataclass(frozen=True)
class Step:
    """Commands, and what they print in the end; empty when the document does not say."""

    commands: str
    output: str = ""


def steps(document: str) -> list[Step]:
    found: list[Step] = []
    for language, text in BLOCK.findall(document):
        if language == "sh":
            found.append(Step(text))
        elif not language:
            found[-1] = Step(found[-1].commands, text)
    return found


class Terminal:
    """Somebody who types in one folder, with kubectl for one namespace of a cluster."""

    def __init__(self, kubectl: Kubectl, namespace: str, folder: Path, scratch: Path) -> None:
        self._namespace = namespace
        self._folder = folder
        own = yaml.safe_load(kubectl.kubeconfig.read_text())
        own["contexts"][0]["context"]["namespace"] = namespace
        program = scratch / "bin" / "kubectl"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(kubectl.command)} "$@"\n')
        program.chmod(0o755)
        self._environment = {
            **kubectl.environment(),
            "KUBECONFIG": str(kubeconfig.write(scratch / "kubeconfig", own)),
            "PATH": f"{program.parent}:/usr/bin:/bin",
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

    def told(self, output: str) -> str:
        """Without what only time, chance and the width of columns change."""
        output = output.replace(self._namespace, "NAMESPACE")
        for pattern, name in ((MOMENT, "MOMENT"), (UID, "UID"), (AGE, "AGE"), (VERSION, r"\1VERSION"), (WHENCE, "")):
            output = pattern.sub(name, output)
        return "\n".join(" ".join(line.split()) for line in output.splitlines()).strip()


def play(folder: Path, kubectl: Kubectl, namespace: str, scratch: Path) -> None:
    """Type what the README of the folder says, and wait until everything is shown that it says is shown."""
    reader = Terminal(kubectl, namespace, folder, scratch)
    for step in steps((folder / "README.md").read_text()):
        said = reader.types(step.commands)

        def shown(said: str, step: Step = step) -> bool:
            return reader.told(step.output) in reader.told(said)

        def again(step: Step = step) -> bool:
            """Soon, then: an Event takes its time, and each command here may be typed twice."""
            return shown(reader.types(step.commands), step)

        if not shown(said):
            eventually(again, seconds=120, what=f"{step.output}\nafter\n{step.commands}\nnot\n{said}")
