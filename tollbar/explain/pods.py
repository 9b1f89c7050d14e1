"""Why a Pod waits: gates, then claims, then the scheduler's view, each with what stands in the way now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tollbar import wellknown
from tollbar.api import durations
from tollbar.decide.gates.answers import Answer, Hold
from tollbar.decide.pods.events import PodEvent
from tollbar.decide.pods.matching import Truth
from tollbar.explain import awaited, remedies, sections
from tollbar.explain.case import Case
from tollbar.explain.causes import Cause
from tollbar.explain.changes import MOST, named, remedy_of, with_spec, with_tolerations
from tollbar.explain.events import note_of
from tollbar.explain.values import Finding, PodExplanation, Remedy, Scheduling
from tollbar.model import claims, conditions, pods
from tollbar.model.claims import Unresolved
from tollbar.model.objects import Object, key_of, metadata, spec
from tollbar.model.plan import Code
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    TOLERATION_RULES,
)
from tollbar.model.texts import some
from tollbar.offline import Attempt, Cluster
from tollbar.offline.scheduling import DEFAULT_PROFILE

_SETTLED: Final = 10.0
"""Seconds after its creation in which a Pod may wait for nothing but that it is somebody's turn."""
_UNREADY: Final = frozenset(
    {
        Cause.POD_GROUP_MISSING,
        Cause.CLAIM_MISSING,
        Cause.TEMPLATE_MISSING,
        Cause.CLASS_MISSING,
        Cause.CLAIM_NOT_GENERATED,
        Cause.OWNER_MISMATCH,
        Cause.CLAIM_DELETING,
    }
)
"""While one of these is so, the scheduler says the same of each Node."""
_MAKERS: Final = (
    "kube-controller-manager, or Tollbar with `claims: Replace`",
    "see whether its ResourceClaim controller runs, and what quota and admission say",
)
"""Who makes claims from templates, and what to look at where that does not happen."""
_REFUSERS: Final = ("who owns that policy", "let Tollbar's controllers update the Pod")
"""Who can act where other admission refuses a release, and how."""
_AUTHORS: Final = {
    Cause.CLAIM_MISSING: "the author of the Pod",
    Cause.TEMPLATE_MISSING: "the author of the Pod",
    Cause.CLASS_MISSING: "who runs the devices",
    Cause.NAMESPACE_UNKNOWN: "who runs the cluster",
}


def explain(cluster: Cluster, pod: Object, events: Sequence[Object] = ()) -> PodExplanation:
    """Why this Pod waits, which need not be in the copy.  `events` are those about the Pod (events.k8s.io/v1)."""
    case = Case(cluster, pod, events)
    findings, tried, scheduling = _findings(case)
    return PodExplanation(
        namespace=key_of(pod).namespace,
        name=key_of(pod).name,
        phase=str((pod.get("status") or {}).get("phase") or "Pending"),
        node=str(spec(pod).get("nodeName") or ""),
        age=case.age,
        findings=tuple(findings),
        gates=tuple(sections.gates_of(case)),
        told=tuple(section for _, told in case.told.values() for section in told),
        claims=tuple(sections.claims_of(case)),
        rules=tuple(sections.rules_of(case)),
        tolerations=tuple(sections.tolerations_of(pod)),
        scheduling=scheduling,
        remedies=tuple(tried),
        notes=tuple(sections.notes_of(pod)),
        unknown=cluster.not_read,
    )


def _findings(case: Case) -> tuple[list[Finding], list[Remedy], Scheduling | None]:
    """The causes, the remedies that were tried, and what the scheduler core finds for a Pod that waits."""
    if (placed := _placed_or_ended(case)) is not None:
        return [placed], [], None
    ours = list(_our_gate(case))
    others = {name: _other_gate(case, name) for name in pods.gate_names(case.pod) if name != wellknown.GATE}
    full = list(_full_claims(case))
    held = [*ours, *others.values(), *_not_ready(case), *_full(case, full)]
    free = ungated(case.cluster, case.pod)
    attempt = case.cluster.scheduler.attempt(free, preempt=True)
    scheduling = sections.scheduling_of(case, free, attempt)
    released = list(awaited.released(case))
    if blind := _unread(case):
        return held or [blind], released, scheduling
    besides = _preconditions(ours, others, full)
    if unready := [each.cause for each in held if each.cause in _UNREADY]:
        return held, [*released, *besides.before(awaited.ready(case, free, unready[0]))], scheduling
    if attempt.node_name:
        findings = held or [_fits(case, attempt)]
        return findings, [*released, *_where_it_fits(case, free, attempt, findings[0], besides)], scheduling
    found, tried = remedies.tried(case.cluster, free, remedies.rejections(case.cluster, free, attempt))
    since = _since(case)
    rejected = [Finding(each.cause, each.what, since, each.who, each.action) for each in found]
    return [*held, *rejected], [*released, *besides.before(tried)], scheduling


