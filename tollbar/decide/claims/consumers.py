"""What the ResourceClaim controller does about one Pod or PodGroup: see that the claims it refers to exist.

Pure.  Called by `controllers.claims` twice: for an event, to learn whether there is anything to do (`is_needed`), and
by a worker, which does it.  Behaviour of kube-controller-manager's controller of the same name, KEP-3063 and KEP-5729;
where it differs on purpose, docs/reference/claims.md says so.

Invariants: a Pod that is done or deleted gets nothing, its claims are only cleaned up; a recorded claim that the caches
do not know is asked for (`questions`) before another is created in its place; a claim is the user's only if its
controlling owner says so; deciding again after the plan's effects gives nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tollbar import wellknown
from tollbar.decide.claims.claim import Lookup
from tollbar.model import claims, names, pods
from tollbar.model.claims import Unresolved
from tollbar.model.objects import Key, Object, controller_of, key_of, metadata, spec, uid_of


@dataclass(frozen=True, slots=True)
class Creation:
    """A claim to create for one entry of `spec.resourceClaims`.

    `instead` names a claim of somebody else that the user's status points to: a reason to act only when something else
    is, too, since such a Pod waits for that claim to go.
    """

    reference: str
    claim: Object
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Reservation:
    claim: Object
    entry: Object


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a user's claims cannot be dealt with: the event's reason, and its text."""

    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class UserPlan:
    """For a Pod or PodGroup: ask first; then create, record in its status what was found and created, reserve.

    After a failure nothing is recorded or reserved: what was created by then is found the next time.
    """

    questions: tuple[Key, ...] = ()
    found: tuple[tuple[str, str], ...] = ()
    """(reference, name) of claims that exist and are not recorded."""
    creations: tuple[Creation, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    failure: Failure | None = None

    @property
    def is_needed(self) -> bool:
        missing = any(not creation.instead for creation in self.creations)
        return missing or bool(self.questions or self.found or self.reservations or self.failure)


NOTHING: Final = UserPlan()


def user_plan(user: Object, lookup: Lookup, absent: frozenset[Key] = frozenset()) -> UserPlan:
    """For a Pod or PodGroup of the cache; `absent` are claims that the API server said do not exist."""
    if metadata(user).get("deletionTimestamp") or pods.is_terminal(user):
        return NOTHING
    group = group_of(user, lookup)
    if group is None and pods.scheduling_group(user):
        return NOTHING  # its PodGroup may be whose the claims are; it wakes the Pod when it appears
    plan, made = NOTHING, _Made(lookup)
    for reference, name in claims.resolved(user):
        plan = _merged(plan, _one_reference(user, group, reference, name, made, absent))
        if plan.failure:
            return plan
    if pods.is_bound(user):
        for reference, name in claims.resolved(user):
            plan = _merged(plan, _reservation(user, group, reference, name, lookup))
    return plan


def group_of(user: Object, lookup: Lookup) -> Object | None:
    """The PodGroup that a Pod belongs to, as far as it is known."""
    name = pods.scheduling_group(user)
    return lookup.pod_group(Key(key_of(user).namespace, name)) if name else None


def statuses(user: Object, new: Mapping[str, str]) -> list[Object]:
    """`status.resourceClaimStatuses` with these claims recorded: all of it, for server-side apply drops what is left
    out."""
    recorded = {
        each["name"]: each["resourceClaimName"]
        for each in (user.get("status") or {}).get("resourceClaimStatuses") or ()
        if each.get("resourceClaimName")
    }
    return [{"name": name, "resourceClaimName": claim} for name, claim in sorted({**recorded, **new}.items())]


def _one_reference(
    user: Object,
    group: Object | None,
    reference: Object,
    resolved: str | Unresolved,
    made: "_Made",
    absent: frozenset[Key],
) -> UserPlan:
    """The claim behind one entry of `spec.resourceClaims`: there, to be found, or to be created."""
    lookup, name, namespace = made.lookup, str(reference.get("name")), key_of(user).namespace
    instead = ""
    if resolved is Unresolved.UNSUPPORTED:
        return _failed(user, name, f"checking for claim before creating it: {resolved.value}")
    if resolved is Unresolved.NOT_NEEDED or reference.get("resourceClaimName"):
        return NOTHING
    if isinstance(resolved, str):
        key = Key(namespace, resolved)
        recorded = lookup.claim(key)
        if recorded is not None and _is_for(recorded, user, group):
            return NOTHING
        if recorded is None and key not in absent and not _is_group_claim(group, reference):
            return UserPlan(questions=(key,))
        instead = resolved if recorded is not None else ""
    owner = group if group is not None and _is_group_claim(group, reference) else user
    if found := made.by(owner).get(name):
        return UserPlan(found=((name, found),))
    if owner is group:
        return NOTHING
    template_name = str(reference.get("resourceClaimTemplateName"))
    template = lookup.template(Key(namespace, template_name))
    if template is None:
        return _failed(user, name, f'resource claim template "{template_name}" not found')
    return UserPlan(creations=(Creation(name, new_claim(user, name, template), instead),))


class _Made:
    """The claims that were made for a user and are to stay, by the reference; read once for all references."""

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup
        self._names: dict[str, dict[str | None, str]] = {}

    def by(self, owner: Object) -> Mapping[str | None, str]:
        uid = uid_of(owner)
        if uid not in self._names:
            names: dict[str | None, str] = {}
            for claim in self.lookup.claims_owned_by(uid):
                if not metadata(claim).get("deletionTimestamp"):
                    names.setdefault(claims.reference_of(claim), key_of(claim).name)
            self._names[uid] = names
        return self._names[uid]


def new_claim(user: Object, reference: str, template: Object) -> Object:
    """The claim of a Pod or PodGroup for one of its references, as it is to be created."""
    given: Object = spec(template).get("metadata") or {}
    annotations = {**(given.get("annotations") or {}), wellknown.POD_CLAIM_NAME_ANNOTATION: reference}
    owner = {"apiVersion": user["apiVersion"], "kind": user["kind"], "uid": uid_of(user), "controller": True}
    meta: dict[str, Any] = {
        "namespace": key_of(user).namespace,
        "generateName": names.generate_name(key_of(user).name, reference),
        "annotations": annotations,
        "ownerReferences": [{**owner, "name": key_of(user).name}],
    }
    if labels := given.get("labels"):
        meta["labels"] = labels
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": claims.template_claim_spec(template),
    }


