"""What holds of every decision, whatever the cluster looks like."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from clusters.strategies import (
    KINDS,
    MOMENTS,
    NOT_TEAM_B,
    ONLY_TEAM_A,
    TOUCHES,
    World,
    admission_facts,
    clusters,
    damaged,
    gate_facts,
    pods,
)
from hypothesis import event, given, settings
from hypothesis import strategies as st
from objects import patching
from objects.builders import CREATED, Built, Pod, claim

from controllers.gates.predicates import Predicates
from tollbar.decide.pods import admission, tolerationgate
from tollbar.decide.pods.admission import AdmissionPlan
from tollbar.decide.pods.tolerationgate import GatePlan
from tollbar.model import pods as pod_views
from tollbar.model.objects import Key, Object, key_of, metadata, spec
from tollbar.model.tolerations import Identity, identity
from tollbar.runtime.source import Delta, Watch
from tollbar.views.gatherer import Gatherer

SOME = settings(max_examples=settings.default.max_examples // 2)
"""Of what a profile asks for: a cluster takes longer to invent than to decide."""
FEW = settings(max_examples=settings.default.max_examples * 2 // 5)

Cluster = dict[tuple[str, str], Object]
MODES = st.sampled_from(["Auto", "Gate", "Never"])


def later(pod: Object, cluster: Cluster, now: float) -> GatePlan:
    return tolerationgate.decide(gate_facts(pod, World(cluster.values()).gather), now)


@SOME
@given(clusters("Pod"), pods("web"), MOMENTS)
def test_a_second_decision_about_the_patched_pod_changes_nothing(cluster: Cluster, pod: Pod, now: float) -> None:
    plan = later(pod, cluster, now)
    again = later(patching.apply(pod, plan.patch), cluster, now)
    assert (again.patch, again.released, again.additions) == ((), False, ())


@pytest.mark.behaviour(4)
@SOME
@given(clusters("Pod"), pods("web"), MODES, st.booleans())
def test_a_second_admission_of_the_patched_pod_changes_nothing(
    cluster: Cluster, pod: Pod, mode: Any, generate_name: bool
) -> None:
    gatherer, new = World(cluster.values()).gather, pod.being_created(generate_name=generate_name)
    plan = admission.decide(admission_facts(new, gatherer, mode))
    again = admission.decide(admission_facts(patching.apply(new, plan.patch), gatherer, mode))
    assert (again.patch, again.additions) == ((), ())


@given(clusters("Pod"), pods("web"), MOMENTS)
def test_the_expected_pod_wakes_nobody_and_has_nothing_left_to_decide(cluster: Cluster, pod: Pod, now: float) -> None:
    gatherer = World(cluster.values()).gather
    facts = gate_facts(pod, gatherer)
    plan = tolerationgate.decide(facts, now)
    expected = tolerationgate.expected(facts, plan)
    event(f"expected: {expected is not None}")
    if expected is None:
        return
    patched = Pod(patching.apply(pod, plan.patch))
    if not pod_views.gate_names(patched):
        patched = patched.but("spec.schedulingGates", None)  # the API server leaves out what is empty
    when = Predicates(gatherer.ruleset, expected={key_of(pod): expected})
    again = tolerationgate.decide(gate_facts(patched, gatherer), now)
    assert not when.pod(Delta(pod, patched, initial=False))
    assert (again.patch, again.released, again.matched) == ((), False, plan.matched)


def foreign(pod: Object) -> Object:
    """All of the Pod that is never ours to change: no tolerations, nothing of ours."""
    rest = pod_views.without_ours(pod)
    return {**rest, "spec": {member: value for member, value in spec(rest).items() if member != "tolerations"}}


@pytest.mark.behaviour(2, 3, 5)
@SOME
@given(clusters("Pod"), pods("web"), MOMENTS)
def test_a_patch_removes_nothing_but_our_gate(cluster: Cluster, pod: Pod, now: float) -> None:
    patched = patching.apply(pod, later(pod, cluster, now).patch)
    old = pod_views.tolerations(pod)
    assert (foreign(patched), pod_views.tolerations(patched)[: len(old)]) == (foreign(pod), old)
    assert pod_views.is_gated(pod) or not pod_views.is_gated(patched)


@SOME
@given(clusters("Pod"), pods("web"), MODES)
def test_admission_removes_nothing(cluster: Cluster, pod: Pod, mode: Any) -> None:
    new = pod.being_created()
    plan = admission.decide(admission_facts(new, World(cluster.values()).gather, mode))
    patched = patching.apply(new, plan.patch)
    old = pod_views.tolerations(new)
    assert (foreign(patched), pod_views.tolerations(patched)[: len(old)]) == (foreign(new), old)
    assert pod_views.is_gated(patched) or not pod_views.is_gated(new)


@SOME
@given(clusters("Pod"), pods("web"), MOMENTS, st.randoms(use_true_random=False))
def test_the_order_of_the_rules_does_not_matter(cluster: Cluster, pod: Pod, now: float, random: Any) -> None:
    gatherer, new = World(cluster.values()).gather, pod.being_created()
    shuffled = list(gatherer.ruleset.rules)
    random.shuffle(shuffled)
    assert (
        tolerationgate.decide(gate_facts(pod, gatherer, tuple(shuffled)), now),
        admission.decide(admission_facts(new, gatherer, "Auto", tuple(shuffled))),
    ) == (tolerationgate.decide(gate_facts(pod, gatherer), now), admission.decide(admission_facts(new, gatherer)))


@SOME
@given(clusters("Pod"), pods("web"), MOMENTS)
def test_a_plan_has_a_reason_and_at_most_two_events(cluster: Cluster, pod: Pod, now: float) -> None:
    plan = later(pod, cluster, now)
    assert len(plan.events) <= 2
    assert len(plan.because) >= 1


@given(st.data())
def test_any_json_gets_a_decision(data: st.DataObject) -> None:
    """Members may be absent, null or empty everywhere; keys of objects stay, or nothing could be looked up."""
    cluster = {key: {**data.draw(damaged(obj)), "kind": obj["kind"]} for key, obj in data.draw(clusters("Pod")).items()}
    pod = data.draw(pods("web").flatmap(damaged))
    gatherer = World(cluster.values()).gather
    assert isinstance(tolerationgate.decide(gate_facts(pod, gatherer), CREATED + 1), GatePlan)
    new = data.draw(pods("web").map(Pod.being_created).flatmap(damaged))
    plan = admission.decide(admission_facts(new, gatherer))
    assert isinstance(plan, AdmissionPlan)
    if isinstance(new.get("spec"), dict) and isinstance(new.get("metadata"), dict):
        patching.apply(new, plan.patch)


def stored(new: Object, cluster: Cluster) -> tuple[Object, list[Object]]:
    """The Pod as the API server stores it, and the claims that are generated for it."""
    meta = {**metadata(new), "name": "web", "uid": "uid-of-web", "creationTimestamp": "2026-01-01T00:00:00Z"}
    generated, statuses = [], []
    for reference in pod_views.claim_references(new):
        template = cluster.get(("ResourceClaimTemplate", reference.get("resourceClaimTemplateName", "")))
        if template is None:
            continue
        name = f"web-{reference['name']}"
        wanted = Built(template).at("spec.metadata", {})
        statuses.append({"name": reference["name"], "resourceClaimName": name})
        own = claim(name).owned_by("Pod", "web", uid="uid-of-web").but("spec", template["spec"]["spec"])
        if wanted.get("labels"):
            own = own.labelled(wanted["labels"])
        annotations = {"resource.kubernetes.io/pod-claim-name": reference["name"], **(wanted.get("annotations") or {})}
        generated.append(own.annotated(annotations))
    status = {"phase": "Pending", **({"resourceClaimStatuses": statuses} if statuses else {})}
    return {**new, "metadata": meta, "status": status}, generated


def settled(pod: Object, gatherer: Gatherer) -> set[Identity]:
    """The tolerations after the controller has done everything, the deadline included."""
    for _ in range(3):
        plan = tolerationgate.decide(gate_facts(pod, gatherer), CREATED + 61)
        pod = patching.apply(pod, plan.patch)
    assert (plan.patch, pod_views.is_gated(pod)) == ((), False)
    return {identity(toleration) for toleration in pod_views.tolerations(pod)}


@SOME
@given(clusters("Pod", "SchedulingGate"), pods("web"), st.booleans())
def test_every_way_ends_with_the_same_tolerations(cluster: Cluster, pod: Pod, generate_name: bool) -> None:
    """At admission, behind a gate, or late: when everything is known that will be, the answer is the same."""
    new = pod.but("status", None).but("metadata.deletionTimestamp", None).being_created(generate_name=generate_name)
    ends = []
    for mode in ("Auto", "Gate", "Never", None):
        gatherer = World(cluster.values()).gather
        patch = admission.decide(admission_facts(new, gatherer, mode)).patch if mode else ()
        there, generated = stored(patching.apply(new, patch), cluster)
        for each in generated:
            gatherer.lookup.claims.apply(each)
        ends.append(settled(there, gatherer))
    assert ends == [ends[0]] * len(ends)


def essence(plan: GatePlan) -> GatePlan:
    """A patch is built from the whole Pod and fenced against a Pod that moved: what counts is whether there is one.

    The event of a release also says whether kube-scheduler waits for a claim.  That is told as it is at the release,
    which does not depend on it.
    """
    events = tuple(replace(event, note=event.note.partition("; kube-scheduler waits for ")[0]) for event in plan.events)
    return replace(plan, patch=bool(plan.patch), events=events)  # type: ignore[arg-type]


def gone(_obj: Object) -> None:
    """It is deleted."""


def plans(world: World, now: float) -> dict[Key, GatePlan]:
    decided = {key_of(pod): tolerationgate.decide(gate_facts(pod, world.gather), now) for pod in world.pods.values()}
    return {key: essence(plan) for key, plan in decided.items()}


def woken_by(watches: Iterable[Watch[Any, Key]]) -> set[Key]:
    """Collects the keys that these watches wake, from now on."""
    woken: set[Key] = set()

    def subscribe(watch: Watch[Any, Key]) -> None:
        def handle(delta: Delta) -> None:
            if watch.predicate(delta):
                woken.update(watch.mapper(delta))

        watch.source.subscribe(handle)

    for watch in watches:
        subscribe(watch)
    return woken


@FEW
@given(clusters(), MOMENTS, st.sampled_from([NOT_TEAM_B, NOT_TEAM_B, ONLY_TEAM_A]))
def test_a_pod_is_woken_when_it_would_be_decided_differently(cluster: Cluster, now: float, managed: Object) -> None:
    """Predicates are sound and mappers complete: what they do not wake is decided as before.

    Everything that may happen to one object happens, and is undone.
    """
    world = World(cluster.values(), managed)
    woken = woken_by(world.controllers["gates"].watches)
    before = plans(world, now)
    for (kind, name), obj in cluster.items():
        for what in (*TOUCHES[kind], gone):
            for new in (what(obj), obj):
                woken.clear()
                world.remove(obj) if new is None else world.fill([new])
                after = plans(world, now)
                changed = {key for key, plan in after.items() if before.get(key) != plan}
                assert changed <= woken, f"{kind} {name}"
                before = after


def test_there_is_a_change_of_every_kind_that_decisions_read() -> None:
    sources: list[Any] = [watch.source for watch in World().controllers["gates"].watches]
    assert {source.resource.kind for source in sources} == set(KINDS)
