"""Which gates the controllers say on their Lease that they release."""

from collections.abc import Sequence

import pytest

from tollbar.model.gates import released_gates, released_text


@pytest.mark.parametrize("gates", [["a.dev/x"], ["a.dev/x", "b.dev/y"]])
def test_what_is_read_is_what_was_written(gates: Sequence[str]) -> None:
    assert released_gates({"tollbar.dev/gates": released_text(gates)}) == frozenset(gates)


def test_controllers_without_gate_classes_release_none() -> None:
    released = released_gates({"tollbar.dev/gates": released_text([])})
    assert released is not None
    assert "a.dev/x" not in released


def test_a_lease_without_the_annotation_does_not_say() -> None:
    assert released_gates({}) is None
