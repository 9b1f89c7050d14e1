"""Both sides' traces, made once, on two pairs of planes: one without PodGroups, one with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from parity.running import WITH_GROUPS, run
from parity.sides import Sides, both
from parity.trace import Trace
from tollbar.devplane.binaries import Binaries


@dataclass(frozen=True)
class Traces:
    """By the scenario's sentence."""

    upstream: Mapping[str, Trace]
    ours: Mapping[str, Trace]


@pytest.fixture(scope="session")
def with_groups(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both(binaries, tmp_path_factory.mktemp("with-groups"), groups=True) as running:
        yield running


@pytest.fixture(scope="session")
def without_groups(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    with both(binaries, tmp_path_factory.mktemp("without-groups")) as running:
        return Traces(*run(running, "usual", "restart"))


@pytest.fixture(scope="session")
def traces(without_groups: Traces, with_groups: Sides) -> Traces:
    upstream, ours = run(with_groups, *WITH_GROUPS)
    return Traces({**without_groups.upstream, **upstream}, {**without_groups.ours, **ours})
