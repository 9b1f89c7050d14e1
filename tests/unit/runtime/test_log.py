"""Log lines: one record is one line, in both formats, whatever the values hold."""

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Literal

import pytest

from tollbar.runtime import log

logger = logging.getLogger("tollbar.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream for `configure`; the root logger and the quieted ones are as before afterwards."""
    touched = [logging.getLogger(name) for name in (None, "kopf", "aiohttp.access")]
    before = [(one, one.level, list(one.handlers)) for one in touched]
    yield io.StringIO()
    for one, level, handlers in before:
        one.setLevel(level)
        one.handlers[:] = handlers


def test_text_is_one_klog_line_with_keys(stream: io.StringIO) -> None:
    log.configure("text", 0, stream)
    logger.warning("Gate is overdue", extra={"object": "ns/web", "seconds": 61.5, "late": True})
    assert re.fullmatch(
        r"W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ test_log\.py:\d+\] "
        r'"Gate is overdue" object="ns/web" seconds=61\.5 late=true\n',
        stream.getvalue(),
    )


def test_json_is_one_object_a_line(stream: io.StringIO) -> None:
    log.configure("json", 0, stream)
    logger.info("Released the gate", extra={"object": "ns/web", "rules": 2})
    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("ts"))
    assert re.fullmatch(r"test_log\.py:\d+", line.pop("caller"))
    assert line == {
        "level": "info",
        "logger": "tollbar.test",
        "msg": "Released the gate",
        "object": "ns/web",
        "rules": 2,
    }


def test_keys_of_the_scope_are_added_and_the_records_own_win(stream: io.StringIO) -> None:
    log.configure("text", 0, stream)
    with log.scope(controller="gates", object="a"):
        with log.scope(object="b"):
            logger.info("inner", extra={"object": "c"})
        logger.info("outer")
    logger.info("none")
    assert [line.split("] ", 1)[1] for line in stream.getvalue().splitlines()] == [
        '"inner" controller="gates" object="c"',
        '"outer" controller="gates" object="a"',
        '"none"',
    ]


@pytest.mark.parametrize("format_", ["text", "json"])
@pytest.mark.parametrize("value", ["two\nlines\r\v\x85\u2028", '"quoted"', "\ud800", 2**70, {("a", 1): object}, None])
def test_any_value_stays_on_one_line(format_: Literal["text", "json"], value: object, stream: io.StringIO) -> None:
    log.configure(format_, 0, stream)
    logger.info("Any", extra={"value": value})
    assert stream.getvalue().count("\n") == 1


def test_text_shows_letters_of_any_script_and_escapes_what_a_terminal_would_obey(stream: io.StringIO) -> None:
    log.configure("text", 0, stream)
    logger.info("größer 大", extra={"value": "\x1b[31m\x9b31m\u2028"})
    assert stream.getvalue().split("] ", 1)[1] == '"größer 大" value="\\u001b[31m\\u009b31m\\u2028"\n'


@pytest.mark.parametrize("format_", ["text", "json"])
def test_an_exception_is_part_of_the_line(format_: Literal["text", "json"], stream: io.StringIO) -> None:
    log.configure(format_, 0, stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("Reconcile failed")
    [line] = stream.getvalue().splitlines()
    assert all(part in line for part in ("Reconcile failed", r"ValueError: two\nlines", "test_log.py", "stack"))


def test_a_group_says_what_is_in_it_and_an_exception_what_caused_it(stream: io.StringIO) -> None:
    log.configure("json", 0, stream)
    try:
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise ExceptionGroup("tasks", [ValueError("one"), ExceptionGroup("more", [OSError("two")])]) from cause
    except ExceptionGroup:
        logger.exception("Service failed")
    line = json.loads(stream.getvalue())
    assert (line["error"], "KeyError: 'cause'" in line["stack"]) == ("ValueError: one; OSError: two", True)


def test_the_keys_cannot_replace_the_fields_of_the_line(stream: io.StringIO) -> None:
    log.configure("json", 0, stream)
    logger.info("Real", extra={"msg_": 1, "level": "fake", "ts": "fake"})
    line = json.loads(stream.getvalue())
    assert (line["level"], line["msg"], line["ts"] == "fake") == ("info", "Real", False)


@pytest.mark.parametrize(("verbosity", "want"), [(0, ["info"]), (3, ["info"]), (4, ["debug", "info"])])
def test_debug_lines_from_verbosity_four(verbosity: int, want: list[str], stream: io.StringIO) -> None:
    log.configure("json", verbosity, stream)
    logger.debug("d")
    logger.info("i")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == want


@pytest.mark.parametrize("name", ["kopf.objects", "kopf._core.engines.activities", "aiohttp.access"])
def test_chatty_libraries_are_heard_from_warnings_on(name: str, stream: io.StringIO) -> None:
    log.configure("json", 9, stream)
    logging.getLogger(name).info("chatter")
    logging.getLogger(name).warning("matter")
    assert [json.loads(line)["msg"] for line in stream.getvalue().splitlines()] == ["matter"]
