"""A tenant gets the toleration by a claim that nobody can satisfy, and puts an empty one in its place."""

from collections.abc import Iterator
from contextlib import contextmanager

from objects.builders import claim
from planes.objects import RESERVED, Cluster, a_ready_rule, gpu_rule
from processes.stack import ROOT, Stack, eventually

from tollbar.model.objects import Object, metadata

RIGHTS = f"--filename={ROOT / 'manifests/components/evict-unjustified/rights.yaml'}"
TOO_MANY = 65
SAID = "the claims that a Pod runs with do not justify a toleration"


@contextmanager
def evicting(stack: Stack) -> Iterator[None]:
    """The controllers begin anew, and evict, as the component `evict-unjustified` has it."""
    stack.plane.kubectl("apply", "--server-side", RIGHTS)
    stack.running["controllers"].stop()
    stack.controllers(onUnjustifiedToleration="Evict")
    try:
        yield
    finally:
        stack.plane.kubectl("delete", RIGHTS)


def swapped(cluster: Cluster, name: str, gpu: str) -> None:
    """Such a Pod runs on the reserved Node now."""
    asked = {"name": "gpu", "exactly": {"deviceClassName": gpu, "count": TOO_MANY}}
    cluster.create(cluster.claim(name).but("spec.devices.requests", [asked]))
    on_the_reserved_node = cluster.pod(name).but("spec.nodeSelector", {"kubernetes.io/hostname": "gpu-1"})
    cluster.until_younger_than("tolerationrule", gpu)
    cluster.create_known(on_the_reserved_node.claims(name).labelled(app=name))
    assert cluster.tolerations(name) == [RESERVED]
    cluster.kubectl("delete", "resourceclaim", name, "-n", cluster.namespace)
    cluster.until_younger_than("pod", name)
    cluster.create(claim(name, cluster.namespace))
    assert cluster.bound_to(name) == "gpu-1"


def told(cluster: Cluster, name: str) -> str:
    found = eventually(lambda: dict(cluster.events(name)).get("TolerationUnjustified"), what=f"{name} is told of")
    return str(found)


def counted(stack: Stack, metric: str) -> dict[str, float]:
    return stack.running["controllers"].metrics().get(metric, {})


def is_there(cluster: Cluster, name: str) -> bool:
    return any(metadata(each)["name"] == name for each in cluster.pods())


def test_a_claim_that_is_swapped_for_an_empty_one_is_found_told_and_counted(cluster: Cluster, stack: Stack) -> None:
    gpu = cluster.class_()
    a_ready_rule(cluster, gpu_rule(gpu))
    cluster.create(cluster.template("mine", gpu))
    cluster.create_known(cluster.pod("honest").templates("mine"))
    swapped(cluster, "sly", gpu)
    assert told(cluster, "sly") == (
        f"the claims that the Pod runs with do not justify what it tolerates: example.com/gpu:NoSchedule op=Exists by"
        f" rule {gpu}"
    )
    assert cluster.bound_to("honest") == "gpu-1"
    assert counted(stack, "tollbar_tolerations_unjustified_total") == {f'rule="{gpu}"': 1}
    assert stack.running["controllers"].said(SAID) == 1
    assert "deletionTimestamp" not in metadata(cluster.get("sly"))


def test_where_it_is_wanted_such_a_pod_is_evicted_as_soon_as_its_budget_allows(cluster: Cluster, stack: Stack) -> None:
    gpu = cluster.class_()
    expression = gpu_rule(gpu)["spec"]["match"]["cel"]["expression"]
    # Of the Pod's ServiceAccount the caches keep nothing: it has to be read.
    a_ready_rule(cluster, gpu_rule(gpu).cel(f"pod.spec.serviceAccountName != '' && {expression}"))
    budget: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept", "namespace": cluster.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "sly"}}},
    }
    cluster.kubectl.apply(budget)
    swapped(cluster, "sly", gpu)
    told(cluster, "sly")
    cluster.runs("sly")  # of one that is Pending the API server asks no budget
    with evicting(stack):
        eventually(lambda: counted(stack, "tollbar_evictions_total").get('result="budget"'), what="the budget keeps it")
        assert is_there(cluster, "sly")
        cluster.kubectl("delete", "pdb", "kept", "-n", cluster.namespace)
        eventually(lambda: not is_there(cluster, "sly"), what="evicted")
        assert counted(stack, "tollbar_evictions_total")['result="evicted"'] == 1
