"""`tollbar eval`: evaluates expressions, as JSON lines, for scripts and for comparing engines.

Every line has an answer, also one that is not a request.
"""

import json
import sys
from collections.abc import Collection
from typing import Any, Final

import click

from tollbar.cel import COMPILE, DEVICE_ENV, RULE_ENV, CelEngine, CelError, Env, devices, encoding, engine
from tollbar.model.fields import quoted
from tollbar.model.objects import Object

ENGINES: Final = ("compiled", "closures", "cel-python")
_REQUEST: Final = ("id", "expression", "inputs", "variables", "device")
_ANSWER: Final[Object] = {"id": None, "outcome": "value", "type": "", "value": None, "message": ""}
_DEVICE: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")


class BadRequest(Exception):
    """A line that is not a request; the message says why."""


@click.command(name="eval")
@click.option(
    "--engine", "name", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Which engine."
)
def command(name: str) -> None:
    r"""Evaluate expressions: a request in JSON per line of standard input, an answer per line of standard output.

    A request is {"id": ..., "expression": TEXT, "inputs": {NAME: VALUE}}. The variables are those of a rule, unless
    the request says "variables": {NAME: TYPE}; inputs of other names are dyn. With "device": {"driver": ...,
    "attributes": ..., "capacity": ...} the expression is a device selector.

    An answer is {"id", "outcome", "type", "value", "message"}; the outcome is value, error, compile_error, or
    bad_request for a line that is not a request; then the exit code is 2. Whole numbers beyond 2^53 are strings.
    """
    cel = engine(name)
    bad = False
    for number, line in enumerate(sys.stdin, 1):
        if line.strip():
            try:
                click.echo(_encoded(answer(line, cel)))
            except BadRequest as error:
                bad = True
                click.echo(_encoded(_ANSWER | {"outcome": "bad_request", "message": f"line {number}: {error}"}))
    if bad:
        raise click.exceptions.Exit(2)


def _encoded(found: Object) -> bytes:
    try:
        return json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise BadRequest("nested too deeply") from None
    except UnicodeEncodeError:
        raise BadRequest("not Unicode: half of a surrogate pair") from None


def answer(line: str, cel: CelEngine) -> Object:
    """The answer to one request.  Raises BadRequest."""
    request = _object(_decoded(line), "the request", _REQUEST)
    expression = request.get("expression")
    if not isinstance(expression, str):
        raise BadRequest("expression must be a string")
    env, inputs = _environment(request)
    result = _ANSWER | {"id": request.get("id")}
    try:
        found = cel.compile(expression, env).evaluate(inputs)
    except CelError as error:
        found = error
    if isinstance(found, CelError):
        return result | {"outcome": "compile_error" if found.kind == COMPILE else "error", "message": str(found)}
    try:
        return result | {"type": encoding.name(found), "value": encoding.plain(found)}
    except RecursionError:
        raise BadRequest("nested too deeply") from None


def _environment(request: Object) -> tuple[Env, Any]:
    if "device" in request:
        device = _object(request["device"], "device", _DEVICE)
        try:
            prepared = devices.prepare(
                str(device.get("driver") or ""),
                _object(device.get("attributes") or {}, "attributes"),
                _object(device.get("capacity") or {}, "capacity"),
                allow_multiple_allocations=device.get("allowMultipleAllocations") is True,
            )
        except (ValueError, AttributeError) as error:
            raise BadRequest(f"device: {error}") from None
        return DEVICE_ENV, prepared
    inputs = _object(request.get("inputs") or {}, "inputs")
    declared = _object(request.get("variables", dict(RULE_ENV.variables)), "variables")
    variables = dict.fromkeys(inputs, "dyn") | {name: str(type_) for name, type_ in declared.items()}
    return Env(tuple(variables.items()), "dyn"), inputs


def _decoded(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BadRequest("not JSON") from None


def _object(value: Any, what: str, known: Collection[str] | None = None) -> Object:
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be an object")
    unknown = [name for name in value if known is not None and name not in known]
    if unknown:
        raise BadRequest(f"unknown field {quoted(unknown[0])} of {what}")
    return value
