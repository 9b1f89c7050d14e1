"""Drills while Pods are created, 50 in a second: what each costs creations.  One installation for all of them.

Every fifth Pod waits for a class, and is gated; the others are given a toleration at once.  What came of each drill is
in the log (`--log-cli-level=INFO`); TOLLBAR_DRILLS makes each so many times longer.
"""

import logging
from collections.abc import Callable, Iterator

import pytest
from objects.builders import toleration_rule
from planes.loading import VOLUME, Creations, Service
from planes.objects import RESERVED, Cluster, a_ready_rule, as_written, gpu_rule
from planes.replacing import restarted_with
from processes.stack import ELECTION, Stack, eventually, installed

from tollbar.api import webhooks
from tollbar.api.gates import shipped_gate
from tollbar.devplane.layout import API_SERVER, ETCD
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object, spec

pytestmark = [pytest.mark.timeout(300 + 30 * VOLUME), pytest.mark.alone]

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def stack(own_plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two replicas of the controllers."""
    with installed(own_plane, tmp_path_factory.mktemp("load")) as running:
        gate = shipped_gate()
        own_plane.kubectl.apply({**gate, "spec": {**gate["spec"], "maxHold": "1h"}})
        both = [running.controllers(name, ready=False, **ELECTION) for name in ("one", "two")]
        eventually(lambda: all(process.is_ready() for process in both), what="both are ready")
        yield running


@pytest.fixture(scope="module")
def service(stack: Stack) -> Iterator[Service]:
    """Two replicas of the webhook, `a` and `b`, at one address, which the API server asks."""
    with Service() as service:
        for name in ("a", "b"):
            replica(stack, service, name)
        stack.serving = service.port
        stack.register()
        yield service


@pytest.fixture
def cluster(stack: Stack, service: Service, namespace: str) -> Iterator[Cluster]:
    found = Cluster(stack.plane.kubectl, namespace)
    yield found
    found.clear()


@pytest.fixture
def creations(cluster: Cluster, stack: Stack) -> Iterator[Creations]:
    resource, late = f"{cluster.namespace}.example.com/device", cluster.unique("late")
    a_ready_rule(cluster, toleration_rule(cluster.unique("now")).extended(resource).giving(RESERVED), gpu_rule(late))
    cluster.create(cluster.template("late", late))
    wanted = {"requests": {resource: "1"}, "limits": {resource: "1"}}
    now = cluster.pod().but("spec.containers", [{"name": "main", "image": "example.com/app", "resources": wanted}])
    waits = cluster.pod().templates("late")

    def make(number: int) -> Object:
        pod = as_written(waits if number % 5 == 0 else now, name=f"web-{number}")
        return {**pod, "spec": {**spec(pod), "schedulerName": "nobody"}}  # kube-scheduler would write to each

    with Creations(stack.plane.kubeconfig, make) as creations:
        creations.go_on()
        yield creations


def replica(stack: Stack, service: Service, name: str) -> None:
    """One more, which gets connections once it is ready."""
    (port,) = free_ports(1)
    stack.start(name, "webhooks", webhook__port=port, **ELECTION)
    service.add(name, port)


def released(cluster: Cluster) -> bool:
    cluster.class_("late")
    return bool(eventually(lambda: not cluster.held(), seconds=120, what="all are released"))


def test_a_rolling_restart_of_the_webhook(stack: Stack, service: Service, creations: Creations) -> None:
    """As a Deployment does it: one more, and when that is ready, one less."""
    for old, new in {"a": "c", "b": "d"}.items():
        replica(stack, service, new)
        service.remove(old)
        creations.go_on(2)  # preStop: until every Node knows
        assert stack.running.pop(old).stop() == 0
    creations.go_on()
    log.info("rolling restart of the webhook: %s", creations)
    assert (creations.refused, creations.unanswered) == ([], 0)
    assert creations.undecided <= creations.created / 100


def test_the_leader_of_the_controllers_is_killed(cluster: Cluster, stack: Stack, creations: Creations) -> None:
    leader, other = sorted(("one", "two"), key=lambda name: not stack.running[name].leads())
    stack.running[leader].kill()
    eventually(lambda: stack.running[other].leads(), what="the other one leads")
    creations.go_on()
    log.info("the leader is killed: %s", creations)
    assert (creations.refused, creations.unanswered, creations.undecided) == ([], 0, 0)
    assert released(cluster)
    stack.controllers(leader, **ELECTION)


def test_the_node_of_a_replica_is_gone(stack: Stack, service: Service, creations: Creations) -> None:
    """Those whose review was sent there take the webhook's `timeoutSeconds` longer, and come undecided."""
    at = webhooks.at_url(f"https://127.0.0.1:{service.port}", stack.authority)
    stack.plane.kubectl.apply(webhooks.pods_configuration(at))  # with the time-out that is shipped
    creations.go_on()
    assert creations.undecided == 0
    gone = service.lose_one()
    eventually(lambda: creations.undecided, what="one has missed the webhook")
    creations.go_on(4)
    log.info("the Node of one of two replicas is gone: %s", creations)
    service.remove(gone)  # Kubernetes has noticed it
    creations.until_all_are_decided()
    log.info("and out of the Service: %s", creations)
    assert (creations.refused, creations.unanswered) == ([], 0)
    stack.running.pop(gone).kill()
    stack.register()


def restart_etcd(plane: RealPlane) -> None:
    plane.stop_component(ETCD)
    plane.start_component(ETCD)


RESTARTS: dict[str, Callable[[RealPlane], None]] = {
    "the API server": RealPlane.restart_apiserver,
    "etcd": restart_etcd,
}


@pytest.mark.parametrize("restart", RESTARTS.values(), ids=RESTARTS)
def test_a_restart(cluster: Cluster, stack: Stack, creations: Creations, restart: Callable[[RealPlane], None]) -> None:
    """Whatever is stored has been decided; what Tollbar's processes know outlives it."""
    restart(stack.plane)
    creations.go_on(2)
    log.info("restarted: %s", creations)
    assert (creations.refused, creations.undecided) == ([], 0)
    assert released(cluster)
    assert ended(stack) == {}


def test_etcd_is_away_for_longer_than_the_leader_may_lead(cluster: Cluster, stack: Stack, creations: Creations) -> None:
    """The leader gives up its calls, which nobody answers, and steps back; a leader follows in a process that lived."""
    leading = eventually(lambda: [name for name in ("one", "two") if stack.running[name].leads()], what="one leads")
    leader = stack.running[leading[0]]
    before = leader.said("lost the lease")
    stack.plane.stop_component(ETCD)
    eventually(lambda: leader.said("lost the lease") > before, what="the leader steps back")
    stack.plane.start_component(ETCD)
    creations.go_on(2)
    log.info("etcd was away: %s", creations)
    assert creations.refused == []
    assert released(cluster)
    assert ended(stack) == {}


def ended(stack: Stack) -> dict[str, str]:
    """The end of the log of each process that has ended by itself."""
    return {name: process.log()[-4000:] for name, process in stack.running.items() if process.child.poll() is not None}


def test_a_service_without_endpoints(stack: Stack, creations: Creations) -> None:
    """The API server looks for endpoints itself, as where it cannot reach the addresses of Services."""
    with restarted_with(stack.plane, API_SERVER, "--enable-aggregator-routing=true"):
        stack.plane.kubectl.apply(webhooks.pods_configuration(webhooks.at_service()))
        eventually(lambda: creations.undecided, what="one has missed the webhook")
        creations.go_on(2)
    stack.register()
    creations.until_all_are_decided()
    log.info("a Service without endpoints: %s", creations)
    assert creations.refused == []
