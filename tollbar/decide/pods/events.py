"""The Events about Pods: every reason and every text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tollbar.decide.pods.justification import Given
from tollbar.decide.pods.tolerations import Addition
from tollbar.model import tolerations
from tollbar.model.plan import Code, Event


class PodEvent(Code):
    """Events on Pods.  A Pod that is decided at admission has none: admission writes nothing."""

    SCHEDULING_HELD = (
        "SchedulingHeld",
        """The Pod has been held for more than two seconds; the note names the object that is missing. Create it, and
        the Pod is released.""",
    )
    TOLERATIONS_ADDED = (
        "TolerationsAdded",
        """Tolerations were added, when the Pod was released or later; the note names the rules, and the gates that
        remain, or the claims that kube-scheduler waits for.""",
    )
    GATE_RELEASED = (
        "GateReleased",
        """The Pod was released without new tolerations; the note names the gates that remain, or the claims that
        kube-scheduler waits for.""",
    )
    GATE_OVERDUE = (
        "GateOverdue",
        """Warning: the Pod has been held for longer than `maxHold`; the note says what it waited for, or with which
        text other admission refused the release. The Pod was released all the same, or is still held if the
        SchedulingGate has `onExpiry: Report`. Create what is missing, or fix the policy that refuses: the tolerations
        are added then. If the note names the gate of another controller, ask its owners, which the note names, too.""",
    )
    RELEASE_REFUSED = (
        "ReleaseRefused",
        """Warning: another webhook or an admission policy refused the patch by which the controllers release the Pod or
        add tolerations; the note has its text. Fix that policy.""",
    )
    GATE_FAILED = (
        "GateFailed",
        """Warning: a gate class raised an error, or asked for a change that the API server refuses; the note names it.
        The Pod is held, and released or reported as the SchedulingGate says. Tell the author of the class.""",
    )
    RULE_EVALUATION_FAILED = (
        "RuleEvaluationFailed",
        """Warning: rules failed for this Pod and counted as false; the note says which and why. Guard the field in the
        rule with `has(...)`.""",
    )
    TOLERATION_UNJUSTIFIED = (
        "TolerationUnjustified",
        """Warning: the Pod runs with claims other than those it had when it got the tolerations that the note names,
        and their rules are not true for it any more. It is evicted where the controllers are told to
        (`onUnjustifiedToleration: Evict`); otherwise delete it, and see who replaced its claims.""",
    )


class GateFailure(Code):
    """Failures of gate classes.  Label `reason` of `tollbar_gate_errors_total`, and why a Pod is held."""

    RAISED = "Raised", "The class raised an error, or returned something that is not an answer."
    FORBIDDEN = "ForbiddenMutation", "The class asked for a change that the API server would refuse."


def about_gate(gate: str, event: Event) -> Event:
    """The Event about this gate of a gate class: a Pod may have several, so the note begins with the gate's name."""
    return replace(event, note=f"{gate}: {event.note}")


def gate_of(note: str) -> tuple[str, str]:
    """The gate that the note of an Event begins with (`about_gate`), and the text after it; ("", note) for others."""
    gate, separator, text = note.partition(": ")
    return (gate, text) if separator and "/" in gate and " " not in gate else ("", note)


def gate_failed(why: str) -> Event:
    return Event("Warning", PodEvent.GATE_FAILED, why, "Decide")


def scheduling_held(waiting_for: str) -> Event:
    return Event("Normal", PodEvent.SCHEDULING_HELD, f"waiting for {waiting_for}", "Hold")


def released(additions: Sequence[Addition], other_gates: Sequence[str], without: Sequence[str]) -> Event:
    """Our gate came off; `other_gates` keep the Pod from being scheduled all the same, or these objects do not exist.

    kube-scheduler says nothing about a Pod `without` them: its condition, and so what kubectl shows, stays as it was.
    """
    how, then = "released", ""
    if other_gates:
        how += f"; still waiting for {', '.join(other_gates)}"
    elif without:
        then = f"; kube-scheduler waits for {', '.join(without)}, until then kubectl shows SchedulingGated"
    if additions:
        return _tolerations_added(additions, how + then)
    return Event("Normal", PodEvent.GATE_RELEASED, f"{how}; no toleration added{then}", "Release")


def added_late(additions: Sequence[Addition]) -> Event:
    return _tolerations_added(additions, "added after admission")


def _tolerations_added(additions: Sequence[Addition], how: str) -> Event:
    count = sum(len(addition.tolerations) for addition in additions)
    note = f"{count} {'toleration' if count == 1 else 'tolerations'} by {rules(additions)}; {how}"
    return Event("Normal", PodEvent.TOLERATIONS_ADDED, note, "AddTolerations")


def gate_released(gives: str, other_gates: Sequence[str]) -> Event:
    """The gate came off, with what is `gives`, if anything; `other_gates` keep the Pod all the same."""
    also = f" with {gives}" if gives else ""
    still = f"; still waiting for {', '.join(other_gates)}" if other_gates else ""
    return Event("Normal", PodEvent.GATE_RELEASED, f"released{also}{still}", "Release")


def released_overdue(max_hold: float, waiting_for: str, without: str, why: str) -> Event:
    """Released without what was waited for, or `without` a change that was refused in the words `why`."""
    reasons = [f"while Tollbar still waits for {waiting_for}"] if waiting_for else []
    if without:
        reasons.append(f"without {without}, which the API server refused: {why}")
    return Event("Warning", PodEvent.GATE_OVERDUE, f"released after {max_hold:g}s, {'; '.join(reasons)}", "Release")


def held_overdue(max_hold: float, waiting_for: str) -> Event:
    return _held_overdue(max_hold, f", waiting for {waiting_for}")


def others_gate_overdue(gate: str, max_hold: float, owners: Sequence[str]) -> Event:
    """Held by a gate that is not ours."""
    whose = f"; its owners are {', '.join(owners)}" if owners else ""
    return Event("Warning", PodEvent.GATE_OVERDUE, f"held by {gate} for more than {max_hold:g}s{whose}", "Hold")


def refused_overdue(max_hold: float, why: str) -> Event:
    return _held_overdue(max_hold, f": {_REFUSED} {why}")


def _held_overdue(max_hold: float, why: str) -> Event:
    return Event("Warning", PodEvent.GATE_OVERDUE, f"held for more than {max_hold:g}s{why}", "Hold")


_REFUSED: Final = "the API server refused the patch:"


def release_refused(why: str) -> Event:
    return Event("Warning", PodEvent.RELEASE_REFUSED, f"{_REFUSED} {why}", "Release")


def rule_evaluation_failed(failed: Iterable[tuple[str, str]]) -> Event:
    """`failed` are (rule, why) pairs."""
    note = "; ".join(f"rule {rule}: {why}" for rule, why in failed)
    return Event("Warning", PodEvent.RULE_EVALUATION_FAILED, note, "Evaluate")


def toleration_unjustified(unjustified: Iterable[Given]) -> Event:
    given = ", ".join(f"{tolerations.text(each.toleration)} by rule {each.rule}" for each in unjustified)
    note = f"the claims that the Pod runs with do not justify what it tolerates: {given}"
    return Event("Warning", PodEvent.TOLERATION_UNJUSTIFIED, note, "Review")


def rules(additions: Iterable[Addition]) -> str:
    return ", ".join(addition.rule for addition in additions)
