"""JSON Patch, JSON merge patch and strategic merge patch, as the API server applies them.

Every function returns a new object, or raises Refused when the patch is malformed or does not apply.
"""

import copy
from typing import Any, Final

import orjson

from tollbar.devplane.embedded.errors import Refused, bad_request, not_implemented, stale
from tollbar.devplane.embedded.shapes import ANY, Shape
from tollbar.model.objects import Object
from tollbar.runtime.client import PatchType

MAX_OPERATIONS: Final = 10_000
_DIRECTIVE: Final = "$patch"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def apply(media: PatchType, old: Object, body: Any, shape: Shape) -> Object:
    """The object after a patch of any kind but server-side apply."""
    if media is PatchType.JSON:
        new = json_patch(old, body)
    elif not isinstance(body, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal the body into an object")
    elif media is PatchType.MERGE:
        new = merge_patch(old, body)
    else:
        try:
            new = strategic_merge(old, body, shape)
        except (TypeError, AttributeError) as error:
            raise bad_request(f"invalid strategic merge patch format: {error}") from error
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise stale()
    return new


def json_patch(obj: Object, operations: Any) -> Object:
    """RFC 6902, as the API server's library has it: `replace` may add, `test` for null holds of an absent member."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("error decoding patch: json: cannot unmarshal the body into a list of operations")
    if len(operations) > MAX_OPERATIONS:
        said = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Refused(413, "RequestEntityTooLarge", f"Request entity too large: {said}", details={})
    root: dict[str, Object] = {"": orjson.loads(orjson.dumps(obj))}
    try:
        for each in operations:
            _operate(root, each)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise stale() from error
    return root[""]


def _operate(root: Any, operation: Object) -> None:
    """`root` is {"": object}, because a JSON Pointer starts with an empty step."""
    parent, last = _place(root, operation["path"])
    match operation["op"]:
        case "add":
            _add(parent, last, operation["value"])
        case "replace":
            parent[_key(parent, last)] = operation["value"]
        case "remove":
            del parent[_key(parent, last)]
        case "move":
            source, name = _place(root, operation["from"])
            value = source.pop(_key(source, name))
            _add(*_place(root, operation["path"]), value)
        case "copy":
            source, name = _place(root, operation["from"])
            _add(parent, last, copy.deepcopy(source[_key(source, name)]))
        case "test":
            found = parent.get(last) if isinstance(parent, dict) else parent[_key(parent, last)]
            if found != operation.get("value"):
                raise ValueError(last)
        case unknown:
            raise ValueError(unknown)


def _place(root: Any, pointer: str) -> tuple[Any, str]:
    """The parent of the value that a JSON Pointer points to, and the last step."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    for step in way:
        root = root[_key(root, step)]
    return root, last


def _key(node: Any, step: str, more: int = 0) -> Any:
    """A member's name, or an index, at most `more` past the end.  Raises TypeError, ValueError, IndexError."""
    if isinstance(node, dict):
        return step
    index = len(node) if more and step == "-" else int(step)
    if not isinstance(node, list) or not 0 <= index < len(node) + more:
        raise IndexError(step)
    return index


def _add(parent: Any, last: str, value: Any) -> None:
    key = _key(parent, last, more=1)
    if isinstance(parent, list):
        parent.insert(key, value)
    else:
        parent[key] = value


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
    """A merge patch that also merges lists with a merge key.  Of the directives, those that delete are supported.

    `$setElementOrder`, which kubectl sends, is ignored.
    """
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    merged = dict(target)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            merged[name] = [each for each in merged.get(name) or () if each not in value]
        elif key.startswith("$") and not key.startswith("$setElementOrder/"):
            raise not_implemented(f"{key} in strategic merge patches")
        elif value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = _merged(merged.get(key), value, shape.child(key) or ANY)
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
    merged, new = {each.get(key): each for each in target}, []
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        if each.get(_DIRECTIVE) == "delete":
            merged.pop(each[key], None)
        elif each[key] in merged:
            merged[each[key]] = strategic_merge(merged[each[key]], each, element)
        else:
            new.append(strategic_merge({}, each, element))
    # New members come first, as in the API server's own merge.
    return [*new, *merged.values()]
