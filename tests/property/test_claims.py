"""The claims controller in random small clusters: names that the API takes, and plans that come to an end."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from clusters.claims import view_of
from clusters.drawing import pick
from hypothesis import given
from hypothesis import strategies as st
from objects.builders import Built, claim, pod, template

from tollbar.decide.claims import consumers, resourceclaims
from tollbar.decide.claims.consumers import ConsumerFacts, ConsumerPlan, statuses
from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan, is_done
from tollbar.model import claims, names, pods
from tollbar.model.ask import Absence, Answers, Ask, Get, kept
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.views.lookup import ClaimLookup

label = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
subdomain = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}", fullmatch=True
)


@given(owner=subdomain, reference=label, suffix=st.from_regex(r"[bcdfghjklmnpqrstvwxz2456789]{5}", fullmatch=True))
def test_a_generated_name_is_always_a_name(owner: str, reference: str, suffix: str) -> None:
    base = names.generate_name(owner, reference)
    assert (names.dns_subdomain(base[:58] + suffix), len(base) <= 57) == ([], True)


@given(owner=subdomain, reference=label)
def test_a_generated_name_is_upstreams_unless_that_one_could_never_be(owner: str, reference: str) -> None:
    whole = f"{owner}-{reference}-"
    cut = (owner[: len(owner) * 57 // len(whole)], reference[: len(reference) * 57 // len(whole)])
    upstream = whole if len(whole) <= 57 else "-".join(cut)
    accepted = cut[0] != "" and cut[0][-1] not in "-."
    if len(whole) <= 57 or accepted:
        assert names.generate_name(owner, reference) == upstream


@dataclass
class Server:
    """What the API server holds, and does with what is decided; a cache may be behind it."""

    objects: dict[tuple[str, Key], Object] = field(default_factory=dict)
    created: int = 0

    def put(self, obj: Object) -> None:
        kind = obj["kind"]
        self.objects[kind, key_of(obj)] = obj
        protected = metadata(obj).get("finalizers")
        if kind == "ResourceClaim" and metadata(obj).get("deletionTimestamp") and not protected:
            del self.objects[kind, key_of(obj)]

    def get(self, kind: str, key: Key) -> Any:
        return self.objects.get((kind, key))

    def answers(self, ask: Ask) -> Answers:
        return {each: self._answer(each) for each in ask.questions if isinstance(each, Get)}

    def _answer(self, question: Get) -> Object | Absence:
        found = self.get(question.resource.kind, question.key)
        return Absence.OBJECT if found is None else kept(found, question.keep or ())

    def view(self) -> ClaimLookup:
        return view_of(*self.objects.values())


def work(server: Server, view: ClaimLookup) -> int:
    """Every Pod and every claim, once; how many writes that took."""
    return sum(
        _consumer(obj, server, view) if kind == "Pod" else _claim(obj, server, view)
        for (kind, _), obj in list(server.objects.items())
        if kind in ("Pod", "ResourceClaim")
    )


def _consumer(consumer: Object, server: Server, view: ClaimLookup) -> int:
    plan = consumers.decide(ConsumerFacts(consumer, view))
    answers: dict[Hashable, Any] = {}
    while isinstance(plan, Ask):
        answers |= server.answers(plan)
        plan = consumers.decide(ConsumerFacts(consumer, view, answers=answers))
    assert isinstance(plan, ConsumerPlan)
    recorded = dict(plan.found)
    for creation in plan.creations:
        server.created += 1
        assert not isinstance(creation.claim, Get)
        base = Built(creation.claim).but("metadata.name", f"made-{server.created}")
        made = base.but("metadata.uid", f"uid-of-made-{server.created}")
        server.put(made)
        recorded[creation.reference] = made["metadata"]["name"]
    if plan.failure is None and recorded:
        server.put(Built(consumer).but("status.resourceClaimStatuses", statuses(consumer, recorded)))
    for reservation in plan.reservations if plan.failure is None else ():
        held = Built(server.get("ResourceClaim", key_of(reservation.claim)))
        server.put(held.but("status.reservedFor", [*held.at("status.reservedFor", []), reservation.entry]))
    return len(plan.creations) + (bool(recorded) + len(plan.reservations) if plan.failure is None else 0)


def _claim(given_: Object, server: Server, view: ClaimLookup) -> int:
    plan = resourceclaims.decide(ClaimFacts(given_, view))
    if isinstance(plan, Ask):
        plan = resourceclaims.decide(ClaimFacts(given_, view, answers=server.answers(plan)))
    assert isinstance(plan, ClaimPlan)
    held, count = Built(given_), 0
    if plan.deallocation is not None:
        if plan.deallocation.status is not None:
            held, count = held.but("status", plan.deallocation.status), count + 1
        if plan.deallocation.unprotect:
            held, count = held.but("metadata.finalizers", None), count + 1
        server.put(held)
    if plan.delete:
        count += 1
        server.put(held.but("metadata.deletionTimestamp", "now"))
    return count


NAMES = ("web", "api")
CHANGES: tuple[Callable[[Any], Built], ...] = (
    lambda it: it,
    lambda it: it.bound(),
    lambda it: it.bound().phase("Succeeded"),
    lambda it: it.deleting(),
    lambda it: it.bound().deleting(),
    lambda it: it.but("metadata.uid", "another"),
)


EITHER = st.booleans()
CHANGED = st.sampled_from(CHANGES)
TEMPLATES = st.sets(st.sampled_from(["t", "u"]))
REFERENCES = st.lists(st.sampled_from(["t", "u"]), unique=True)
PODS = st.sets(st.sampled_from(NAMES))
CLAIMS = st.sets(st.sampled_from(["shared", "web-t", "api-u", "stray"]))
CONSUMERS = st.sets(st.sampled_from([*NAMES, "nobody"]))


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    found: list[Object] = [template(name).request("gpu") for name in draw(TEMPLATES)]
    for name in draw(PODS):
        consumer = pod(name)
        for reference in draw(REFERENCES):
            consumer = consumer.templates(reference)
            recorded = pick(draw, ["", "", f"{name}-{reference}", "shared"])
            consumer = consumer.generated(reference, recorded) if recorded else consumer
        consumer = consumer.claims("shared") if draw(EITHER) else consumer
        found.append(draw(CHANGED)(consumer))
    for name in draw(CLAIMS):
        made = claim(name)
        owner, _, reference = name.partition("-")
        if reference or draw(EITHER):
            made = made.generated_for(pod(owner if reference else "web"), reference or "t")
        if draw(EITHER):
            made = made.allocated()
            for consumer in draw(CONSUMERS):
                made = made.reserved(pod_entry(pod(consumer)))
            if draw(EITHER):
                foreign = {"apiGroup": "apps", "resource": "deployments", "name": "d", "uid": "d"}
                made = made.reserved(foreign)
        found.append(made.deleting() if draw(EITHER) and "status" in made else made)
    return found


@given(cluster=clusters())
def test_what_was_done_is_not_done_again(cluster: list[Object]) -> None:
    """Each round sees what the one before did; the third finds nothing, and so does nobody in the queue's place."""
    server = Server()
    for obj in cluster:
        server.put(obj)
    work(server, server.view())
    work(server, server.view())
    assert work(server, server.view()) == 0


@given(cluster=clusters(), behind=clusters())
def test_on_an_old_view_nothing_in_use_is_freed(cluster: list[Object], behind: list[Object]) -> None:
    """Whatever the cache still holds of Pods: a running Pod's entry and its claim's allocation stay."""
    server = Server()
    for obj in cluster:
        server.put(obj)
    old = (obj for obj in behind if obj["kind"] == "Pod" and not is_done(obj))
    view = view_of(*old, *(obj for obj in cluster if obj["kind"] != "Pod"))
    for key, held in in_use(server).items():
        _claim(held, server, view)
        left = server.get("ResourceClaim", key)
        assert left is not None
        assert claims.allocation(left) == claims.allocation(held)


def in_use(server: Server) -> dict[Key, Object]:
    """Claims with an entry of a Pod that runs."""
    found = {}
    for (kind, key), obj in server.objects.items():
        if kind == "ResourceClaim":
            using = [server.get("Pod", Key(key.namespace, e["name"])) for e in claims.reserved_for(obj)]
            uids = {e["uid"] for e in claims.reserved_for(obj)}
            if any(each and uid_of(each) in uids and not pods.is_done(each) for each in using):
                found[key] = obj
    return found
