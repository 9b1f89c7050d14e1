"""The packages that `firstAvailable` lists leave open."""

from typing import Any

import pytest
from objects.builders import claim, device_class

from tollbar.decide.pods import alternatives
from tollbar.decide.pods.alternatives import Alternative

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
    "lists with a request between them": (
        [claim().request("big", "small").request("nic").request("big", "small", "nic")],
        [alternative(one, "nic", other) for one in ("big", "small") for other in ("big", "small", "nic")],
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
    count = alternatives.count(given, 256)
    assert [alternatives.nth(given, CLASSES, index) for index in range(count)] == want


LARGE = claim().but("spec.devices.requests", [{"name": "r0", "firstAvailable": [{"deviceClassName": "big"}] * 8}] * 32)
COUNTED: dict[str, tuple[list[Any], int, int]] = {
    "as many as may be": ([claim().request("big", "small").request("big", "small")], 4, 4),
    "one more": ([claim().request("big", "small").request("big", "small", "nic")], 5, 6),
    "of the product of many large claims, no more than the first list too many": ([LARGE] * 1000, 256, 512),
}


@pytest.mark.parametrize(("given", "most", "want"), COUNTED.values(), ids=COUNTED)
def test_count(given: list[Any], most: int, want: int) -> None:
    assert alternatives.count(given, most) == want


SIZES: dict[str, tuple[Any, int]] = {
    "no requests": (claim(), 0),
    "every entry of a list": (claim().request("big").request("big", "small", "nic"), 4),
    "as large as the API server lets a claim be": (LARGE, 256),
}


@pytest.mark.parametrize(("given", "want"), SIZES.values(), ids=SIZES)
def test_size(given: Any, want: int) -> None:
    assert alternatives.size(given) == want


def test_an_entry_keeps_all_but_its_own_name() -> None:
    entry = {"name": "o0", "deviceClassName": "big", "count": 2, "selectors": [{"cel": {"expression": "x"}}]}
    request = {"name": "r0", "firstAvailable": [entry]}
    assert list(alternatives.choices(request)) == [
        {"name": "r0", "exactly": {"deviceClassName": "big", "count": 2, "selectors": [{"cel": {"expression": "x"}}]}}
    ]


def test_the_claims_are_not_changed() -> None:
    given = claim().request("big", "small")
    alternatives.nth([given], CLASSES, 1)
    assert given == claim().request("big", "small")
