"""CustomResourceDefinitions made into served kinds, and the strategy of their objects.

`Definitions` is run by the controllers: it serves what definitions say and says that they are established.  A version
that is not the storage version is the same object under another apiVersion: conversion webhooks are not called.

Hazard: a definition that goes takes its objects with it at once, whatever finalizers they have.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tollbar.devplane.embedded import rules, schemas
from tollbar.devplane.embedded.errors import Cause
from tollbar.devplane.embedded.kinds import Column, Kind, Kinds
from tollbar.devplane.embedded.storage import Storage
from tollbar.devplane.embedded.strategies import changed, keep, keep_metadata
from tollbar.devplane.embedded.validation import metadata as meta_rules
from tollbar.model import conditions, names
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.runtime.clock import Clock
from tollbar.runtime.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class Custom:
    """The strategy of a custom resource (see strategies.Strategy)."""

    schema: Object
    has_status: bool
    has_rules: bool
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = False

    def prune(self, obj: Object) -> list[str]:
        return schemas.prune(self.schema, obj)

    def default(self, obj: Object) -> None:
        schemas.fill(self.schema, obj)

    def prepare_for_create(self, obj: Object) -> None:
        obj["metadata"]["generation"] = 1
        if self.has_status:
            obj.pop("status", None)

    def validate(self, obj: Object) -> list[Cause]:
        errors = meta_rules.validate(obj, names.dns_subdomain)
        return list(map(Cause.of, errors)) + self._conforms(obj)

    def prepare_for_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            keep(new, old, *(set(new) | set(old)) - {"metadata", "status"})
            keep_metadata(new, old)
            return
        if self.has_status:
            keep(new, old, "status")
        grown = changed(new, old) or (not self.has_status and new.get("status") != old.get("status"))
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + grown

    def validate_update(self, new: Object, old: Object, _subresource: str) -> list[Cause]:
        errors = meta_rules.validate_update(new, old) + meta_rules.validate(new, names.dns_subdomain)
        return list(map(Cause.of, errors)) + self._conforms(new, old)

    def grace(self, _obj: Object, _asked: int | None) -> int:
        return 0

    def _conforms(self, new: Object, old: Any = rules.ABSENT) -> list[Cause]:
        causes = schemas.validate(self.schema, new)
        if not self.has_rules:
            return causes
        return causes + (rules.unchecked(causes) or rules.validate(self.schema, new, old))


def kinds_of(definition: Object) -> Iterator[Kind]:
    """What a definition serves: a kind for each served version."""
    body = spec(definition)
    stored = stored_as(definition)
    for version in body["versions"]:
        if not version.get("served"):
            continue
        schema, subresources = (
            version["schema"]["openAPIV3Schema"],
            frozenset(version.get("subresources") or ()) & {"status"},
        )
        paths = [each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()]
        yield Kind(
            resource=_resource(body, version),
            strategy=Custom(schemas.own(schema), "status" in subresources, schemas.has_rules(schema)),
            singular=body["names"]["singular"],
            list_kind=body["names"]["listKind"],
            stored=stored,
            short_names=tuple(body["names"].get("shortNames") or ()),
            categories=tuple(body["names"].get("categories") or ()),
            subresources=subresources,
            selectable={path: path for path in paths},
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())) or (_AGE,),
            schema=schema,
        )


def stored_as(definition: Object) -> Resource:
    """The resource of the storage version."""
    body = spec(definition)
    return next(_resource(body, version) for version in body["versions"] if version.get("storage"))


def _resource(body: Object, version: Object) -> Resource:
    kind, namespaced = body["names"]["kind"], body["scope"] == "Namespaced"
    return Resource(body["group"], version["name"], body["names"]["plural"], kind, namespaced)


def _column(column: Object) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        path=column["jsonPath"],
        priority=column.get("priority", 0),
        description=column.get("description", ""),
        format=column.get("format", ""),
    )


class Definitions:
    """Serves the kinds of the definitions that there are."""

    def __init__(self, storage: Storage, kinds: Kinds, clock: Clock) -> None:
        self._storage = storage
        self._kinds = kinds
        self._clock = clock
        self._served: dict[Key, list[Kind]] = {}

    def establish(self, definition: Object) -> Resource:
        """Serve a new or changed definition, and say so in its status; under what its objects are stored."""
        key = key_of(definition)
        wanted = list(kinds_of(definition))
        for old in self._served.get(key, ()):
            self._kinds.remove(old.resource)
        for kind in wanted:
            self._storage.open(kind.stored, list(kind.selectable))
            self._kinds.add(kind)
        self._served[key] = wanted
        self._accept(key)
        return stored_as(definition)

    def abolish(self, key: Key) -> None:
        """A definition is gone: so are its kinds and their objects."""
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
        for type_, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ):
            found = conditions.with_condition(
                found, type_=type_, status="True", reason=reason, message=message, generation=1, now=now
            )
        status = {**(definition.get("status") or {}), "acceptedNames": names_, "conditions": found}
        if status != definition.get("status"):
            self._storage.write(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "status": status}, entry)
