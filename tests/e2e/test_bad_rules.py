"""Rules that go wrong, and input that is wrong: a clear answer, and no Pod that waits for ever."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from objects.builders import toleration_rule
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule, is_compiled
from processes.stack import Stack, eventually

from tollbar.devplane.kubectl import KubectlError
from tollbar.model.objects import Object

FOREIGN_GATE = "other.dev/quota"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('claims.exists(c, c.spec.devices.requests.exists(r, r.deviceClassName == "x"))', "exactly.deviceClassName"),
        ('pod.metdata.name == "x"', "1:5"),
        ("pods.size() > 0", "1:1: undefined variable 'pods'; did you mean 'pod'?"),
        ("pod.spec.containers.size()", "bool"),
        ("claims.exists(c,", "1:"),
        ('pod.metadata.name.matches("(")', "1:27: invalid regular expression"),
    ],
)
def test_a_broken_rule_is_refused_with_its_place(cluster: Cluster, expression: str, said: str) -> None:
    with pytest.raises(KubectlError) as refused:
        cluster.create(toleration_rule(cluster.unique("broken")).cel(expression))
    assert "spec.match.cel.expression" in refused.value.stderr
    assert said in refused.value.stderr


def test_a_rule_that_fails_at_run_time_is_reported_and_holds_nobody(cluster: Cluster, stack: Stack) -> None:
    gpu = cluster.class_()
    failing = toleration_rule(cluster.unique("failing")).cel('pod.metadata.labels["team"] == "a" && size(claims) > 0')
    a_ready_rule(cluster, gpu_rule(gpu), failing)
    cluster.create(cluster.template("mine", gpu))
    # The controllers look at Pods without a node, and kube-scheduler may be quicker.
    cluster.create(cluster.pod().templates("mine").but("spec.schedulingGates", [{"name": FOREIGN_GATE}]))
    assert cluster.decided() == [RESERVED]
    reported(cluster, stack, "web", failing)
    ungate = '[{"op": "remove", "path": "/spec/schedulingGates/0"}]'
    cluster.kubectl("patch", "pod", "web", "-n", cluster.namespace, "--type=json", "-p", ungate)
    assert cluster.bound_to() == "gpu-1"


def test_lists_that_the_api_server_writes_as_null_are_empty_and_no_error(cluster: Cluster, stack: Stack) -> None:
    late = cluster.unique("late")
    reading = toleration_rule(cluster.unique("reading")).giving(RESERVED)
    a_ready_rule(
        cluster,
        gpu_rule(late),
        reading.cel(
            "pod.spec.volumes.exists(v, v.name == 'a' && v.projected.sources.all(s, has(s.secret)))"
            " && claims.exists(c, c.spec.devices.requests.all(r, has(r.exactly)))"
        ),
    )
    cluster.create(cluster.claim("empty").but("spec", {}))
    stored = cluster.kubectl.json("get", "resourceclaim", "empty", "-n", cluster.namespace)
    assert stored["spec"]["devices"] == {"requests": None}
    cluster.create(cluster.pod().claims("empty").but("spec.volumes", [{"name": "a", "projected": {"sources": None}}]))
    assert cluster.tolerations() == [RESERVED]
    errors = stack.running["webhook"].metrics().get("tollbar_rule_errors_total", {})
    assert [labels for labels in errors if reading["metadata"]["name"] in labels] == []


def test_a_rule_over_its_budget_is_reported_and_holds_nobody(cluster: Cluster, stack: Stack) -> None:
    late = cluster.unique("late")
    deep = "[1,2,3,4,5,6,7,8,9,10].all(NAME, REST)"
    expression = "claims.size() >= 0"
    for name in "abcdefg":
        expression = deep.replace("NAME", name).replace("REST", expression)
    hungry = toleration_rule(cluster.unique("hungry")).cel(expression)
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(hungry)
    is_compiled(cluster, hungry)
    cluster.create(cluster.template("mine", late))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.is_held()
    cluster.class_("late")
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [RESERVED]
    reported(cluster, stack, "web", hungry)


BAD_PROTOTYPE = {"driver": "gpu.example.com", "capacity": {"memory": {"value": "a lot"}}}


@pytest.mark.parametrize(
    ("match", "reason", "said"),
    [
        (
            {"type": "CEL", "cel": {"expression": 'pod.metdata.name == "x"'}},
            "InvalidExpression",
            "spec.match.cel.expression: 1:5: undefined field 'metdata'",
        ),
        (
            {"type": "Device", "device": {"prototypes": [BAD_PROTOTYPE]}},
            "InvalidPrototype",
            "spec.match.device.prototypes[0].capacity[memory].value",
        ),
    ],
    ids=["expression", "prototype"],
)
def test_a_rule_that_got_past_admission_is_not_in_force_and_says_why(
    cluster: Cluster, stack: Stack, match: Object, reason: str, said: str
) -> None:
    """The webhook was down; for the prototype the CRD's own rule was missing, as with an older definition."""
    name, gpu = cluster.unique("broken"), cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    stack.running["webhook"].stop()
    try:
        with without_crd_rules(cluster):
            cluster.create(toleration_rule(name).but("spec.match", match))
            # A changed definition ends the watches of its kind, which go on after a pause.
            cluster.kubectl("wait", "--for=condition=Ready=False", f"tolerationrule/{name}", "--timeout=90s")
    finally:
        stack.webhook()
    (condition,) = cluster.kubectl.json("get", "tolerationrule", name)["status"]["conditions"]
    assert condition["reason"] == reason
    assert condition["message"].startswith(said)
    eventually(lambda: "InvalidRule" in dict(cluster.events(name)), what="InvalidRule")
    errors = stack.running["controllers"].metrics()["tollbar_rule_errors_total"]
    assert any(f'rule="{name}"' in labels and reason in labels for labels in errors)
    cluster.create(cluster.pod().templates("mine"))
    assert (cluster.decided(), cluster.bound_to()) == ([RESERVED], "gpu-1")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.match", None, "spec.match: Required value"),
        ("spec.tolerations", [], "spec.tolerations"),
        ("spec.tolerations", [{"operator": "Exists"}], "reserved"),
        ("spec.tolerations", [{"key": "a", "operator": "Exists", "value": "x"}], "value must be empty"),
        ("spec.mode", "Off", "spec.mode"),
        ("spec.match", {"type": "CEL"}, "match.cel"),
        ("spec.match", {"type": "Device", "device": {"prototypes": []}}, "prototypes"),
    ],
)
def test_a_malformed_rule_is_refused_with_its_field(cluster: Cluster, path: str, value: Object, said: str) -> None:
    with pytest.raises(KubectlError) as refused:
        cluster.create(toleration_rule(cluster.unique("bad")).cel("true").but(path, value))
    assert said in refused.value.stderr


