"""`claims: Replace`: a leader that ends right after it made a claim, and a next one that has not seen the claim yet.

The next one may be the same process.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from faultproxy import Delay, FaultProxy, Hang, ProxiedPlane, Refuse, Rule, Slow
from planes.objects import Cluster
from planes.replacing import BEGUN, OFF, namespace_of, permit
from processes.stack import Process, Stack, eventually, installed

from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import key_of

UNRECORDED = Rule("unrecorded", Refuse(500, "InternalError"), {"patch"}, {"pods"}, "status")
UNANSWERED = Rule("unanswered", Hang(after=True), {"create"}, {"resourceclaims"})
NO_LEASE = Rule("no lease", Hang(), resources={"leases"})
LATE = Rule("late", Delay(120.0), {"watch"}, {"resourceclaims"})


def asked(namespace: str) -> Rule:
    """No fault: tells that the namespace's claims were listed."""
    return Rule("asked", Slow(0.0), {"list"}, {"resourceclaims"}, where=lambda request: request.namespace == namespace)


@pytest.fixture
def stack(binaries: Binaries, tmp_path: Path) -> Iterator[Stack]:
    options = Options(flags={CONTROLLER_MANAGER: (OFF,)})
    with RealPlane(binaries, tmp_path / "plane", options) as plane, installed(plane, tmp_path) as stack:
        permit(plane.kubectl)
        yield stack


def claims(cluster: Cluster) -> list[str]:
    return [key_of(claim).name for claim in cluster.claims()]


def recorded(cluster: Cluster) -> list[str]:
    return list(cluster.generated().values())


def elected(stack: Stack, name: str, proxy: FaultProxy) -> Process:
    through = replace(stack, plane=ProxiedPlane(stack.plane, proxy))
    return through.controllers(name, claims="Replace", leaderElection__enabled=True)


@pytest.mark.timeout(300)
def test_the_next_leader_finds_what_its_cache_does_not_show(stack: Stack, tmp_path: Path) -> None:
    cluster = Cluster(stack.plane.kubectl, namespace_of(stack, "handed-over"))
    cluster.create(cluster.template("mine", cluster.unique("never")))

    with (
        FaultProxy(stack.plane.kubeconfig, tmp_path / "one", seed=1) as one,
        FaultProxy(stack.plane.kubeconfig, tmp_path / "two", seed=1) as two,
    ):
        first = elected(stack, "first", one)
        eventually(lambda: first.said(BEGUN), what="the first generates")
        elected(stack, "second", two)
        with one.faults(UNRECORDED), two.faults(LATE, asked(cluster.namespace)):
            two.cut_watches()
            eventually(lambda: two.hits["late"] > 0, what="the second watches late")
            cluster.create(cluster.pod().templates("mine"))
            made = eventually(lambda: claims(cluster), what="the first makes a claim")
            eventually(lambda: one.hits["unrecorded"] > 0, what="the first cannot record it")
            first.stop()
            assert eventually(lambda: recorded(cluster), what="recorded by the second") == made == claims(cluster)
            assert two.hits["asked"] == 1


@pytest.mark.timeout(300)
def test_a_leader_that_leads_again_finds_the_claim_whose_answer_was_lost(stack: Stack, tmp_path: Path) -> None:
    cluster = Cluster(stack.plane.kubectl, namespace_of(stack, "leads-again"))
    cluster.create(cluster.template("mine", cluster.unique("never")))

    with FaultProxy(stack.plane.kubeconfig, tmp_path / "one", seed=1) as proxy:
        process = elected(stack, "first", proxy)
        eventually(lambda: process.said(BEGUN), what="it generates")
        with proxy.faults(LATE, UNANSWERED, NO_LEASE):
            proxy.cut_watches()
            eventually(lambda: proxy.hits["late"] > 0, what="it watches late")
            cluster.create(cluster.pod().templates("mine"))
            made = eventually(lambda: claims(cluster), what="it makes a claim")
            eventually(lambda: process.said("lost the lease"), what="it loses the lease")
        eventually(lambda: process.said("became leader") == 2, what="it leads again")
        assert eventually(lambda: recorded(cluster), what="recorded") == made == claims(cluster)
