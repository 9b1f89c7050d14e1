"""scheduler_perf's operations as values: parsed, with every parameter of the workload resolved.

Pure.  What is not understood, or not run here, is `Refused` with its name.

Source: test/integration/scheduler_perf/operations.go, dra.go and update.go; each `plan` there is `patchParams`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final, TypeAlias

import yaml

from tollbar.model.objects import Object


class Refused(Exception):
    """Why a workload cannot be run here; the message names what it needs."""


@dataclass(frozen=True, slots=True)
class NodeAllocatable:
    """CSINodes with limits for volumes; what it says of the Nodes' own status, the API server does not take."""

    node_allocatable: Mapping[str, str] = field(default_factory=dict)
    csi_node_allocatable: Mapping[str, Object] = field(default_factory=dict)
    migrated_plugins: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """The values are given to the Nodes in turn."""

    label_key: str
    label_values: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CreateNodes:
    opcode: ClassVar = "createNodes"
    count: int = 0
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: NodeLabel | None = None
    unique_node_label_strategy: NodeLabel | None = None
    template_params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    """Names are the prefix and a number from 0 on."""

    opcode: ClassVar = "createNamespaces"
    prefix: str = ""
    count: int = 0
    namespace_template_path: str = ""


@dataclass(frozen=True, slots=True)
class CreatePods:
    """`duration` is in seconds, and counts in the steady state alone.  An empty namespace is one of its own."""

    opcode: ClassVar = "createPods"
    count: int = 0
    steady_state: bool = False
    duration: float = 0.0
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    template_params: Mapping[str, Any] = field(default_factory=dict)
    signature_batch_size: int = 1


@dataclass(frozen=True, slots=True)
class CreatePodSets:
    """Stands for `count` operations, each in a namespace of its own."""

    opcode: ClassVar = "createPodSets"
    count: int = 0
    namespace_prefix: str = ""
    create_pods_op: Object = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateAny:
    opcode: ClassVar = "createAny"
    template_path: str
    namespace: str = ""
    count: int = 1
    template_params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpdateAny:
    """Objects and their status are replaced, `update_per_second` of them, or all at once with 0."""

    opcode: ClassVar = "updateAny"
    template_path: str
    namespace: str = ""
    count: int = 1
    update_per_second: int = 0
    subresources: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CreateResourceClaims:
    opcode: ClassVar = "createResourceClaims"
    template_path: str
    namespace: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class AllocResourceClaims:
    """Claims get devices of Nodes that are picked at random, without a Pod; of all namespaces if none is named."""

    opcode: ClassVar = "allocResourceClaims"
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Churn:
    """Beside all operations that follow, one object of each template comes (and goes, in the mode `recreate`)."""

    opcode: ClassVar = "churn"
    mode: str
    template_paths: Sequence[str]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class DeletePods:
    opcode: ClassVar = "deletePods"
    namespace: str
    label_selector: Mapping[str, str] = field(default_factory=dict)
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


@dataclass(frozen=True, slots=True)
class Barrier:
    opcode: ClassVar = "barrier"
    namespaces: Sequence[str] = ()
    label_selector: Mapping[str, str] = field(default_factory=dict)
    stage_requirement: str = "Scheduled"


@dataclass(frozen=True, slots=True)
class Sleep:
    opcode: ClassVar = "sleep"
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class StartCollectingMetrics:
    opcode: ClassVar = "startCollectingMetrics"
    namespaces: Sequence[str]
    name: str = ""
    label_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopCollectingMetrics:
    opcode: ClassVar = "stopCollectingMetrics"


Operation: TypeAlias = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreateAny
    | UpdateAny
    | CreateResourceClaims
    | AllocResourceClaims
    | Churn
    | DeletePods
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
)

_OPERATIONS: Final = {
    each.opcode: each
    for each in (
        CreateNodes,
        CreateNamespaces,
        CreatePods,
        CreatePodSets,
        CreateAny,
        UpdateAny,
        CreateResourceClaims,
        AllocResourceClaims,
        Churn,
        DeletePods,
        Barrier,
        Sleep,
        StartCollectingMetrics,
        StopCollectingMetrics,
    )
}
_NOT_RUN: Final = {
    "createPodGroups": "Tollbar's scheduler knows no groups of Pods",
    "startCollectingProfile": "profiles of Go are not collected",
    "stopCollectingProfile": "profiles of Go are not collected",
}
_STRATEGIES: Final = {
    "node_allocatable_strategy": NodeAllocatable,
    "label_node_prepare_strategy": NodeLabel,
    "unique_node_label_strategy": NodeLabel,
}
_CHURNS: Final = ("create", "recreate")
_STAGES: Final = ("Scheduled", "Attempted")
_WORD: Final = re.compile(r"(?<=[a-z])([A-Z])")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Parameters:
    """The parameters of a workload, and which of them were used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._unused = set(values)

    def get(self, reference: str) -> Any:
        """The value for `$name`, or for `$name|default`, whose default is YAML.  Raises Refused."""
        name, has_default, default = reference.removeprefix("$").partition("|")
        if name in self._values:
            self._unused.discard(name)
            return self._values[name]
        if has_default:
            return yaml.safe_load(default)
        raise Refused(f"the parameter {name} is not given")

    def check_used(self) -> None:
        """Raises Refused with the names of those that no operation has asked for."""
        if self._unused:
            raise Refused(f"no operation uses the parameters {', '.join(sorted(self._unused))}")


def plan(template: Sequence[Object], values: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The operations of a workload template for these parameters.  Raises Refused."""
    parameters = Parameters(values)
    planned: list[Operation] = []
    for raw in template:
        operation = _parsed(raw, parameters)
        if isinstance(operation, CreatePodSets):
            for number in range(operation.count):
                inner = {**operation.create_pods_op, "namespace": f"{operation.namespace_prefix}-{number}"}
                planned.append(_as(CreatePods, _parsed(inner, parameters)))
        else:
            planned.append(operation)
    parameters.check_used()
    _check_phase(planned)
    return tuple(planned)


