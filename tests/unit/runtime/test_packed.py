"""Packed objects: what is read is what was stored, in a part of the memory."""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from objects.builders import CREATED, pod

from tollbar.model.objects import Key, Object, key_of, labels_of
from tollbar.runtime import packed as module
from tollbar.runtime.packed import Packed


def one_kind(_: Object) -> str:
    return "pods"


def app(name: str, *, kind: str = "a", size: int = 40) -> Object:
    """A Pod that is like others of its kind, and like no other kind."""
    env = [{"name": f"{kind}-{n}", "value": hash_of(kind, n)} for n in range(size)]
    return pod(name).labelled(kind=kind).but("spec.containers", [{"name": "main", "env": env}])


def hash_of(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def packed(*objects: Object, alike: Callable[[Object], Any] = one_kind) -> Packed:
    made = Packed(alike)
    for each in objects:
        made[key_of(each)] = each
    return made


def stored(made: Packed) -> int:
    """Bytes of all texts."""
    return sum(len(each.text) for each in made._texts.values())


@pytest.fixture(autouse=True)
def _few_stay_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that most of what is read is decoded."""
    monkeypatch.setattr(module, "RECENT_BYTES", RECENT * 2500)


@pytest.fixture
def _nothing_stays_decoded(_few_stay_decoded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every text is compressed at once."""
    monkeypatch.setattr(module, "RECENT_BYTES", 0)


RECENT = 20
"""Objects of `app` that stay decoded, about."""
APPS = [app(f"web-{n}") for n in range(5 * RECENT)]
CASES: dict[str, list[Object]] = {
    "nothing": [],
    "objects that are alike": APPS,
    "objects of several kinds, in turns": [app(f"web-{n}", kind="abc"[n % 3]) for n in range(5 * RECENT)],
    "objects that are longer than the window": [app(f"web-{n}", size=2000) for n in range(3)],
    "characters of any kind": [pod("web").annotated({"text": '\u0000 \u00e9 \u2028 \U0001f600 "}'})],
    "numbers": [pod("web").but("spec.numbers", [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e300, -0.0, True, None])],
}


@pytest.mark.parametrize("objects", CASES.values(), ids=CASES)
def test_what_is_read_is_what_was_stored(objects: list[Object]) -> None:
    made = packed(*objects)
    assert list(made.items()) == [(key_of(each), each) for each in objects]


def test_an_object_that_is_stored_again_replaces_the_one_before_also_for_who_has_just_read_it() -> None:
    made, changed = packed(*APPS), app("web-0", kind="other")
    read = made[key_of(changed)]
    made[key_of(changed)] = changed
    assert (read, made[key_of(changed)], len(made)) == (APPS[0], changed, len(APPS))


def test_what_is_removed_is_gone_also_where_it_is_the_model_of_others() -> None:
    made, key = packed(*APPS), key_of(APPS[0])
    del made[key]
    assert (key in made, made.get(key), list(made.values())) == (False, None, APPS[1:])


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_objects_that_are_alike_take_a_tenth_of_one_alone() -> None:
    alone, all_of_them = stored(packed(APPS[0])), stored(packed(*APPS))
    assert (all_of_them - alone) / (len(APPS) - 1) < alone / 10


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_the_first_object_of_another_kind_becomes_the_model_of_those_after_it() -> None:
    others = [app(f"other-{n}", kind="other") for n in range(20)]
    made = packed(*APPS, *others)
    assert stored(made) < 1.1 * (stored(packed(*APPS)) + stored(packed(*others)))


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_kinds_in_turns_have_a_model_each() -> None:
    turns = CASES["objects of several kinds, in turns"]
    each = packed(*turns, alike=lambda obj: labels_of(obj)["kind"])
    assert stored(each) < stored(packed(*turns)) / 3


def test_models_of_what_never_comes_again_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODELS", 10)
    made = packed(*APPS, alike=key_of)
    assert (len(made._models) <= 10, list(made.values())) == (True, APPS)


def test_what_was_decoded_or_written_last_stays_decoded_and_nothing_that_is_large() -> None:
    made = packed(*APPS)
    assert made[key_of(APPS[0])] == APPS[0]
    made[key_of(APPS[-2])] = APPS[-2]
    large = app("large", size=1000)
    made[key_of(large)] = large
    used = [*APPS[:-2], APPS[-1], APPS[0], APPS[-2]]
    kept = [obj for obj, _ in made._recent.values()]
    assert kept == used[-len(kept) :]
    texts = [len(orjson.dumps(each)) for each in used[-len(kept) - 1 :]]
    assert sum(texts[1:]) <= module.RECENT_BYTES < sum(texts)


def test_what_stays_decoded_is_read_without_decoding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, last = packed(*APPS), APPS[-1]
    monkeypatch.setattr(module.zlib, "decompressobj", None)
    assert made[key_of(last)] is last


def test_what_is_written_often_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed, deflated = list[bytes](), module._deflated

    def counted(text: bytes, *model: bytes) -> bytes:
        compressed.append(text)
        return deflated(text, *model)

    monkeypatch.setattr(module, "_deflated", counted)
    made, last = packed(*(app("web", size=n) for n in range(30))), app("web")
    made[key_of(last)] = last
    assert compressed == []
    for each in APPS:
        made[key_of(each)] = each
    assert [text for text in compressed if orjson.loads(text)["metadata"]["name"] == "web"] == [orjson.dumps(last)]
    assert (made[key_of(last)], made[key_of(last)] is last) == (last, False)


def test_what_is_removed_makes_room_for_what_stays_decoded() -> None:
    made = packed(*APPS)
    for each in APPS:
        del made[key_of(each)]
    for each in APPS[:3]:
        made[key_of(each)] = each
    assert [obj for obj, _ in made._recent.values()] == APPS[:3]


def test_when_objects_were_created_is_known_without_decoding_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = packed(pod("web"), pod("new").but("metadata.creationTimestamp", None))
    monkeypatch.setattr(module.zlib, "decompress", None)
    assert [made.created(Key("ml", name)) for name in ("web", "new")] == [CREATED, float("inf")]


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        packed()[Key("ml", "web")]
