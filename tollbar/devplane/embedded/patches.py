"""JSON Patch, JSON merge patch and strategic merge patch, as the API server applies them.

Pure: every function returns a new object, or raises Refused when the patch is wrong or does not fit.
"""

import copy
from typing import Any, Final

import orjson

from tollbar.devplane.embedded.errors import Refused, bad_request, stale
from tollbar.devplane.embedded.shapes import ANY, Shape
from tollbar.model.objects import Object

MAX_OPERATIONS: Final = 10_000
_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_ABSENT: Final = object()


def json_patch(obj: Object, operations: Any) -> Object:
    """RFC 6902, with what the API server's library adds: `replace` adds, `test` against null fits what is absent."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("error decoding patch: json: cannot unmarshal the body into a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise Refused(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {MAX_OPERATIONS}, got {len(operations)}",
            details={},
        )
    root: dict[str, Object] = {"": orjson.loads(orjson.dumps(obj))}
    try:
        for each in operations:
            _operate(root, each)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise stale() from error
    return root[""]


def _operate(root: Any, operation: Object) -> None:
    path = _steps(operation["path"])
    match operation["op"]:
        case "add" | "replace" as op:
            _put(root, path, operation["value"], insert=op == "add")
        case "remove":
            _take(root, path)
        case "move":
            _put(root, path, _take(root, _steps(operation["from"])), insert=True)
        case "copy":
            _put(root, path, copy.deepcopy(_found(root, _steps(operation["from"]))), insert=True)
        case "test":
            if _found(root, path, absent=None) != operation.get("value"):
                raise ValueError(path)
        case unknown:
            raise ValueError(unknown)


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _parent(root: Any, path: list[str]) -> Any:
    node = root
    for step in path[:-1]:
        node = node[_index(node, step)] if isinstance(node, list) else node[step]
    if not isinstance(node, dict | list):
        raise TypeError(path)
    return node


def _index(node: list[Any], step: str) -> int:
    index = int(step)
    if not 0 <= index < len(node):
        raise IndexError(step)
    return index


def _found(root: Any, path: list[str], absent: Any = _ABSENT) -> Any:
    parent = _parent(root, path)
    if isinstance(parent, list):
        return parent[_index(parent, path[-1])]
    return parent[path[-1]] if absent is _ABSENT else parent.get(path[-1], absent)


def _put(root: Any, path: list[str], value: Any, *, insert: bool) -> None:
    parent, last = _parent(root, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif not insert:
        parent[_index(parent, last)] = value
    elif last == "-":
        parent.append(value)
    elif 0 <= int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise IndexError(last)


def _take(root: Any, path: list[str]) -> Any:
    parent = _parent(root, path)
    return parent.pop(_index(parent, path[-1])) if isinstance(parent, list) else parent.pop(path[-1])


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(target: Object, patch: Object, shape: Shape) -> Object:
    """A merge patch in which lists with a merge key are merged, and `$` directives mean more."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    kept = patch.get(_RETAIN)
    merged = {key: value for key, value in target.items() if kept is None or key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            merged[name] = [each for each in merged.get(name) or () if each not in value]
        elif value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = _merged(merged.get(key), value, shape.child(key) or ANY)
    for key, order in patch.items():
        if key.startswith(_ORDER) and isinstance(merged.get(name := key.removeprefix(_ORDER)), list):
            merged[name] = _ordered(merged[name], order, (shape.child(name) or ANY).merge_key)
    return merged


def _merged(target: Any, patch: Any, shape: Shape) -> Any:
    if isinstance(patch, dict):
        return strategic_merge(target if isinstance(target, dict) else {}, patch, shape)
    if not isinstance(patch, list) or shape.merge_key is None:
        return patch
    present = target if isinstance(target, list) else []
    if not shape.merge_key:
        return [*present, *(each for each in patch if each not in present)]
    return _merged_list(present, patch, shape.merge_key, shape.element or ANY)


def _merged_list(target: list[Any], patch: list[Any], key: str, element: Shape) -> list[Any]:
    if any(each == {_DIRECTIVE: "replace"} for each in patch):
        return [each for each in patch if _DIRECTIVE not in each]
    merged, new = list(target), []
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        index = next((at for at, old in enumerate(merged) if old.get(key) == each[key]), None)
        if each.get(_DIRECTIVE) == "delete":
            merged = [old for old in merged if old.get(key) != each[key]]
        elif index is None:
            new.append(strategic_merge({}, each, element))
        else:
            merged[index] = strategic_merge(merged[index], each, element)
    # What is new comes first, as the server's own merge leaves it.
    return [*new, *merged]


def _ordered(values: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Members that the order names stand in it; the others stay before those that they came before."""
    wanted = [each.get(key) if isinstance(each, dict) and key else each for each in order]
    named = [each for each in values if (each.get(key) if isinstance(each, dict) and key else each) in wanted]
    named.sort(key=lambda each: wanted.index(each.get(key) if isinstance(each, dict) and key else each))
    following = iter(named)
    members = {id(each) for each in named}
    return [next(following) if id(each) in members else each for each in values]
