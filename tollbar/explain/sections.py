"""The sections of an explanation of a Pod: its gates, claims, rules and tolerations, and what the scheduler finds."""

from collections.abc import Iterator
from typing import Final

from tollbar import wellknown
from tollbar.decide.gates.answers import Answer, Hold
from tollbar.decide.pods import alternatives, tolerations
from tollbar.decide.rules.rule import Problem, Rule
from tollbar.explain import devicerules, devices, remedies, taints
from tollbar.explain.case import Case
from tollbar.explain.changes import MOST
from tollbar.explain.values import Claim, Gate, NodeGroup, Request, RuleVerdict, Scheduling, Toleration
from tollbar.model import claims, conditions, managers, pods
from tollbar.model.claims import Unresolved
from tollbar.model.objects import Object, key_of, metadata, spec
from tollbar.model.resources import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    TOLERATION_RULES,
)
from tollbar.model.tolerations import identity
from tollbar.model.tolerations import text as toleration_text
from tollbar.offline import Attempt
from tollbar.offline.scheduling import DEFAULT_PROFILE
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import NAME as DYNAMIC_RESOURCES

_DEFAULTED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""What the admission plugin DefaultTolerationSeconds tolerates, in every Pod."""
_VIA: Final = {"admission": "at admission", "gate": "with the release", "late": "late"}
_MOST_ALTERNATIVES: Final = 256
_APPLIED_AGAIN: Final = (
    "this Pod is applied with tolerations, and rules have added others: the API server will refuse to have it applied"
    " again (existing toleration can not be modified) unless the manifest has all of them; or make the Pod anew:"
    " kubectl replace --force"
)


def gates_of(case: Case) -> Iterator[Gate]:
    for name in pods.gate_names(case.pod):
        declared = case.cluster.declared_gate(name)
        body = spec(declared or {})
        reason, waits = "", ""
        if name in case.told:
            reason, waits = _told(case.told[name][0].answer)
        elif name == wellknown.GATE:
            plan = case.cluster.gate_plan(case.pod)
            waits = (
                "the controllers" if plan.released else "; ".join(each.detail for each in plan.because if each.detail)
            )
        yield Gate(
            name=name,
            declared_by=key_of(declared).name if declared is not None else "",
            owners=tuple(map(str, body.get("owners") or ())),
            max_hold=str(body.get("maxHold") or ""),
            on_expiry=str(body.get("onExpiry") or ""),
            waits_for=waits,
            reason=reason,
        )


def _told(answer: Answer) -> tuple[str, str]:
    return (answer.reason, answer.subject) if isinstance(answer, Hold) else ("", "the controllers")


def claims_of(case: Case) -> Iterator[Claim]:
    """In the order of the Pod's references, then the claim for extended resources."""
    namespace = case.key.namespace
    for reference, name in claims.resolved(case.pod):
        template = reference.get("resourceClaimTemplateName")
        source = f"ResourceClaimTemplate {template}" if template else "by name"
        claim = case.cluster.get(RESOURCE_CLAIMS, name, namespace) if isinstance(name, str) else None
        if claim is not None:
            yield _claim(case, str(reference.get("name")), claim, source)
            continue
        state = name.value if isinstance(name, Unresolved) else "missing"
        found = case.cluster.get(RESOURCE_CLAIM_TEMPLATES, str(template or ""), namespace)
        if template and found is None:
            state = "its template is missing"
        wanted = {"spec": claims.template_claim_spec(found)} if found is not None else {}
        shown = name if isinstance(name, str) else ""
        requests = tuple(_requests(case, wanted))
        yield Claim(str(reference.get("name")), shown, source, state, "", (), requests)
    for claim in case.cluster.package(case.pod).claims:
        if key_of(claim).name == wellknown.EXTENDED_RESOURCES_CLAIM:
            yield _claim(case, "", claim, "extended resources")


def _claim(case: Case, reference: str, claim: Object, source: str) -> Claim:
    allocation = claims.allocation(claim)
    selector = (allocation or {}).get("nodeSelector")
    state = "deleting" if metadata(claim).get("deletionTimestamp") else "pending" if allocation is None else "allocated"
    return Claim(
        reference=reference,
        name=key_of(claim).name,
        source=source,
        state=state,
        node=devices.nodes_of(case.cluster, selector) if selector is not None else "",
        reserved_for=tuple(f"{each.get('resource')}/{each.get('name')}" for each in claims.reserved_for(claim)[:MOST]),
        requests=tuple(_requests(case, claim)),
    )


