"""A ClusterDump: a copy of a cluster as a file, or as a directory with a file for each kind.

A file is one JSON object, a header and `items` as a List of the API has them, laid out with one item on each line: so
that two dumps can be compared with `diff`, lines can be found with `grep`, and an error has a line number.  The files
of a directory have the same header.  Of a kind in `unread` nothing is known; any other kind is complete.  A kind in
`unserved` is one of those of which some API servers have none, or a version that is not read.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EEXIST
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson

from tollbar.cli.manifests import Unreadable
from tollbar.cli.reduction import KINDS
from tollbar.devplane.embedded import decoding
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.shapes import Shape, whole
from tollbar.model import timestamps
from tollbar.model.fields import quoted
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import NODES, PODS
from tollbar.runtime import files
from tollbar.scheduler.cache import podinfo
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import Shapes

GROUP: Final = "dump.tollbar.dev"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "ClusterDump"
_SHAPES: Final = {kind.resource.kind: kind.shape for kind in Kinds() if kind.resource.kind in KINDS}
_ANY: Final = Shape(whole({}))
"""That of kinds whose fields are not described here, their metadata apart."""
_MODE: Final = 0o600
"""Names, labels and annotations of everything in the cluster are not for everybody on this machine."""


@dataclass(frozen=True, slots=True)
class ClusterDump:
    """`taken` is RFC 3339.  `unread` has the API server's words by the kind that may not be read.  `unserved` are the
    kinds that the API server serves in no version that is read, of which there are no items."""

    taken: str
    items: Sequence[Object]
    unread: dict[str, str]
    unserved: tuple[str, ...] = ()

    @property
    def header(self) -> Object:
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "taken": self.taken,
            "unread": self.unread,
            "unserved": self.unserved,
        }


def in_order(items: Iterable[Object]) -> list[Object]:
    """By kind, namespace and name."""
    place = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(items, key=lambda obj: (place[obj["kind"]], *key_of(obj)))


def write(dump: ClusterDump, target: Path) -> None:
    """Write it to a file, or a file for each kind into a directory, where it takes the place of another dump.

    Nothing is replaced before all of it is written, and in a directory no file that is not a dump's.  A device or a
    pipe is written to and stays.  Raises OSError.
    """
    if not target.is_dir():
        if target.exists() and not target.is_file():
            with target.open("wb") as opened:
                opened.writelines(encoded(dump))
        else:
            real = Path(os.path.realpath(target))  # `resolve` fails for a link to itself
            files.replace_all({real: encoded(dump)}, _MODE)
        return
    there = {file for kind in KINDS.values() if (file := target / f"{kind.resource.plural}.json").exists()}
    parts = {
        target / f"{KINDS[kind].resource.plural}.json": replace(dump, items=list(items))
        for kind, items in groupby(dump.items, key=lambda obj: str(obj["kind"]))
    }
    dumps = {file for file in there if _is_of_dump(file)}
    for file in sorted((there - dumps) & parts.keys()):
        raise FileExistsError(EEXIST, f"{file.name} is there, and is not of a dump", str(file))
    files.replace_all({file: encoded(part) for file, part in parts.items()}, _MODE)
    for file in dumps - parts.keys():
        file.unlink()


def encoded(dump: ClusterDump) -> Iterator[bytes]:
    """The lines of the file."""
    yield orjson.dumps(dump.header)[:-1] + b',"items":[\n'
    last = len(dump.items) - 1
    for number, item in enumerate(dump.items):
        yield orjson.dumps(item, option=orjson.OPT_SORT_KEYS) + (b"\n" if number == last else b",\n")
    yield b"]}\n"


def read(source: Path) -> ClusterDump:
    """The dump in a file or in a directory.  Raises Unreadable, with file and line."""
    try:
        found = sorted(source.glob("*.json")) if source.is_dir() else [source]
        parts = [decoded(str(each), each.read_bytes()) for each in found]
    except OSError as error:
        raise Unreadable(f"{error.filename}: {error.strerror}") from error
    if not parts:
        raise Unreadable(f"{source}: no file of a dump (*.json) is in this directory")
    unread = {kind: why for part in parts for kind, why in part.unread.items()}
    unserved = tuple(dict.fromkeys(kind for part in parts for kind in part.unserved))
    return ClusterDump(parts[0].taken, in_order(item for part in parts for item in part.items), unread, unserved)


def decoded(shown: str, text: bytes) -> ClusterDump:
    """The dump in this text; `shown` is the name of its file.  Raises Unreadable, with file and line."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"{shown}:{error.lineno}:{error.colno}: not a dump: {error.msg}") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        kind = found.get("kind") if isinstance(found, dict) else None
        raise Unreadable(
            f"{shown}:1: not a dump, which has the kind {KIND}" + (f", not {quoted(kind)}" if kind else "")
        )
    if found.get("apiVersion") != API_VERSION:
        version = quoted(found.get("apiVersion"))
        raise Unreadable(f"{shown}:1: a dump of the version {version}; this program reads {API_VERSION}")
    taken, items, unread = str(found.get("taken") or ""), found.get("items"), found.get("unread") or {}
    unserved = found.get("unserved") or []
    try:
        _ = timestamps.parse(taken) if taken else None
    except ValueError:
        raise Unreadable(f"{shown}:1: a dump is taken at a time of RFC 3339, not {quoted(taken)}") from None
    if not isinstance(items, list) or not isinstance(unread, dict) or not isinstance(unserved, list):
        raise Unreadable(f"{shown}:1: a dump has lists of items and unserved kinds, and what is unread by kind")
    shapes = Shapes()
    for number, item in enumerate(items):
        if problem := _problem(item, shapes):
            raise Unreadable(f"{shown}:{number + 2}: {problem}")
    why_unread = {str(kind): str(why) for kind, why in unread.items()}
    return ClusterDump(taken, items, why_unread, tuple(map(str, unserved)))


def is_dump(text: bytes | str) -> bool:
    """Whether a file is meant to be a dump, of whatever version."""
    start = text[:200]
    return GROUP in (start if isinstance(start, str) else start.decode(errors="replace"))


def _problem(item: Any, shapes: Shapes) -> str:
    kind = item.get("kind") if isinstance(item, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        return f"the kind {quoted(kind)} is not one of a dump"
    members = [item.get(name) for name in ("metadata", "spec", "status")]
    if not isinstance(members[0], dict) or not isinstance(members[0].get("name"), str):
        return f"a {kind} without metadata.name"
    if not all(isinstance(each, dict | None) for each in members):
        return f"spec and status of a {kind} are objects"
    if problem := decoding.mistyped(item, _SHAPES.get(kind, _ANY), ""):
        return f"{kind} {members[0]['name']} is not valid: {problem.removeprefix('json: ')}"
    try:
        if kind == PODS.kind:
            shapes.pod_info(podinfo.projected(item))
        elif kind == NODES.kind:
            NodeInfo(key_of(item).name).set_node(item)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{kind} {key_of(item)} is not valid: {error!r}"
    return ""


def _is_of_dump(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_dump(opened.read(200))
