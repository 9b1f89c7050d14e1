"""The ResourceClaim controller's decision about one consumer, a Pod or PodGroup: which claims are created and recorded.

Behaves as kube-controller-manager's controller of the same name (KEP-3063, KEP-5729); where it differs on purpose,
docs/reference/claims.md says so.

Invariants: nothing is created or reserved for a Pod that has ended or is being deleted; before a claim is created in
place of a recorded one that the caches do not have, the API server is asked for that claim and for the consumer; a
claim belongs to a consumer only if its controlling owner reference says so; after a plan was carried out, the next plan
is empty.  A consumer is queued for a worker only if its plan `is_needed`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from tollbar import wellknown
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.claims import events
from tollbar.decide.claims.resourceclaims import Lookup
from tollbar.model import claims, names, pods
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.claims import Unresolved
from tollbar.model.objects import Key, Object, controller_reference, is_stub, key_of, metadata, picked, spec, uid_of
from tollbar.model.plan import Event
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

_OF_A_CONSUMER: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "metadata.deletionTimestamp",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.resourceClaims",
        "spec.schedulingGroup",
        "status.phase",
        "status.resourceClaimStatuses",
    }
)
_OF_A_CLAIM: Final = frozenset(
    {
        "metadata.deletionTimestamp",
        "metadata.name",
        "metadata.namespace",
        "metadata.ownerReferences",
        "metadata.uid",
        "status.allocation",
        "status.reservedFor",
    }
)
"""What is read here of a Pod or PodGroup, and of a claim that the caches do not know."""


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A Pod or PodGroup of the cache; `before_creating` is what to ask before a claim is made for it.

    `resource` is its kind in the version that is served.
    """

    consumer: Object
    lookup: Lookup
    before_creating: tuple[Hashable, ...] = ()
    answers: Answers = field(default_factory=dict)
    resource: Resource = PODS

    @property
    def itself(self) -> Get:
        """The question what the API server has of this Pod or PodGroup."""
        return Get(self.resource, key_of(self.consumer), _OF_A_CONSUMER)


@dataclass(frozen=True, slots=True)
class Creation:
    """A claim to create for one entry of `spec.resourceClaims`.

    Where the caches have only a stub of its template, `claim` is the question for that: a Pod may refer to more
    templates than there is memory for, so each is to be read when its claim is created (`new_claim`).
    """

    reference: str
    claim: Object | Get


