"""The main job beside the real kube-scheduler and kube-controller-manager: Pods reach the reserved node, or do not."""

import json
from typing import Any

import pytest
from objects.builders import device_class, toleration, toleration_rule
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule, provenance
from planes.parameters import since
from processes.stack import Stack, eventually

from tollbar import wellknown
from tollbar.devplane.kubectl import KubectlError
from tollbar.explain.sections import notes_of


def test_a_pod_with_a_claim_by_name_is_decided_at_admission(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.claim("mine", gpu))
    cluster.create_known(cluster.pod().claims("mine"))
    assert (cluster.bound_to(), cluster.tolerations()) == ("gpu-1", [RESERVED])
    assert how(cluster.get()) == [(gpu, "admission")]


def test_a_pod_with_a_claim_from_a_template_is_decided_at_admission(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    cluster.create_known(cluster.pod().templates("mine"))
    assert (cluster.bound_to(), cluster.tolerations()) == ("gpu-1", [RESERVED])
    assert how(cluster.get()) == [(gpu, "admission")]


def test_a_plain_extended_resource(cluster: Cluster) -> None:
    a_ready_rule(cluster, toleration_rule(cluster.unique("plain")).extended("example.com/gpu").giving(RESERVED))
    cluster.create(cluster.pod().but("spec.containers", [container({"example.com/gpu": "1"})]))
    assert (cluster.decided(), cluster.bound_to()) == ([RESERVED], "gpu-1")


@since("1.36", "classes have no extended resources")
def test_an_extended_resource_that_a_class_backs(cluster: Cluster) -> None:
    """kube-scheduler makes the claim much later: the rule sees it through the class, at admission."""
    resource = f"example.com/{cluster.namespace}"
    gpu = cluster.class_(extended=resource)
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create_known(cluster.pod().but("spec.containers", [container({resource: "2"})]))
    assert (cluster.decided(), cluster.bound_to()) == ([RESERVED], "gpu-1")


@pytest.mark.parametrize(
    ("when", "order", "tolerated"),
    [
        ("All", ("gpu", "other"), False),
        ("All", ("gpu", "gpu"), True),
        ("Any", ("other", "gpu"), True),
        ("Any", ("other", "other"), False),
        ("First", ("gpu", "other"), True),
        ("First", ("other", "gpu"), False),
    ],
)
def test_alternatives(cluster: Cluster, when: str, order: tuple[str, str], tolerated: bool) -> None:
    classes = {name: cluster.class_(name) for name in ("gpu", "other")}
    a_ready_rule(cluster, gpu_rule(classes["gpu"]).when(when))
    cluster.create(cluster.template("either", *(classes[name] for name in order)))
    cluster.create(cluster.pod().templates("either"))
    assert cluster.decided() == ([RESERVED] if tolerated else [])


def test_several_rules_on_one_pod_add_each_toleration_once(cluster: Cluster) -> None:
    gpu = cluster.class_()
    extra = {"key": "example.com/extra", "operator": "Equal", "value": "yes", "effect": "NoExecute"}
    also = {**extra, "tolerationSeconds": 30}
    a_ready_rule(
        cluster,
        gpu_rule(gpu),
        gpu_rule(gpu).but("metadata.name", cluster.unique("second")).giving(RESERVED, extra, also),
    )
    cluster.create(cluster.template("mine", gpu))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.decided() == [RESERVED, extra, also]


@pytest.mark.parametrize("written", [{"operator": "Equal"}, {}], ids=["explicit Equal", "implicit Equal"])
def test_what_the_author_wrote_is_not_written_again(cluster: Cluster, written: dict[str, str]) -> None:
    gpu = cluster.class_()
    wanted = {"key": "example.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    own = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule", **written}
    a_ready_rule(cluster, gpu_rule(gpu).giving(wanted))
    cluster.create(cluster.template("mine", gpu))
    cluster.create(cluster.pod().templates("mine").tolerating(own))
    assert cluster.decided() == [own]
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [own]


def test_a_pod_with_a_generated_name(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    pod = as_written(cluster.pod().templates("mine"), generateName="many-")
    del pod["metadata"]["name"]
    name = cluster.kubectl("create", "-f", "-", "-o", "name", stdin=json.dumps(pod)).strip().removeprefix("pod/")
    assert (cluster.decided(name), cluster.bound_to(name)) == ([RESERVED], "gpu-1")


def test_a_rule_that_reads_a_name_not_generated_yet_decides_behind_the_gate(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, toleration_rule(gpu).cel('pod.metadata.name.startsWith("many-")').giving(RESERVED))
    cluster.create(cluster.template("mine", gpu))
    pod = as_written(cluster.pod().templates("mine"), generateName="many-")
    del pod["metadata"]["name"]
    name = cluster.kubectl("create", "-f", "-", "-o", "name", stdin=json.dumps(pod)).strip().removeprefix("pod/")
    assert cluster.bound_to(name) == "gpu-1"
    assert how(cluster.get(name)) == [(gpu, "gate")]


def test_pods_of_a_deployment(cluster: Cluster) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    cluster.kubectl.apply(workload("Deployment", cluster.pod().templates("mine"), replicas=3))
    cluster.kubectl("rollout", "status", "deployment/web", "-n", cluster.namespace, "--timeout=60s")
    pods = cluster.kubectl.json("get", "pods", "-n", cluster.namespace)["items"]
    assert [(p["spec"]["nodeName"], RESERVED in p["spec"]["tolerations"]) for p in pods] == [("gpu-1", True)] * 3


def test_a_held_pod_is_released_when_its_class_appears(cluster: Cluster) -> None:
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.is_held()
    missing = ("SchedulingHeld", f"waiting for DeviceClass {late}")
    eventually(lambda: missing in cluster.events("web"), what="SchedulingHeld")
    cluster.class_("late")
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [RESERVED]
    assert cluster.get()["metadata"]["labels"][wellknown.LABEL_GATE] == wellknown.GATE_RELEASED
    assert how(cluster.get()) == [(late, "gate")]
    eventually(lambda: "TolerationsAdded" in dict(cluster.events("web")), what="TolerationsAdded")


def test_a_class_that_is_replaced_decides_anew_about_pods_that_wait(cluster: Cluster) -> None:
    gpu = cluster.class_()
    reserved = (
        'deviceClasses.exists(c, has(deviceClasses[c].metadata.labels) && "tier" in deviceClasses[c].metadata.labels)'
    )
    a_ready_rule(cluster, toleration_rule(gpu).cel(reserved).giving(RESERVED))
    cluster.create(cluster.template("mine", gpu))
    cluster.create(cluster.pod().templates("mine"))
    assert cluster.decided() == []
    cluster.kubectl("delete", "deviceclass", gpu)
    cluster.create(device_class(gpu).selecting('device.driver == "gpu.example.com"').labelled(tier="reserved"))
    assert cluster.bound_to() == "gpu-1"
    assert cluster.tolerations() == [RESERVED]
    assert how(cluster.get()) == [(gpu, "late")]


def test_a_rule_that_reads_what_another_one_adds_is_late_and_its_author_is_warned(cluster: Cluster) -> None:
    gpu, chained = cluster.class_(), cluster.unique("chained")
    reads = f'has(pod.spec.tolerations) && pod.spec.tolerations.exists(t, t.key == "{RESERVED["key"]}")'
    theirs = toleration_rule(chained).cel(f"claims.size() > 0 && {reads}").giving(toleration("example.com/chained"))
    assert "Warning: spec.match.cel.expression: reads pod.spec.tolerations" in cluster.warned(theirs)
    a_ready_rule(cluster, gpu_rule(gpu), theirs)
    cluster.create(cluster.template("mine", gpu))
    waiting = cluster.pod().templates("mine").but("spec.schedulingGates", [{"name": "other.dev/quota"}])
    cluster.create_known(waiting)
    eventually(lambda: how(cluster.get()) == [(gpu, "admission"), (chained, "late")], what="added late")


@pytest.mark.parametrize("how_applied", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_a_pod_with_tolerations_of_its_own_cannot_be_applied_twice(
    cluster: Cluster, how_applied: tuple[str, ...]
) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    own = toleration("example.com/own")
    written = json.dumps(as_written(cluster.pod().templates("mine").tolerating(own)))
    eventually(lambda: cluster.rules_at_admission(json.loads(written)), what="known to the webhook")
    apply = ("apply", *how_applied, "-f", "-")
    cluster.kubectl(*apply, stdin=written)
    assert cluster.tolerations() == [own, RESERVED]
    with pytest.raises(KubectlError, match="existing toleration can not be modified"):
        cluster.kubectl(*apply, stdin=written)
    whole = cluster.kubectl("get", "pod", "web", "-n", cluster.namespace, "-o", "json", "--show-managed-fields")
    assert any("refuse to have it applied again" in note for note in notes_of(json.loads(whole)))
    cluster.kubectl("replace", "--force", "--grace-period=0", "-f", "-", stdin=written)
    assert cluster.decided() == [own, RESERVED]


def test_a_label_that_a_client_wrote_does_not_make_a_pod_look_held(cluster: Cluster) -> None:
    cluster.create(cluster.pod().labelled({wellknown.LABEL_GATE: wellknown.GATE_HELD}))
    assert wellknown.LABEL_GATE not in cluster.get()["metadata"].get("labels", {})


def test_foreign_gates_stay(cluster: Cluster) -> None:
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late))
    cluster.create(cluster.pod().templates("mine").but("spec.schedulingGates", [{"name": "other.dev/quota"}]))
    assert cluster.is_held()
    cluster.class_("late")
    eventually(lambda: not cluster.is_held(), what="our gate is off")
    assert cluster.get()["spec"]["schedulingGates"] == [{"name": "other.dev/quota"}]
    note = eventually(lambda: dict(cluster.events("web")).get("TolerationsAdded"), what="TolerationsAdded")
    assert note.endswith("still waiting for other.dev/quota")


def test_pods_that_are_not_ours_are_not_touched(cluster: Cluster, stack: Stack) -> None:
    gpu = cluster.class_()
    rule = toleration_rule(gpu).extended("example.com/gpu").giving(RESERVED)
    a_ready_rule(cluster, rule)
    wants = cluster.pod().but("spec.containers", [container({"example.com/gpu": "0"}), container({"cpu": "1m"}, "b")])
    asks = cluster.pod().but("spec.containers", [container({"example.com/gpu": "1"})])
    cluster.create(
        as_written(asks, name="placed") | {"spec": {**asks["spec"], "nodeName": "plain"}},
        as_written(asks, name="mirror", annotations={wellknown.MIRROR_ANNOTATION: "x"})
        | {"spec": {**asks["spec"], "nodeName": "plain"}},
        as_written(asks, name="opted-out", labels={wellknown.LABEL_SKIP: "true"}),
        as_written(wants, name="zero"),
    )
    cluster.kubectl.apply(workload("DaemonSet", asks))
    eventually(lambda: daemon_pods(cluster), what="a DaemonSet's Pod")
    cluster.bound_to("zero")  # and out of reach from then on
    waiting = {f"{cluster.namespace}/{name}" for name in ("opted-out", daemon_pods(cluster)[0]["metadata"]["name"])}
    eventually(lambda: waiting <= stack.running["controllers"].looks().keys(), what="the controllers looked at them")
    everything = cluster.kubectl.json("get", "pods", "-n", cluster.namespace)["items"]
    touched = [
        p["metadata"]["name"]
        for p in everything
        if RESERVED in p["spec"]["tolerations"]
        or p["spec"].get("schedulingGates")
        or wellknown.ANNOTATION_PROVENANCE in p["metadata"].get("annotations", {})
    ]
    assert len(everything) >= 5
    assert touched == []


@pytest.mark.parametrize(("admission", "via"), [("Gate", "gate"), ("Never", "late")])
def test_the_other_admission_modes(cluster: Cluster, stack: Stack, admission: str, via: str) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    stack.running["webhook"].stop()
    try:
        stack.webhook(admission=admission)
        cluster.create(cluster.pod().templates("mine"))
        assert cluster.bound_to() == "gpu-1"
        assert how(cluster.get()) == [(gpu, via)]
    finally:
        stack.running["webhook"].stop()
        stack.webhook()


def test_audit_only_warns(cluster: Cluster, stack: Stack) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu).mode("Audit"))
    cluster.create(cluster.template("mine", gpu))
    warning = f"Warning: tollbar: rule {gpu} (Audit) would add 1 toleration"
    pod = cluster.pod().templates("mine")
    eventually(lambda: warning in cluster.warned(pod, "--dry-run=server"), what="known to the webhook")
    assert warning in cluster.warned(pod)
    this = f"{cluster.namespace}/web"
    eventually(lambda: stack.running["controllers"].looks()[this], what="the controllers looked at it")
    assert cluster.decided() == []


def container(requests: dict[str, str], name: str = "main") -> dict[str, Any]:
    return {"name": name, "image": "example.com/app", "resources": {"requests": requests, "limits": requests}}


def how(pod: dict[str, Any]) -> list[tuple[str, str]]:
    """By which rules it got its tolerations, and by which way."""
    return [(entry["rule"], entry["via"]) for entry in provenance(pod)]


def workload(kind: str, pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": pod["metadata"]["namespace"]},
        "spec": {
            **spec,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def daemon_pods(cluster: Cluster) -> list[Any]:
    found: list[Any] = cluster.kubectl.json("get", "pods", "-n", cluster.namespace, "-l", "app=web")["items"]
    return found
