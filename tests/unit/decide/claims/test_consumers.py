"""One Pod or PodGroup: which claims are created for it, which are recorded in its status, which it reserves."""

from typing import Any

import pytest
from clusters.claims import cached, view_of
from objects.builders import claim, pod, pod_group, template

from tollbar import wellknown
from tollbar.decide.claims.consumers import (
    ConsumerFacts,
    ConsumerPlan,
    Creation,
    Reservation,
    decide,
    new_claim,
    statuses,
)
from tollbar.model.ask import Absence, Ask, Get, kept
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.plan import Event
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tollbar.views import kinds

GPU = template("gpu").request("gpu")
NIC = template("nic").request("nic")
WEB = pod().templates("gpu")
RECORDED = WEB.generated("gpu", "web-gpu-x")
MADE = claim("web-gpu-x").generated_for(WEB, "gpu")
SECOND = claim("web-gpu-y").generated_for(WEB, "gpu")
OTHERS = claim("web-gpu-x").generated_for(pod("api"), "gpu")
NOTHING = ConsumerPlan()
ABOUT_X = Get(RESOURCE_CLAIMS, Key("ml", "web-gpu-x"))
ABOUT_WEB = Get(PODS, Key("ml", "web"))
GONE = Absence.OBJECT
LARGE = GPU.annotated({"example.com/note": "x" * kinds.MOST_BYTES})
ABOUT_GPU = Get(RESOURCE_CLAIM_TEMPLATES, Key("ml", "gpu"))


def creating(*references: str, consumer: Object = WEB) -> ConsumerPlan:
    given = {"gpu": GPU, "nic": NIC}
    return ConsumerPlan(creations=tuple(Creation(each, new_claim(consumer, each, given[each])) for each in references))


def failing(note: str, kind: str = "Pod", **more: Any) -> ConsumerPlan:
    return ConsumerPlan(
        failure=Event("Warning", "FailedResourceClaimCreation", f"{kind}ResourceClaim {note}", "Claim"), **more
    )


