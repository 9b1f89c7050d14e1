"""How many devices a Pod uses of those that PodQuotas limit: by claims, and by extended resources of DeviceClasses.

Of claims and templates only these numbers are kept.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tollbar import wellknown
from tollbar.decide.quotas import devices
from tollbar.dra.classes import DeviceClasses
from tollbar.model import claims, pods
from tollbar.model.objects import Key, Object, controller_of, key_of, metadata, picked
from tollbar.model.podresources import Amounts
from tollbar.runtime.caches import Cached
from tollbar.runtime.sharing import sharing
from tollbar.runtime.store import Store
from tollbar.views import kinds

MOST_CLAIMS: Final = 128
"""Claims that one Pod may refer to where devices are limited, as many as a ResourceSlice has devices.

A limit, since each decision about all Pods goes over the claims of each, and its author may name any number."""
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
_SHARED: Final = frozenset({("devices",)})
_MOST_ALIKE: Final = 256
"""How many different sets of requests `Devices` remembers the numbers of; when it is full it begins anew.

A limit, since a claim may name as many classes as its author likes."""


def _of_claim(claim: Object) -> Object:
    return _counted(claim, claim)


def _of_template(template: Object) -> Object:
    return _counted(template, {"spec": claims.template_claim_spec(template)})


def _counted(obj: Object, claim: Object) -> Object:
    meta = metadata(obj)
    kept: Object = picked(meta, _IDENTITY)
    if (owner := controller_of(obj)) is not None:
        kept["ownerReferences"] = [owner]
    found: Object = sharing({"metadata": kept, "devices": devices.by_class(claim)}, _SHARED)
    return found


CLAIMS: Final = replace(kinds.CLAIMS, name="counted claims", project=_of_claim, indexers={})
TEMPLATES: Final = replace(kinds.TEMPLATES, name="counted templates", project=_of_template, indexers={})
COUNTED_BY: Final = (CLAIMS, TEMPLATES, kinds.CLASSES)


def references(pod: Object) -> list[Object] | None:
    """The entries of `spec.resourceClaims`: their names, and those of claim and template, of which either may be empty.

    None for a Pod with more than MOST_CLAIMS of them.
    """
    if len(pods.claim_references(pod)) > MOST_CLAIMS:
        return None
    return [
        {
            "name": reference.get("name"),
            "claim": name if isinstance(name, str) else "",
            "template": reference.get("resourceClaimTemplateName") or "",
        }
        for reference, name in claims.resolved(pod)
        if name is not claims.Unresolved.NOT_NEEDED
    ]


def claims_of(pod: Object) -> Iterable[Key]:
    """An index of Pods that are kept with their `references`: the keys of their claims."""
    return _named(pod, "claim")


def templates_of(pod: Object) -> Iterable[Key]:
    return _named(pod, "template")


def _named(pod: Object, member: str) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    return {Key(namespace, each[member]) for each in pod.get("claims", ()) or () if each[member]}


@dataclass(frozen=True, slots=True)
class Part:
    """Devices of one claim by the resource that limits them; `claim` is its key, if others may use it."""

    claim: Key | None
    devices: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a Pod asks for of what limits devices: for its extended resources, and by each entry of its claims that asks
    for any.

    `unknown` says what is not there that would tell; empty if nothing is missing.
    """

    extended: Mapping[str, Decimal]
    parts: Mapping[str, Part]
    unknown: str

    def own(self) -> Iterator[tuple[str, Decimal]]:
        """Devices of the Pod alone; a resource may come several times."""
        yield from self.extended.items()
        for each in self.parts.values():
            if each.claim is None:
                yield from each.devices.items()

    def shared(self) -> Mapping[Key, Mapping[str, Decimal]]:
        """Devices that other Pods may use as well, by claim."""
        return {each.claim: each.devices for each in self.parts.values() if each.claim is not None}


_NOTHING: Final = Asked({}, {}, "")


