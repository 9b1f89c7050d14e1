"""Both sides' traces, made once: each side has planes of its own, one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from parity import sides
from parity.running import WITH_GROUPS, run
from parity.trace import Trace
from tollbar.devplane.binaries import Binaries


@dataclass(frozen=True)
class Traces:
    """By the scenario's sentence."""

    upstream: Mapping[str, Trace]
    ours: Mapping[str, Trace]


@pytest.fixture(scope="session")
def traces(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    found: dict[str, dict[str, Trace]] = {}
    for name, side in (("upstream", sides.upstream), ("ours", sides.ours)):
        found[name] = {}
        for groups, rounds in ((False, ("usual", "restart")), (True, WITH_GROUPS)):
            with side(binaries, tmp_path_factory.mktemp(name), groups=groups) as running:
                found[name] |= run(running, *rounds)
    return Traces(**found)