@dataclass(frozen=True, slots=True)
class _Preconditions:
    """What has to happen besides, in words, so that a Pod gets a Node that was tried without its gates.

    Each gate has to come off, but for those that a controller is about to take off; and of each full claim a consumer
    has to go, without which a scheduler finds a Node for the Pod and cannot reserve the claim.  `cause` is that of the
    first gate of somebody else, or that a claim is full; None if there is nothing but Tollbar's own gate.
    """

    cause: Cause | None
    texts: tuple[str, ...] = ()

    def before(self, tried: Iterable[Remedy]) -> Iterator[Remedy]:
        """The remedies with these preconditions in what has to change."""
        for each in tried:
            yield replace(each, change=", and ".join((*self.texts, each.change)))


def _preconditions(ours: Sequence[Finding], others: Mapping[str, Finding], full: Iterable[Object]) -> _Preconditions:
    """`ours` are the findings about Tollbar's gate, `others` those by other gate; `full` are the full claims."""
    holding = {name: each.cause for name, each in others.items() if each.cause is not Cause.RELEASE_DUE}
    texts = [awaited.RELEASES] if ours and ours[0].cause is not Cause.RELEASE_DUE else []
    if holding:
        texts.append(f"{named('scheduling gate', list(holding))} {'is' if len(holding) == 1 else 'are'} removed")
    causes = [*holding.values()]
    for claim in full:
        causes.append(Cause.RESERVATION_FULL)
        count = len(claims.reserved_for(claim))
        texts.append(f"one of the {count} consumers lets ResourceClaim {key_of(claim).name} go")
    return _Preconditions(next(iter(causes), None), tuple(texts))


def _where_it_fits(
    case: Case, free: Object, attempt: Attempt, first: Finding, besides: _Preconditions
) -> Iterator[Remedy]:
    """What would help a Pod that has to wait although a Node fits."""
    if first.cause is Cause.NO_SCHEDULER:
        yield from _served(case, free)
    if besides.cause is not None:
        yield remedy_of(besides.cause, ", and ".join(besides.texts), attempt)


def ungated(cluster: Cluster, pod: Object) -> Object:
    """The Pod without gates, with the tolerations that it gets when Tollbar's own gate comes off."""
    due = cluster.gate_plan(pod).additions if pods.is_gated(pod) else ()
    added = [toleration for addition in due for toleration in addition.tolerations]
    return with_tolerations(with_spec(pod, schedulingGates=None), added)


def _unread(case: Case) -> Finding | None:
    """That nobody can tell what a scheduler would find, because kinds may not be read; None if all may be read."""
    kinds = [NODES, PODS]
    if pods.uses_claims(case.pod) or any(pods.extended_resources(case.pod)):
        kinds += [RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES]
    unread = [each.kind for each in kinds if not case.cluster.knows(each)]
    if not unread:
        return None
    message = conditions.of(case.pod, "PodScheduled").get("message")
    said = f"; the scheduler says: {message}" if message else ""
    what = f"{', '.join(unread)} may not be read everywhere, so that what a scheduler finds is not known{said}"
    return Finding(Cause.UNKNOWN, what, _since(case), "you", "ask for the ClusterRole tollbar-explain")


def _placed_or_ended(case: Case) -> Finding | None:
    if pods.is_terminal(case.pod) or pods.is_deleting(case.pod):
        why = "is being deleted" if pods.is_deleting(case.pod) else "has finished"
        return Finding(Cause.ENDED, f"the Pod {why}", str(metadata(case.pod).get("deletionTimestamp") or ""))
    if node := spec(case.pod).get("nodeName"):
        found = conditions.of(case.pod, "PodScheduled")
        what = f"the Pod has node {node}; what it waits for now is up to the kubelet: see its conditions and Events"
        return Finding(Cause.RUNNING, what, str(found.get("lastTransitionTime") or ""))
    return None


