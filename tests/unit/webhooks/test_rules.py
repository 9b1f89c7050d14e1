"""Reviews of TolerationRules and SchedulingGates: what is refused, and with which words."""

import pytest
from objects.builders import namespace, scheduling_gate, toleration, toleration_rule
from objects.reviews import GPU_CLAIM, about_ours, about_pod

from tollbar.model.objects import Object
from tollbar.views.gatherer import Gatherer
from webhooks.review import ALLOWED, Answer
from webhooks.rules import RulesHandler

RULE = toleration_rule("gpu").cel(GPU_CLAIM)
GATE = scheduling_gate("quota", "example.com/quota").expiring("60s", "Report")
WRONG = RULE.cel("clams.exists(c, true)")
TAKEN = scheduling_gate("other", "example.com/quota")
OTHER = scheduling_gate("other", "example.com/other")


@pytest.fixture
def handler(gatherer: Gatherer) -> RulesHandler:
    gatherer.gates.replace([GATE])
    return RulesHandler(gatherer, kept=lambda: True)


ALLOWED_REQUESTS = {
    "a good rule": about_ours(RULE),
    "a good gate": about_ours(OTHER),
    "a gate that keeps its own name": about_ours(GATE.expiring("2m", "Report"), "UPDATE", oldObject=GATE),
    "a wrong rule whose spec does not change": about_ours(WRONG.labelled(a="b"), "UPDATE", oldObject=WRONG),
    "a deletion": about_ours(WRONG, "DELETE", object=None, oldObject=WRONG),
    "another group": about_pod(WRONG, kind={"group": "x", "version": "v1", "kind": "TolerationRule"}),
    "another kind of the group": about_ours(namespace()),
}


@pytest.mark.parametrize("request_", ALLOWED_REQUESTS.values(), ids=ALLOWED_REQUESTS)
def test_what_is_right_or_no_business_of_ours_is_allowed(handler: RulesHandler, request_: Object) -> None:
    assert handler(request_) == ALLOWED


READS_TOLERATIONS = (
    "spec.match.cel.expression: reads pod.spec.tolerations: what other rules add there, it sees only after admission,"
    " or never"
)
CLAIM_RULE = RULE.giving_devices(toleration("example.com/gpu"))
IMMUTABLE = (
    "spec.deviceTolerations: for claims and templates that are created from now on: the spec of those that exist is"
    " immutable"
)
WARNED: dict[str, tuple[Object, tuple[str, ...]]] = {
    "a rule that reads the tolerations": (
        about_ours(RULE.cel("pod.spec.tolerations.exists(t, t.key == 'a')")),
        (READS_TOLERATIONS,),
    ),
    "a rule that asks whether there are any": (about_ours(RULE.cel("has(pod.spec.tolerations)")), (READS_TOLERATIONS,)),
    "a rule that reads all of the spec": (about_ours(RULE.cel("pod.spec == pod.spec")), (READS_TOLERATIONS,)),
    "an update to such a rule": (
        about_ours(RULE.cel("has(pod.spec.tolerations)"), "UPDATE", oldObject=RULE),
        (READS_TOLERATIONS,),
    ),
    "a rule about another part of the spec": (about_ours(RULE.cel("has(pod.spec.priorityClassName)")), ()),
    "a rule about extended resources": (about_ours(toleration_rule("gpu").extended("example.com/gpu")), ()),
    "a rule for claims": (about_ours(CLAIM_RULE), (IMMUTABLE,)),
    "a rule for claims and Pods": (about_ours(CLAIM_RULE.giving(toleration("example.com/gpu"))), (IMMUTABLE,)),
    "a rule about devices": (about_ours(toleration_rule("gpu").device("gpu.example.com")), ()),
}


@pytest.mark.parametrize(("request_", "want"), WARNED.values(), ids=WARNED)
def test_a_rule_that_depends_on_other_rules_is_stored_with_a_warning(
    handler: RulesHandler, request_: Object, want: tuple[str, ...]
) -> None:
    assert handler(request_) == Answer(warnings=want)


def test_who_writes_a_rule_for_claims_is_told_that_what_it_gives_is_dropped(gatherer: Gatherer) -> None:
    handler = RulesHandler(gatherer, kept=lambda: False)
    said = (
        "spec.deviceTolerations: the API server drops tolerations of devices (feature gate DRADeviceTaints): no claim"
        " gets any"
    )
    assert [handler(about_ours(each)) for each in (CLAIM_RULE, RULE)] == [Answer(warnings=(said,)), ALLOWED]


