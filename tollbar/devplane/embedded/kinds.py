"""The kinds that are served: the built-in ones, and those that CustomResourceDefinitions add (see `definitions`)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tollbar.devplane.embedded.builtin import BUILTIN
from tollbar.devplane.embedded.shapes import Shape, described
from tollbar.devplane.embedded.strategies import Strategy
from tollbar.model.objects import Object
from tollbar.model.resources import Resource


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; `path` is a JSONPath as CRDs have it (`.spec.size`), or a function that computes the cell."""

    name: str
    type: str = "string"
    path: str | Callable[[Object], Any] = ""
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One served version of one kind.

    `stored` is the resource as which its objects are stored: the versions of a kind share it, and core Events are
    stored as events.k8s.io.  `selectable` maps field selector labels to dotted paths, beside metadata.name and
    .namespace.  `schema` is the openAPIV3Schema of a custom resource, None for built-in kinds.
    """

    resource: Resource
    strategy: Strategy
    singular: str
    list_kind: str
    stored: Resource
    shape: Shape
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    schema: Object | None = None

    @property
    def custom(self) -> bool:
        return self.schema is not None


class Kinds:
    """All served kinds, by group, version and plural.  `generation` is raised by every change, to invalidate caches."""

    def __init__(self) -> None:
        self.generation = 0
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for res, strategy, more in BUILTIN:
            named = {"singular": res.kind.lower(), "list_kind": f"{res.kind}List", "stored": res, **more}
            self.add(Kind(res, strategy, shape=described(res.group, res.version, res.kind), **named))

    def add(self, kind: Kind) -> None:
        """Serve a kind, in place of what was served there before."""
        res = kind.resource
        self._kinds[res.group, res.version, res.plural] = kind
        self.generation += 1

    def remove(self, res: Resource) -> None:
        """Serve it no longer; its objects stay in storage."""
        if self._kinds.pop((res.group, res.version, res.plural), None) is not None:
            self.generation += 1

    def at(self, res: Resource) -> Kind:
        """The kind that is served there.  Raises KeyError."""
        return self._kinds[res.group, res.version, res.plural]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        """By an object's apiVersion and kind."""
        said = (api_version, kind)
        return next((each for each in self if (each.resource.api_version, each.resource.kind) == said), None)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))
