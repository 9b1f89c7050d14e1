"""Which changes can change a decision about a Pod: the rules' read sets say so.

Used by `controllers.routes`.  Sound by construction: whatever a decision reads besides the rules is listed here, and
what the rules read is compared path by path.  Most updates of a pending Pod, a claim or a namespace pass nothing.
"""

from collections.abc import Callable
from typing import Any

from tollbar.cel import RULE_ENV, project
from tollbar.model import pods
from tollbar.model.objects import Object, controller_of, key_of, labels_of, metadata, spec
from tollbar.runtime.store import Delta
from tollbar.views.caches import PodCaches


def pod_matters(delta: Delta, caches: PodCaches) -> bool:
    """Its spec, labels, owners, the claims' names, its end, and what rules read.

    Not that it is gone, nor what a patch of ours was to make of it.
    """
    if delta.new is None:
        return False
    foreseen = caches.foreseen.get(key_of(delta.new)) if delta.old is not None else None
    if foreseen is not None and not _changed(
        Delta(foreseen, delta.new, initial=False), caches, _of_pod, lambda pod: {"pod": pods.without_ours(pod)}
    ):
        return False
    return _changed(delta, caches, _of_pod, lambda pod: {"pod": pod})


def claim_matters(delta: Delta, caches: PodCaches) -> bool:
    """Its existence, its spec, whose it is, and what rules read."""
    return _package_matters(caches) and _changed(delta, caches, _of_claim, lambda claim: {"claims": [claim]})


def template_matters(delta: Delta, caches: PodCaches) -> bool:
    """Its existence and its spec, which holds the metadata of the claims that come from it, too."""
    return _package_matters(caches) and _spec_changed(delta)


def class_matters(delta: Delta, caches: PodCaches) -> bool:
    """Its existence, its selectors, the extended resource that it backs, and what rules read."""
    return _package_matters(caches) and _changed(delta, caches, spec, lambda found: {"deviceClasses": {"": found}})


def namespace_matters(delta: Delta, caches: PodCaches) -> bool:
    """Its labels say who is managed and in which rules' scope."""
    return _changed(delta, caches, labels_of, lambda namespace: {"namespaceObject": namespace})


def spec_matters(delta: Delta, _caches: PodCaches) -> bool:
    """Of our own kinds: the specification, not the status that we write."""
    return _spec_changed(delta)


def gates_changed(delta: Delta, _caches: PodCaches) -> bool:
    """Whether the Pod began or ceased to be held by some gate."""
    before, after = (pods.gate_names(pod) if pod is not None else [] for pod in (delta.old, delta.new))
    return before != after


def _of_pod(pod: Object) -> object:
    return (
        spec(pod),
        labels_of(pod),
        metadata(pod).get("ownerReferences"),
        (pod.get("status") or {}).get("resourceClaimStatuses"),
        pods.is_mirror(pod),
        pods.is_deleting(pod),
        pods.is_terminal(pod),
    )


def _of_claim(claim: Object) -> object:
    return spec(claim), controller_of(claim)


def _package_matters(caches: PodCaches) -> bool:
    return any(rule.reads_package for rule in caches.ruleset.rules)


def _spec_changed(delta: Delta) -> bool:
    return delta.old is None or delta.new is None or spec(delta.old) != spec(delta.new)


def _changed(
    delta: Delta, caches: PodCaches, decided_by: Callable[[Object], object], as_input: Callable[[Object], Any]
) -> bool:
    """Whether the object came, went, or changed in what every decision reads or in what the rules in force read."""
    if delta.old is None or delta.new is None or decided_by(delta.old) != decided_by(delta.new):
        return True
    old, new = (project(as_input(obj), caches.ruleset.reads, RULE_ENV) for obj in (delta.old, delta.new))
    return old != new
