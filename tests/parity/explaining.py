"""Which places of a random scenario's traces a known difference explains: one function for each difference.

A place is about one Pod or PodGroup, its consumer: itself, a claim made for it, or what was written of either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from parity.playing import ENDLESS, Played
from parity.trace import Place

_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Case:
    """One place, and what is known of its consumer."""

    played: Played
    place: Place
    consumer: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "consumer", self._consumer())

    def _consumer(self) -> str:
        """Its name; empty where the place does not say."""
        if self.part == "in_vain" or self.label == "new":
            return ""
        name = self.label.partition("#")[0].partition("/")[0]
        made = {each.arguments["name"]: each.arguments.get("owner", "") for each in self._acts("claim")}
        generated = (each.arguments["name"] for each in self._acts("pod", "group"))
        return str(made.get(name) or next((each for each in generated if name.startswith(f"{each}-")), name))

    @property
    def part(self) -> str:
        """The field of the trace."""
        return self.place.path[0]

    @property
    def kind(self) -> str:
        return self.place.path[1].partition(" ")[0] if " " in "".join(self.place.path[1:2]) else "ResourceClaim"

    @property
    def label(self) -> str:
        return "".join(self.place.path[1:2]).rpartition(" ")[2].strip("<>")

    @property
    def field(self) -> str:
        return " / ".join(self.place.path[2:])

    def _acts(self, *names: str) -> list[Any]:
        drawn = self.played.drawn
        return [each for each in (*drawn.before, *drawn.down, *drawn.after) if each.name in names]

    def has(self, *names: str, **arguments: Any) -> bool:
        """Whether one of these acts is in the scenario, with these arguments."""
        return any(arguments.items() <= each.arguments.items() for each in self._acts(*names))

    @property
    def finished(self) -> bool:
        return any(self.has("phase", pod=self.consumer, phase=phase) for phase in _FINISHED)

    @property
    def done(self) -> bool:
        return self.finished or self.has("terminate", "remove", pod=self.consumer)

    def named_upstream(self) -> list[Any]:
        """The claims that the consumer's status names in upstream's trace; None for one that is gone."""
        objects = self.played.upstream.objects
        labels = [
            label
            for label in objects
            if label.partition("#")[0] in (f"Pod {self.consumer}", f"PodGroup {self.consumer}")
        ]
        named = [
            each for label in labels for each in (objects[label].get("status") or {}).get("resourceClaimStatuses", ())
        ]
        return [objects.get(f"ResourceClaim {each.get('resourceClaimName', '').strip('<>')}") for each in named]

    @property
    def more_upstream(self) -> bool:
        """Whether upstream has what ours has, and more."""
        return _has_all(self.place.upstream, self.place.ours)

    @property
    def more_here(self) -> bool:
        return _has_all(self.place.ours, self.place.upstream)

    @property
    def endless(self) -> bool:
        """Whether upstream never came to an end, and ours did."""
        return ENDLESS in self.played.upstream.in_vain and ENDLESS not in self.played.ours.in_vain


def _has_all(more: Any, less: Any) -> bool:
    if less is None:
        return True
    if isinstance(more, dict) and isinstance(less, dict):
        return all(name in more and _has_all(more[name], value) for name, value in less.items())
    if isinstance(more, list | tuple) and isinstance(less, list | tuple):
        rest = iter(more)
        return all(any(each == other for other in rest) for each in less)
    return bool(more == less)


def finished_pods_get_no_claims(case: Case) -> bool:
    """Upstream records, makes, reserves and complains for a Pod that has finished."""
    anybody = any(case.has("phase", phase=phase) for phase in _FINISHED)
    if case.endless and case.part in ("in_vain", "history", "writes"):
        return anybody
    return (case.finished if case.consumer else anybody) and (case.more_upstream or case.field.startswith("status"))


def finished_pods_are_not_reserved_for(case: Case) -> bool:
    """Upstream removes and adds the entry of a finished Pod, a few times or for ever."""
    if not any(case.has("phase", phase=phase) for phase in _FINISHED):
        return False
    if case.part == "objects":
        return case.kind == "ResourceClaim" and case.field == "status / reservedFor" and case.more_upstream
    if case.part == "history" and case.has("claim", name=case.label):
        return case.more_upstream
    return case.endless and case.part in ("in_vain", "history", "writes")


def groups_keep_their_names(case: Case) -> bool:
    """Upstream applies one name and drops the others, for ever."""
    if not case.has("group"):
        return False
    if case.endless and case.part in ("in_vain", "history", "writes"):
        return True
    return case.kind == "PodGroup" and case.field == "status / resourceClaimStatuses" and case.more_here


def deleted_claims_are_made_again(case: Case) -> bool:
    """Ours has another claim where upstream's Pod or PodGroup names one that is gone, or misses the template for it."""
    if not case.has("delete claim"):
        return False
    if case.part == "warnings":
        return case.has("drop template") and case.more_here
    if case.field == "status / resourceClaimStatuses":
        return any(claim is None for claim in case.named_upstream())
    return "#" in case.label and case.kind in ("ResourceClaim", "resourceclaims") and case.more_here


def deleting_claims_are_not_recorded(case: Case) -> bool:
    """Ours has another claim where upstream's Pod or PodGroup names one that is being deleted."""
    if not any("deletionTimestamp" in claim["metadata"] for claim in case.named_upstream() if claim is not None):
        return False
    if case.field == "status / resourceClaimStatuses":
        return True
    return case.kind in ("ResourceClaim", "resourceclaims") and case.more_here


def deleting_claims_are_left_alone(case: Case) -> bool:
    """Upstream tries to reserve a claim that is being deleted, or deletes it again."""
    if not case.has("delete claim"):
        return False
    again = case.part == "writes" and case.place.upstream == [*(case.place.ours or ()), "delete"]
    return again or (case.part == "refused" and case.more_upstream)


def own_claims_are_recorded_at_once(case: Case) -> bool:
    """Somebody has recorded a claim of somebody else, and ours has recorded the Pod's own again."""
    if case.label == "new":
        return case.has("record") and case.more_here
    if not (case.has("record", pod=case.consumer) or case.has("record group", name=case.consumer)):
        return False
    return case.field == "status / resourceClaimStatuses" or case.more_here


def unnamed_claims_are_freed(case: Case) -> bool:
    """Ours frees and deletes a claim that a Pod controls and does not name when the Pod is done."""
    if not case.done or case.kind not in ("ResourceClaim", "resourceclaims"):
        return False
    if case.part == "objects":
        return case.place.ours is None or case.field == "metadata / deletionTimestamp" or case.more_upstream
    return case.part in ("history", "writes") and case.more_here


def explained(played: Played, by: Mapping[str, Callable[[Case], bool]]) -> dict[str, list[Place]]:
    """The places by the name of the difference that explains them; "" for what none does."""
    found: dict[str, list[Place]] = {}
    for place in played.places:
        case = Case(played, place)
        name = next((name for name, explains in by.items() if explains(case)), "")
        found.setdefault(name, []).append(place)
    return found
