"""Checks what plugins return: a plugin that raises, or returns a value of a wrong type, has failed with an Error."""

from collections.abc import Callable
from types import GeneratorType

from tollbar.model.steps import Steps
from tollbar.scheduler.framework.status import NOT_CONCERNED, SKIP, Code, Status, failed


def ask(call: Callable[..., object], *args: object) -> object:
    """The answer of a plugin; an Error if it raises."""
    try:
        return call(*args)
    except Exception as error:
        return raised(error)


def completed(answer: object) -> Steps[object]:
    """The result of work that can be paused, an Error if it raises; any other answer as it is."""
    if not isinstance(answer, GeneratorType):
        return answer
    try:
        return (yield from answer)
    except Exception as error:
        return raised(error)


def raised(error: Exception) -> Status:
    return failed(f"{type(error).__name__}: {error}", error)


def wrong_type(answer: object, expected: str) -> Status:
    """The Error of a plugin that has returned something of a wrong type."""
    return failed(f"it returned {type(answer).__name__} where {expected} is expected")


def status_of(answer: object) -> Status | None:
    """The answer of a plugin that may say a Status or nothing; None for success."""
    if answer is None:
        return None
    if answer is SKIP or answer is NOT_CONCERNED:  # what most plugins say of most Pods
        return SKIP
    if not isinstance(answer, Status):
        return wrong_type(answer, "a Status or None")
    if not isinstance(answer.code, Code):
        return wrong_type(answer.code, "the code of a Status")
    if not isinstance(answer.reasons, tuple) or not all(isinstance(each, str) for each in answer.reasons):
        return wrong_type(answer.reasons, "a tuple of texts as the reasons of a Status")
    return None if answer.code is Code.SUCCESS else answer


def failure_of(answer: object, expected: str) -> Status:
    """The failure that an unexpected answer stands for: a Status of no success, or else the Error of a wrong type."""
    failure = status_of(answer) if isinstance(answer, Status) else None
    return failure or wrong_type(answer, expected)


def as_error(context: str, status: Status) -> Status:
    """An Error with the text of this status after the context, whichever code the status has.

    Where the code is neither Error nor a rejection, the text is that this status is unexpected.
    """
    is_known = status.code is Code.ERROR or status.is_rejected
    message = status.message if is_known else f"unexpected status {status.code.value}"
    return Status(Code.ERROR, (f"{context}: {message}",), error=status.error)


def rejection_or_error(point: str, plugin: str, status: Status) -> Status:
    """A rejection in the name of the plugin, at an extension point that allows one; any other status as an Error."""
    if status.is_rejected:
        return status.with_plugin(plugin)
    return as_error(f'running {point} plugin "{plugin}"', status)
