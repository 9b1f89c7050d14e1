"""Predicates that drop changes which cannot affect a decision about a Pod, by the read sets of the rules.

The fields that every decision reads are listed here, and the fields that the rules read are compared path by path, so
that no relevant change is dropped.  Most updates of pending Pods, claims and namespaces are dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tollbar.cel import RULE_ENV, project
from tollbar.model import pods
from tollbar.model.objects import Key, Object, controller_of, key_of, labels_of, metadata, spec
from tollbar.runtime.source import Delta, spec_changed
from tollbar.views.ruleset import RuleSet

_OF_A_PACKAGE: Final = frozenset({"claims", "deviceClasses"})
"""The inputs of rules that are neither the Pod nor its namespace."""


def _as_it_is(obj: Object) -> Object:
    return obj


@dataclass(frozen=True, slots=True)
class Predicates:
    """`expected` are Pods as the patches being sent will leave them (`decide.pods.tolerationgate.expected`)."""

    ruleset: RuleSet
    expected: Mapping[Key, Object]

    def pod(self, delta: Delta) -> bool:
        """Its spec, labels, owners, names of claims, termination, and what rules read.

        Drops its deletion, and the changes that Tollbar's own patch makes.
        """
        if delta.new is None:
            return False
        expected = self.expected.get(key_of(delta.new)) if delta.old is not None else None
        if expected is not None and not self._changed(
            Delta(expected, delta.new, initial=False), _of_pod, "pod", pods.without_ours
        ):
            return False
        return self._changed(delta, _of_pod, "pod")

    def claim(self, delta: Delta) -> bool:
        """Its existence, its spec, its owner, and what rules read."""
        return self._reads_package and self._changed(delta, _of_claim, "claims", lambda claim: [claim])

    def template(self, delta: Delta) -> bool:
        """Its existence and its spec, which includes the metadata of the claims made from it."""
        return self._reads_package and spec_changed(delta)

    def device_class(self, delta: Delta) -> bool:
        """Its existence, its selectors, the extended resource that it backs, and what rules read."""
        return self._reads_package and self._changed(delta, spec, "deviceClasses", lambda found: {"": found})

    def namespace(self, delta: Delta) -> bool:
        """Its labels, which decide whether it is managed and which rules select it, and what rules read."""
        return self._changed(delta, labels_of, "namespaceObject")

    @property
    def _reads_package(self) -> bool:
        return not _OF_A_PACKAGE.isdisjoint(self.ruleset.inputs)

    def _changed(
        self,
        delta: Delta,
        decided_by: Callable[[Object], object],
        name: str,
        as_input: Callable[[Object], Any] = _as_it_is,
    ) -> bool:
        """Whether the object was added or deleted, or changed in what decisions or the rules in force read.

        Rules see what `as_input` makes of it as the input of this name.
        """
        if delta.old is None or delta.new is None or decided_by(delta.old) != decided_by(delta.new):
            return True
        if name not in self.ruleset.inputs:
            return False
        old, new = (project({name: as_input(obj)}, self.ruleset.reads, RULE_ENV) for obj in (delta.old, delta.new))
        return old != new


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