CLAIMS: dict[str, tuple[Any, list[Object], ConsumerPlan | Ask]] = {
    "a Pod without references needs nothing": (pod(), [], NOTHING),
    "a claim that is named directly and exists needs nothing": (pod().claims("a"), [claim("a")], NOTHING),
    "a claim that is named directly is not created": (pod().claims("a"), [], NOTHING),
    "a claim is created from a template": (WEB, [GPU], creating("gpu")),
    "a claim is created for a Pod that a scheduling gate holds": (
        WEB.gated(),
        [GPU],
        creating("gpu", consumer=WEB.gated()),
    ),
    "a template that does not exist is a failure": (
        WEB,
        [],
        failing('gpu: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found'),
    ),
    "of two templates one does not exist: the other's claim is created before the failure": (
        pod().templates("gpu", "nic"),
        [GPU],
        failing(
            'nic: resource claim template "nic": resourceclaimtemplate.resource.k8s.io "nic" not found',
            creations=(Creation("gpu", new_claim(pod(), "gpu", GPU)),),
        ),
    ),
    "a kind of reference that is not known is a failure": (
        pod().but("spec.resourceClaims", [{"name": "gpu"}]),
        [],
        failing(
            "gpu: checking for claim before creating it: neither resourceClaimName nor resourceClaimTemplateName is set"
        ),
    ),
    "the status says that no claim is needed": (WEB.generated("gpu", None), [GPU], NOTHING),
    "a recorded claim that exists needs nothing": (RECORDED, [GPU, MADE], NOTHING),
    "a recorded claim that exists does not need its template any more": (RECORDED, [MADE], NOTHING),
    "the API server is asked for a recorded claim that is not in the cache": (
        RECORDED,
        [GPU],
        Ask((ABOUT_X,)),
    ),
    "the API server is asked for all of them at once": (
        pod().templates("gpu", "nic").generated("gpu", "web-gpu-x").generated("nic", "web-nic-x"),
        [GPU, NIC],
        Ask((ABOUT_X, Get(RESOURCE_CLAIMS, Key("ml", "web-nic-x")))),
    ),
    "a claim that was made for the Pod and is not recorded is recorded": (
        WEB,
        [GPU, MADE],
        ConsumerPlan(found=(("gpu", "web-gpu-x"),)),
    ),
    "a claim that was made for another reference is not taken": (
        pod().templates("gpu", "nic").generated("nic", "n"),
        [GPU, claim("n").generated_for(WEB, "nic")],
        creating("gpu", consumer=pod().templates("gpu", "nic")),
    ),
    "a claim of the Pod without the annotation is not taken": (
        WEB,
        [GPU, claim("web-gpu").generated_for(WEB)],
        creating("gpu"),
    ),
    "a claim that is being deleted is not taken": (WEB, [GPU, MADE.deleting()], creating("gpu")),
    "a claim of an earlier Pod of the same name is not taken": (
        WEB,
        [
            GPU,
            claim("web-gpu-x")
            .owned_by("Pod", "web", uid="old")
            .annotated({wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu"}),
        ],
        creating("gpu"),
    ),
    "the recorded claim belongs to another Pod: another is created instead": (
        RECORDED,
        [GPU, OTHERS],
        creating("gpu"),
    ),
    "the recorded claim belongs to another Pod, and one was made for this one": (
        RECORDED,
        [GPU, OTHERS, SECOND],
        ConsumerPlan(found=(("gpu", "web-gpu-y"),)),
    ),
    "the recorded claim belongs to nobody: another is created instead": (
        RECORDED,
        [GPU, claim("web-gpu-x")],
        creating("gpu"),
    ),
    "of two claims that were made for the Pod the first by name is recorded": (
        WEB,
        [GPU, SECOND, MADE],
        ConsumerPlan(found=(("gpu", "web-gpu-x"),)),
    ),
    "nothing is created for a Pod that is being deleted": (WEB.deleting(), [GPU], NOTHING),
    "nothing is created for a Pod that has finished": (WEB.phase("Succeeded"), [GPU], NOTHING),
    "nothing is reserved for a Pod that has finished": (
        RECORDED.bound().phase("Failed"),
        [MADE.allocated()],
        NOTHING,
    ),
}


@pytest.mark.behaviour(57, case="a claim that was made for the Pod and is not recorded is recorded")
@pytest.mark.behaviour(57, case="a claim of the Pod without the annotation is not taken")
@pytest.mark.parametrize(("given", "there", "want"), CLAIMS.values(), ids=CLAIMS)
def test_claims(given: Any, there: list[Object], want: ConsumerPlan | Ask) -> None:
    assert decide(ConsumerFacts(given, view_of(*there))) == want


ANSWERS: dict[str, tuple[Any, ConsumerPlan | Ask]] = {
    "only the server has it": ({ABOUT_X: MADE}, NOTHING),
    "the server does not have it either: is the Pod still there?": ({ABOUT_X: GONE}, Ask((ABOUT_WEB,))),
    "the Pod is still there": ({ABOUT_X: GONE, ABOUT_WEB: RECORDED}, creating("gpu", consumer=RECORDED)),
    "the Pod is gone as well": ({ABOUT_X: GONE, ABOUT_WEB: GONE}, NOTHING),
    "the Pod is another one": ({ABOUT_X: GONE, ABOUT_WEB: RECORDED.but("metadata.uid", "new")}, NOTHING),
    "the Pod is being deleted": ({ABOUT_X: GONE, ABOUT_WEB: RECORDED.deleting()}, NOTHING),
    "the Pod has finished": ({ABOUT_X: GONE, ABOUT_WEB: RECORDED.phase("Failed")}, NOTHING),
    "the Pod has another claim by now": (
        {ABOUT_X: GONE, ABOUT_WEB: WEB.generated("gpu", "web-gpu-y")},
        Ask((Get(RESOURCE_CLAIMS, Key("ml", "web-gpu-y")),)),
    ),
}


@pytest.mark.parametrize(("answers", "want"), ANSWERS.values(), ids=ANSWERS)
def test_a_recorded_claim_that_is_not_in_the_cache(answers: Any, want: ConsumerPlan | Ask) -> None:
    given: dict[Any, Any] = {}
    plan = decide(ConsumerFacts(RECORDED, view_of(GPU)))
    while isinstance(plan, Ask) and plan.questions[0] in answers:
        question: Any = plan.questions[0]
        found = answers[question]
        given[question] = found if isinstance(found, Absence) else kept(found, question.keep)
        plan = decide(ConsumerFacts(RECORDED, view_of(GPU), answers=given))
    assert plan == want


def test_a_template_that_the_caches_have_no_room_for_is_read_when_the_claim_is_created() -> None:
    both = WEB.templates("nic")
    assert decide(ConsumerFacts(both, view_of(LARGE, NIC))) == ConsumerPlan(
        creations=(Creation("gpu", ABOUT_GPU), Creation("nic", new_claim(both, "nic", NIC)))
    )


def test_a_recorded_claim_that_is_in_the_cache_is_not_asked_for_whatever_else_was_answered() -> None:
    assert decide(ConsumerFacts(RECORDED, view_of(GPU, MADE), answers={ABOUT_GPU: GPU})) == NOTHING


def test_what_may_exist_unseen_is_asked_for_before_a_claim_is_created() -> None:
    listing = "which claims exist"
    asked = decide(ConsumerFacts(WEB, view_of(GPU), before_creating=(listing,)))
    answered = decide(ConsumerFacts(WEB, view_of(GPU), before_creating=(listing,), answers={listing: None}))
    found = decide(ConsumerFacts(WEB, view_of(GPU, MADE), before_creating=(listing,)))
    assert (asked, answered) == (Ask((listing,)), creating("gpu"))
    assert found == ConsumerPlan(found=(("gpu", "web-gpu-x"),))


BOUND = RECORDED.bound()
FREE = MADE.allocated()
FULL = FREE.reserved(*({"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(256)))
SHARED = claim("shared").allocated()

RESERVED: dict[str, tuple[Any, list[Object], ConsumerPlan | Ask]] = {
    "a bound Pod reserves its allocated claim": (
        BOUND,
        [FREE],
        ConsumerPlan(reservations=(Reservation(cached(FREE), pod_entry(WEB)),)),
    ),
    "a bound Pod reserves a claim that it names directly": (
        pod().claims("shared").bound(),
        [SHARED],
        ConsumerPlan(reservations=(Reservation(cached(SHARED), pod_entry(WEB)),)),
    ),
    "a Pod without a node reserves nothing, since kube-scheduler does": (RECORDED, [FREE], NOTHING),
    "a claim that is not allocated is not reserved": (BOUND, [MADE], NOTHING),
    "a claim that is reserved for the Pod already is left alone": (BOUND, [FREE.reserved(pod_entry(WEB))], NOTHING),
    "a claim that is being deleted is not reserved": (BOUND, [FREE.deleting()], NOTHING),
    "a claim that was generated for another Pod is not reserved": (
        BOUND.templates("nic").generated("nic", None),
        [OTHERS.allocated(), GPU],
        creating("gpu"),
    ),
    "a claim with 256 entries is a failure": (
        BOUND,
        [FULL],
        ConsumerPlan(
            failure=Event(
                "Warning",
                "ReservationBlocked",
                "ResourceClaim web-gpu-x: status.reservedFor has 256 entries, the most it can have",
                "Claim",
            )
        ),
    ),
}


@pytest.mark.parametrize(("given", "there", "want"), RESERVED.values(), ids=RESERVED)
def test_reservations(given: Any, there: list[Object], want: ConsumerPlan) -> None:
    assert decide(ConsumerFacts(given, view_of(*there))) == want


MEMBER = WEB.in_group("gang")
GANG = pod_group().templates("gpu")
OF_GANG = (
    claim("gang-gpu-x")
    .owned_by("PodGroup", "gang", api_version="scheduling.k8s.io/v1beta1")
    .annotated({wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu"})
)
IN_GANG = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-of-gang"}

GROUPS: dict[str, tuple[Any, list[Object], ConsumerPlan | Ask]] = {
    "a claim is created for a PodGroup": (GANG, [GPU], creating("gpu", consumer=GANG)),
    "a PodGroup's template that does not exist is a failure": (
        GANG,
        [],
        failing(
            'gpu: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found', kind="PodGroup"
        ),
    ),
    "a claim that was made for a PodGroup and is not recorded is recorded": (
        GANG,
        [OF_GANG],
        ConsumerPlan(found=(("gpu", "gang-gpu-x"),)),
    ),
    "nothing is created for a Pod whose PodGroup is not known yet": (MEMBER, [GPU], NOTHING),
    "nothing is created for a Pod that shares a claim with its PodGroup": (MEMBER, [GPU, GANG], NOTHING),
    "the PodGroup's claim is recorded in the status of its Pod": (
        MEMBER,
        [GPU, GANG, OF_GANG],
        ConsumerPlan(found=(("gpu", "gang-gpu-x"),)),
    ),
    "the PodGroup's claim is recorded in the Pod's status already": (
        MEMBER.generated("gpu", "gang-gpu-x"),
        [GANG, OF_GANG],
        NOTHING,
    ),
    "another claim of the PodGroup replaces the one that the Pod's status records": (
        MEMBER.generated("gpu", "gang-gpu-old"),
        [GANG, OF_GANG],
        ConsumerPlan(found=(("gpu", "gang-gpu-x"),)),
    ),
    "a Pod gets a claim of its own when the PodGroup's entry has another name": (
        MEMBER,
        [GPU, pod_group().but("spec.resourceClaims", [{"name": "other", "resourceClaimTemplateName": "gpu"}])],
        creating("gpu", consumer=MEMBER),
    ),
    "a bound Pod reserves a shared claim for its PodGroup": (
        MEMBER.generated("gpu", "gang-gpu-x").bound(),
        [GANG, OF_GANG.allocated()],
        ConsumerPlan(reservations=(Reservation(cached(OF_GANG.allocated()), IN_GANG),)),
    ),
}


@pytest.mark.parametrize(("given", "there", "want"), GROUPS.values(), ids=GROUPS)
def test_pod_groups(given: Any, there: list[Object], want: ConsumerPlan) -> None:
    assert decide(ConsumerFacts(given, view_of(*there))) == want


UNSERVED: dict[str, tuple[Any, list[Object], ConsumerPlan | Ask]] = {
    "a claim is created for a Pod of a group": (MEMBER, [GPU], creating("gpu", consumer=MEMBER)),
    "a recorded claim that was made for the group stays": (
        MEMBER.generated("gpu", "gang-gpu-x"),
        [GPU, OF_GANG],
        NOTHING,
    ),
    "a recorded claim that was made for another group does not": (
        WEB.in_group("other").generated("gpu", "gang-gpu-x"),
        [GPU, OF_GANG],
        creating("gpu", consumer=WEB.in_group("other")),
    ),
    "a bound Pod reserves its claim for itself": (
        MEMBER.generated("gpu", "web-gpu-x").bound(),
        [MADE.allocated()],
        ConsumerPlan(reservations=(Reservation(cached(MADE.allocated()), pod_entry(MEMBER)),)),
    ),
}


@pytest.mark.parametrize(("given", "there", "want"), UNSERVED.values(), ids=UNSERVED)
def test_where_pod_groups_are_not_served_no_pod_waits_for_one(
    given: Any, there: list[Object], want: ConsumerPlan
) -> None:
    view = view_of(*there)
    view.pod_groups.served = False
    assert decide(ConsumerFacts(given, view)) == want


def test_the_claims_of_a_consumer_are_read_once_for_all_its_references(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{i}" for i in range(9)]
    given = pod().templates(*names)
    view, asked = view_of(*(claim(f"web-{name}").generated_for(given, name) for name in names)), []

    def claims_owned_by(uid: str) -> Any:
        asked.append(uid)
        return view.claims.by_index("owner", uid)

    monkeypatch.setattr(view, "claims_owned_by", claims_owned_by)
    found = tuple((name, f"web-{name}") for name in names)
    assert (decide(ConsumerFacts(given, view)), asked) == (ConsumerPlan(found=found), ["uid-of-web"])


@pytest.mark.behaviour(57)
def test_a_claim_made_from_a_template() -> None:
    given = GPU.giving({"team": "a"}, {"note": "b", wellknown.POD_CLAIM_NAME_ANNOTATION: "forged"})
    made = new_claim(WEB, "gpu", given)
    assert (made["metadata"], made["spec"]) == (
        {
            "namespace": "ml",
            "generateName": "web-gpu-",
            "labels": {"team": "a"},
            "annotations": {"note": "b", wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}
            ],
        },
        GPU["spec"]["spec"],
    )
    assert given["spec"]["metadata"]["annotations"] == {"note": "b", wellknown.POD_CLAIM_NAME_ANNOTATION: "forged"}


def test_a_status_is_recorded_whole_and_in_order() -> None:
    given = pod().generated("b", "web-b").generated("a", "old").generated("none", None)
    assert statuses(given, {"a": "web-a", "c": "web-c"}) == [
        {"name": "a", "resourceClaimName": "web-a"},
        {"name": "b", "resourceClaimName": "web-b"},
        {"name": "c", "resourceClaimName": "web-c"},
    ]
