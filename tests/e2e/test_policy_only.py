"""The main job without any webhook: overlays/policy-only, where the API server gates and the controllers decide.

The stories are those of test_main_job.py that are not about the webhook, with the fixtures of this file.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from e2e.test_main_job import (
    how,
    test_a_class_that_is_replaced_decides_anew_about_pods_that_wait,
    test_a_held_pod_is_released_when_its_class_appears,
    test_a_plain_extended_resource,
    test_a_pod_with_a_generated_name,
    test_a_rule_that_reads_a_name_not_generated_yet_decides_behind_the_gate,
    test_alternatives,
    test_an_extended_resource_that_a_class_backs,
    test_foreign_gates_stay,
    test_pods_of_a_deployment,
    test_pods_that_are_not_ours_are_not_touched,
    test_several_rules_on_one_pod_add_each_toleration_once,
    test_what_the_author_wrote_is_not_written_again,
)
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule
from planes.parameters import since
from processes.stack import OVERLAYS, Stack, eventually, installed

from tollbar import wellknown
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object

__all__ = [
    "test_a_class_that_is_replaced_decides_anew_about_pods_that_wait",
    "test_a_held_pod_is_released_when_its_class_appears",
    "test_a_plain_extended_resource",
    "test_a_pod_with_a_generated_name",
    "test_a_rule_that_reads_a_name_not_generated_yet_decides_behind_the_gate",
    "test_alternatives",
    "test_an_extended_resource_that_a_class_backs",
    "test_foreign_gates_stay",
    "test_pods_of_a_deployment",
    "test_pods_that_are_not_ours_are_not_touched",
    "test_several_rules_on_one_pod_add_each_toleration_once",
    "test_what_the_author_wrote_is_not_written_again",
]
pytestmark = since("1.36", "it serves no MutatingAdmissionPolicy")

POLICIES = "mutatingadmissionpolicies,mutatingadmissionpolicybindings"


class WithoutWebhook(Cluster):
    """What the stories wait for at the webhook, they need not wait for here."""

    def rules_at_admission(self, pod: Object) -> set[str]:
        """Nobody decides at admission: the names of the rules by which the controllers decide."""
        rules = self.kubectl.json("get", "tolerationrules")["items"]
        return {
            rule["metadata"]["name"]
            for rule in rules
            if {("Ready", "True")} <= {(each["type"], each["status"]) for each in rule["status"].get("conditions", [])}
        }


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Controllers alone, with the arguments of the overlay; the policies are in force, and go at the end."""
    with installed(plane, tmp_path_factory.mktemp("stack"), "policy-only") as running:
        try:
            running.controllers(certificates__managed=False)
            eventually(lambda: gated(running), what="the policies are in force")
            yield running
        finally:
            plane.kubectl("delete", POLICIES, "-l", "app.kubernetes.io/name=tollbar")
            eventually(lambda: not gated(running), what="the policies are no longer in force")


def gated(stack: Stack) -> bool:
    """Whether a Pod that wants a device would be held."""
    wants = {"requests": {"example.com/any": "1"}, "limits": {"example.com/any": "1"}}
    tried = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "example.com/app", "resources": wants}]},
    }
    dry = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    return "schedulingGates" in json.loads(stack.plane.kubectl(*dry, stdin=json.dumps(tried)))["spec"]


@pytest.fixture
def cluster(stack: Stack, nodes: BackgroundKubelet, namespace: str) -> Iterator[Cluster]:
    found = WithoutWebhook(stack.plane.kubectl, namespace)
    yield found
    found.clear()


@pytest.mark.parametrize("by", ["claim", "template"])
def test_a_pod_that_could_be_decided_at_once_is_held_for_a_moment(cluster: Cluster, by: str) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.claim("mine", gpu) if by == "claim" else cluster.template("mine", gpu))
    cluster.create(cluster.pod().claims("mine") if by == "claim" else cluster.pod().templates("mine"))
    assert (cluster.bound_to(), cluster.tolerations()) == ("gpu-1", [RESERVED])
    assert how(cluster.get()) == [(gpu, "gate")]
    assert cluster.get()["metadata"]["labels"][wellknown.LABEL_GATE] == wellknown.GATE_RELEASED


def test_a_record_that_a_client_wrote_is_taken_off(cluster: Cluster) -> None:
    forged = json.dumps([{"rule": "mine", "via": "admission", "tolerations": [RESERVED]}])
    cluster.create(as_written(cluster.pod(), annotations={wellknown.ANNOTATION_PROVENANCE: forged}))
    assert wellknown.ANNOTATION_PROVENANCE not in cluster.get()["metadata"].get("annotations", {})


def test_what_is_gated_while_no_controller_lives_is_released_by_the_next(cluster: Cluster, stack: Stack) -> None:
    """A policy cannot see whether somebody will release: docs/concepts/how-it-works.md says so."""
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    stack.running["controllers"].kill()
    try:
        cluster.create(cluster.pod().templates("mine"))
        assert cluster.is_held()
    finally:
        stack.controllers(certificates__managed=False)
    assert (cluster.bound_to(), cluster.tolerations()) == ("gpu-1", [RESERVED])


def test_there_is_no_webhook_and_status_misses_none(cluster: Cluster, stack: Stack) -> None:
    rendered = yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAYS / "policy-only")))
    kinds = {each["kind"] for each in rendered}
    installed = cluster.kubectl("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name")
    told = json.loads(stack.tollbar("status", "-o", "json").stdout)
    assert (
        {kind for kind in kinds if "Webhook" in kind or kind == "Service"},
        "tollbar" in installed,
        [each for each in told["problems"] if "webhook" in each or "MutatingAdmissionPolicy" in each],
    ) == (set(), False, [])


def test_drain_takes_the_policies_away_and_releases(cluster: Cluster, stack: Stack) -> None:
    """The last: the policies come back with the overlay."""
    late = cluster.unique("late")
    a_ready_rule(cluster, gpu_rule(late))
    cluster.create(cluster.template("mine", late), cluster.pod().templates("mine"))
    assert cluster.is_held()
    said: Any = stack.tollbar("drain", "-o", "json")
    assert (said.returncode, cluster.is_held(), gated(stack)) == (0, False, False), said.stdout + said.stderr
    assert cluster.kubectl("get", POLICIES, "-o", "name") == ""
