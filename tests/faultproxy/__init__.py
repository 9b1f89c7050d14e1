"""An HTTPS proxy in front of any API server that goes wrong on purpose: what tests of outages are made of.

with FaultProxy(plane.kubeconfig, directory) as proxy, proxy.faults(
    Rule("lost", Reset(after=True), verbs={"patch"}, resources={"pods"}, nth=range(1, 4))
):
    ...  # run something with proxy.kubeconfig(path of its own kubeconfig)
    assert proxy.hits["lost"] == 3
"""

from faultproxy.faults import Cut, Delay, Expire, Hang, Refuse, Replay, Reset, Rule, Slow, Truncate, too_many
from faultproxy.plane import ProxiedPlane
from faultproxy.request import Request
from faultproxy.server import FaultProxy

__all__ = [
    "Cut",
    "Delay",
    "Expire",
    "FaultProxy",
    "Hang",
    "ProxiedPlane",
    "Refuse",
    "Replay",
    "Request",
    "Reset",
    "Rule",
    "Slow",
    "Truncate",
    "too_many",
]
