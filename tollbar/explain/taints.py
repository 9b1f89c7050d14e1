"""Nodes that a Pod does not tolerate, and the rules that would give it the tolerations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tollbar.decide.pods.matching import Truth
from tollbar.decide.rules.rule import Problem
from tollbar.dra.exclusions import taint_text
from tollbar.explain.case import is_led
from tollbar.explain.causes import Cause
from tollbar.explain.changes import MOST, Change, Group, Rejection, named, with_spec, with_tolerations
from tollbar.model import pods, tolerations
from tollbar.model.objects import Object, key_of, labels_of, metadata, spec
from tollbar.model.resources import NAMESPACES, NODES, TOLERATION_RULES
from tollbar.offline import Cluster

_NEAREST: Final = (
    Cause.RULE_NOT_APPLIED,
    Cause.WAITING_FOR_RULE,
    Cause.RULE_IN_AUDIT,
    Cause.RULE_FAILED,
    Cause.RULE_OUT_OF_SCOPE,
    Cause.RULE_NOT_IN_FORCE,
)
"""Of several rules the one that is named: what has to be done for it is least."""
_ADMINISTRATOR: Final = "an administrator of rules"


def rejections(cluster: Cluster, pod: Object, group: Group) -> Iterator[Rejection]:
    """One for all Nodes with the same taints that the Pod does not tolerate."""
    by_taints: dict[tuple[str, ...], tuple[list[Object], list[str]]] = {}
    given = pods.tolerations(pod)
    for name in group.nodes:
        taints = spec(cluster.get(NODES, name) or {}).get("taints") or ()
        found = [each for each in taints if tolerations.untolerated([each], given) is not None]
        by_taints.setdefault(tuple(map(taint_text, found)), (found, []))[1].append(name)
    for found, names in list(by_taints.values())[:MOST]:
        yield _by_rule(cluster, pod, found, names) or _by_nobody(found, names)


def tolerations_of(rule: Object) -> list[Object]:
    """The tolerations in the spec of a TolerationRule, valid or not."""
    return [each for each in spec(rule).get("tolerations") or () if isinstance(each, dict)]


def _by_nobody(taints: Sequence[Object], nodes: Sequence[str]) -> Rejection:
    texts = ", ".join(map(taint_text, taints))
    added = [{"key": each.get("key"), "operator": "Exists", "effect": each.get("effect")} for each in taints]
    return Rejection(
        Cause.UNTOLERATED_TAINT,
        _where(taints, nodes),
        "the author of the Pod, or an administrator with a TolerationRule",
        f"tolerate {texts}, if the Pod belongs there",
        (Change(Cause.UNTOLERATED_TAINT, f"the Pod tolerates {texts}", edit=lambda pod: with_tolerations(pod, added)),),
    )


def _where(taints: Sequence[Object], nodes: Sequence[str]) -> str:
    return f"{named('node', nodes)}: taint {', '.join(map(taint_text, taints))} is not tolerated"


class _Candidate(NamedTuple):
    """A rule that gives the tolerations that are missing."""

    cluster: Cluster
    pod: Object
    obj: Object
    where: str

    @property
    def name(self) -> str:
        return key_of(self.obj).name

    def rejection(self, cause: Cause, why: str, who: str, action: str, change: Change | None = None) -> Rejection:
        """Without `change`: as if the rule were true and in force."""
        given = tolerations_of(self.obj)
        done = change or Change(
            cause, f"rule {self.name} gives its tolerations", edit=lambda pod: with_tolerations(pod, given)
        )
        return Rejection(cause, f"{self.where}: {why}", who, action, (replace(done, cause=cause),))

    def is_true_with(self, fields: Mapping[str, Any]) -> bool:
        """Whether the rule would be true for the Pod if its spec were different in these fields."""
        with self.cluster.changed(put=[with_spec(self.obj, **fields)]):
            verdict = self.cluster.verdicts(self.pod).get(self.name)
        return verdict is not None and verdict.truth is Truth.TRUE


def _by_rule(cluster: Cluster, pod: Object, taints: Sequence[Object], nodes: Sequence[str]) -> Rejection | None:
    """Of the rules that give tolerations for all of these taints, and do not, the one that is nearest to it."""
    found = []
    for obj in cluster.objects(TOLERATION_RULES):
        if taints and tolerations.untolerated(taints, tolerations_of(obj)) is None:
            rejection = _why_not(_Candidate(cluster, pod, obj, _where(taints, nodes)))
            found += [rejection] if rejection is not None else []
    return min(found, key=lambda each: _NEAREST.index(each.cause), default=None)


def _why_not(candidate: _Candidate) -> Rejection | None:
    """None for a rule that is not about this Pod."""
    name, rule = candidate.name, candidate.cluster.gatherer.ruleset.get(candidate.name)
    if isinstance(rule, Problem):
        why = f"rule {name} would give the toleration, but is not valid: {rule.message}"
        return candidate.rejection(Cause.RULE_NOT_IN_FORCE, why, _ADMINISTRATOR, f"correct rule {name}")
    if rule is None or rule.mode == "Disabled":
        if not candidate.is_true_with({"mode": "Audit"}):
            return None
        why = f"rule {name} would give the toleration, but is disabled"
        action = f"enable rule {name}"
        return candidate.rejection(Cause.RULE_NOT_IN_FORCE, why, _ADMINISTRATOR, action, _enforced(candidate))
    verdict = candidate.cluster.verdicts(candidate.pod).get(name)
    if verdict is None:
        if not candidate.is_true_with({"namespaceSelector": {}}):
            return None
        why = f"rule {name} would give the toleration, but leaves namespace {key_of(candidate.pod).namespace} out"
        action = f"label the namespace, or change namespaceSelector of rule {name}"
        return candidate.rejection(Cause.RULE_OUT_OF_SCOPE, why, _ADMINISTRATOR, action, _in_scope(candidate))
    match verdict.truth:
        case Truth.TRUE if rule.mode == "Enforce":
            why = f"rule {name} is true for the Pod, and has not given it the toleration"
            who, action = "Tollbar's controllers", "nothing, they add it late; if they do not, see `tollbar status`"
            if is_led(candidate.cluster) is False:
                why += ", and no controller renews the Lease to add it late"
                who, action = "who runs Tollbar", "start the controllers, and see `tollbar status` for the webhook"
            change = Change(Cause.RULE_NOT_APPLIED, f"the toleration of rule {name} is added", by_rules=True)
            return candidate.rejection(Cause.RULE_NOT_APPLIED, why, who, action, change)
        case Truth.TRUE:
            why = f"rule {name} is true for the Pod, but its mode is Audit"
            action = f"set spec.mode of rule {name} to Enforce"
            return candidate.rejection(Cause.RULE_IN_AUDIT, why, _ADMINISTRATOR, action, _enforced(candidate))
        case Truth.ERROR:
            why = f"rule {name} fails for the Pod: {verdict.why}"
            action = f"guard the field in rule {name} with has()"
            return candidate.rejection(Cause.RULE_FAILED, why, _ADMINISTRATOR, action)
        case Truth.UNKNOWN:
            why = f"rule {name} waits for {verdict.why}"
            who, action = "who makes what is missing", f"create {verdict.why}"
            return candidate.rejection(Cause.WAITING_FOR_RULE, why, who, action)
    return None


def _enforced(candidate: _Candidate) -> Change:
    put = with_spec(candidate.obj, mode="Enforce")
    return Change(Cause.RULE_IN_AUDIT, f"rule {candidate.name} has mode Enforce", put=(put,), by_rules=True)


def _in_scope(candidate: _Candidate) -> Change:
    """The namespace has the labels that the rule asks for; or the rule selects every namespace."""
    namespace = candidate.cluster.get(NAMESPACES, key_of(candidate.pod).namespace)
    selector = spec(candidate.obj).get("namespaceSelector") or {}
    wanted = selector.get("matchLabels") or {}
    if namespace is not None and wanted and not selector.get("matchExpressions"):
        put = {**namespace, "metadata": {**metadata(namespace), "labels": {**labels_of(namespace), **wanted}}}
        labels = ", ".join(f"{key}={value}" for key, value in wanted.items())
        text = f"namespace {key_of(namespace).name} has the label {labels}"
    else:
        put, text = with_spec(candidate.obj, namespaceSelector={}), f"rule {candidate.name} selects every namespace"
    return Change(Cause.RULE_OUT_OF_SCOPE, text, put=(put,), by_rules=True)
