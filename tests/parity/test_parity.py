"""Replace mode does what kube-controller-manager's claim controller does: the same objects, states and writes."""

import re

import pytest
from stack import ROOT

from parity import running
from parity.conftest import Traces
from parity.differences import DIFFERENCES, EXCUSED, Difference
from parity.dsl import SCENARIOS
from parity.trace import apart

DOCUMENT = ROOT / "docs/reference/claims-parity.md"
assert running.REGISTERED, "importing it registers the scenarios"
pytestmark = pytest.mark.timeout(900)
"""Whichever test is the first one makes the traces."""


@pytest.mark.parametrize("sentence", [each for each in SCENARIOS if each not in EXCUSED])
def test_both_do_the_same(sentence: str, traces: Traces) -> None:
    assert apart(traces.upstream[sentence], traces.ours[sentence]) == []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_what_is_said_to_differ_differs(difference: Difference, traces: Traces) -> None:
    found = {
        sentence: (holds(traces.upstream[sentence]), difference.ours[sentence](traces.ours[sentence]))
        for sentence, holds in difference.upstream.items()
    }
    assert found == dict.fromkeys(difference.upstream, (True, True))


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_ours_writes_no_more(sentence: str, traces: Traces) -> None:
    stuck = traces.upstream[sentence].in_vain
    assert traces.ours[sentence].count <= traces.upstream[sentence].count or stuck


def test_the_document_lists_every_difference() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(each.name for each in DIFFERENCES)
