"""What the API server sends of what anybody may write is read, whatever is in it."""

import json
from typing import Any

import orjson
import pytest

from tollbar.runtime import decoding
from tollbar.runtime.decoding import LEVELS, decoded


def nested(levels: int, innermost: str = "1", opening: str = '{"a":', closing: str = "}") -> bytes:
    return (opening * levels + innermost + closing * levels).encode()


def depth(value: Any) -> int:
    found = 0
    while isinstance(value, dict | list) and value:
        value, found = next(iter(value.values() if isinstance(value, dict) else value)), found + 1
    return found


READ = {
    "what orjson reads": (b'{"a":[1,"\\ud83d\\ude00",null]}', {"a": [1, "\U0001f600", None]}),
    "the first half of a surrogate pair": (b'{"a":"x\\ud83dy"}', {"a": "x\ufffdy"}),
    "the second half": (b'{"a":"\\uDE00","b":"\\ud83d\\ude00"}', {"a": "\ufffd", "b": "\U0001f600"}),
    "two first halves": (b'["\\ud83d\\ud83d\\ude00"]', ["\ufffd\U0001f600"]),
    "what only looks like a half beside one": (b'["\\\\ud83d","\\ud83d"]', ["\\ud83d", "\ufffd"]),
    "a half in a name": (b'{"\\ud83d":1}', {"\ufffd": 1}),
    "bytes that are no UTF-8": (b'{"a":"x\xffy","b":"\xc3\xa9"}', {"a": "x\ufffdy", "b": "\xe9"}),
    "the beginning of a character": (b'["\xf0\x9f\x98","\xe2\x82"]', ["\ufffd" * 3, "\ufffd" * 2]),
    "and what comes after it": (
        b'["\xf0\x9f\x98\xc3\xa9\xe2\x82\xf0\x9f\x98\x80"]',
        ["\ufffd\ufffd\ufffd\xe9\ufffd\ufffd\U0001f600"],
    ),
    "a character in more bytes than it needs": (b'["\xc0\xaf\xe0\x80\xaf"]', ["\ufffd" * 5]),
    "half of a pair as bytes": (b'["\xed\xa0\xbd\xed\xb8\x80"]', ["\ufffd" * 6]),
    "more than Unicode has": (b'["\xf4\x90\x80\x80\xf8"]', ["\ufffd" * 5]),
    "a half before bytes that are no UTF-8": (b'["\\ud83d\xed\xb8\x80"]', ["\ufffd" * 4]),
    "halves beside escaped backslashes": (
        b'["\\\\\\ud83d","\\\\\\\\ud83d","\\\\\\ud83d\\ude00","\\ud83d\\\\ude00","\\ud83d\\\\\\ude00"]',
        ["\\\ufffd", "\\\\ud83d", "\\\U0001f600", "\ufffd\\ude00", "\ufffd\\\ufffd"],
    ),
    "a pair, and another half": (b'["\\ud83d\\ude00\\ude00","\\ud83d\\ude00\\ud83d"]', ["\U0001f600\ufffd"] * 2),
    "two second halves": (b'["\\ude00\\ude00"]', ["\ufffd\ufffd"]),
    "a half, and other escapes": (b'["\\ud83d\\u0041\\n\\"\\/\\b\\udE00\\\\"]', ['\ufffdA\n"/\b\ufffd\\']),
}


@pytest.mark.parametrize(("text", "want"), READ.values(), ids=READ)
def test_texts_are_read_as_go_reads_them(text: bytes, want: Any) -> None:
    assert decoded(text) == want


SHAPES = {
    "objects": ('{"a":', "}"),
    "lists": ("[", "]"),
    "objects with brackets in their names": ('{"]}[{\\"":', "}"),
}


@pytest.mark.parametrize(("opening", "closing"), SHAPES.values(), ids=SHAPES)
def test_what_is_nested_too_deeply_is_null(opening: str, closing: str) -> None:
    found = decoded(nested(9000, "1", opening, closing))
    assert depth(found) == LEVELS


def test_what_is_beside_it_is_read() -> None:
    deep = nested(2000, '"]"').decode()
    found = decoded(f'[{{"a":"\\\\{{"}},{deep},{{"b":[{deep},2]}},"}}"]'.encode())
    assert (found[0], depth(found[1]), found[2]["b"][1], found[3]) == ({"a": "\\{"}, LEVELS - 1, 2, "}")


def test_what_orjson_reads_is_not_cut() -> None:
    assert depth(decoded(nested(1000))) == 1000


def test_what_was_cut_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        orjson.dumps(decoded(nested(2000)))


NO_JSON = {
    "nothing": b"",
    "a page": b"<html>",
    "what is no number": b'{"a":NaN}',
    "a string that does not end": b'{"a":"',
    "levels of which one does not end": nested(2000)[:-1],
    "nothing but openings": b"[" * 2000,
    "an escape that there is not": b'["\\x"]',
    "an escape of a byte that is no UTF-8": b'["\\\xff"]',
    "a half that does not end": b'["\\ud83"]',
    "bytes that are no UTF-8 outside of a string": b'["a"\xff]',
    "a half outside of a string": b"[\\ud83d]",
    "a half before what is no JSON": b'["\\ud83d",]',
}


@pytest.mark.parametrize("text", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decoded(text)


@pytest.mark.timeout(60)
def test_a_string_that_does_not_end_is_read_once() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decoded(b'{"a":"' + 1_000_000 * b'\\"')


def test_values_as_deep_as_are_read_can_be_compared() -> None:
    one, other = decoded(nested(2000)), decoded(nested(2000))
    assert one == other
    assert json.dumps(one) == json.dumps(other)


def test_only_what_is_nested_too_deeply_is_gone_through_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_TOKEN", None)
    assert decoded(b'["\\ud83d\xff"]') == ["\ufffd\ufffd"]


def test_what_is_nested_too_deeply_has_texts_as_go_reads_them() -> None:
    found = decoded(b'["\\ud83d\\\\]","\xff",' + nested(2000) + b"]")
    assert (found[:2], depth(found[2])) == (["\ufffd\\]", "\ufffd"], LEVELS - 1)
