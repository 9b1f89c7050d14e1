"""Compares the allocator's answers with those of Kubernetes to the same problems."""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra.world import DEFAULTS, Problem

from tollbar.devplane.real.oracle import Oracle
from tollbar.dra import AllocatedState, Allocator, Failed, Features, Inventory
from tollbar.model.objects import Object

SECONDS: Final = 2
"""For one Node; a search that takes Kubernetes longer is not compared."""

FEATURES: Final = {
    "AdminAccess": "admin_access",
    "ConsumableCapacity": "consumable_capacity",
    "DeviceBindingAndStatus": "binding_conditions",
    "DeviceTaints": "device_taints",
    "FractionalCapacityRange": "fractional_capacity_range",
    "ListTypeAttributes": "list_type_attributes",
    "PartitionableDevices": "partitionable_devices",
    "PrioritizedList": "prioritized_list",
}
"""Our names of Kubernetes' features."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one Node can give: `results` of each claim when they are allocated, a `message` for an error."""

    outcome: str
    steps: int
    results: Any = None
    message: str = ""
    node_only: bool = False

    def agrees(self, theirs: "Answer") -> bool:
        """Whether this, ours, is the same answer in at most as many steps."""
        return self.said() == theirs.said() and self.steps <= theirs.steps

    def said(self) -> tuple[Any, ...]:
        """All but the steps."""
        return self.outcome, self.results, self.message, self.node_only


@dataclass(frozen=True, slots=True)
class Difference:
    """Our answer and Kubernetes' for one Node of a problem."""

    problem: Problem
    node: str
    ours: Answer
    theirs: Answer

    def __str__(self) -> str:
        about = f"{self.problem.family} {self.problem.seed} on {self.node}"
        request = json.dumps(self.problem.request(), separators=(",", ":"))
        return f"{about}\n    ours:   {self.ours}\n    theirs: {self.theirs}\n    {request}"


def theirs(oracle: Oracle, problems: Sequence[Problem]) -> list[list[Answer] | None]:
    """Kubernetes' answers for the Nodes of each problem; None where a search took too long."""
    answers = oracle.allocate(each.request() | {"timeoutSeconds": SECONDS} for each in problems)
    return [_read(answer) for answer in answers]


def _read(answer: Object) -> list[Answer] | None:
    if "message" in answer:
        raise ValueError(answer["message"])
    found = [
        Answer(
            node["outcome"],
            node["steps"],
            _normal(node.get("results")),
            _comparable(node.get("message", "")),
            node.get("nodeOnly", False),
        )
        for node in answer["nodes"]
    ]
    return None if any(each.message.startswith("filter operation aborted") for each in found) else found


def ours(problem: Problem) -> list[Answer]:
    """Our answers for the Nodes of a problem."""
    features = Features(**{FEATURES[name]: on for name, on in (DEFAULTS | problem.features).items()})
    state = AllocatedState(each["status"]["allocation"] for each in problem.allocated)
    classes = {each["metadata"]["name"]: each for each in problem.classes}
    allocator = Allocator(_inventory(problem, features), state, classes)
    answers = []
    for node in problem.nodes:
        before = allocator.steps
        try:
            found = allocator.allocate(node, problem.claims)
        except Exception as error:  # what allocate() promises not to do
            answers.append(Answer("bug", allocator.steps - before, message=repr(error)))
            continue
        steps = allocator.steps - before
        if isinstance(found, Failed):
            answers.append(Answer("error", steps, message=_comparable(found.message), node_only=found.node_only))
        else:
            answers.append(Answer("none" if found is None else "allocated", steps, _normal(found)))
    return answers


def _inventory(problem: Problem, features: Features) -> Inventory:
    """The slices, each of which has come, gone and come back in another generation before."""
    inventory = Inventory(problem.slices, features)
    for each in problem.slices:
        inventory.remove(each)
    for each in problem.slices:
        pool = each["spec"]["pool"]
        inventory.apply(each | {"spec": each["spec"] | {"pool": pool | {"generation": pool["generation"] + 1}}})
        inventory.apply(each)
    return inventory


def differences(problems: Sequence[Problem], answers: Sequence[list[Answer] | None]) -> list[Difference]:
    """The Nodes for which our answers are others than Kubernetes'."""
    return [
        each
        for problem, answer in zip(problems, answers, strict=True)
        if answer is not None
        for each in _between(problem, answer)
    ]


def _between(problem: Problem, answers: Sequence[Answer]) -> Iterator[Difference]:
    if not answers:
        return
    for node, mine, other in zip(problem.nodes, ours(problem), answers, strict=True):
        if not mine.agrees(other):
            yield Difference(problem, node["metadata"]["name"], mine, other)


def _normal(results: Any) -> Any:
    """Allocations with the presence of a share ID in place of its value, which is random, and without empty fields."""
    if isinstance(results, list):
        return [_normal(each) for each in results]
    if not isinstance(results, dict):
        return results
    inner = {
        key: "random" if key == "shareID" else value if key == "parameters" else _normal(value)
        for key, value in results.items()
    }
    return {key: value for key, value in inner.items() if value not in (None, "", [], {})}


def _comparable(message: str) -> str:
    """The message without what CEL says, which is compared elsewhere."""
    return re.sub(r"(CEL (runtime|compile) error).*", r"\1", message, flags=re.DOTALL)


def shrunk(oracle: Oracle, difference: Difference) -> Difference:
    """The smallest problem with such a difference that is found by leaving out one part after the other."""
    kind = _kind(difference)
    found = difference
    while True:
        smaller = list(_smaller(found.problem))
        try:
            answers = theirs(oracle, smaller)
        except ValueError:
            return found
        for problem, answer in zip(smaller, answers, strict=True):
            same = next((each for each in _between(problem, answer or ()) if _kind(each) == kind), None)
            if same is not None:
                found = same
                break
        else:
            return found


def _kind(difference: Difference) -> tuple[str, str, bool]:
    mine, other = difference.ours, difference.theirs
    return mine.outcome, other.outcome, mine.said() == other.said()


def _smaller(problem: Problem) -> Iterator[Problem]:
    """The problem with one list item or field less; the largest parts first."""
    paths = sorted(_paths(problem.request()), key=len)
    for path in paths:
        copied = copy.deepcopy(problem)
        parent = copied.request()
        for step in path[:-1]:
            parent = parent[step]
        del parent[path[-1]]
        yield copied


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something that can be left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        if path and key not in REQUIRED:
            yield (*path, key)
        yield from _paths(each, (*path, key))


REQUIRED: Final = frozenset(
    (
        *("metadata", "name", "namespace", "spec", "status", "allocation", "devices", "request", "exactly"),
        *("driver", "pool", "generation", "resourceSliceCount", "device", "value", "counterSet"),
        *("deviceClassName", "allocationMode", "count"),
    )
)
"""Fields without which an object is not what it was."""
