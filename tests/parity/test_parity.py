"""Replace mode does what kube-controller-manager's claim controller does: the same objects, states and writes."""

import pytest

from parity import running
from parity.conftest import Traces
from parity.differences import DIFFERENCES, EXCUSED, Difference
from parity.dsl import SCENARIOS
from parity.trace import apart

assert running.REGISTERED, "importing it registers the scenarios"
pytestmark = pytest.mark.timeout(900)
"""Whichever test is the first one makes the traces."""


@pytest.mark.parametrize("sentence", [each for each in SCENARIOS if each not in EXCUSED])
def test_both_do_the_same(sentence: str, traces: Traces) -> None:
    assert [str(each) for each in apart(traces.upstream[sentence], traces.ours[sentence])] == []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_what_is_said_to_differ_differs(difference: Difference, traces: Traces) -> None:
    found = {
        sentence: (upstream(traces.upstream[sentence]), ours(traces.ours[sentence]))
        for sentence, (upstream, ours) in difference.written.items()
    }
    assert found == dict.fromkeys(difference.written, (True, True))


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_ours_writes_no_more(sentence: str, traces: Traces) -> None:
    """Unless upstream waits in vain, or does with fewer claims."""
    upstream, ours = traces.upstream[sentence], traces.ours[sentence]
    assert ours.count <= upstream.count or upstream.in_vain or len(ours.history) > len(upstream.history)
