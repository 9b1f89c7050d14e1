"""The gate classes that are installed: packages provide them by the entry point group `tollbar.gates`.

The configuration enables a class by the name of its entry point (`gates: [zone]`).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from tollbar import wellknown
from tollbar.api.gates import parse_gate
from tollbar.gates.evaluation import declaration, declaration_name
from tollbar.gates.gate import Gate, Reads
from tollbar.gates.ordinal import OrdinalGate
from tollbar.gates.placement import PlacementGate
from tollbar.gates.quota import PodQuotas
from tollbar.model import names
from tollbar.runtime import config
from tollbar.runtime.config import ConfigError, Configuration

_log: Final = logging.getLogger(__name__)

GROUP: Final = "tollbar.gates"
IN_TREE: Final[Mapping[str, type[Gate]]] = {"quota": PodQuotas, "placement": PlacementGate, "ordinal": OrdinalGate}
"""Those that ship with Tollbar, beside the toleration gate, which is always there."""


def load(path: Path | str | None, overrides: Mapping[str, object]) -> Configuration:
    """As `config.load`; also raises ConfigError for a gate that cannot be used."""
    configuration = config.load(path, overrides)
    for name in configuration.gates:
        _check_is_unique(name)
    enabled(configuration.gates)
    return configuration


def enabled(wanted: Iterable[str]) -> tuple[Gate, ...]:
    """The gates of these entry points.  Raises ConfigError for one that is not there or cannot be used."""
    found = tuple(_made(name) for name in wanted)
    taken, declared = {wellknown.GATE}, set[str]()
    for gate in found:
        if gate.name in taken:
            raise _error(f"two gate classes have the gate {gate.name}")
        if declaration_name(gate) in declared:
            raise _error(f"two gate classes declare a SchedulingGate {declaration_name(gate)}")
        taken.add(gate.name)
        declared.add(declaration_name(gate))
    return found


def installed(gates: Iterable[str]) -> tuple[Gate, ...]:
    """The classes of these gates, as Pods name them; those that cannot be used are left out.

    The toleration gate has no class: if it is the only one, no package is loaded.
    """
    wanted, found = set(gates) - {wellknown.GATE}, dict[str, Gate]()
    for name in available() if wanted else ():
        try:
            gate = _made(name)
        except ConfigError as error:
            _log.warning("a gate class cannot be used", extra={"error": str(error)})
            continue
        if gate.name in wanted:
            found.setdefault(gate.name, gate)
    return tuple(found.values())


def available() -> tuple[str, ...]:
    """The names that may be enabled."""
    return tuple(sorted({*IN_TREE, *(each.name for each in entry_points(group=GROUP))}))


def _check_is_unique(name: str) -> None:
    ours = [_value(IN_TREE[name])] if name in IN_TREE else []
    named = dict.fromkeys([*ours, *map(_origin, entry_points(group=GROUP, name=name))])
    if len(named) > 1:
        raise _error(f"entry point {GROUP}: {len(named)} classes are named {name}: {', '.join(named)}")


def _value(gate: type[Gate]) -> str:
    """The entry point of a class in the module that defines it."""
    return f"{gate.__module__}:{gate.__qualname__}"


def _origin(brought: EntryPoint) -> str:
    """The same of the class that this one loads, which may be found in several modules.

    It is what this one says itself where the class cannot be loaded.
    """
    try:
        return _value(brought.load())
    except Exception:  # whatever code of others raises: the start ends, and names it
        return brought.value


def _made(name: str) -> Gate:
    try:
        gate: Any = _class(name)()
        wrong = next(problems(gate), "")
    except ConfigError:
        raise
    except Exception as error:  # whatever code of others raises
        raise _error(f"entry point {GROUP}: cannot load gate {name}: {type(error).__name__}: {error}") from error
    if wrong:
        raise _error(f"entry point {GROUP}: gate {name}: {wrong}")
    return gate  # type: ignore[no-any-return]


def _class(name: str) -> type[Gate]:
    if name in IN_TREE:
        return IN_TREE[name]
    for each in entry_points(group=GROUP, name=name):
        found: type[Gate] = each.load()
        return found
    known = ", ".join(available()) or "none"
    raise _error(f"there is no gate {name}; installed are: {known}")


def _error(sentence: str) -> ConfigError:
    return ConfigError((("gates", sentence),))


def problems(gate: Any) -> Iterator[str]:
    """What is wrong with a class's declarations; fields of `spec` are those of its SchedulingGate."""
    if not isinstance(gate, Gate):
        yield f"{type(gate).__name__} is no tollbar.gates.Gate"
        return
    name = getattr(gate, "name", None)
    if not isinstance(name, str) or "/" not in name:
        yield "name must be the gate's qualified name, such as example.com/zone"
        return
    for problem in names.dns_subdomain(name.rpartition("/")[2]):  # it is a part of the webhook's path
        yield f"name: {problem}"
    for each in gate.reads:
        if not isinstance(each, Reads):
            yield f"reads must hold Reads, not {type(each).__name__}"
        elif each.by and each.by not in each.cached.indexers:
            yield f"reads: {each.cached.name} has no index {each.by}"
    declared = parse_gate(declaration(gate, ()))
    if isinstance(declared, list):
        yield from map(str, declared)