# Gates.


def _our_gate(case: Case) -> Iterator[Finding]:
    if not pods.is_gated(case.pod):
        return
    cluster, since = case.cluster, case.created
    plan = cluster.gate_plan(case.pod)
    refused = case.event(PodEvent.RELEASE_REFUSED)
    if not cluster.knows(TOLERATION_RULES):
        held = case.event(PodEvent.SCHEDULING_HELD)
        told = f"; its Event says: {note_of(held)}" if held is not None else ""
        what = f"Tollbar's gate holds the Pod, and TolerationRules may not be read{told}"
        yield Finding(Cause.UNKNOWN, what, since, "you", "ask for the ClusterRole tollbar-explain")
    elif not plan.released:
        yield from _undecided(case)
    elif refused is not None:
        yield Finding(Cause.RELEASE_REFUSED, note_of(refused), since, *_REFUSERS)
    elif case.is_led is False:
        what = "nothing holds the Pod any more, and no controller renews the Lease to release it"
        yield Finding(Cause.NO_CONTROLLER, what, since, "who runs Tollbar", "start the controllers, or `tollbar drain`")
    else:
        what = "everything is known that rules need: the controllers release the Pod"
        yield Finding(
            Cause.RELEASE_DUE, what, since, "Tollbar's controllers", "nothing; if it lasts, see `tollbar status`"
        )


def _undecided(case: Case) -> Iterator[Finding]:
    """Why Tollbar's gate holds the Pod: objects that are missing, or else what rules without a verdict wait for."""
    cluster, since, package = case.cluster, case.created, case.cluster.package(case.pod)
    overdue = " for longer than maxHold, which says onExpiry Report" if case.overdue(wellknown.GATE) is not None else ""
    waiting = [
        f"rule {name} waits for {verdict.why}"
        for name, verdict in cluster.verdicts(case.pod).items()
        if verdict.truth is Truth.UNKNOWN and cluster.rules[name].mode == "Enforce"
    ]
    tail = f"Tollbar's gate holds the Pod{overdue}: {some(waiting, MOST) or 'the rules are not known'}"
    for each in package.missing:
        if not cluster.knows(awaited.KINDS[each.kind], namespace=case.key.namespace):
            yield Finding(Cause.UNKNOWN, f"{each.kind} {each.name} may not be read; {tail}", since)
            continue
        cause = awaited.MISSING[each.kind]
        what = f"{each.kind} {each.name} does not exist; {tail}"
        yield Finding(cause, what, since, _AUTHORS[cause], f"create {each.kind} {each.name}")
    if package.missing:
        return
    for pending in package.pending:
        yield _not_generated(case, f"{pending}; {tail}")
    if not package.pending:
        yield Finding(Cause.WAITING_FOR_RULE, tail, since, "who makes what is missing", "see the rules below")


def _other_gate(case: Case, name: str) -> Finding:
    """Why a gate other than Tollbar's own holds the Pod: that of a gate class, or of somebody else's controller."""
    event, said = case.said_by(name)
    answer = case.told[name][0].answer if name in case.told else None
    if event == PodEvent.RELEASE_REFUSED and not isinstance(answer, Hold):
        return Finding(Cause.RELEASE_REFUSED, f"scheduling gate {name}: {said}", case.created, *_REFUSERS)
    if answer is not None:
        return _of_class(case, name, answer)
    what = f"scheduling gate {name} holds the Pod{_overdue_by(case, name)}"
    if said:
        action = f"see what {name} waits for"
        return Finding(Cause.GATE_CLASS, f"{what}: {said}", case.created, "the administrator", action)
    owners = ", ".join(map(str, spec(case.cluster.declared_gate(name) or {}).get("owners") or ()))
    who = owners or f"the controller that the gate is named after ({name.partition('/')[0]})"
    return Finding(Cause.FOREIGN_GATE, what, case.created, who, f"remove the gate {name} when it is due")


