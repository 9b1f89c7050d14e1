"""Which gate classes may be enabled, and what is said of one that cannot be used."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from unit.gates.zones import MAPS, Reporting, Zone

from tollbar import wellknown
from tollbar.gates import Gate, Reads, registry
from tollbar.gates.evaluation import declaration
from tollbar.gates.ordinal import OrdinalGate
from tollbar.runtime.config import ConfigError


class Nameless(Zone):
    name = "zone"


class Lasting(Zone):
    max_hold = "soon"


class Endless(Zone):
    max_hold = None


class Numbered(Zone):
    max_hold = 600  # type: ignore[assignment]


class Momentary(Zone):
    max_hold = "0s"


class Wavering(Zone):
    on_expiry = "Maybe"  # type: ignore[assignment]


class Written(Zone):
    name = "tollbar.dev/Zone_A"


class Dotted(Zone):
    name = "tollbar.dev/zone..a"


class Illiterate(Zone):
    reads = None  # type: ignore[assignment]


class Foreign(Zone):
    name = "example.com/zone"


class Unindexed(Zone):
    reads = (Reads(MAPS, lambda _: ["a"], by="owner"),)


class Unread(Zone):
    reads = (MAPS,)  # type: ignore[assignment]


class Again(Zone):
    pass


class Alike(Zone):
    name = "example.com.zone/a"
    on_expiry = "Report"


class Suffixed(Alike):
    name = "example.com/zone.a"


class Breaking(Zone):
    def __init__(self) -> None:
        raise OSError("no disk")


INSTALLED = [
    Reporting,
    Zone,
    Nameless,
    Written,
    Dotted,
    Lasting,
    Numbered,
    Momentary,
    Wavering,
    Endless,
    Foreign,
    Unindexed,
    Unread,
    Illiterate,
    Again,
    Alike,
    Suffixed,
    Breaking,
    dict,
]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        EntryPoint(each.__name__.lower(), f"{each.__module__}:{each.__name__}", registry.GROUP) for each in INSTALLED
    ]
    found.append(EntryPoint("absent", "no_such_module:Gate", registry.GROUP))
    found += [EntryPoint("taken", f"package_{each}:Gate", registry.GROUP) for each in "ab"]
    found.append(EntryPoint("quota", "package_a:Quota", registry.GROUP))
    found.append(EntryPoint("ordinal", f"{__name__}:OrdinalGate", registry.GROUP))
    found += [EntryPoint("twice", f"{__name__}:Zone", registry.GROUP)] * 2
    found += [EntryPoint("exported", value, registry.GROUP) for value in (f"{__name__}:Zone", "unit.gates.zones:Zone")]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [each for each in found if group == registry.GROUP and name in (None, each.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)


MISTAKES: dict[str, tuple[list[str], str]] = {
    "it is not installed": (["zones"], "there is no gate zones; installed are: absent, again"),
    "its module is missing": (
        ["absent"],
        "cannot load gate absent: ModuleNotFoundError: No module",
    ),
    "it cannot be made": (["breaking"], "cannot load gate breaking: OSError: no disk"),
    "it is no gate": (["dict"], "gate dict: dict is no tollbar.gates.Gate"),
    "its gate has no domain": (["nameless"], "gate nameless: name must be the gate's qualified name"),
    "its gate cannot be in the path of a webhook": (["written"], "gate written: name: a lowercase RFC 1123 subdomain"),
    "its gate has an empty part": (["dotted"], "gate dotted: name: a lowercase RFC 1123 subdomain"),
    "its maxHold is no duration": (["lasting"], 'gate lasting: spec.maxHold: Invalid value: "soon": '),
    "its maxHold is no text": (["numbered"], "gate numbered: spec.maxHold: Invalid value: 600: "),
    "its maxHold is over at once": (["momentary"], 'gate momentary: spec.maxHold: Invalid value: "0s": '),
    "it is not said what happens at maxHold": (
        ["wavering"],
        'gate wavering: spec.onExpiry: Unsupported value: "Maybe"',
    ),
    "Release without maxHold": (
        ["endless"],
        "gate endless: spec.maxHold: Required value: onExpiry Release needs maxHold",
    ),
    "Release outside tollbar.dev": (
        ["foreign"],
        "gate foreign: spec.onExpiry: Forbidden: onExpiry Release is for gates",
    ),
    "an index that is not there": (["unindexed"], "gate unindexed: reads: zones has no index owner"),
    "no Reads": (["unread"], "gate unread: reads must hold Reads, not Cached"),
    "what it reads is no list": (["illiterate"], "cannot load gate illiterate: TypeError: 'NoneType' object is not"),
    "two packages bring the name": (["taken"], "2 classes are named taken: package_a:Gate, package_b:Gate"),
    "a package brings a name of Tollbar's own": (
        ["quota"],
        "2 classes are named quota: tollbar.gates.quota:PodQuotas, package_a:Quota",
    ),
    "two of one gate": (["zone", "again"], "two gate classes have the gate tollbar.dev/zone"),
    "two whose SchedulingGates have one name": (
        ["alike", "suffixed"],
        "two gate classes declare a SchedulingGate example.com.zone.a",
    ),
}


@pytest.mark.parametrize(("wanted", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_class_that_cannot_be_used(wanted: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        registry.load(None, {"gates": ",".join(wanted)})
    assert str(error.value).startswith("gates: ")
    assert text in str(error.value)


def test_those_that_are_enabled_are_made() -> None:
    wanted = registry.load(None, {"gates": "zone, reporting"}).gates
    assert [type(each) for each in registry.enabled(wanted)] == [Zone, Reporting]


@pytest.mark.parametrize(("name", "of"), [("twice", Zone), ("exported", Zone), ("ordinal", OrdinalGate)])
def test_a_class_may_be_named_by_several_packages(name: str, of: type[Gate]) -> None:
    assert [type(each) for each in registry.enabled(registry.load(None, {"gates": name}).gates)] == [of]


def test_no_class_is_looked_for_that_has_tollbars_own_gate(caplog: pytest.LogCaptureFixture) -> None:
    assert ([*registry.installed([wellknown.GATE])], caplog.messages) == ([], [])


DECLARED: dict[str, tuple[Any, Any]] = {
    "released at maxHold": (Zone(), {"onExpiry": "Release", "maxHold": "60s"}),
    "without a limit": (type("Free", (Reporting,), {"max_hold": None})(), {"onExpiry": "Report"}),
}


@pytest.mark.parametrize(("gate", "policy"), DECLARED.values(), ids=DECLARED)
def test_the_scheduling_gate_of_a_class(gate: Any, policy: Any) -> None:
    found = declaration(gate, ("me",))
    assert (found["metadata"]["name"], found["spec"]) == (
        gate.name.replace("/", "."),
        {"gateName": gate.name, "owners": ["me"], **policy},
    )
