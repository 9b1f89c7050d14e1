"""Everything that goes wrong with Pods and claims, at one time and at random."""

from typing import Final

from faultproxy.faults import Cut, Delay, Expire, Refuse, Reset, Rule, Slow, Truncate, too_many
from faultproxy.request import Request
from tollbar.wellknown import SYSTEM_NAMESPACE

WRITES: Final = frozenset({"create", "update", "patch", "delete"})
CLAIMS: Final = frozenset({"resourceclaims"})


def about_work(request: Request) -> bool:
    """Not what a process asks and tries out before it begins, nor its Lease: that would only take longer."""
    return request.namespace != SYSTEM_NAMESPACE and request.group != "authorization.k8s.io"


def everything(written: str) -> tuple[Rule, ...]:
    """For clients whose work is to write objects of this resource: two of these writes find the server busy."""
    reads_and_writes = WRITES | {"get", "list"}
    return (
        Rule("conflict", Refuse(409, "Conflict"), verbs={"update", "patch"}, probability=0.05, where=about_work),
        Rule("busy", too_many(), verbs=WRITES, resources={written}, nth={20, 90}, where=about_work),
        Rule("broken", Refuse(500, "InternalError"), probability=0.03, verbs=reads_and_writes, where=about_work),
        Rule("reset", Reset(), verbs=reads_and_writes, probability=0.03, where=about_work),
        Rule("lost", Reset(after=True), verbs=WRITES, probability=0.05, where=about_work),
        Rule("half", Truncate(), verbs=WRITES, probability=0.05, where=about_work),
        Rule("slow", Slow(0.2), verbs=WRITES, probability=0.05, where=about_work),
        Rule("late Pods", Delay(0.5), verbs={"watch"}, resources={"pods"}, nth=range(1, 1000, 2)),
        Rule("expired", Expire(60), verbs={"watch"}, resources={"pods"}, nth=range(2, 1000, 2)),
        Rule("late claims", Delay(0.5), verbs={"watch"}, resources=CLAIMS, nth=range(1, 1000, 2)),
        Rule("cut", Cut(40, within=True), verbs={"watch"}, resources=CLAIMS, nth=range(2, 1000, 2)),
    )
