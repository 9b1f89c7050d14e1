"""Device selectors: each expression is compiled once, and asked once of each device content."""

from functools import cache, lru_cache
from typing import Final

from tollbar import cel
from tollbar.cel import CelEngine, CelError, Program, devices
from tollbar.dra.slices import Content

_HINT: Final = (
    "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)

_RECENT: Final = 256
"""Of so many device contents the inputs are kept, each of which takes a kilobyte: a device is asked all selectors of a
request in a row, and none of them a second time."""


class Selectors:
    """The compiled selectors of many claims and DeviceClasses; share one between allocators.

    Verdicts are kept with the content of a device, and so disappear with the slice that has it.
    """

    def __init__(self, engine: CelEngine | None = None) -> None:
        _load_compiler()
        self._engine = engine or cel.engine()
        self._programs = cel.ProgramCache(self._compile)
        self._inputs = lru_cache(maxsize=_RECENT)(_inputs)

    def compile(self, expression: str) -> bool:
        """Whether the expression had to be compiled, which takes up to some tenths of a second."""
        if expression in self._programs:
            return False
        self._programs.get(expression)
        return True

    def known(self, expression: str, content: Content) -> bool | CelError | None:
        """The verdict, None if it has not been asked for yet."""
        found: bool | CelError | None = content.memo.get(expression)
        return found

    def verdict(self, expression: str, content: Content) -> bool | CelError:
        """Whether the selector is true of the device, or why it has no answer; the first time may take milliseconds."""
        found: bool | CelError | None = content.memo.get(expression)
        if found is None:
            found = self._evaluate(expression, content)
            content.remember(expression, found)
        return found

    def _evaluate(self, expression: str, content: Content) -> bool | CelError:
        program = self._programs.get(expression)
        if isinstance(program, CelError):
            return program
        inputs = self._inputs(content)
        return inputs if isinstance(inputs, CelError) else program.evaluate(inputs)

    def _compile(self, expression: str) -> Program | CelError:
        try:
            return self._engine.compile(expression, cel.DEVICE_ENV)
        except CelError as error:
            return error


@cache
def _load_compiler() -> None:
    """Load what compiling needs, which takes more than a tenth of a second: not when the first claim is there."""
    cel.engine().compile("true", cel.DEVICE_ENV)


def _inputs(content: Content) -> cel.Inputs | CelError:
    attributes, capacity = content.read()
    try:
        return devices.prepare(content.driver, attributes, capacity, allow_multiple_allocations=content.shared)
    except ValueError as error:
        return CelError(str(error), 0, 0, cel.RUNTIME)


def explained(error: CelError) -> str:
    """The error as kube-scheduler words it."""
    if error.kind == cel.COMPILE:
        return f"CEL compile error: {error.message}"
    hint = f". {_HINT}" if "no such key:" in error.message else ""
    return f"CEL runtime error: {error.message}{hint}"