@dataclass(frozen=True, slots=True)
class Reservation:
    """An entry to add to the `status.reservedFor` of a claim."""

    claim: Object
    entry: Object


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """Create, record in the consumer's status what was found and created, reserve.

    With a `failure`, an Event, nothing is recorded or reserved: what was created before it is found the next time.
    """

    found: tuple[tuple[str, str], ...] = ()
    """(reference, name) of claims that exist and are not recorded."""
    creations: tuple[Creation, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    failure: Event | None = None

    @property
    def is_needed(self) -> bool:
        return bool(self.found or self.creations or self.reservations or self.failure)


NOTHING: Final = ConsumerPlan()


def decide(facts: ConsumerFacts) -> ConsumerPlan | Ask:
    """The plan for the Pod or PodGroup; an `Ask` where a claim or the consumer is not known well enough to create one.

    The first entry of `spec.resourceClaims` for which no claim can be made ends it, as upstream.
    """
    facts = _up_to_date(facts)
    consumer = facts.consumer
    if not consumer or metadata(consumer).get("deletionTimestamp") or pods.is_terminal(consumer):
        return NOTHING
    group = _group_of(consumer, facts.lookup)
    if group is None and pods.scheduling_group(consumer) and facts.lookup.serves_pod_groups():
        return NOTHING  # the claims may be its PodGroup's, and the Pod is decided again when that appears
    generated = _GeneratedClaims(facts.lookup)
    cases = [_Case(facts, group, generated, reference, resolved) for reference, resolved in claims.resolved(consumer)]
    plans, questions = list[ConsumerPlan](), list[Hashable]()
    for case in cases:
        answer: ConsumerPlan | Ask = first_answer(EXISTENCE, case) or NOTHING
        if isinstance(answer, Ask):
            questions += answer.questions
            continue
        plans.append(answer)
        if answer.failure:
            break
    plan = _merged(plans)
    if plan.creations:
        questions += (question for question in facts.before_creating if question not in facts.answers)
    if questions:
        return Ask(tuple(dict.fromkeys(questions)))
    if plan.failure:
        return plan
    if not pods.is_bound(consumer):
        return plan
    return _merged([plan, *(first_answer(RESERVATION, case) or NOTHING for case in cases)])


def _up_to_date(facts: ConsumerFacts) -> ConsumerFacts:
    """With the Pod or PodGroup as the API server answered; an empty one when it is gone, or replaced."""
    match facts.answers.get(facts.itself) if facts.answers else None:
        case None:
            return facts
        case Absence():
            return replace(facts, consumer={})
        case found:
            return replace(facts, consumer=found if uid_of(found) == uid_of(facts.consumer) else {})


def too_much(consumer: Object, question: Hashable, most: int) -> Event:
    """That nothing is decided, because with the answer to this question more than `most` bytes of memory were read."""
    asked = question.key.name if isinstance(question, Get) else ""
    references = {name: str(reference.get("name")) for reference, name in claims.resolved(consumer)}
    why = (
        "checking for claim before creating it: what is read of the claims that the status names takes more than"
        f" {most >> 20} MiB of memory; use fewer claims in one {consumer['kind']}, or claims with fewer owners and"
        " shorter parameters"
    )
    return events.failed_claim_creation(consumer["kind"], references.get(asked, asked), why)


def _group_of(consumer: Object, lookup: Lookup) -> Object | None:
    """The PodGroup that a Pod belongs to, as far as it is known."""
    name = pods.scheduling_group(consumer)
    return lookup.pod_group(Key(key_of(consumer).namespace, name)) if name else None


def statuses(consumer: Object, new: Mapping[str, str]) -> list[Object]:
    """`status.resourceClaimStatuses` with these claims recorded: the whole list, since server-side apply removes what
    is left out."""
    recorded = {
        each["name"]: each["resourceClaimName"]
        for each in (consumer.get("status") or {}).get("resourceClaimStatuses") or ()
        if each.get("resourceClaimName")
    }
    return [{"name": name, "resourceClaimName": claim} for name, claim in sorted({**recorded, **new}.items())]


class _GeneratedClaims:
    """The claims that were generated for an owner and are not being deleted; read once for all references.

    Of several for one reference it is the first by name.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._names: dict[str, dict[str | None, str]] = {}

    def of(self, owner: Object) -> Mapping[str | None, str]:
        """Names of this owner's claims by their reference."""
        uid = uid_of(owner)
        if uid not in self._names:
            names: dict[str | None, str] = {}
            for claim in sorted(self._lookup.claims_owned_by(uid), key=key_of):
                if not metadata(claim).get("deletionTimestamp"):
                    names.setdefault(claims.reference_of(claim), key_of(claim).name)
            self._names[uid] = names
        return self._names[uid]


class _Case:
    """One entry of `spec.resourceClaims`, and the claim that the consumer names there, or that its status does.

    `group` is the Pod's PodGroup, if it has one and PodGroups are served.
    """

    def __init__(
        self,
        facts: ConsumerFacts,
        group: Object | None,
        generated: _GeneratedClaims,
        reference: Object,
        resolved: str | Unresolved,
    ) -> None:
        self.facts = facts
        self.group = group
        self.generated = generated
        self.reference = reference
        self.resolved = resolved
        self.name = str(reference.get("name"))
        self.key = Key(key_of(facts.consumer).namespace, resolved) if isinstance(resolved, str) else None
        self.claim = _claim(facts, self.key) if self.key is not None else None

    @cached_property
    def owner(self) -> Object:
        """The PodGroup for a claim that the Pod shares with it: the same entry is in both."""
        shared = self.group is not None and claims.is_shared_with(self.group, self.reference)
        return self.group if shared and self.group is not None else self.facts.consumer

    def failed(self, why: str) -> ConsumerPlan:
        return ConsumerPlan(failure=events.failed_claim_creation(self.facts.consumer["kind"], self.name, why))


def _claim(facts: ConsumerFacts, key: Key) -> Object | None:
    """From the caches, or as the API server answered."""
    known = facts.lookup.claim(key)
    if known is not None or not facts.answers:
        return known
    answer = facts.answers.get(Get(RESOURCE_CLAIMS, key))
    return answer if isinstance(answer, dict) else None


def _unsupported(case: _Case) -> ConsumerPlan | None:
    if case.resolved is not Unresolved.UNSUPPORTED:
        return None
    return case.failed(f"checking for claim before creating it: {case.resolved.value}")


def _not_generated(case: _Case) -> ConsumerPlan | None:
    return NOTHING if case.resolved is Unresolved.NOT_NEEDED or case.reference.get("resourceClaimName") else None


def _recorded(case: _Case) -> ConsumerPlan | None:
    claim = case.claim
    return NOTHING if claim is not None and claims.is_for(claim, case.facts.consumer) else None


def _unknown(case: _Case) -> Ask | None:
    if case.key is None or case.claim is not None or case.owner is case.group:
        return None
    question = Get(RESOURCE_CLAIMS, case.key, _OF_A_CLAIM)
    if not isinstance(case.facts.answers.get(question), Absence):
        return Ask((question,))
    return None if case.facts.itself in case.facts.answers else Ask((case.facts.itself,))


def _found(case: _Case) -> ConsumerPlan | None:
    found = case.generated.of(case.owner).get(case.name)
    return ConsumerPlan(found=((case.name, found),)) if found else None


def _of_the_group(case: _Case) -> ConsumerPlan | None:
    return NOTHING if case.owner is case.group else None


def _generated(case: _Case) -> ConsumerPlan:
    consumer = case.facts.consumer
    template_name = str(case.reference.get("resourceClaimTemplateName"))
    key = Key(key_of(consumer).namespace, template_name)
    template = case.facts.lookup.template(key)
    if template is None:
        missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
        return case.failed(f'resource claim template "{template_name}": {missing}')
    if is_stub(template):
        return ConsumerPlan(creations=(Creation(case.name, Get(RESOURCE_CLAIM_TEMPLATES, key)),))
    return ConsumerPlan(creations=(Creation(case.name, new_claim(consumer, case.name, template)),))


EXISTENCE: Final[Chain[_Case, ConsumerPlan | Ask]] = (  # order is the specification
    _unsupported,  # an entry of a kind that we do not know -> a failure, as upstream's
    _not_generated,  # its claim has a name of its own, or none is needed -> nothing
    _recorded,  # the status names a claim of the consumer -> nothing
    _unknown,  # the status names one that the caches do not know -> ask for it, then for the consumer
    _found,  # one was made for this entry and is not recorded -> record it
    _of_the_group,  # the PodGroup's -> nothing: it is made for the PodGroup
    _generated,  # else -> create it, or a failure without its template
)


def _not_reservable(case: _Case) -> ConsumerPlan | None:
    claim = case.claim
    if claim is None or not claims.allocation(claim) or metadata(claim).get("deletionTimestamp"):
        return NOTHING
    generated = case.reference.get("resourceClaimTemplateName")
    own = not generated or claims.is_for(claim, case.facts.consumer)
    return None if own and not claims.is_reserved_for(claim, case.facts.consumer) else NOTHING


def _full(case: _Case) -> ConsumerPlan | None:
    if len(claims.reserved_for(case.claim or {})) < claims.RESERVED_FOR_MAX:
        return None
    return ConsumerPlan(failure=events.claim_full(str(case.resolved)))


def _reserve(case: _Case) -> ConsumerPlan | None:
    return ConsumerPlan(reservations=(Reservation(case.claim or {}, _entry(case.owner)),))


RESERVATION: Final[Chain[_Case, ConsumerPlan]] = (  # order is the specification
    _not_reservable,  # unknown, not allocated, being deleted, another consumer's or reserved already -> nothing
    _full,  # no place for another entry -> a failure
    _reserve,  # else -> an entry of the Pod or its PodGroup
)
"""For the claims of a Pod that has a Node which no scheduler chose: a scheduler reserves them itself."""


def new_claim(consumer: Object, reference: str, template: Object) -> Object:
    """The claim of a Pod or PodGroup for one of its references, as it is to be created."""
    given: Object = spec(template).get("metadata") or {}
    annotations = {**(given.get("annotations") or {}), wellknown.POD_CLAIM_NAME_ANNOTATION: reference}
    meta: dict[str, Any] = {
        "namespace": key_of(consumer).namespace,
        "generateName": names.generate_name(key_of(consumer).name, reference),
        "annotations": annotations,
        "ownerReferences": [controller_reference(consumer, picked(consumer, ("apiVersion", "kind")))],
    }
    if labels := given.get("labels"):
        meta["labels"] = labels
    return {
        **RESOURCE_CLAIMS.type_meta,
        "metadata": meta,
        "spec": claims.template_claim_spec(template),
    }


def _entry(consumer: Object) -> Object:
    return claims.pod_entry(consumer) if consumer["kind"] == "Pod" else claims.pod_group_entry(consumer)


def _merged(plans: Sequence[ConsumerPlan]) -> ConsumerPlan:
    """All of them, in time that grows with their number: nothing but its size limits what a Pod refers to."""
    return ConsumerPlan(
        tuple(found for plan in plans for found in plan.found),
        tuple(creation for plan in plans for creation in plan.creations),
        tuple(reservation for plan in plans for reservation in plan.reservations),
        next((plan.failure for plan in plans if plan.failure is not None), None),
    )