def _reservation(
    pod: Object, group: Object | None, reference: Object, resolved: str | Unresolved, lookup: Lookup
) -> UserPlan:
    """For a Pod that got its node without a scheduler that reserves: it may use the claim all the same."""
    claim = lookup.claim(Key(key_of(pod).namespace, resolved)) if isinstance(resolved, str) else None
    if claim is None or not claims.allocation(claim) or metadata(claim).get("deletionTimestamp"):
        return NOTHING
    if claims.is_reserved_for(claim, pod):
        return NOTHING
    if reference.get("resourceClaimTemplateName") and not _is_for(claim, pod, group):
        return NOTHING
    if len(claims.reserved_for(claim)) >= claims.RESERVED_FOR_MAX:
        full = (
            f"ResourceClaim {resolved}: status.reservedFor has {claims.RESERVED_FOR_MAX} entries, the most it can have"
        )
        return UserPlan(failure=Failure(wellknown.RESERVATION_BLOCKED, full))
    consumer = group if group is not None and _is_group_claim(group, reference) else pod
    return UserPlan(reservations=(Reservation(claim, _entry(consumer)),))


def _entry(consumer: Object) -> Object:
    if consumer["kind"] == "Pod":
        return claims.pod_entry(consumer)
    entry = {"apiGroup": claims.POD_GROUP_API, "resource": "podgroups", "name": key_of(consumer).name}
    return {**entry, "uid": uid_of(consumer)}


def _is_for(claim: Object, user: Object, group: Object | None) -> bool:
    """IsForPod and IsForPodGroup of k8s.io/dynamic-resource-allocation: the controlling owner is the user, or the
    PodGroup that the Pod names."""
    owner = controller_of(claim)
    if owner is None:
        return False
    if owner.get("kind") == user["kind"] and owner.get("uid") == uid_of(user):
        return True
    return (
        group is not None
        and owner.get("kind") == "PodGroup"
        and str(owner.get("apiVersion")).startswith(f"{claims.POD_GROUP_API}/")
        and owner.get("name") == key_of(group).name
    )


def _is_group_claim(group: Object | None, reference: Object) -> bool:
    """Whether a Pod shares this claim with its PodGroup: the same entry is in both."""
    fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
    shared = pods.claim_references(group) if group is not None else []
    return any(all(each.get(field) == reference.get(field) for field in fields) for each in shared)


def _failed(user: Object, reference: str, why: str) -> UserPlan:
    return UserPlan(failure=Failure(wellknown.FAILED_CLAIM_CREATION, f"{user['kind']}ResourceClaim {reference}: {why}"))


def _merged(plan: UserPlan, more: UserPlan) -> UserPlan:
    if more is NOTHING:
        return plan
    return replace(
        plan,
        questions=plan.questions + more.questions,
        found=plan.found + more.found,
        creations=plan.creations + more.creations,
        reservations=plan.reservations + more.reservations,
        failure=plan.failure or more.failure,
    )
