"""Field ownership: `managedFields` for every write, and server-side apply (KEP-555).

Pure: the time is a parameter, objects are not changed.  All versions of a kind have one structure here: there are no
conversion webhooks.
"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tollbar.devplane.embedded import fieldsets
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.fieldsets import Fields, Path
from tollbar.devplane.embedded.shapes import ANY, Shape
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object, metadata

_IDENTITY: Final = ("manager", "operation", "apiVersion", "subresource")
"""The members that identify an entry of managedFields."""
_META: Final = (
    *("name", "namespace", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("selfLink", "uid", "generation", "managedFields", "resourceVersion"),
)
_HEAD: Final = frozenset({("f:apiVersion",), ("f:kind",), *(("f:metadata", f"f:{each}") for each in _META)})


class Identity(NamedTuple):
    """What identifies an entry of managedFields; `operation` is Apply or Update."""

    manager: str
    operation: str
    version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One manager's fields, and when they last changed (RFC 3339)."""

    identity: Identity
    fields: Fields
    time: str


def entries_of(obj: Object) -> list[Entry]:
    return [
        Entry(
            Identity(*(each.get(member, "") for member in _IDENTITY)),
            fieldsets.paths(each.get("fieldsV1") or {}),
            each.get("time", ""),
        )
        for each in metadata(obj).get("managedFields") or ()
    ]


def encoded(entries: Iterable[Entry]) -> list[Object]:
    """`managedFields`: applied ones first, then by time."""
    owning = sorted((each.identity.operation, each.time, each.identity, each.fields) for each in entries if each.fields)
    return [
        {
            **{member: value for member, value in zip(_IDENTITY, identity, strict=True) if value},
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.tree(fields),
        }
        for _, time, identity, fields in owning
    ]


def update(old: Object, new: Object, shape: Shape, identity: Identity, time: str) -> list[Object]:
    """`managedFields` after a write that is not server-side apply: its manager alone owns what it changed."""
    before, after, entries = ownable(old, shape), ownable(new, shape), entries_of(old)
    changed = _changed(before, after)
    touched = changed | (before.keys() - after.keys())
    if not touched:
        return encoded(entries)
    own, others = _own(entries, identity, time)
    fields = (own.fields - touched) | changed
    entry = Entry(identity, fields, own.time if fields == own.fields else time)
    return encoded([*(replace(each, fields=each.fields - touched) for each in others), entry])


def _changed(before: Mapping[Path, Any], after: Mapping[Path, Any]) -> set[Path]:
    return {path for path, value in after.items() if path not in before or before[path] != value}


def _own(entries: Sequence[Entry], identity: Identity, time: str) -> tuple[Entry, list[Entry]]:
    """A manager's entry, or an empty one, and those of all others."""
    own = next((each for each in entries if each.identity == identity), Entry(identity, frozenset(), time))
    return own, [each for each in entries if each.identity != identity]


def apply(
    live: Object,
    config: Object,
    shape: Shape,
    identity: Identity,
    time: str,
    *,
    force: bool,
    resets: Sequence[str] = (),
) -> Object:
    """The object after server-side apply, with its managedFields.  `live` is {} when there is none yet.

    `resets` are the top-level members that this path does not write.  Raises Refused (409) on conflicts, unless forced.
    """
    wanted = frozenset(path for path in ownable(config, shape) if path[0].removeprefix("f:") not in resets)
    own, others = _own(entries_of(live), identity, time)
    merged = _merge(_body(live), _body(config), shape)
    changed = _changed(ownable(live, shape), ownable(merged, shape))
    clashes = [(each, path) for each in others for path in sorted(each.fields & changed & wanted)]
    if clashes and not force:
        raise _conflict(clashes)
    others = [replace(each, fields=each.fields - changed) for each in others]
    owned = wanted.union(*(each.fields for each in others))
    merged = _without(merged, own.fields - owned, owned, shape)
    entry = Entry(identity, wanted, own.time if own.fields == wanted else time)
    return {**merged, "metadata": {**merged["metadata"], "managedFields": encoded([*others, entry])}}


def ownable(obj: Object, shape: Shape) -> dict[Path, Any]:
    """The fields that a manager can own."""
    found = fieldsets.flatten(_body(obj), shape) if obj else {}
    return {path: value for path, value in found.items() if path[:2] not in _HEAD and path[:1] not in _HEAD}


def _body(obj: Object) -> Object:
    meta = {key: value for key, value in metadata(obj).items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def _merge(live: Any, config: Any, shape: Shape) -> Any:
    """The applied value wins; maps, and lists of type map or set, keep the members that it leaves out."""
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        merged = {
            key: _merge(live[key], value, shape.child(key) or ANY) if key in live else value
            for key, value in config.items()
        }
        return {**live, **merged}
    if not isinstance(live, list) or not isinstance(config, list) or not (shape.keyed or shape.unique):
        return copy.deepcopy(config)
    present, applied = dict(fieldsets.members(live, shape)), dict(fieldsets.members(config, shape))
    element = shape.element or ANY
    both = {key: _merge(value, applied[key], element) if key in applied else value for key, value in present.items()}
    return list({**both, **{key: value for key, value in applied.items() if key not in both}}.values())


def _without(obj: Object, gone: Fields, owned: Fields, shape: Shape) -> Object:
    """The object without the fields that nobody applies any longer, and without list members that nobody owns."""
    kept = {path[:length] for path in owned for length in range(1, len(path) + 1)}
    found: Object = _removed(obj, (), gone - kept, shape)
    return {"metadata": {}, **found}


def _removed(value: Any, path: Path, gone: frozenset[Path], shape: Shape) -> Any:
    under = frozenset(each for each in gone if each[: len(path)] == path)
    if not under:
        return value
    if isinstance(value, dict):
        children = {
            key: _removed(each, (*path, f"f:{key}"), under, shape.child(key) or ANY)
            for key, each in value.items()
            if (*path, f"f:{key}") not in under
        }
        return {key: each for key, each in children.items() if each != {} or value[key] == {}}
    if isinstance(value, list):
        return [
            _removed(each, (*path, element), under, shape.element or ANY)
            for element, each in fieldsets.members(value, shape)
            if (*path, element) not in under
        ]
    return value


def _conflict(clashes: Sequence[tuple[Entry, Path]]) -> Refused:
    managers: dict[str, list[str]] = defaultdict(list)
    for entry, path in clashes:
        managers[_named(entry)].append(fieldsets.shown(path))
    causes = [
        FieldError(field, f"conflict with {name}", "FieldManagerConflict")
        for name, fields in managers.items()
        for field in fields
    ]
    if len(causes) == 1:
        said = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lists = ("\n- ".join([f"conflicts with {name}:", *fields]) for name, fields in managers.items())
        said = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lists)
    return Refused(409, "Conflict", said, causes=causes)


def _named(entry: Entry) -> str:
    manager, operation, version, subresource = entry.identity
    text = f'"{manager}"'
    if subresource:
        text += f' with subresource "{subresource}"'
    if operation == "Update":
        text += f" using {version}"
    return text
