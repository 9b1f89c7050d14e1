"""CustomResourceDefinitions: the kinds that they define, and the strategy of their objects.

`Definitions` serves the kinds and sets the definitions' conditions.  A version that is not the storage version differs
only in apiVersion: there are no conversion webhooks.  When a definition is deleted, its objects go at once, whatever
finalizers they have.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tollbar.devplane.embedded import rules, schemas
from tollbar.devplane.embedded.kinds import Column, Kind, Kinds
from tollbar.devplane.embedded.shapes import Shape, whole
from tollbar.devplane.embedded.storage import Delta, Storage
from tollbar.devplane.embedded.strategies import Strategy
from tollbar.model import conditions
from tollbar.model.fields import FieldError
from tollbar.model.objects import Key, Object, spec
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tollbar.runtime.clock import Clock

_CONDITIONS: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)


def _strategy(schema: Object, *, has_status: bool) -> Strategy:
    """The strategy of custom resources with this schema."""
    own, ruled = schemas.own(schema), schemas.has_rules(schema)

    def conforms(new: Object, old: Any = rules.ABSENT) -> list[FieldError]:
        errors = schemas.validate(own, new)
        return errors + (rules.unchecked(errors) or rules.validate(own, new, old)) if ruled else errors

    return Strategy(
        fill=partial(schemas.fill, own),
        check_new=conforms,
        check_update=conforms,
        check_status=conforms,
        has_status=has_status,
        counts=True,
        prune=partial(schemas.prune, own),
        allow_unconditional_update=False,
    )


def kinds_of(definition: Object) -> Iterator[Kind]:
    """The kinds of a definition, one for each served version."""
    body = spec(definition)
    stored = next(_resource(body, version) for version in body["versions"] if version.get("storage"))
    for version in body["versions"]:
        if not version.get("served"):
            continue
        schema, has_status = version["schema"]["openAPIV3Schema"], "status" in (version.get("subresources") or ())
        paths = [each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()]
        yield Kind(
            resource=_resource(body, version),
            strategy=_strategy(schema, has_status=has_status),
            singular=body["names"]["singular"],
            list_kind=body["names"]["listKind"],
            stored=stored,
            shape=Shape(whole(schema)),
            short_names=tuple(body["names"].get("shortNames") or ()),
            categories=tuple(body["names"].get("categories") or ()),
            subresources=("status",) if has_status else (),
            selectable={path: path for path in paths},
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
            schema=schema,
        )


def _resource(body: Object, version: Object) -> Resource:
    kind, namespaced = body["names"]["kind"], body["scope"] == "Namespaced"
    return Resource(body["group"], version["name"], body["names"]["plural"], kind, namespaced)


def _column(column: Object) -> Column:
    return Column(path=column["jsonPath"], **{name: value for name, value in column.items() if name != "jsonPath"})


class Definitions:
    """Serves the kinds of all definitions."""

    def __init__(self, storage: Storage, kinds: Kinds, clock: Clock) -> None:
        self._storage = storage
        self._kinds = kinds
        self._clock = clock
        self._served: dict[Key, list[Kind]] = {}

    def observe(self, delta: Delta) -> None:
        """A change of a definition."""
        if delta.after is None:
            self._remove(delta.key)
        elif spec(delta.after) != spec(delta.before or {}):
            self._serve(delta.key, delta.after)

    def _serve(self, key: Key, definition: Object) -> None:
        """Serve a new or changed definition and set its conditions."""
        wanted = list(kinds_of(definition))
        for old in self._served.get(key, ()):
            self._kinds.remove(old.resource)
        for kind in wanted:
            self._storage.open(kind.stored, list(kind.selectable))
            self._kinds.add(kind)
        self._served[key] = wanted
        self._accept(key)

    def _remove(self, key: Key) -> None:
        """Remove the kinds of a deleted definition with their objects."""
        for kind in self._served.pop(key, ()):
            self._kinds.remove(kind.resource)
            self._storage.drop(kind.stored)

    def _accept(self, key: Key) -> None:
        entry = self._storage.get(CUSTOM_RESOURCE_DEFINITIONS, key)
        if entry is None:
            return
        definition = entry.decoded()
        names_, now = spec(definition)["names"], self._clock.now()
        found: list[Object] = (definition.get("status") or {}).get("conditions") or []
        for type_, reason, message in _CONDITIONS:
            condition = {"type_": type_, "reason": reason, "message": message}
            found = conditions.with_condition(found, **condition, status="True", generation=1, now=now)
        status = {**(definition.get("status") or {}), "acceptedNames": names_, "conditions": found}
        if status != definition.get("status"):
            self._storage.write(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "status": status}, entry)