def seconds(duration: str | float) -> float:
    """Of a duration such as `10s` or `1m30s` (time.ParseDuration).  Raises Refused."""
    if not isinstance(duration, str):
        return float(duration)
    parts = _DURATION.findall(duration)
    if "".join(map("".join, parts)) != duration or not parts:
        raise Refused(f"the duration {duration!r} is not understood")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _as(kind: type[CreatePods], operation: Operation | CreatePodSets) -> CreatePods:
    if not isinstance(operation, kind):
        raise Refused(f"createPodSets of {operation.opcode}")
    return operation


def _parsed(raw: Object, parameters: Parameters) -> Operation | CreatePodSets:
    opcode = raw["opcode"]
    if opcode in _NOT_RUN:
        raise Refused(f"{opcode}: {_NOT_RUN[opcode]}")
    if opcode not in _OPERATIONS:
        raise Refused(f"the operation {opcode} is not known")
    given = {_snake(name): value for name, value in raw.items() if name != "opcode"}
    if "count_multiplier_param" in given:
        multiplier = parameters.get(given.pop("count_multiplier_param"))
        given["count"] = parameters.get(given.pop("count_param")) * multiplier
    for name in [name for name in given if name.endswith("_param")]:
        given[name.removesuffix("_param")] = parameters.get(given.pop(name))
    operation: Operation | CreatePodSets = _made(_OPERATIONS[opcode], given, opcode, parameters)
    _check(operation)
    return operation


def _made(kind: Any, given: dict[str, Any], what: str, parameters: Parameters) -> Any:
    """A value of this class; a member that it does not have, or lacks, is refused."""
    known = {each.name: each for each in fields(kind)}
    if unknown := sorted(given.keys() - known.keys()):
        raise Refused(f"{what}: {', '.join(unknown)} is not known")
    needed = {name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING}
    if missing := sorted(needed - given.keys()):
        raise Refused(f"{what}: {', '.join(missing)} is missing")
    for name, value in given.items():
        if name in _STRATEGIES:
            inner = {_snake(key): each for key, each in value.items()}
            given[name] = _made(_STRATEGIES[name], inner, name, parameters)
        elif name == "duration":
            given[name] = seconds(value)
        elif name == "template_params":
            given[name] = {key: _resolved(each, parameters) for key, each in value.items()}
        elif name == "count" and (not isinstance(value, int) or value < 0):
            raise Refused(f"{what}: the count {value!r} is not a number")
    return kind(**given)


def _resolved(value: Any, parameters: Parameters) -> Any:
    return parameters.get(value) if isinstance(value, str) and value.startswith("$") else value


def _check(operation: Operation | CreatePodSets) -> None:
    match operation:
        case Churn(mode=mode) if mode not in _CHURNS:
            raise Refused(f"churn: the mode {mode!r} is not known")
        case Churn(mode="recreate", number=0):
            raise Refused("churn: recreate needs a number")
        case Barrier(stage_requirement=stage) if stage not in _STAGES:
            raise Refused(f"barrier: the stage {stage!r} is not known")
        case CreatePods(steady_state=True, duration=duration) if duration <= 0:
            raise Refused("createPods: the steady state needs a duration")
        case _:
            pass


def _check_phase(planned: Sequence[Operation]) -> None:
    """Exactly one phase of collecting, in which Pods are scheduled."""
    begins = [
        index
        for index, each in enumerate(planned)
        if isinstance(each, StartCollectingMetrics) or (isinstance(each, CreatePods) and each.collect_metrics)
    ]
    if len(begins) != 1:
        raise Refused(f"it collects metrics {len(begins)} times")
    if not any(isinstance(each, CreatePods) for each in planned[begins[0] :]):
        raise Refused("no Pod is scheduled while it collects metrics")


def _snake(name: str) -> str:
    return _WORD.sub(r"_\1", name).lower()
