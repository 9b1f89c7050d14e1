"""Structured logs in klog's text format or as JSON: a constant message and keys, one line per record.

Code logs through the standard library: `logger.info("Released the gate", extra={"rules": 2})`.

Invariants: one record is one line, whatever its values contain; keys of a record win over those of its scope, and
neither can replace the fields of the line itself; a value that cannot be rendered never loses the line.
"""

import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final, Literal, TextIO

import orjson

from tollbar.model import timestamps

DEBUG_VERBOSITY: Final = 4
"""From `-v 4` on, debug lines are shown (Kubernetes' convention: 2 is normal, 4 is debug)."""

_QUIET: Final = {
    "kopf": logging.WARNING,
    "kopf.activities.authentication": logging.ERROR,  # warns at every exit that the login has not finished
    "aiohttp.access": logging.WARNING,
}
"""Loggers whose INFO lines repeat what Tollbar logs itself, and the level from which they are shown."""

_SCOPE: ContextVar[Mapping[str, object]] = ContextVar("tollbar_log_scope")
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SEVERITY: Final = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}


@contextmanager
def scope(**keys: object) -> Iterator[None]:
    """Add keys to every line logged in this block, also by functions and tasks started from it."""
    token = _SCOPE.set({**_SCOPE.get({}), **keys})
    try:
        yield
    finally:
        _SCOPE.reset(token)


def configure(format: Literal["text", "json"], verbosity: int, stream: TextIO | None = None) -> None:  # noqa: A002
    """Send the root logger's lines to a stream (standard error unless given), replacing earlier handlers."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


class TextFormatter(logging.Formatter):
    """`I0102 03:04:05.000006 4711 gates.py:12] "Released the gate" object="ns/web"`, in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%m%d %H:%M:%S", time.gmtime(record.created))
        micros = int(record.created % 1 * 1e6)
        place = f"{record.filename}:{record.lineno}"
        severity = _SEVERITY.get(record.levelname, "I")
        fields = "".join(f" {key}={_text(value)}" for key, value in _keys(record).items())
        return f"{severity}{moment}.{micros:06d} {record.process} {place}] {_text(record.getMessage())}{fields}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, caller, msg, then the keys."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": timestamps.micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        for key, value in _keys(record).items():
            line.setdefault(key, value)
        return _json(line)


def _keys(record: logging.LogRecord) -> dict[str, Any]:
    """The keys of the scope, of the record, then `error` and `stack` of its exception."""
    keys = {**_SCOPE.get({}), **{key: value for key, value in vars(record).items() if key not in _OWN}}
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        keys.setdefault("error", summary(error))
        keys["stack"] = "".join(traceback.format_exception(error)).rstrip()
    return keys


def summary(error: BaseException) -> str:
    """The type and message of an error in one line; for a group, those of its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(summary(each) for each in error.exceptions)
    return "".join(traceback.format_exception_only(error)).strip()


def _text(value: object) -> str:
    """Numbers and booleans bare, everything else as a quoted one-line string."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    text = str(value)
    # Not by json.dumps, which makes an encoder for each text.
    return (encode_basestring if text.isprintable() else encode_basestring_ascii)(text)


def _json(line: dict[str, object]) -> str:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, an integer beyond 64 bits, a structure too deep
        return orjson.dumps({key: ascii(value) for key, value in line.items()}).decode()
