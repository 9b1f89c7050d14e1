"""Who generates claims changes while everything runs: kube-controller-manager's controller, or another process of ours.

A plane of its own, with `claims: Replace`.
"""

import itertools
import json
from collections.abc import Iterator

import pytest
from objects.builders import pod_group
from planes.objects import Cluster, as_written
from planes.parameters import since
from planes.podgroups import FLAGS
from planes.replacing import BEGUN, namespace_of, restarted_with, start
from processes.stack import CONTROLLERS, Stack, eventually

from controllers.claims.probe import NAME
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER
from tollbar.model import managers
from tollbar.model.objects import Object

pytestmark = pytest.mark.timeout(450)

OURS = "tollbar-controllers"
THEIRS = "kube-controller-manager"


@pytest.fixture
def cluster(replaced: Stack, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """With a template for a device that nobody has."""
    found = Cluster(replaced.plane.kubectl, namespace_of(replaced, request.node.name))
    found.create(found.template("mine", found.unique("never")))
    yield found
    found.clear()


def makers(cluster: Cluster, pod: str) -> list[str]:
    """Who made the claims of this Pod."""
    listed = cluster.kubectl.json("get", "resourceclaims", "-n", cluster.namespace, "--show-managed-fields")
    owned = (each for each in listed["items"] if each["metadata"]["ownerReferences"][0]["name"] == pod)
    return [managers.creator(each) for each in owned]


def made_for(cluster: Cluster, pod: str) -> list[str]:
    cluster.create(cluster.pod(pod).templates("mine"))
    return list(eventually(lambda: makers(cluster, pod), what=f"a claim for {pod}"))


def condition(stack: Stack) -> Object:
    lease = stack.plane.kubectl.json("get", "lease", "tollbar-controllers", "-n", "tollbar-system")
    found: Object = json.loads(lease["metadata"]["annotations"]["tollbar.dev/claims-condition"])
    return found


def test_it_stops_while_kube_controller_manager_generates_and_catches_up_afterwards(
    cluster: Cluster, replaced: Stack
) -> None:
    ours = replaced.running["controllers"]
    assert made_for(cluster, "before") == [OURS]
    with restarted_with(replaced.plane, CONTROLLER_MANAGER):
        rounds, later = itertools.count(), [f"later-{index}" for index in range(20)]

        def suspected() -> bool:
            """Both make claims for what is created now, until one of theirs is seen."""
            number = next(rounds)
            cluster.create(*(cluster.pod(f"both-{number}-{index}").templates("mine") for index in range(5)))
            return bool(ours.said("somebody else may generate ResourceClaims"))

        eventually(suspected, seconds=120, what="suspected")
        cluster.create(*(cluster.pod(pod).templates("mine") for pod in later))
        verdict = "field manager ResourceClaimController generates ResourceClaims already"
        eventually(lambda: ours.said(verdict), seconds=120, what="noticed")
        assert not ours.is_ready()
        assert [eventually(lambda pod=pod: makers(cluster, pod)) for pod in later] == [[THEIRS]] * len(later)
        since = replaced.plane.audit_fence()
        assert made_for(cluster, "theirs") == [THEIRS]
        replaced.plane.audit_fence()
        written = replaced.plane.audit.writes(since, user=CONTROLLERS, namespace=cluster.namespace)
        assert [record.name for record in written if record.name.startswith("theirs")] == []
    cluster.create(cluster.pod("waits").templates("mine"))
    eventually(ours.is_ready, seconds=120, what="ready when it is alone")
    assert eventually(lambda: makers(cluster, "waits")) == [OURS]
    assert made_for(cluster, "after") == [OURS]
    assert "Traceback" not in ours.log()


def test_the_next_leader_needs_no_probe(cluster: Cluster, replaced: Stack) -> None:
    replaced.running["controllers"].stop()
    elected = {"leaderElection__enabled": True, "claims": "Replace"}
    try:
        first = replaced.controllers("first", **elected)
        eventually(lambda: first.said(BEGUN), what="generating")
        eventually(lambda: condition(replaced)["reason"] == "Generating", what="said on the Lease")
        assert made_for(cluster, "of-the-first") == [OURS]
        second = replaced.controllers("second", **elected)
        since = replaced.plane.audit_fence()
        first.stop()
        assert made_for(cluster, "of-the-second") == [OURS]
        assert second.said(BEGUN)
        replaced.plane.audit_fence()
        assert [record for record in replaced.plane.audit.writes(since) if record.name == NAME] == []
        eventually(lambda: status(replaced)["claims"]["condition"]["reason"] == "Generating", what="said by status")
        second.stop()
    finally:
        start(replaced)


@since("1.37", "no PodGroups in a beta version")
def test_pod_groups_are_served_for_as_long_as_the_server_has_them(cluster: Cluster, replaced: Stack) -> None:
    """The API server is upgraded and downgraded again while Tollbar runs."""
    ours, gone = replaced.running["controllers"], '"the API is not served" kind="PodGroup"'
    before, since = ours.said(gone), replaced.plane.audit_fence()
    with restarted_with(replaced.plane, API_SERVER, *FLAGS[API_SERVER]):
        group = pod_group("gang", cluster.namespace).templates("mine")
        cluster.kubectl.apply(as_written(group.but("spec.schedulingPolicy", {"gang": {"minCount": 1}})))
        assert eventually(lambda: makers(cluster, "gang"), seconds=120, what="a claim for the PodGroup") == [OURS]
    eventually(lambda: ours.said(gone) > before, seconds=150, what="noticed")
    assert made_for(cluster, "alone") == [OURS]
    # The server's garbage collector, if it knows the kind by now, takes the PodGroup for deleted.
    replaced.plane.audit_fence()
    written = replaced.plane.audit.writes(since, user=CONTROLLERS, namespace=cluster.namespace)
    assert [record.name for record in written if record.verb == "delete" and record.name.startswith("gang")] == []
    assert "Traceback" not in ours.log()


def status(stack: Stack) -> Object:
    found: Object = json.loads(stack.tollbar("status", "-o", "json").stdout)
    return found
