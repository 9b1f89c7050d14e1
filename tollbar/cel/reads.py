"""Which parts of its inputs an expression can depend on.

A conservative scan of the tree: chains of fields are followed through lists, the map of classes, macros' variables
and literal keys; whatever is not understood counts as read whole.  Sound: inputs with equal projections give equal
answers, provided that lists and maps are where the API has them.  Called by the engine; `project` by whoever filters
events by what a rule reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from tollbar.cel import schema
from tollbar.cel.check import Types
from tollbar.cel.interface import Env
from tollbar.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Conditional,
    Expr,
    Index,
    ListLiteral,
    Literal,
    Logic,
    MapLiteral,
    Name,
    Select,
)

Path: TypeAlias = tuple[str | None, ...]
Paths: TypeAlias = frozenset[Path]

_ANY: Final = None
"""The step from a list to an element of it, or from the map of classes to a class."""
_NOWHERE: Final[Paths] = frozenset()


def reads_of(tree: Expr, types: Types, env: Env) -> frozenset[str]:
    """Dotted paths, shortest only: `claims.spec` covers everything below it."""
    scan = _Scan(types, env)
    scan.use(tree, {name: frozenset({(name,)}) for name, _ in env.variables})
    dotted = {".".join(step for step in path if step is not None) for path in scan.found}
    return frozenset(path for path in dotted if not any(parent in dotted for parent in _parents(path)))


def _parents(path: str) -> Iterator[str]:
    steps = path.split(".")
    return (".".join(steps[:length]) for length in range(1, len(steps)))


def covers(path: str, other: str) -> bool:
    """Whether `other` is the path or lies below it."""
    return other == path or other.startswith(f"{path}.")


def touches(unknown: Iterable[str], reads: Iterable[str]) -> bool:
    """Whether a value at one of the unknown paths can matter to an expression with these reads."""
    reads = tuple(reads)
    return any(covers(path, read) or covers(read, path) for path in unknown for read in reads)


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

    def use(self, node: Expr, scope: Mapping[str, Paths]) -> None:
        """The value of the node matters as a whole."""
        found = self.paths(node, scope)
        self.found |= found

    def paths(self, node: Expr, scope: Mapping[str, Paths]) -> Paths:
        """Where in the inputs the value of the node comes from, if that is known; all else it needs is used."""
        match node:
            case Name(name=name):
                return scope[name]
            case Select(operand=operand, field=field, test=test):
                found = frozenset(self.below(path, field) for path in self.paths(operand, scope))
                if not test:
                    return found
                self.found |= found
            case Index(operand=operand, index=index):
                self.use(index, scope)
                return self.indexed(operand, index, self.paths(operand, scope))
            case Comprehension():
                return self.comprehension(node, scope)
            case Bind(variable=variable, value=value, body=body):
                self.use(value, scope)
                return self.paths(body, {**scope, variable: _NOWHERE})
            case _:
                for part in _parts(node):
                    self.use(part, scope)
        return _NOWHERE

    def below(self, path: Path, key: str) -> Path:
        if len(path) == 1 and path[0] in self.roots:
            return (*path, _ANY)
        return (*path, key)

    def indexed(self, operand: Expr, index: Expr, paths: Paths) -> Paths:
        if self.is_list(operand):
            return frozenset((*path, _ANY) for path in paths)
        match index:
            case Literal(value=str(key)) if key and "." not in key:
                return frozenset(self.below(path, key) for path in paths)
        # Of a map only the map of classes is known to have values with fields of their own.
        found = frozenset((*path, _ANY) for path in paths if len(path) == 1 and path[0] in self.roots)
        self.found |= {path for path in paths if (*path, _ANY) not in found}
        return found

    def comprehension(self, node: Comprehension, scope: Mapping[str, Paths]) -> Paths:
        paths = self.paths(node.range, scope)
        if not self.is_list(node.range):
            self.found |= paths
            paths = _NOWHERE
        items = frozenset((*path, _ANY) for path in paths)
        inner = {**scope, node.variable: items}
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


def _parts(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Call(arguments=arguments):
            return arguments
        case ListLiteral(elements=elements):
            return elements
        case MapLiteral(entries=entries):
            return tuple(part for entry in entries for part in entry)
        case Logic(terms=terms):
            return terms
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case _:
            return ()
