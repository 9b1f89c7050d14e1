"""Maps changes of other objects to exactly those pending Pods whose decision they can affect.

The store holds only Pods without a node, so "every Pod" below means those.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tollbar import wellknown
from tollbar.model import claims, selectors
from tollbar.model.objects import Key, Object, key_of, labels_of, spec
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer


@dataclass(frozen=True, slots=True)
class PodsOf:
    """Maps changes to pending Pods."""

    pods: Store
    gatherer: Gatherer

    def claim(self, delta: Delta) -> Iterable[Key]:
        """Pods that refer to the claim by name or by `status.resourceClaimStatuses`."""
        for claim in delta.objects:
            yield from self._with_claim(claim)

    def template(self, delta: Delta) -> Iterable[Key]:
        for template in delta.objects:
            yield from self._with_template(template)

    def device_class(self, delta: Delta) -> Iterable[Key]:
        """Pods whose claims or templates name the class, and Pods that request its extended resource, new or old."""
        lookup = self.gatherer.lookup
        for device_class in delta.objects:
            name = key_of(device_class).name
            for claim in lookup.claims.by_index("class", name):
                yield from self._with_claim(claim)
            for template in lookup.templates.by_index("class", name):
                yield from self._with_template(template)
            for resource in (
                f"{wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX}{name}",
                claims.extended_resource_of(device_class),
            ):
                yield from self.pods.keys_by_index("extended-resource", resource)

    def namespace(self, delta: Delta) -> Iterable[Key]:
        for namespace in delta.objects:
            yield from self.pods.keys_by_index("namespace", key_of(namespace).name)

    def rule(self, delta: Delta) -> Iterable[Key]:
        """Every Pod in the managed namespaces that the rule selects, or selected before the change.

        Pods of a namespace that is not in the cache yet are included.
        """
        wanted = [spec(rule).get("namespaceSelector") or {} for rule in delta.objects]
        keys = self.pods.keys()
        for key in keys:
            namespace = self.gatherer.lookup.namespace(key.namespace)
            if namespace is None or (
                self.gatherer.is_managed(key.namespace)
                and any(selectors.matches(each, labels_of(namespace)) for each in wanted)
            ):
                yield key

    def gate(self, delta: Delta) -> Iterable[Key]:
        """A change of maxHold or onExpiry affects the Pods that are held now."""
        if any(spec(gate).get("gateName") == wellknown.GATE for gate in delta.objects):
            yield from self.pods.keys_by_index("gate", wellknown.GATE)

    def _with_claim(self, claim: Object) -> Iterable[Key]:
        return self.pods.keys_by_index("claim", key_of(claim))

    def _with_template(self, template: Object) -> Iterable[Key]:
        return self.pods.keys_by_index("template", key_of(template))
