"""A configuration file as plain values, with the line of every field."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml


class ConfigError(Exception):
    """The configuration cannot be used.

    `errors` holds (place, sentence) pairs: the place is a line of the file, or empty if that is not known; a sentence
    about a field begins with its path.
    """

    def __init__(self, errors: Iterable[tuple[str, str]]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(f"{place}: {sentence}" if place else sentence for place, sentence in self.errors))


@dataclass(slots=True)
class Document:
    """`lines` has the lines of fields by their paths, `duplicates` the paths of fields that are there twice."""

    value: Any
    lines: dict[str, int] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)

    def place(self, path: str) -> str:
        """Where a field is, or else the nearest one around it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return f"line {self.lines[path]}" if path else ""


def read(text: str) -> Document:
    """The only document of a YAML or JSON text.  Raises ConfigError."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_node() if loader.check_node() else None
        document = Document(None)
        if node is not None:
            document.value = _value(loader, node, "", document)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark else ""
        raise ConfigError([(place, f"not YAML: {getattr(error, 'problem', None) or error}")]) from None
    finally:
        loader.dispose()
    return document


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: str, document: Document) -> Any:
    match node:
        case yaml.MappingNode():
            loader.flatten_mapping(node)
            found = {}
            for key_node, value_node in node.value:
                key = str(loader.construct_object(key_node))
                below = f"{path}.{key}" if path else key
                if key in found:
                    document.duplicates.append(below)
                document.lines[below] = key_node.start_mark.line + 1
                found[key] = _value(loader, value_node, below, document)
            return found
        case yaml.SequenceNode():
            items = []
            for index, item in enumerate(node.value):
                document.lines[f"{path}[{index}]"] = item.start_mark.line + 1
                items.append(_value(loader, item, f"{path}[{index}]", document))
            return items
        case _:
            value = loader.construct_object(node)
            return value if value is None or isinstance(value, bool | int | float) else str(value)
