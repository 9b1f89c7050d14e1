"""What the API server sends of what anybody may write is read, whatever is in it."""

import json
from typing import Any

import orjson
import pytest

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


@pytest.mark.parametrize("text", [b"", b"<html>", b'{"a":NaN}', b'{"a":"', nested(2000)[:-1], b"[" * 2000])
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
