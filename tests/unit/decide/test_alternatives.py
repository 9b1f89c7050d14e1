"""The packages that `firstAvailable` lists leave open."""

from typing import Any

import pytest
from builders import claim, device_class

from tollbar.decide import alternatives
from tollbar.decide.alternatives import Alternative

CLASSES = {name: device_class(name) for name in ("big", "small", "nic")}


def exactly(*names: str) -> Any:
    """The claim after its lists are decided."""
    return claim().but(
        "spec.devices.requests",
        [{"name": f"r{i}", "exactly": {"deviceClassName": name}} for i, name in enumerate(names)],
    )


def alternative(*names: str) -> Alternative:
    return Alternative((exactly(*names),), {name: CLASSES[name] for name in names})


TABLE: dict[str, tuple[Any, list[Alternative]]] = {
    "no claims": ([], [Alternative((), {})]),
    "a claim without requests": ([claim()], [Alternative((claim(),), {})]),
    "no list": ([claim().request("big")], [alternative("big")]),
    "one list": ([claim().request("big", "small")], [alternative("big"), alternative("small")]),
    "a list of one": (
        [claim().but("spec.devices.requests", [{"name": "r0", "firstAvailable": [{"deviceClassName": "big"}]}])],
        [alternative("big")],
    ),
    "two lists multiply, the first entries first": (
        [claim().request("big", "small").request("nic", "small")],
        [
            alternative("big", "nic"),
            alternative("big", "small"),
            alternative("small", "nic"),
            alternative("small", "small"),
        ],
    ),
    "a class that does not exist": (
        [claim().request("gone", "big")],
        [Alternative((exactly("gone"),), {}), alternative("big")],
    ),
    "lists of two claims multiply": (
        [claim().request("big", "small"), claim().request("nic")],
        [
            Alternative((exactly("big"), exactly("nic")), {"big": CLASSES["big"], "nic": CLASSES["nic"]}),
            Alternative((exactly("small"), exactly("nic")), {"small": CLASSES["small"], "nic": CLASSES["nic"]}),
        ],
    ),
}


@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_alternatives(given: Any, want: list[Alternative]) -> None:
    got = (alternatives.count(given), alternatives.first(given, CLASSES), list(alternatives.every(given, CLASSES)))
    assert got == (len(want), want[0], want)


def test_an_entry_keeps_all_but_its_own_name() -> None:
    entry = {"name": "o0", "deviceClassName": "big", "count": 2, "selectors": [{"cel": {"expression": "x"}}]}
    request = {"name": "r0", "firstAvailable": [entry]}
    assert alternatives.choices(request) == [
        {"name": "r0", "exactly": {"deviceClassName": "big", "count": 2, "selectors": [{"cel": {"expression": "x"}}]}}
    ]


def test_the_claims_are_not_changed() -> None:
    given = claim().request("big", "small")
    list(alternatives.every([given], CLASSES))
    assert given == claim().request("big", "small")