class Devices:
    """What Pods ask for of the devices that PodQuotas limit, by the caches of claims, templates and DeviceClasses."""

    def __init__(self, store: Callable[[Cached], Store]) -> None:
        """`store` is `Caches.store`."""
        self.claims, self.templates, self.classes = map(store, COUNTED_BY)
        self._by_resource = DeviceClasses(self.classes)
        self._limits: Mapping[str, Sequence[str]] = {}
        """What limits the devices of a class, of the resources that quotas in force limit."""
        self._alike: dict[tuple[tuple[str, int], ...], Mapping[str, Decimal]] = {}
        """By what a claim asks for, how many devices that are of what is limited."""

    def limit(self, resources: Iterable[str]) -> None:
        """Count for these from now on, and for nothing else: a tenant's claims may name any number of classes."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in sorted(set(resources)):
            for device_class in self._classes_of(name):
                found[device_class].append(name)
        self._limits = dict(found)
        self._alike.clear()

    def _classes_of(self, resource: str) -> Iterator[str]:
        if resource.endswith(wellknown.DEVICES_OF_CLASS):
            yield resource.removesuffix(wellknown.DEVICES_OF_CLASS)
        elif (name := claims.implicit_class(resource)) is not None:
            yield name
        else:
            yield from (key_of(each).name for each in self.classes.by_index("extended-resource", resource))

    def limited_by(self, resource: str) -> bool:
        """Whether a limit on this resource is one on devices."""
        return devices.is_of_devices(resource) or bool(self.classes.keys_by_index("extended-resource", resource))

    def asked(self, pod: Object, known: Asked = _NOTHING) -> Asked:
        """`pod` has `requests`, of the whole Pod by resource, and `claims`, its `references`, unless it has none.

        A claim that was generated for the Pod is its own, and one that is yet to be generated counts by its template.
        Where neither is there any more, it counts as it is `known`: its devices may be the Pod's still, or again if it
        comes back.
        """
        references = pod.get("claims", ())
        unknown = f"fewer claims: more than {MOST_CLAIMS} are not looked up" if references is None else ""
        parts: dict[str, Part] = {}
        for each in references or ():
            part = self._part(pod, each)
            if part is None:
                unknown = unknown or _missing(each)
                part = known.parts.get(each["name"])
            if part is not None and part.devices:
                parts[each["name"]] = part
        return Asked(self._of_extended_resources(pod["requests"]), parts, unknown)

    def _part(self, pod: Object, reference: Object) -> Part | None:
        """None if it is not known."""
        key = Key(key_of(pod).namespace, reference["claim"])
        found = self.claims.get(key) if reference["claim"] else None
        if found is not None:
            is_own = reference["template"] and claims.owned_by_pod(found, pod)
            return Part(None if is_own else key, self._limited(found))
        template = self.templates.get(Key(key.namespace, reference["template"])) if reference["template"] else None
        return Part(None, self._limited(template)) if template is not None else None

    def _of_extended_resources(self, requests: Mapping[str, str]) -> Amounts:
        """What requests of extended resources take beside these.

        Whether a Node has the resource itself, or its class's devices are allocated, is known only when the Pod is
        scheduled: it counts as if it were devices.
        """
        own: Amounts = defaultdict(Decimal)
        for resource, amount in requests.items():
            if not pods.is_extended_resource(resource):
                continue
            device_class = claims.implicit_class(resource)
            if device_class is None:
                found = self._by_resource.for_extended_resource(resource)
                device_class = key_of(found).name if found is not None else None
            for name in self._limits_of(device_class) if device_class else ():
                if name != resource:
                    own[name] += Decimal(amount)
        return own

    def _limited(self, counted: Object) -> Mapping[str, Decimal]:
        """How many devices a claim or template, as it is kept, asks for, by the resource that limits them.

        Those that ask for the same have it in common.
        """
        asked: Mapping[str, int] = counted["devices"]
        key = tuple(asked.items())
        known = self._alike.get(key)
        if known is None:
            if len(self._alike) >= _MOST_ALIKE:
                self._alike.clear()
            known = self._alike[key] = self._limited_of(asked)
        return known

    def _limited_of(self, asked: Mapping[str, int]) -> Mapping[str, Decimal]:
        found: Amounts = defaultdict(Decimal)
        for device_class in min(asked, self._limits, key=len):
            for name in self._limits_of(device_class) if device_class in asked else ():
                found[name] += asked[device_class]
        return dict(found)

    def _limits_of(self, device_class: str) -> Sequence[str]:
        return self._limits.get(device_class, ())


def _missing(reference: Object) -> str:
    if reference["template"]:
        return f"ResourceClaimTemplate {reference['template']}"
    return f"ResourceClaim {reference['claim']}" if reference["claim"] else "a claim by name or by template"