REFUSED: dict[str, tuple[Object, list[str]]] = {
    "a rule for claims that reads the Pod": (
        about_ours(CLAIM_RULE.cel("pod.metadata.name == 'a'")),
        [
            (
                "spec.match.cel.expression: Invalid value: \"pod.metadata.name == 'a'\": reads pod.metadata.name, which"
                " is not known of a claim: give deviceTolerations in a rule of their own that reads the spec of claims,"
                " or their labels"
            )
        ],
    ),
    "a rule for claims that reads their names": (
        about_ours(CLAIM_RULE.cel("claims.exists(c, c.metadata.name == 'a')")),
        [
            (
                "spec.match.cel.expression: Invalid value: \"claims.exists(c, c.metadata.name == 'a')\": reads"
                " claims.metadata.name, which is not known of a claim: give deviceTolerations in a rule of their own"
                " that reads the spec of claims, or their labels"
            )
        ],
    ),
    "a rule for claims about extended resources": (
        about_ours(CLAIM_RULE.extended("example.com/gpu")),
        [
            (
                "spec.deviceTolerations: Forbidden: match.type ExtendedResource is about containers: for"
                " deviceTolerations use CEL or Device"
            )
        ],
    ),
    "a rule for claims that opens every device": (
        about_ours(RULE.giving_devices({"operator": "Exists"})),
        [
            (
                'spec.deviceTolerations[0].key: Invalid value: "": node.kubernetes.io/*, node-role.kubernetes.io/* and'
                " the empty key are reserved: set allowReservedKeys to use them"
            )
        ],
    ),
    "an effect that taints of devices do not have": (
        about_ours(RULE.giving_devices(toleration("example.com/gpu", effect="PreferNoSchedule"))),
        [
            (
                'spec.deviceTolerations[0].effect: Unsupported value: "PreferNoSchedule": supported values:'
                ' "NoSchedule", "NoExecute"'
            )
        ],
    ),
    "a rule that gives nothing": (
        about_ours(RULE.but("spec.tolerations", None)),
        ["spec.tolerations: Required value: at least one of tolerations and deviceTolerations must be set"],
    ),
    "a misspelt variable is named, with its place and what was meant": (
        about_ours(WRONG),
        [
            (
                'spec.match.cel.expression: Invalid value: "clams.exists(c, true)": '
                "1:1: undefined variable 'clams'; did you mean 'claims'?"
            )
        ],
    ),
    "a place in an expression of several lines": (
        about_ours(RULE.cel("claims.exists(c,\n  c.spec.foo)")),
        [
            (
                'spec.match.cel.expression: Invalid value: "claims.exists(c,\\n  c.spec.foo)": '
                "2:10: undefined field 'foo' in ResourceClaimSpec"
            )
        ],
    ),
    "every problem has its line": (
        about_ours(
            RULE.giving(
                toleration("example.com/gpu", value="x"),
                toleration("node.kubernetes.io/not-ready"),
            )
        ),
        [
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
            (
                'spec.tolerations[1].key: Invalid value: "node.kubernetes.io/not-ready": node.kubernetes.io/*,'
                " node-role.kubernetes.io/* and the empty key are reserved: set allowReservedKeys to use them"
            ),
        ],
    ),
    "a match without its member": (
        about_ours(RULE.but("spec.match.cel", None)),
        ["spec.match.cel: Required value: match.cel must be set exactly when match.type is CEL"],
    ),
    "an update is looked at like a creation": (
        about_ours(WRONG, "UPDATE", oldObject=RULE),
        [
            (
                'spec.match.cel.expression: Invalid value: "clams.exists(c, true)": '
                "1:1: undefined variable 'clams'; did you mean 'claims'?"
            )
        ],
    ),
    "a gate name that another object has": (
        about_ours(TAKEN),
        ['spec.gateName: Duplicate value: "example.com/quota": SchedulingGate "quota" declares it'],
    ),
    "an update to a gate name that another object has": (
        about_ours(TAKEN, "UPDATE", oldObject=OTHER),
        ['spec.gateName: Duplicate value: "example.com/quota": SchedulingGate "quota" declares it'],
    ),
    "releasing a gate of somebody else": (
        about_ours(OTHER.expiring("60s")),
        ["spec.onExpiry: Forbidden: onExpiry Release is for gates of tollbar.dev only: gates of others are reported"],
    ),
}


@pytest.mark.parametrize(("request_", "want"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_refused_with_one_line_each(handler: RulesHandler, request_: Object, want: list[str]) -> None:
    denial = handler(request_).denial
    assert denial is not None
    kind, name = request_["kind"]["kind"], request_["name"]
    first, *lines = denial["message"].split("\n")
    causes = [f"{cause['field']}: {cause['message']}" for cause in denial["details"].pop("causes")]
    assert (first, lines, causes, denial | {"message": ""}) == (
        f'{kind}.tollbar.dev "{name}" is invalid:',
        [f"* {line}" for line in want],
        want,
        {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "",
            "details": {"group": "tollbar.dev", "kind": kind, "name": name},
        },
    )


ODD: dict[str, Object] = {
    "no object at all": {"object": None},
    "a list": {"object": []},
    "an empty object": {"object": {}},
    "a spec that is a text": {"object": {"spec": "x"}},
}


@pytest.mark.parametrize("kind", [RULE, GATE], ids=["TolerationRule", "SchedulingGate"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_anything_gets_an_answer(handler: RulesHandler, kind: Object, odd: Object) -> None:
    answer = handler(about_ours(kind, **odd))
    assert (type(answer), (answer.denial or {}).get("code")) == (Answer, 422)
