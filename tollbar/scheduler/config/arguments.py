"""The arguments of kube-scheduler's plugins: their fields, defaults, and what is wrong with them.

Source: types_pluginargs.go of k8s.io/kube-scheduler/config/v1, and defaults.go and validation_pluginargs.go in
pkg/scheduler/apis/config.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tollbar.api import durations
from tollbar.model import names
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required, unsupported
from tollbar.model.objects import Object
from tollbar.scheduler.config.schema import (
    BOOL,
    DURATION,
    INT32,
    INT64,
    STRING,
    Anything,
    ListOf,
    MapOf,
    Struct,
)

Problems = Iterator[FieldError]

_META: Final = {"apiVersion": STRING, "kind": STRING}
_SHAPE: Final = ListOf(Struct("v1.UtilizationShapePoint", {"utilization": INT32, "score": INT32}))
_RESOURCES: Final = ListOf(Struct("v1.ResourceSpec", {"name": STRING, "weight": INT64}))
_REQUIREMENT: Final = Struct(
    "v1.NodeSelectorRequirement", {"key": STRING, "operator": STRING, "values": ListOf(STRING)}
)
_TERM: Final = Struct(
    "v1.NodeSelectorTerm", {"matchExpressions": ListOf(_REQUIREMENT), "matchFields": ListOf(_REQUIREMENT)}
)
_LABEL_SELECTOR: Final = Struct(
    "v1.LabelSelector",
    {
        "matchLabels": MapOf(),
        "matchExpressions": ListOf(
            Struct("v1.LabelSelectorRequirement", {"key": STRING, "operator": STRING, "values": ListOf(STRING)})
        ),
    },
)
_SCHEDULE_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
MAX_CUSTOM_SCORE: Final = 10
"""The highest score in a shape (MaxCustomPriorityScore)."""


@dataclass(frozen=True, slots=True)
class ArgumentsKind:
    """`default` fills in what was left out, in place; `problems` takes the path of the arguments."""

    struct: Struct
    default: Callable[[Object], None]
    problems: Callable[[str, Object], Problems]


def _no_defaults(args: Object) -> None:
    pass


def _default_preemption_defaults(args: Object) -> None:
    args.setdefault("minCandidateNodesPercentage", 10)
    args.setdefault("minCandidateNodesAbsolute", 100)


def _default_preemption_problems(path: str, args: Object) -> Problems:
    percentage, absolute = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def _dynamic_resources_defaults(args: Object) -> None:
    args.setdefault("filterTimeout", 10.0)
    args.setdefault("bindingTimeout", 600.0)


def _dynamic_resources_problems(path: str, args: Object) -> Problems:
    if args["filterTimeout"] < 0:
        yield invalid(f"{path}.filterTimeout", durations.text(args["filterTimeout"]), "must be zero or positive")
    if args["bindingTimeout"] < 1:
        yield invalid(f"{path}.bindingTimeout", durations.text(args["bindingTimeout"]), "must be at least 1 second")


def _inter_pod_affinity_defaults(args: Object) -> None:
    args.setdefault("hardPodAffinityWeight", 1)
    args.setdefault("ignorePreferredTermsOfExistingPods", False)


def _inter_pod_affinity_problems(path: str, args: Object) -> Problems:
    if not 0 <= args["hardPodAffinityWeight"] <= 100:
        yield invalid(f"{path}.hardPodAffinityWeight", args["hardPodAffinityWeight"], "not in valid range [0, 100]")


def _node_affinity_problems(path: str, args: Object) -> Problems:
    added = args.get("addedAffinity") or {}
    required_terms = (added.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    below = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for index, term in enumerate(required_terms):
        yield from _term_problems(f"{below}[{index}]", term)
    below = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(added.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        if weighted.get("weight"):
            yield from _term_problems(f"{below}[{index}]", weighted.get("preference") or {})


def _term_problems(path: str, term: Object) -> Problems:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _label_problems(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        below = f"{path}.matchFields[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values")
        if operator not in ("In", "NotIn"):
            yield unsupported(f"{below}.operator", operator, ("In", "NotIn"))
        elif len(values or ()) != 1:
            yield invalid(f"{below}.values", values, "must have one element")


def _label_problems(path: str, requirement: Object) -> Problems:
    """As labels.NewRequirement of k8s.io/apimachinery."""
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    given = requirement.get("values")
    values = given or []
    operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if operator not in operators:
        yield unsupported(f"{path}.operator", operator, operators)
        return
    if problems := names.qualified_name(key):
        yield invalid(f"{path}.key", key, "; ".join(problems))
    if operator in ("In", "NotIn") and not values:
        yield invalid(f"{path}.values", given, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(f"{path}.values", given, "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(f"{path}.values", given, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not value.removeprefix("-").removeprefix("+").isdecimal():
                yield invalid(
                    f"{path}.values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"
                )
    for index, value in enumerate(values):
        if problems := names.label_value(value):
            yield invalid(f"{path}.values[{index}][{key}]", value, "; ".join(problems))


def _default_weights(resources: list[Object]) -> None:
    for each in resources:
        each["weight"] = each.get("weight") or 1


def _default_resources() -> list[Object]:
    return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def _balanced_allocation_defaults(args: Object) -> None:
    args["resources"] = args.get("resources") or _default_resources()
    _default_weights(args["resources"])


def _balanced_allocation_problems(path: str, args: Object) -> Problems:
    seen = set()
    for index, each in enumerate(args["resources"]):
        name = each.get("name", "")
        if name in seen:
            yield duplicate(f"{path}.resources[{index}].name", name)
        seen.add(name)
        if each["weight"] != 1:
            yield invalid(f"{path}.resources[{index}].weight", each["weight"], "must be 1")


def _resources_fit_defaults(args: Object) -> None:
    strategy = args.setdefault("scoringStrategy", {"type": "LeastAllocated"})
    strategy["resources"] = strategy.get("resources") or _default_resources()
    _default_weights(strategy["resources"])


def _resources_fit_problems(path: str, args: Object) -> Problems:
    for index, name in enumerate(args.get("ignoredResources") or ()):
        for problem in names.qualified_name(name):
            yield invalid(f"{path}.ignoredResources[{index}]", name, problem)
    for index, group in enumerate(args.get("ignoredResourceGroups") or ()):
        below = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield invalid(below, group, "resource group name can't contain '/'")
        for problem in names.qualified_name(group):
            yield invalid(below, group, problem)
    strategy = args["scoringStrategy"]
    below = f"{path}.scoringStrategy"
    kind, ratio = strategy.get("type", ""), strategy.get("requestedToCapacityRatio")
    if kind not in _STRATEGIES:
        yield unsupported(f"{below}.type", kind, _STRATEGIES)
    for index, each in enumerate(strategy["resources"]):
        if not 0 < each["weight"] <= 100:
            text = f"resource weight of {each.get('name', '')} not in valid range (0, 100]"
            yield invalid(f"{below}.resources[{index}].weight", each["weight"], text)
    if kind != "RequestedToCapacityRatio":
        if ratio is not None:
            yield forbidden(
                f"{below}.requestedToCapacityRatio", "must be nil when type is not RequestedToCapacityRatio"
            )
    elif ratio is None:
        yield required(f"{below}.requestedToCapacityRatio", "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape_problems(f"{below}.requestedToCapacityRatio.shape", ratio.get("shape") or [])


def _shape_problems(path: str, shape: list[Object]) -> Problems:
    if not shape:
        yield required(path, "at least one point must be specified")
    utilizations = [each.get("utilization", 0) for each in shape]
    for index in range(1, len(shape)):
        if utilizations[index - 1] >= utilizations[index]:
            yield invalid(
                f"{path}[{index}].utilization", utilizations[index], "values must be sorted in increasing order"
            )
            break
    for index, each in enumerate(shape):
        score = each.get("score", 0)
        if not 0 <= utilizations[index] <= 100:
            yield invalid(f"{path}[{index}].utilization", utilizations[index], "not in valid range [0, 100]")
        if not 0 <= score <= MAX_CUSTOM_SCORE:
            yield invalid(f"{path}[{index}].score", score, f"not in valid range [0, {MAX_CUSTOM_SCORE}]")


def _topology_spread_defaults(args: Object) -> None:
    args["defaultingType"] = args.get("defaultingType") or "System"


def _topology_spread_problems(path: str, args: Object) -> Problems:
    kind, constraints = args["defaultingType"], args.get("defaultConstraints") or []
    if kind not in ("System", "List"):
        yield unsupported(f"{path}.defaultingType", kind, ("System", "List"))
    elif kind == "System" and constraints:
        yield invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty")
    seen = set()
    for index, each in enumerate(constraints):
        below = f"{path}.defaultConstraints[{index}]"
        key, action = each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")
        if each.get("maxSkew", 0) <= 0:
            yield invalid(f"{below}.maxSkew", each.get("maxSkew", 0), "not in valid range (0, inf)")
        if not key:
            yield required(f"{below}.topologyKey", "can not be empty")
        else:
            for problem in names.qualified_name(key):
                yield invalid(f"{below}.topologyKey", key, problem)
        if not action:
            yield required(f"{below}.whenUnsatisfiable", "can not be empty")
        elif action not in _SCHEDULE_ACTIONS:
            yield unsupported(f"{below}.whenUnsatisfiable", action, _SCHEDULE_ACTIONS)
        if "labelSelector" in each:
            yield forbidden(
                f"{below}.labelSelector", "constraint must not define a selector, as they deduced for each pod"
            )
        if (key, action) in seen:
            yield duplicate(below, f"{{{key}, {action}}}")
        seen.add((key, action))


def _volume_binding_defaults(args: Object) -> None:
    args.setdefault("bindTimeoutSeconds", 600)
    args["shape"] = args.get("shape") or [
        {"utilization": 0, "score": MAX_CUSTOM_SCORE},
        {"utilization": 100, "score": 0},
    ]


def _volume_binding_problems(path: str, args: Object) -> Problems:
    if args["bindTimeoutSeconds"] < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", args["bindTimeoutSeconds"], text)
    yield from _shape_problems(f"{path}.shape", args["shape"])


def _kind(
    name: str,
    fields: Mapping[str, Any],
    default: Callable[[Object], None],
    problems: Callable[[str, Object], Problems],
) -> ArgumentsKind:
    return ArgumentsKind(Struct(f"v1.{name}Args", _META | dict(fields)), default, problems)


KINDS: Final[Mapping[str, ArgumentsKind]] = {
    "DefaultPreemption": _kind(
        "DefaultPreemption",
        {"minCandidateNodesPercentage": INT32, "minCandidateNodesAbsolute": INT32},
        _default_preemption_defaults,
        _default_preemption_problems,
    ),
    "DynamicResources": _kind(
        "DynamicResources",
        {"filterTimeout": DURATION, "bindingTimeout": DURATION, "exclusive": Anything()},
        _dynamic_resources_defaults,
        _dynamic_resources_problems,
    ),
    "InterPodAffinity": _kind(
        "InterPodAffinity",
        {"hardPodAffinityWeight": INT32, "ignorePreferredTermsOfExistingPods": BOOL},
        _inter_pod_affinity_defaults,
        _inter_pod_affinity_problems,
    ),
    "NodeAffinity": _kind(
        "NodeAffinity",
        {
            "addedAffinity": Struct(
                "v1.NodeAffinity",
                {
                    "requiredDuringSchedulingIgnoredDuringExecution": Struct(
                        "v1.NodeSelector", {"nodeSelectorTerms": ListOf(_TERM)}
                    ),
                    "preferredDuringSchedulingIgnoredDuringExecution": ListOf(
                        Struct("v1.PreferredSchedulingTerm", {"weight": INT32, "preference": _TERM})
                    ),
                },
            )
        },
        _no_defaults,
        _node_affinity_problems,
    ),
    "NodeResourcesBalancedAllocation": _kind(
        "NodeResourcesBalancedAllocation",
        {"resources": _RESOURCES},
        _balanced_allocation_defaults,
        _balanced_allocation_problems,
    ),
    "NodeResourcesFit": _kind(
        "NodeResourcesFit",
        {
            "ignoredResources": ListOf(STRING),
            "ignoredResourceGroups": ListOf(STRING),
            "scoringStrategy": Struct(
                "v1.ScoringStrategy",
                {
                    "type": STRING,
                    "resources": _RESOURCES,
                    "requestedToCapacityRatio": Struct("v1.RequestedToCapacityRatioParam", {"shape": _SHAPE}),
                },
            ),
        },
        _resources_fit_defaults,
        _resources_fit_problems,
    ),
    "PodTopologySpread": _kind(
        "PodTopologySpread",
        {
            "defaultConstraints": ListOf(
                Struct(
                    "v1.TopologySpreadConstraint",
                    {
                        "maxSkew": INT32,
                        "topologyKey": STRING,
                        "whenUnsatisfiable": STRING,
                        "labelSelector": _LABEL_SELECTOR,
                        "minDomains": INT32,
                        "nodeAffinityPolicy": STRING,
                        "nodeTaintsPolicy": STRING,
                        "matchLabelKeys": ListOf(STRING),
                    },
                )
            ),
            "defaultingType": STRING,
        },
        _topology_spread_defaults,
        _topology_spread_problems,
    ),
    "VolumeBinding": _kind(
        "VolumeBinding",
        {"bindTimeoutSeconds": INT64, "shape": _SHAPE},
        _volume_binding_defaults,
        _volume_binding_problems,
    ),
}
"""By the name of the plugin; other plugins take their arguments as they are.

`exclusive` of DynamicResources is Tollbar's own: which devices it may allocate
(`tollbar.scheduler.plugins.dynamic_resources.ownership`).
"""
