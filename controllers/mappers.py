"""Which Pods a change of another object concerns: exactly those, so that nothing else is decided again.

Used by `controllers.routes`.  The caches hold the Pods that are not bound yet, so "every Pod" below means those.
"""

from collections.abc import Iterable

from tollbar import wellknown
from tollbar.model import claims, pods, selectors
from tollbar.model.objects import Key, Object, key_of, labels_of, spec
from tollbar.runtime.store import Delta
from tollbar.views.caches import PodCaches


def itself(delta: Delta, _caches: PodCaches) -> Iterable[Key]:
    yield from map(key_of, _either(delta))


def pods_of_claim(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """Pods that refer to the claim by name or by their status: until its status says so, a claim is not the Pod's."""
    for claim in _either(delta):
        yield from _with_claim(claim, caches)


def pods_of_template(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    for template in _either(delta):
        yield from _with_template(template, caches)


def pods_of_class(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """Through claims and templates that name the class, and through the extended resource that it backs or backed."""
    for device_class in _either(delta):
        name = key_of(device_class).name
        for claim in caches.claims.by_index("class", name):
            yield from _with_claim(claim, caches)
        for template in caches.templates.by_index("class", name):
            yield from _with_template(template, caches)
        for resource in (
            f"{wellknown.IMPLICIT_EXTENDED_RESOURCE_PREFIX}{name}",
            claims.extended_resource_of(device_class),
        ):
            yield from map(key_of, caches.pods.by_index("extended-resource", resource))


def pods_of_namespace(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    for namespace in _either(delta):
        yield from map(key_of, caches.pods.by_index("namespace", key_of(namespace).name))


def pods_of_rule(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """Every Pod in the managed namespaces that the rule looks at, or looked at before the change.

    A namespace that is not known yet may be one of them.
    """
    wanted = [spec(rule).get("namespaceSelector") or {} for rule in _either(delta)]
    for pod in caches.pods.values():
        key = key_of(pod)
        namespace = caches.namespace(key.namespace)
        if namespace is None or (
            caches.is_managed(key.namespace) and any(selectors.matches(each, labels_of(namespace)) for each in wanted)
        ):
            yield key


def held_pods(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """Another maxHold or onExpiry concerns the Pods that are held now."""
    if any(spec(gate).get("gateName") == wellknown.GATE for gate in _either(delta)):
        yield from map(key_of, caches.pods.by_index("gate", wellknown.GATE))


def every_rule(_delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """The rules' statuses say whether the webhook's configuration lets them act at admission."""
    yield from map(key_of, caches.rules.values())


def declared_gates(delta: Delta, caches: PodCaches) -> Iterable[Key]:
    """The SchedulingGates that declare a gate which the Pod carries or carried."""
    for name in {name for pod in _either(delta) for name in pods.gate_names(pod)}:
        yield from map(key_of, caches.gates.by_index("gate-name", name))


def _with_claim(claim: Object, caches: PodCaches) -> Iterable[Key]:
    yield from map(key_of, caches.pods.by_index("claim", key_of(claim)))


def _with_template(template: Object, caches: PodCaches) -> Iterable[Key]:
    yield from map(key_of, caches.pods.by_index("template", key_of(template)))


def _either(delta: Delta) -> Iterable[Object]:
    return (obj for obj in (delta.old, delta.new) if obj is not None)
