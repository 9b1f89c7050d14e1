"""An explanation of a Pod as a value; everything in it is text or numbers, and made to be shown as it is."""

from dataclasses import dataclass

from tollbar.explain.causes import Cause
from tollbar.gates import Section


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that keeps the Pod waiting.

    `what` says it in words, `since` when it began (RFC 3339, empty if not known), `who` can act on it and `action` how.
    """

    cause: Cause
    what: str
    since: str = ""
    who: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """A scheduling gate of the Pod.  `owners` are those of the SchedulingGate that declares it, if one does.

    `reason` is the code of what a gate class holds the Pod for, `waits_for` what that is.
    """

    name: str
    declared_by: str
    owners: tuple[str, ...]
    max_hold: str
    on_expiry: str
    waits_for: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim: `wants` is count and class, `devices` what it has got."""

    name: str
    wants: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the Pod.  `source` is the reference in the Pod; `state` is allocated, pending or what is missing."""

    reference: str
    name: str
    source: str
    state: str
    node: str
    reserved_for: tuple[str, ...]
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule says of the Pod: true, false, unknown, error, `out of scope`, `not in force`; `steps` of evaluation.

    A rule for requests of claims alone is `for claims` where it gave, or would give, the Pod's claims tolerations.

    `alternatives` says over how many alternatives (firstAvailable), and how they count.
    """

    name: str
    mode: str
    verdict: str
    why: str
    alternatives: str
    steps: int
    gives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of the Pod.  `rule` gave it, `via` says how; both are empty for one that comes from elsewhere."""

    text: str
    origin: str
    rule: str = ""
    via: str = ""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that one plugin rejects with one text, and some of their names."""

    plugin: str
    reason: str
    count: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices that one request cannot get for one reason, and some of their names; `holders` are claims."""

    request: str
    why: str
    detail: str
    count: int
    devices: tuple[str, ...]
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the scheduler core finds on the copy, and what the cluster's scheduler has said last.

    `fits` is how many Nodes fit, `node` the one that would be taken.
    """

    scheduler: str
    nodes: int
    fits: int
    node: str
    message: str
    rejected: tuple[NodeGroup, ...]
    devices: tuple[DeviceGroup, ...]
    preemption: str
    said: str
    said_at: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that was tried on the copy, and what came of it: `helps` if the Pod got a Node, or was released."""

    cause: Cause
    change: str
    result: str
    helps: bool


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """`findings` has the true cause first.  `told` are tables of gate classes, `notes` are about what does not keep the
    Pod waiting.  `unknown` says what could not be read."""

    namespace: str
    name: str
    phase: str
    node: str
    age: float
    findings: tuple[Finding, ...]
    gates: tuple[Gate, ...] = ()
    told: tuple[Section, ...] = ()
    claims: tuple[Claim, ...] = ()
    rules: tuple[RuleVerdict, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    scheduling: Scheduling | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of a claim, a rule or a Node: what it is and how it stands, the most important sentence first."""

    kind: str
    name: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...] = ()
    unknown: tuple[str, ...] = ()
