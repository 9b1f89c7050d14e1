"""The read set of an expression: the parts of its inputs that its value can depend on.

Selections of fields are followed through lists, the map of classes, variables of macros and literal keys; any other
use of a value reads all of it.  The read set is sound: inputs with equal projections give equal answers, provided that
lists and maps are where the API has them.
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
    """A node whose evaluation needs a value of the inputs: its paths, and whether all of it is needed.

    If not, only its presence and, for a list, its length are needed.
    """

    paths: frozenset[str]
    whole: bool


_ANY: Final = None
"""The step from a list to an element of it, or from the map of classes to a class."""
_NOWHERE: Final[Paths] = frozenset()


def reads_of(tree: Expr, types: Types, env: Env) -> tuple[frozenset[str], dict[int, Site]]:
    """The read set as dotted paths, without those below another one, and the sites by id() of their nodes."""
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
    """Whether an expression with this read set can depend on a value at one of the unknown paths."""
    return any(covers(path, read) or covers(read, path) for path in unknown for read in reads)


def touched(site: Site, unknown: frozenset[str]) -> bool:
    """Whether the site needs something that is not known."""
    return any(covers(path, seen) or (site.whole and covers(seen, path)) for path in unknown for seen in site.paths)


def project(inputs: Mapping[str, Any], reads: Iterable[str], env: Env) -> dict[str, Any]:
    """The inputs without everything that is not at or below the paths; presence, and lengths of lists, stay."""
    wanted = _tree(frozenset(reads))
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


@lru_cache(maxsize=128)
def _tree(reads: frozenset[str]) -> dict[str, Any]:
    """The steps of the paths, each with those after it.  Never mutated."""
    tree: dict[str, Any] = {}
    for path in sorted(reads, reverse=True):
        branch = tree
        *steps, last = path.split(".")
        for step in steps:
            branch = branch.setdefault(step, {})
        branch[last] = {}
    return tree


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
        """Reads all of the value of the node."""
        self.read(node, self.paths(node, scope))

    def read(self, node: Expr, paths: Iterable[Path], *, whole: bool = True) -> None:
        """These paths have to be known before the node is evaluated."""
        paths = frozenset(paths)
        if whole:
            self.found |= paths
        if paths:
            seen = self.sites.get(id(node), Site(frozenset(), whole=False))
            self.sites[id(node)] = Site(seen.paths | frozenset(map(_dotted, paths)), seen.whole or whole)

    def paths(self, node: Expr, scope: Mapping[str, Paths]) -> Paths:
        """The paths that the value of the node comes from, if these are known; whatever else it needs is read."""
        match node:
            case Name(name=name, root=root):
                return frozenset({(name,)}) if root else scope[name]
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
        # Only the map of classes is known to have values with fields.
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
        # If nothing within the elements is read, their number is.
        unread = {path for path in paths if not any(read[: len(path) + 1] == (*path, _ANY) for read in self.found)}
        self.found |= outer | unread
        return paths if node.macro == "filter" else _NOWHERE

    def is_list(self, node: Expr) -> bool:
        return schema.kind(self.types[id(node)]) == "list"
