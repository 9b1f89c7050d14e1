"""The cycles of the benchmark `allocate` have a solution: the lack of one would be measured as a fast one."""

import pytest
from dra.comparing import ours

from benchmarks.workloads import allocate


@pytest.mark.parametrize("cycle", allocate.CYCLES)
def test_a_cycle_ends_with_an_allocation_on_every_node(cycle: str) -> None:
    assert {each.outcome for each in ours(allocate.CYCLES[cycle]())} == {"allocated"}
