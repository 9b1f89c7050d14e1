"""What keeps a Pod from Nodes, and what could be different: values that the modules about plugins make."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tollbar.explain.causes import Cause
from tollbar.explain.values import Remedy
from tollbar.model import pods
from tollbar.model.objects import Object, spec
from tollbar.offline import Attempt

Edit: TypeAlias = Callable[[Object], Object]

MOST: Final = 4
"""So many taints, Nodes, Pods or claims are named or tried one by one: an explanation is one screen."""
NODES_LOOKED_AT: Final = 50
"""The devices of so many Nodes are looked at."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that could be different: objects of the copy, or the Pod.  `text` says how it is then.

    With `by_rules` the Pod gets the tolerations of the rules that are true for it then.
    """

    cause: Cause
    text: str
    put: tuple[Object, ...] = ()
    without: tuple[Object, ...] = ()
    edit: Edit = lambda pod: pod
    by_rules: bool = False


@dataclass(frozen=True, slots=True)
class Rejection:
    """`who` can do something about it, and what that is; `changes` may help, each by itself.

    `is_choice` says that the Pod itself asks for other Nodes: no cause, as long as there are Nodes that it asks for.
    """

    cause: Cause
    what: str
    who: str
    action: str
    changes: tuple[Change, ...] = ()
    is_choice: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one plugin rejects for the same reasons."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        return ", ".join(self.reasons)

    @property
    def on(self) -> str:
        """The Nodes, to begin a sentence with."""
        return named("node", self.nodes)


def remedy_of(cause: Cause, change: str, attempt: Attempt) -> Remedy:
    """What came of an attempt with the Pod or the copy changed as `change` says; it helps if there is a Node."""
    result = f"the Pod fits on node {attempt.node_name}" if attempt.node_name else f"still: {attempt.message}"
    return Remedy(cause, change, result, helps=bool(attempt.node_name))


def named(kind: str, names: Sequence[str], most: int = 3) -> str:
    """`node n1`, `3 nodes (n1, n2, n3)`, `9 nodes (n1, n2, n3, ...)`."""
    if len(names) == 1:
        return f"{kind} {names[0]}"
    return f"{len(names)} {kind}s ({', '.join(names[:most])}{', ...' if len(names) > most else ''})"


def with_tolerations(pod: Object, added: Iterable[Object]) -> Object:
    return with_spec(pod, tolerations=[*pods.tolerations(pod), *added])


def with_spec(obj: Object, **fields: object) -> Object:
    """The object with these fields of its spec; None takes one away."""
    body = {**spec(obj), **fields}
    return {**obj, "spec": {name: value for name, value in body.items() if value is not None}}