def _of_class(case: Case, name: str, answer: Answer) -> Finding:
    if isinstance(answer, Hold):
        reason, waiting = answer.reason, f"waiting for {answer.subject}"
        what = f"scheduling gate {name} holds the Pod{_overdue_by(case, name)}: {reason}: {waiting}"
        action = reason.meaning if isinstance(reason, Code) else f"see what {name} waits for"
        return Finding(Cause.GATE_CLASS, what, case.created, "the administrator", action)
    if case.releases(name) is False:
        what = f"nothing holds the Pod by scheduling gate {name} any more, and no controller leads that releases it"
        action = f"start the controllers with the gate class of {name}, or `tollbar drain`"
        return Finding(Cause.NO_CONTROLLER, what, case.created, "who runs Tollbar", action)
    what = f"scheduling gate {name} waits for nothing any more: the controllers release the Pod"
    action = "nothing; if it lasts, see `tollbar status`"
    return Finding(Cause.RELEASE_DUE, what, case.created, "Tollbar's controllers", action)


def _overdue_by(case: Case, gate: str) -> str:
    most = case.overdue(gate)
    return "" if most is None else f", for longer than its maxHold {durations.text(most)}"


# Claims.


def _not_ready(case: Case) -> Iterator[Finding]:
    """What has to be there before the scheduler tries the Pod, and is not: its PodGroup, its claims, their classes."""
    if pods.is_gated(case.pod) and not case.cluster.gate_plan(case.pod).released:
        return  # said with the gate
    yield from _without_group(case)
    for reference, name in claims.resolved(case.pod):
        template = str(reference.get("resourceClaimTemplateName") or "")
        if isinstance(name, str):
            yield from _unusable(case, name, template)
        elif name is Unresolved.NOT_CREATED:
            yield _not_created(case, template)
    yield from _without_class(case)


def _without_group(case: Case) -> Iterator[Finding]:
    cluster, group = case.cluster, pods.scheduling_group(case.pod)
    is_known = cluster.knows(POD_GROUPS) and cluster.serves(POD_GROUPS)
    if group and is_known and cluster.get(POD_GROUPS, group, case.key.namespace) is None:
        action = f"create PodGroup {group}, or the WorkloadClaim that makes it"
        what = f"PodGroup {group} does not exist"
        yield Finding(Cause.POD_GROUP_MISSING, what, _since(case), "the author of the Pod", action)


def _not_created(case: Case, template: str) -> Finding:
    """Of a claim that is to be made from the template."""
    kind, namespace, since = RESOURCE_CLAIM_TEMPLATES, case.key.namespace, _since(case)
    if case.cluster.get(kind, template, namespace) is not None:
        return _not_generated(case, f"ResourceClaim from template {template}")
    if not case.cluster.knows(kind, namespace=namespace):
        return Finding(Cause.UNKNOWN, f"{kind.kind} {template} may not be read", since)
    what, action = f"{kind.kind} {template} does not exist", f"create {kind.kind} {template}"
    return Finding(Cause.TEMPLATE_MISSING, what, since, "the author of the Pod", action)


def _unusable(case: Case, name: str, template: str) -> Iterator[Finding]:
    """Of the claim of this name, if it is missing, being deleted or another Pod's; `template` is empty without one."""
    claim = case.cluster.get(RESOURCE_CLAIMS, name, case.key.namespace)
    if claim is None:
        if case.cluster.knows(RESOURCE_CLAIMS, namespace=case.key.namespace):
            what, action = f"ResourceClaim {name} does not exist", f"create ResourceClaim {name}"
            yield Finding(Cause.CLAIM_MISSING, what, _since(case), "the author of the Pod", action)
    elif since := metadata(claim).get("deletionTimestamp"):
        users = ", ".join(str(each.get("name")) for each in claims.reserved_for(claim)) or "finalizers"
        what = f"ResourceClaim {name} is being deleted, and waits for {users}"
        yield Finding(Cause.CLAIM_DELETING, what, str(since), users, "end, or let it go")
    elif template and not claims.is_for(claim, case.pod):
        yield _mismatch(case, name, template)


def _without_class(case: Case) -> Iterator[Finding]:
    """Of DeviceClasses that claims without an allocation name."""
    cluster, since = case.cluster, _since(case)
    for claim in cluster.package(case.pod).claims:
        known = cluster.get(RESOURCE_CLAIMS, key_of(claim).name, key_of(claim).namespace)
        if claims.allocation(known or {}) is not None:
            continue
        for name in dict.fromkeys(claims.device_classes(claim)):
            if cluster.get(DEVICE_CLASSES, name) is None and cluster.knows(DEVICE_CLASSES):
                what = f"DeviceClass {name} does not exist; ResourceClaim {key_of(claim)} names it"
                yield Finding(Cause.CLASS_MISSING, what, since, "who runs the devices", f"create DeviceClass {name}")


