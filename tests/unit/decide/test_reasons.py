"""Every word that people search for has a meaning, and its place in the reference."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import controllers.scheduler
import tollbar.api
import tollbar.decide
import tollbar.explain
from tollbar.decide.pods.reasons import PodReason
from tollbar.model.plan import Code, Reason

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "reasons.md").read_text()
SECTIONS = {section.partition("\n")[0]: section for section in PAGE.split("\n## ")[1:]}

for package in (tollbar.api, tollbar.decide, tollbar.explain, controllers.scheduler):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
CODES = {codes.__name__: codes for codes in Code.__subclasses__()}


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_every_reason_is_in_the_reference(codes: type[Code]) -> None:
    section = SECTIONS[(codes.__doc__ or "").partition(".")[0]]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [*codes]


def test_the_reference_has_no_other_section() -> None:
    assert len(SECTIONS) == len(CODES)


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_a_reason_is_one_word_and_its_meaning_whole_sentences(codes: type[Code]) -> None:
    odd = [code for code in codes if not re.fullmatch(r"([A-Z][a-z]+)+", code) or not code.meaning.endswith(".")]
    assert odd == []


def test_events_are_built_beside_the_texts_of_their_domain() -> None:
    """So that all texts of a domain can be read in one place."""
    elsewhere = [
        path.relative_to(ROOT)
        for top in ("tollbar", "controllers", "webhooks")
        for path in (ROOT / top).rglob("*.py")
        if path.name != "events.py" and "Event" in _called(path)
    ]
    assert elsewhere == []


def _called(path: Path) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


IN_WORDS: dict[str, tuple[Reason, str]] = {
    "a code says all": (Reason(PodReason.BOUND), "Bound"),
    "a code is about a rule": (Reason(PodReason.MATCHED, "rule gpu"), "Matched: rule gpu"),
    "a code is about a rule, and a detail says why": (
        Reason(PodReason.FAILED, "rule gpu", "no such key"),
        "Failed: rule gpu: no such key",
    ),
    "a detail is about the Pod as a whole": (
        Reason(PodReason.WAITING_FOR, detail="DeviceClass gpu"),
        "WaitingFor: DeviceClass gpu",
    ),
}


@pytest.mark.parametrize(("given", "want"), IN_WORDS.values(), ids=IN_WORDS)
def test_a_reason_in_words(given: Reason, want: str) -> None:
    assert str(given) == want
