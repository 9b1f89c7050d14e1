"""JSON Patch as the API server applies it.

What differs from RFC 6902 (evanphx/json-patch as kube-apiserver uses it, tried on a real one): a `test` against null
passes when the path is absent.  A patch applies as a whole or not at all.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any


class Refused(Exception):
    """An operation failed: the API server answers 422 without details."""


def apply(obj: Any, patch: Iterable[dict[str, Any]]) -> Any:
    """The patched copy."""
    document = deepcopy(obj)
    for operation in patch:
        _OPERATIONS[operation["op"]](document, _steps(operation["path"]), operation)
    return document


def _steps(path: str) -> list[str]:
    if not path.startswith("/"):
        raise Refused(f"not a path below the root: {path}")
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _parent(document: Any, steps: list[str]) -> Any:
    for step in steps[:-1]:
        document = _member(document, step)
    return document


def _member(part: Any, step: str) -> Any:
    if isinstance(part, dict) and step in part:
        return part[step]
    if isinstance(part, list) and step.isdigit() and int(step) < len(part):
        return part[int(step)]
    raise Refused(f"nothing at {step}")


def _test(document: Any, steps: list[str], operation: dict[str, Any]) -> None:
    parent = _parent(document, steps)
    if operation["value"] is None and isinstance(parent, dict) and parent.get(steps[-1]) is None:
        return
    if _member(parent, steps[-1]) != operation["value"]:
        raise Refused(f"test failed at {operation['path']}")


def _add(document: Any, steps: list[str], operation: dict[str, Any]) -> None:
    parent, value = _parent(document, steps), deepcopy(operation["value"])
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    elif isinstance(parent, list) and (steps[-1] == "-" or (steps[-1].isdigit() and int(steps[-1]) <= len(parent))):
        parent.insert(len(parent) if steps[-1] == "-" else int(steps[-1]), value)
    else:
        raise Refused(f"cannot add at {operation['path']}")


def _remove(document: Any, steps: list[str], operation: dict[str, Any]) -> None:
    parent = _parent(document, steps)
    _member(parent, steps[-1])
    del parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]]


_OPERATIONS = {"test": _test, "add": _add, "remove": _remove}
