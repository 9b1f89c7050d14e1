"""Objects in manifest files, with the lines that they are on.

Called by `tollbar lint`.  YAML with any number of documents, JSON (which is YAML), and Lists of objects.  Nothing is
imported from the files and no tag is run: the loader is PyYAML's safe one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tollbar.model.objects import Object

STDIN: Final = "-"
_MAX_BYTES: Final = 16 * 1024 * 1024
_PARTS: Final = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


class Unreadable(Exception):
    """A file holds no objects; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Located:
    """An object and where it is written."""

    file: str
    obj: Any
    node: yaml.Node = field(repr=False)

    def line(self, path: str) -> int:
        """The line of the field at this path, or of the innermost thing around it that is there; from 1."""
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
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
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


def _construct(node: yaml.Node) -> Object | Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _member(node: yaml.Node, name: str) -> tuple[Any, yaml.Node] | None:
    """Where a member starts (at its key), and its node."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        return node.value[int(name)].start_mark, node.value[int(name)]
    return None