def _requests(case: Case, claim: Object) -> Iterator[Request]:
    results = claims.results(claims.allocation(claim))
    for request in claims.requests_of(claim):
        name = str(request.get("name"))
        got = tuple(
            f"{each.get('driver')}/{each.get('pool')}/{each.get('device')}"
            for each in results
            if str(each.get("request")).partition("/")[0] == name
        )
        given = [each for each in (request.get("exactly"), *(request.get("firstAvailable") or ())) if each]
        yield Request(name, " or ".join(devices.wanted(case.cluster, each) for each in given), got)


def rules_of(case: Case) -> Iterator[RuleVerdict]:
    cluster = case.cluster
    judged = cluster.judged(case.pod)
    count = alternatives.count(cluster.package(case.pod).claims, _MOST_ALTERNATIVES)
    for obj in cluster.objects(TOLERATION_RULES):
        name, rule = key_of(obj).name, cluster.gatherer.ruleset.get(key_of(obj).name)
        if isinstance(rule, Rule) and not rule.tolerations:
            yield _of_claims(case, rule)
            continue
        gives = tuple(map(toleration_text, taints.tolerations_of(obj)))
        mode = str(spec(obj).get("mode") or "Enforce")
        if isinstance(rule, Problem):
            yield RuleVerdict(name, mode, "not in force", f"{rule.reason}: {rule.message}", "", 0, gives)
        elif name in judged:
            verdict, steps = judged[name]
            of = f"{cluster.rules[name].when_alternatives} of {count}" if count > 1 else ""
            yield RuleVerdict(name, mode, verdict.truth.value, verdict.why, of, steps, gives)
        elif mode == "Disabled":
            yield RuleVerdict(name, mode, "not in force", "spec.mode is Disabled", "", 0, gives)
        else:
            why = f"namespaceSelector leaves {case.key.namespace} out"
            yield RuleVerdict(name, mode, "out of scope", why, "", 0, gives)


def _of_claims(case: Case, rule: Rule) -> RuleVerdict:
    """Of a rule for requests of claims alone."""
    gives = tuple(toleration_text(each) for each in rule.device_tolerations)
    if rule.mode == "Disabled":
        return RuleVerdict(rule.name, rule.mode, "not in force", "spec.mode is Disabled", "", 0, gives)
    names = (name for _, name in claims.resolved(case.pod) if isinstance(name, str))
    found = (case.cluster.get(RESOURCE_CLAIMS, name, case.key.namespace) for name in names)
    why = "; ".join(filter(None, (devicerules.said(case.cluster, each, rule) for each in found if each is not None)))
    return RuleVerdict(rule.name, rule.mode, "for claims" if why else "false", why, "", 0, gives)


def tolerations_of(pod: Object) -> Iterator[Toleration]:
    by_rules = {
        identity(each): (str(entry["rule"]), _VIA.get(entry["via"], "added"))
        for entry in tolerations.provenance_of(pod)
        for each in entry["added"]
    }
    for each in pods.tolerations(pod):
        text = toleration_text(each)
        if (given := by_rules.get(identity(each))) is not None:
            rule, via = given
            yield Toleration(text, f"rule {rule}, {via}", rule, via)
        else:
            defaulted = each.get("key") in _DEFAULTED and each.get("tolerationSeconds") == 300
            yield Toleration(text, "a default of Kubernetes" if defaulted else "the Pod's own")


def notes_of(pod: Object) -> Iterator[str]:
    added = {identity(each) for entry in tolerations.provenance_of(pod) for each in entry["added"]}
    if added & set(map(identity, pods.tolerations(pod))) and managers.is_applied(pod, "spec", "tolerations"):
        yield _APPLIED_AGAIN


def scheduling_of(case: Case, pod: Object, attempt: Attempt) -> Scheduling:
    cluster, result = case.cluster, attempt.result
    groups = remedies.groups(cluster, attempt)
    rejected = [name for group in groups if group.plugin == DYNAMIC_RESOURCES for name in group.nodes]
    known = cluster.knows(RESOURCE_SLICES, RESOURCE_CLAIMS)
    condition = conditions.of(case.pod, "PodScheduled")
    made = attempt.preemption
    return Scheduling(
        scheduler=str(spec(case.pod).get("schedulerName") or DEFAULT_PROFILE),
        nodes=len(cluster.scheduler.snapshot),
        fits=result.feasible_nodes if isinstance(result, Scheduled) else 0,
        node=attempt.node_name,
        message=str(result) if isinstance(result, FitError) else attempt.message,
        rejected=tuple(
            NodeGroup(group.plugin, group.reason, len(group.nodes), tuple(group.nodes[:MOST])) for group in groups
        ),
        devices=devices.groups(cluster, pod, rejected) if rejected and known else (),
        preemption=f"{made.victims} Pods of lower priority on node {made.node_name} make room"
        if made is not None and made.node_name
        else "",
        said=str(condition.get("message") or ""),
        said_at=str(condition.get("lastTransitionTime") or ""),
    )
