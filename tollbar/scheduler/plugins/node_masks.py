"""Which Nodes a Pod may go to by its nodeSelector, required node affinity and tolerations, for all Nodes at once.

Answers are by row of the snapshot's table, so that `answer[table.order]` is the mask of a plugin; in rows that no Node
has they mean nothing.
"""

from collections.abc import Mapping

import numpy as np

from tollbar.model import nodeaffinity, tolerations
from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.table import Bools, Table


def allowed(pod: PodInfo, table: Table) -> Bools:
    """By `spec.nodeSelector` and required node affinity: the same as `tollbar.model.nodeaffinity.allows`."""
    mask: Bools = np.ones(table.capacity, np.bool_)
    for key, value in (pod.spec.get("nodeSelector") or {}).items():
        mask &= table.label(key).has(value)
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return mask if required is None else mask & selected(required, table)


def selected(selector: Object, table: Table) -> Bools:
    """By a v1.NodeSelector: the same as `tollbar.model.nodeaffinity.selects`."""
    mask: Bools = np.zeros(table.capacity, np.bool_)
    for term in selector.get("nodeSelectorTerms") or ():
        mask |= term_selected(term, table)
    return mask


def term_selected(term: Object, table: Table) -> Bools:
    """By a NodeSelectorTerm, all requirements of which have to hold; without any it selects no Node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    mask: Bools = np.full(table.capacity, bool(expressions or fields))
    for each in expressions:
        mask &= _labelled(each, table)
    for each in fields:
        mask &= _named(each, table)
    return mask


def tolerated(pod: PodInfo, table: Table) -> Bools:
    """By taints: where the Pod tolerates all that say NoSchedule or NoExecute."""
    given = pod.spec.get("tolerations") or ()
    return table.taints.where(lambda each: tolerations.untolerated(each.taints, given) is None)


def _labelled(requirement: Object, table: Table) -> Bools:
    key = requirement["key"]
    if requirement.get("operator") == "In":
        return table.label(key).has_any(requirement.get("values") or ())
    selector = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}

    def holds(labels: Mapping[str, str]) -> bool:
        return nodeaffinity.selects(selector, {"metadata": {"labels": labels}})

    return table.label(key).where(lambda value: holds({key: value}), absent=holds({}))


def _named(requirement: Object, table: Table) -> Bools:
    """The only field of a Node is its name; the operators are In and NotIn, with one value."""
    operator, values = requirement.get("operator"), requirement.get("values") or []
    mask: Bools = np.zeros(table.capacity, np.bool_)
    if operator not in ("In", "NotIn") or len(values) != 1:
        return mask
    row = table.rows.get(values[0]) if requirement.get("key") == "metadata.name" else None
    if row is not None:
        mask[row] = True
    return mask if operator == "In" else ~mask
