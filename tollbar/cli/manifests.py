"""Objects in manifest files, with the lines that they are on.

YAML with any number of documents, JSON (which is YAML), and Lists of objects.  The loader is PyYAML's safe one: no tag
runs code.  An unquoted date is text, as for kubectl.  A few lines of aliases may stand for more values than fit into
memory, so that values are counted before they are constructed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tollbar.cli.unusable import Unusable
from tollbar.model.objects import Object

STDIN: Final = "-"
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_VALUES: Final = 1_000_000
"""The most values of one document, with aliases counted as often as they are used."""
_PARTS: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


class Unreadable(Unusable):
    """What a command is about cannot be read; the message names it, a file with its line."""


@dataclass(frozen=True, slots=True)
class Located:
    """An object and where it is written."""

    file: str
    obj: Any
    node: yaml.Node = field(repr=False)

    def line(self, path: str) -> int:
        """The line of the field at this path, or of its innermost parent that exists; from 1."""
        node = self.node
        mark = node.start_mark
        for part in _PARTS.findall(path):
            found = _member(node, part.strip("[]"))
            if found is None:
                break
            mark, node = found
        return int(mark.line) + 1


def read(name: str, stdin: Any) -> Iterator[Located]:
    """The objects of a file, or of standard input for `-`.  Raises Unreadable."""
    shown = "stdin" if name == STDIN else name
    try:
        text = stdin.read(_MAX_BYTES + 1) if name == STDIN else _bounded(Path(name))
    except OSError as error:
        raise Unreadable(f"{shown}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{shown}: not text in UTF-8") from error
    if len(text) > _MAX_BYTES:
        raise Unreadable(f"{shown}: larger than 16 MiB")
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if _size(node, {}) > _MAX_VALUES:
                raise Unreadable(f"{shown}:{node.start_mark.line + 1}: more than {_MAX_VALUES:,} values")
            yield from _objects(shown, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{shown}:{mark.line + 1}:{mark.column + 1}" if mark else shown
        raise Unreadable(f"{place}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Unreadable(f"{shown}: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise Unreadable(f"{shown}: nested too deeply") from error


def _bounded(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_MAX_BYTES + 1)


def _objects(file: str, node: yaml.Node) -> Iterator[Located]:
    value = _construct(node)
    if value is None:
        return  # an empty document
    items = _member(node, "items")
    if isinstance(value, dict) and value.get("kind") == "List" and items and isinstance(items[1], yaml.SequenceNode):
        for item in items[1].value:
            yield from _objects(file, item)
    else:
        yield Located(file, value, node)


class _Loader(yaml.SafeLoader):
    """Raises ConstructorError, with the place, for a scalar that does not fit its tag: PyYAML raises anything."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"not a valid {kind}", node.start_mark) from error


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """How many values the node stands for.  Raises ComposerError when it contains itself."""
    if node not in known:
        known[node] = -1
        members: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            members = [member for pair in node.value for member in pair]
        elif isinstance(node, yaml.SequenceNode):
            members = node.value
        known[node] = 1 + sum(_size(member, known) for member in members)
    if known[node] < 0:
        raise yaml.composer.ComposerError(None, None, "an alias to what contains it", node.start_mark)
    return known[node]


def _construct(node: yaml.Node) -> Object | Any:
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _member(node: yaml.Node, name: str) -> tuple[Any, yaml.Node] | None:
    """The mark at which a member starts (its key's), and its node."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        return node.value[int(name)].start_mark, node.value[int(name)]
    return None
