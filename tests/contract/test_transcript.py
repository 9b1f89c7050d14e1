"""A terminal session with kubectl, as it is in transcript.md: on every plane, with every kubectl that is at hand."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract.api import Api
from contract.definitions import established
from planes.parameters import since, unavailable
from processes.transcripts import Terminal, steps

from tollbar.api import crds
from tollbar.devplane.kubectl import Kubectl

pytestmark = [pytest.mark.timeout(300), since("1.37", "other words about a claim that cannot be changed")]

TRANSCRIPT = Path(__file__).with_name("transcript.md")
QUICKSTART = Path(__file__).parents[2] / "manifests" / "examples" / "quickstart"


@pytest.fixture(scope="module", autouse=True)
def definitions(home: Api) -> Iterator[None]:
    with established(home, *crds.all_crds()):
        yield


@pytest.mark.parametrize("whose", ["the plane's", "the machine's"])
def test_what_is_typed_is_answered_as_the_transcript_says(
    api: Api, contracted: Any, tmp_path: Path, whose: str
) -> None:
    kubectl: Kubectl = contracted.kubectl
    program = shutil.which(kubectl.command[0] if whose == "the plane's" else "kubectl")
    if program is None:
        missing = pytest.skip if whose == "the machine's" else unavailable
        missing(f"there is no kubectl: {whose}")
    if whose == "the machine's":
        kubectl = replace(kubectl, command=(program,))
    terminal = Terminal(kubectl, api.namespace, QUICKSTART, tmp_path)
    session = steps(TRANSCRIPT.read_text())
    told = [terminal.told(terminal.types(step.commands)) for step in session]
    assert told == [terminal.told(step.output) for step in session]
