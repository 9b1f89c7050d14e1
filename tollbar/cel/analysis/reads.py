"""Which parts of its inputs an expression can depend on.

A conservative scan of the tree: chains of fields are followed through lists, the map of classes, macros' variables
and literal keys; whatever is not understood counts as read whole.  Sound: inputs with equal projections give equal
answers, provided that lists and maps are where the API has them.  Called by the engine; `project` by whoever filters
events by what a rule reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from tollbar.cel.core import schema
from tollbar.cel.core.interface import Env
from tollbar.cel.core.schema import Types
from tollbar.cel.syntax.tree import Bind, Comprehension, Expr, Index, Literal, Name, Select, children

Path: TypeAlias = tuple[str | None, ...]
Paths: TypeAlias = frozenset[Path]


class Site(NamedTuple):
    """A node that makes a value of the inputs matter: where the value is, and whether all of it does or only that,
    and how often, it is there."""

    paths: frozenset[str]
    whole: bool


_ANY: Final = None
"""The step from a list to an element of it, or from the map of classes to a class."""
_NOWHERE: Final[Paths] = frozenset()


def reads_of(tree: Expr, types: Types, env: Env) -> tuple[frozenset[str], dict[int, Site]]:
    """Dotted paths, shortest only (`claims.spec` covers everything below it), and the sites by id() of their nodes."""
    scan = _Scan(types, env)
    scan.use(tree, {name: frozenset({(name,)}) for name, _ in env.variables})
    dotted = frozenset(map(_dotted, scan.found))
    return frozenset(path for path in dotted if not any(parent in dotted for parent in _parents(path))), scan.sites


def _dotted(path: Path) -> str:
    return ".".join(step for step in path if step is not None)


def _parents(path: str) -> Iterator[str]:
    steps = path.split(".")
    return (".".join(steps[:length]) for length in range(1, len(steps)))


def covers(path: str, other: str) -> bool:
    """Whether `other` is the path or lies below it."""
    return other == path or other.startswith(f"{path}.")


@lru_cache(maxsize=1024)
def touches(unknown: frozenset[str], reads: frozenset[str]) -> bool:
    """Whether a value at one of the unknown paths can matter to an expression with these reads."""
    return any(covers(path, read) or covers(read, path) for path in unknown for read in reads)


def touched(site: Site, unknown: frozenset[str]) -> bool:
    """Whether what the site looks at is not known."""
    return any(covers(path, seen) or (site.whole and covers(seen, path)) for path in unknown for seen in site.paths)


def project(inputs: Mapping[str, Any], reads: Iterable[str], env: Env) -> dict[str, Any]:
    """The inputs with everything left out that the paths do not name; presence and lengths of lists stay."""
    wanted: dict[str, Any] = {}
    for path in sorted(reads, reverse=True):
        branch = wanted
        *steps, last = path.split(".")
        for step in steps:
            branch = branch.setdefault(step, {})
        branch[last] = {}
    result = {}
    for name, type_ in env.variables:
        if name not in wanted or name not in inputs:
            continue
        value, below = inputs[name], wanted[name]
        if below and type_.startswith("map<") and isinstance(value, dict):
            result[name] = {key: _projected(item, below) for key, item in value.items()}
        else:
            result[name] = _projected(value, below)
    return result


def _projected(value: Any, wanted: dict[str, Any]) -> Any:
    if wanted and isinstance(value, list):
        return [_projected(item, wanted) for item in value]
    if wanted and isinstance(value, dict):
        return {key: _projected(value[key], below) for key, below in wanted.items() if key in value}
    return value


class _Scan:
    def __init__(self, types: Types, env: Env) -> None:
        self.types = types
        self.roots = {name for name, type_ in env.variables if type_.startswith("map<")}
        self.found: set[Path] = set()
        self.sites: dict[int, Site] = {}

    def use(self, node: Expr, scope: Mapping[str, Paths]) -> None:
        """The value of the node matters as a whole."""
        self.read(node, self.paths(node, scope))

    def read(self, node: Expr, paths: Iterable[Path], *, whole: bool = True) -> None:
        """Before the node is evaluated, these have to be known."""
        paths = frozenset(paths)
        if whole:
            self.found |= paths
        if paths:
            seen = self.sites.get(id(node), Site(frozenset(), whole=False))
            self.sites[id(node)] = Site(seen.paths | frozenset(map(_dotted, paths)), seen.whole or whole)

    def paths(self, node: Expr, scope: Mapping[str, Paths]) -> Paths:
        """Where in the inputs the value of the node comes from, if that is known; all else it needs is used."""
        match node:
            case Name(name=name):
                return scope[name]
            case Select(operand=operand, field=field) if "." in field:
                self.read(node, self.paths(operand, scope))
            case Select(operand=operand, field=field, test=test):
                found = frozenset(self.below(path, field) for path in self.paths(operand, scope))
                if not test:
                    return found
                self.read(node, found)
            case Index(operand=operand, index=index):
                self.use(index, scope)
                return self.indexed(node, self.paths(operand, scope))
            case Comprehension():
                return self.comprehension(node, scope)
            case Bind(variable=variable, value=value, body=body):
                return self.paths(body, {**scope, variable: self.paths(value, scope)})
            case _:
                for part in children(node):
                    self.use(part, scope)
        return _NOWHERE

    def below(self, path: Path, key: str) -> Path:
        if len(path) == 1 and path[0] in self.roots:
            return (*path, _ANY)
        return (*path, key)

    def indexed(self, node: Index, paths: Paths) -> Paths:
        if self.is_list(node.operand):
            return frozenset((*path, _ANY) for path in paths)
        match node.index:
            case Literal(value=str(key)) if key and "." not in key:
                return frozenset(self.below(path, key) for path in paths)
        # Of a map only the map of classes is known to have values with fields of their own.
        found = frozenset((*path, _ANY) for path in paths if len(path) == 1 and path[0] in self.roots)
        self.read(node, {path for path in paths if (*path, _ANY) not in found})
        return found

    def comprehension(self, node: Comprehension, scope: Mapping[str, Paths]) -> Paths:
        paths = self.paths(node.range, scope)
        if self.is_list(node.range):
            self.read(node.range, paths, whole=False)
        else:
            self.read(node.range, paths)
            paths = _NOWHERE
        items = frozenset((*path, _ANY) for path in paths)
        inner = {**scope, node.variable: items}
        if node.second is not None:
            inner |= {node.variable: _NOWHERE, node.second: items}
        outer, self.found = self.found, set()
        for part in (node.predicate, node.value):
            if part is not None:
                self.use(part, inner)
        # Without a read inside the elements, the number of elements is what is read.
        unread = {path for path in paths if not any(read[: len(path) + 1] == (*path, _ANY) for read in self.found)}
        self.found |= outer | unread
        return paths if node.macro == "filter" else _NOWHERE

    def is_list(self, node: Expr) -> bool:
        return schema.kind(self.types[id(node)]) == "list"
