"""The API server of a simulation: objects in memory, every change of which is in all stores at once.

It has what controllers and scheduler call, and the parts of the kubelet and of the garbage collector without which no
room would become free: a Pod that is deleted on its Node is gone after its grace period, and the objects that it owned
are deleted.  Patches are applied as the embedded control plane applies them.

Invariant: objects are replaced, never changed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson

from tollbar import wellknown
from tollbar.devplane.embedded import bindings, patches
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.shapes import ANY, described
from tollbar.model import names, pods, timestamps
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec, uid_of
from tollbar.model.resources import NODES, PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import Conflict, NotFound, error_from_status
from tollbar.runtime.store import Store

_GRACE: Final = 30
"""Default of `terminationGracePeriodSeconds`."""


class SimulatedApi:
    """Has the methods of `tollbar.runtime.client.Client` that controllers and scheduler call.

    `on_change` is told every object after each of its changes, and one that is gone as None, with its kind and key.
    `removed` are called with every object that is gone.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._stores: defaultdict[str, list[Store]] = defaultdict(list)
        self._version = 0
        self.on_change: Callable[[str, Object | None, Object | None], None] = lambda _kind, _old, _new: None
        self.terminating = 0
        """Pods that are being deleted and still have their Node."""

    def follow(self, stores: Iterable[Store]) -> None:
        """Keep these stores up to date with every change from now on."""
        for store in stores:
            self._stores[store.resource.kind].append(store)

    def all(self, kind: str) -> list[Object]:
        return list(self._objects[kind].values())

    def everything(self) -> list[Object]:
        return [obj for objects in self._objects.values() for obj in objects.values()]

    def find(self, kind: str, key: Key) -> Object | None:
        return self._objects[kind].get(key)

    def node_labels(self, name: str) -> dict[str, str]:
        """The labels of a Node; none of one that does not exist."""
        return labels_of(self.find(NODES.kind, Key("", name)) or {})

    def put(self, obj: Object) -> Object:
        """Store an object as it is, as a new version; without a uid or a time of its creation it gets one."""
        self._version += 1
        kind, key = str(obj["kind"]), key_of(obj)
        meta = {
            "uid": "/".join(filter(None, (kind.lower(), *key))),
            "creationTimestamp": timestamps.time(self._clock.now()),
            **metadata(obj),
            "resourceVersion": str(self._version),
        }
        stored = {**obj, "metadata": meta}
        old, self._objects[kind][key] = self._objects[kind].get(key), stored
        if kind == RESOURCE_CLAIMS.kind:
            for owner in meta.get("ownerReferences") or ():
                self._owned[str(owner.get("uid"))].add(key)
        for store in self._stores[kind]:
            store.apply(stored)
        self.on_change(kind, old, stored)
        return stored

    def drop(self, obj: Object) -> None:
        """It is gone, and what it owned is deleted."""
        kind, key = str(obj["kind"]), key_of(obj)
        old = self._objects[kind].pop(key, None)
        if old is None:
            return
        if kind == PODS.kind and pods.is_deleting(old) and pods.is_bound(old):
            self.terminating -= 1
        for store in self._stores[kind]:
            store.remove(old)
        self.on_change(kind, old, None)
        for owned in self._owned.pop(uid_of(old), ()):
            if (claim := self.find(RESOURCE_CLAIMS.kind, owned)) is not None:
                self._delete(claim)

    # What a client does.

    def fenced(self, _may_write: Callable[[], bool]) -> "SimulatedApi":
        return self

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        return self._existing(res, Key(namespace, name))

    async def list(self, res: Resource, namespace: str = "", **_: Any) -> Object:
        items = [obj for key, obj in self._objects[res.kind].items() if namespace in ("", key.namespace)]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        meta = dict(metadata(obj))
        if namespace:
            meta["namespace"] = namespace
        if not meta.get("name"):
            meta["name"] = f"{meta.get('generateName')}{suffix(str(self._version))}"
        return self.put({**res.type_meta, **obj, "metadata": meta})

    async def replace(self, res: Resource, obj: Object, subresource: str = "") -> Object:
        old = self._existing(res, key_of(obj))
        _check(old, metadata(obj))
        if subresource:
            return self._commit({**old, subresource: obj.get(subresource) or {}})
        return self._commit({**obj, **({"status": old["status"]} if "status" in old else {})})

    async def patch(
        self,
        res: Resource,
        name: str,
        body: Object | Sequence[Object],
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.JSON,
        **_: Any,
    ) -> Object:
        """`APPLY` is a merge patch here: what is applied is the whole of what its field manager has."""
        old = self._existing(res, Key(namespace, name))
        media = PatchType.MERGE if patch_type is PatchType.APPLY else patch_type
        plain = orjson.loads(orjson.dumps(body))
        if isinstance(plain, dict):
            _check(old, metadata(plain))
        shape = ANY if res.group == wellknown.GROUP else described(res.group, res.version, res.kind)
        try:
            new = patches.apply(media, old, plain, shape)
        except Refused as refused:
            raise error_from_status(refused.status()) from refused
        return self._commit(new)

    async def delete(self, res: Resource, name: str, namespace: str = "", *, uid: str = "", **_: Any) -> None:
        obj = self._existing(res, Key(namespace, name))
        _check(obj, {"uid": uid} if uid else {})
        self._delete(obj)

    async def served(self, group_version: str) -> set[str]:
        stores = (store for of_kind in self._stores.values() for store in of_kind)
        return {each.resource.plural for each in stores if each.served and each.resource.api_version == group_version}

    async def raw(self, _method: str, path: str, body: bytes, *, query: Mapping[str, str] | None = None) -> bytes:
        """A Binding; or what comes of a creation without effect: the object as it is."""
        if query is not None and query.get("dryRun"):
            return body
        *_, namespace, _, name, _ = path.split("/")
        pod, binding = self._existing(PODS, Key(namespace, name)), orjson.loads(body)
        if problem := bindings.refusal(pod, name, uid_of(binding)):
            raise Conflict(409, "Conflict", problem)
        labels = self.node_labels(binding["target"]["name"])
        self.put(bindings.bound_by(binding, pod, labels, timestamps.time(self._clock.now())))
        return b"{}"

    def _existing(self, res: Resource, key: Key) -> Object:
        found = self._objects[res.kind].get(key)
        if found is None:
            raise NotFound(404, "NotFound", f'{res.plural} "{key.name}" not found', {"name": key.name})
        return found

    def _commit(self, new: Object) -> Object:
        """Store a new version, of another generation with another spec; without finalizers its deletion may end."""
        old = self._objects[str(new["kind"])][key_of(new)]
        if "generation" in metadata(old) and spec(old) != spec(new):
            new = {**new, "metadata": {**metadata(new), "generation": metadata(old)["generation"] + 1}}
        if metadata(new).get("deletionTimestamp") and not metadata(new).get("finalizers") and not pods.is_bound(new):
            self.drop(new)
            return new
        return self.put(new)

    def _delete(self, obj: Object) -> None:
        if metadata(obj).get("deletionTimestamp"):
            return
        is_running = obj["kind"] == PODS.kind and pods.is_bound(obj) and not pods.is_terminal(obj)
        if not is_running and not metadata(obj).get("finalizers"):
            self.drop(obj)
            return
        ending = {**metadata(obj), "deletionTimestamp": timestamps.time(self._clock.now())}
        stored = self.put({**obj, "metadata": ending})
        if is_running:
            self.terminating += 1
            grace = spec(obj).get("terminationGracePeriodSeconds", _GRACE)
            asyncio.get_running_loop().call_later(grace, self._stopped, stored)

    def _stopped(self, pod: Object) -> None:
        found = self.find(PODS.kind, key_of(pod))
        if found is not None and uid_of(found) == uid_of(pod):
            self.drop(found)


def suffix(seed: str, length: int = 5) -> str:
    """What the API server would draw for a generated name, but the same for the same seed."""
    digest = blake2b(seed.encode(), digest_size=16).digest()
    characters = names.GENERATED_CHARACTERS
    return "".join(characters[byte % len(characters)] for byte in digest[:length])


def _check(old: Object, wanted: Object) -> None:
    """Preconditions: uid and resourceVersion, where they are given."""
    for name in ("uid", "resourceVersion"):
        if wanted.get(name) and wanted[name] != metadata(old).get(name):
            raise Conflict(409, "Conflict", f"the object has another {name}")