def test_a_pod_of_one_mebibyte_passes(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    large = [{"name": f"V{i}", "value": "x" * 1000} for i in range(1000)]
    pod = cluster.pod().templates("mine")
    pod = pod.but("spec.containers", [{**pod["spec"]["containers"][0], "env": large}])
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(as_written(pod)))
    assert (cluster.decided(), cluster.bound_to()) == ([RESERVED], "gpu-1")


def test_a_pod_with_256_alternatives_is_decided(cluster: Cluster) -> None:
    """Too many for admission: gated, and released when the controller has looked at them all."""
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("many", *([gpu] * 4)).request(*([gpu] * 8)).request(*([gpu] * 8)))
    cluster.create(cluster.pod().templates("many"))
    assert cluster.decided() == [RESERVED]


def test_no_traceback_was_logged(stack: Stack) -> None:
    """The last test of the lane: everything above went through these two processes."""
    assert stack.tracebacks() == ""


@contextmanager
def without_crd_rules(cluster: Cluster) -> Iterator[None]:
    """The CRD without its validation, for a while, which the API server has noticed at both ends."""
    crd = cluster.kubectl.json("get", "crd", "tolerationrules.tollbar.dev")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = crd["spec"]["versions"]
    loose = [{**each, "schema": {"openAPIV3Schema": schema}, "selectableFields": []} for each in versions]
    name = crd["metadata"]["name"]
    patch(cluster, name, loose)
    try:
        eventually(lambda: is_stored_without_match(cluster), what="the definition without validation")
        yield
    finally:
        patch(cluster, name, versions)
        eventually(lambda: not is_stored_without_match(cluster), what="the definition with its validation")


def patch(cluster: Cluster, crd: str, versions: list[Object]) -> None:
    cluster.kubectl("patch", "crd", crd, "--type=merge", "-p", json.dumps({"spec": {"versions": versions}}))


def is_stored_without_match(cluster: Cluster) -> bool:
    """Whether a rule without the one required field would be; asked without effect while the webhook is down."""
    rule = as_written(toleration_rule(cluster.unique("without")))
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(rule))
    except KubectlError:
        return False
    return True


def reported(cluster: Cluster, stack: Stack, pod: str, rule: Object) -> None:
    name = rule["metadata"]["name"]
    eventually(lambda: "RuleEvaluationFailed" in dict(cluster.events(pod)), what="RuleEvaluationFailed on the Pod")
    eventually(lambda: "RuleFailing" in dict(cluster.events(name)), what="RuleFailing on the rule")
    errors = stack.running["controllers"].metrics()["tollbar_rule_errors_total"]
    assert any(f'rule="{name}"' in labels for labels in errors)