def _mismatch(case: Case, name: str, template: str) -> Finding:
    """The status names a claim of somebody else: whoever makes claims makes another one, if it can."""
    what = f"ResourceClaim {name} was not made for this Pod: its owner is another object"
    if (
        case.cluster.knows(RESOURCE_CLAIM_TEMPLATES, namespace=case.key.namespace)
        and case.cluster.get(RESOURCE_CLAIM_TEMPLATES, template, case.key.namespace) is None
    ):
        lacks = f"ResourceClaimTemplate {template}, from which another one would be made, does not exist"
        action = f"create ResourceClaimTemplate {template}"
        return Finding(Cause.OWNER_MISMATCH, f"{what}; {lacks}", _since(case), "the author of the Pod", action)
    return Finding(Cause.OWNER_MISMATCH, f"{what}; nobody has made another one", _since(case), *_MAKERS)


def _not_generated(case: Case, what: str) -> Finding:
    failed = case.event("FailedResourceClaimCreation")
    why = f": {note_of(failed)}" if failed is not None else ""
    return Finding(
        Cause.CLAIM_NOT_GENERATED,
        f"nobody has made {what}{why}",
        case.created,
        *_MAKERS,
    )


def _full(case: Case, full: Iterable[Object]) -> Iterator[Finding]:
    for claim in full:
        count = len(claims.reserved_for(claim))
        what = f"ResourceClaim {key_of(claim).name} is reserved for {count} consumers, and there may be no more"
        action = "wait until one of them ends, share the claim less, or share it by a PodGroup"
        yield Finding(Cause.RESERVATION_FULL, what, _since(case), "the author of the Pod", action)


def _full_claims(case: Case) -> Iterator[Object]:
    """The Pod's claims that have as many consumers as may be, without the Pod; none that is being deleted."""
    for name in dict.fromkeys(str(name) for _, name in claims.resolved(case.pod)):
        claim = case.cluster.get(RESOURCE_CLAIMS, name, case.key.namespace)
        if (
            claim is not None
            and not metadata(claim).get("deletionTimestamp")
            and len(claims.reserved_for(claim)) >= claims.RESERVED_FOR_MAX
            and not claims.is_reserved_for(claim, case.pod)
        ):
            yield claim


# The scheduler.


def _since(case: Case) -> str:
    """Since when the scheduler rejects the Pod, as far as its condition tells."""
    found = conditions.of(case.pod, "PodScheduled")
    if found.get("reason") == "Unschedulable":
        return str(found.get("lastTransitionTime") or case.created)
    return case.created


def _fits(case: Case, attempt: Attempt) -> Finding:
    condition = conditions.of(case.pod, "PodScheduled")
    name = str(spec(case.pod).get("schedulerName") or DEFAULT_PROFILE)
    if condition.get("reason") == "Unschedulable" or case.age < _SETTLED:
        said = f"; {name} said before: {condition.get('message')}" if condition.get("message") else ""
        what = f"node {attempt.node_name} fits now{said}"
        action = "nothing; if it lasts, compare with what the scheduler says"
        return Finding(Cause.SCHEDULER_BEHIND, what, _since(case), f"the scheduler {name}", action)
    what = f"node {attempt.node_name} fits, and no scheduler named {name} has looked at the Pod"
    action = f"see whether {name} runs, or correct spec.schedulerName"
    return Finding(Cause.NO_SCHEDULER, what, case.created, "who runs the schedulers", action)


def _served(case: Case, free: Object) -> Iterator[Remedy]:
    """That the Pod names the default scheduler, if it names another one and a Node fits."""
    if spec(case.pod).get("schedulerName", DEFAULT_PROFILE) == DEFAULT_PROFILE:
        return
    attempt = case.cluster.scheduler.attempt(with_spec(free, schedulerName=DEFAULT_PROFILE))
    if attempt.node_name:
        yield remedy_of(Cause.NO_SCHEDULER, f"the Pod names {DEFAULT_PROFILE}", attempt)
