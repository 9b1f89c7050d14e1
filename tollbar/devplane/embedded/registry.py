"""Create, update and patch of any kind, in the API server's order, and the binding of Pods.

The order is decoding, defaulting, mutating admission, defaulting, the strategy's preparation and validation, validating
admission, storage.  A write is a compare-and-swap on the entry that was read; a patch that clashes is applied again to
the newer object.

Objects here have apiVersion and kind of a version of their kind, and belong to the call that made them.
"""

import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from tollbar.devplane.embedded import apply, bindings, conversion, decoding, errors, patches, shapes
from tollbar.devplane.embedded.admission import Admission
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kind, Kinds
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Clash, Entry, Storage
from tollbar.devplane.embedded.strategies import keep
from tollbar.devplane.embedded.validation.texts import wrong
from tollbar.model import names, timestamps
from tollbar.model.fields import FieldError, required
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.resources import NODES
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock

_GENERATED: Final = 5
_NAME_MAX: Final = 63
_KEPT_FIELDS: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_SYSTEM_FIELDS: Final = (*_KEPT_FIELDS, "uid", "generation", "resourceVersion", "managedFields")


@dataclass(slots=True)
class Outcome:
    """The answer to a write: `object` is a version of the kind or a Status; `created` means 201."""

    object: Object
    created: bool = False
    warnings: list[str] = field(default_factory=list)


class Registry:
    """Every kind's REST storage."""

    def __init__(self, storage: Storage, kinds: Kinds, admission: Admission, clock: Clock) -> None:
        self.storage = storage
        self.kinds = kinds
        self.admission = admission
        self.clock = clock

    def now(self) -> str:
        """The time as metav1.Time."""
        return timestamps.time(self.clock.now())

    def entry(self, kind: Kind, key: Key) -> Entry:
        """Raises Refused (404)."""
        found = self.storage.get(kind.stored, key)
        if found is None:
            raise errors.not_found(kind.resource.group, kind.resource.plural, key.name)
        return found

    async def create(self, write: Write, obj: Object) -> Outcome:
        """POST."""
        decoding.check_kind(write.kind, obj)
        _check_namespace(obj, write.key.namespace)
        if obj["metadata"].get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        return await self._create(write, obj, _decode(write, obj))

    async def _create(
        self, write: Write, obj: Object, warnings: list[str], managed: list[Object] | None = None
    ) -> Outcome:
        """`managed` are the managedFields of an object that server-side apply creates."""
        kind, namespace, meta = write.kind, write.key.namespace, obj["metadata"]
        for member in _SYSTEM_FIELDS:
            meta.pop(member, None)
        kind.strategy.default(obj)
        write = replace(write, operation="CREATE", key=Key(namespace, meta.get("name") or ""))
        obj, said = await self.admission.mutate(write, obj, None)
        _check_namespace(obj, namespace)
        kind.strategy.prepare_for_create(obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(secrets.choice(names.GENERATED_CHARACTERS) for _ in range(_GENERATED))
            meta["name"] = meta["generateName"][: _NAME_MAX - _GENERATED] + suffix
        meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), self.now()
        _raise_invalid(kind, obj, kind.strategy.validate(obj))
        said += await self.admission.validate(write, obj, None)
        key = Key(namespace, meta["name"])
        taken = self.storage.get(kind.stored, key)
        if taken is not None:
            deleting = bool(taken.field("metadata.deletionTimestamp"))
            raise errors.already_exists(kind.resource.group, kind.resource.plural, key.name, deleting=deleting)
        meta["managedFields"] = apply.update({}, obj, *self._manager(write)) if managed is None else managed
        if not write.options.dry_run:
            obj = conversion.decoded(kind, self.storage.write(kind.stored, conversion.stored(kind, obj), None))
        return Outcome(obj, created=True, warnings=[*warnings, *said])

    def _manager(self, write: Write, operation: str = "Update") -> tuple[shapes.Shape, apply.Identity, str]:
        """What field ownership needs: the structure, the manager, the time."""
        identity = (write.options.manager, operation, write.kind.resource.api_version, write.subresource)
        return write.kind.shape, apply.Identity(*identity), self.now()

    async def update(self, write: Write, obj: Object) -> Outcome:
        """PUT of the object or of a subresource."""
        kind, key = write.kind, write.key
        decoding.check_kind(kind, obj)
        _check_namespace(obj, key.namespace)
        name = obj["metadata"].get("name") or ""
        if not name:
            raise errors.bad_request("the name of the object (based on URL) was undeterminable: name must be provided")
        if name != key.name:
            said = f"the name of the object ({name}) does not match the name on the URL ({key.name})"
            raise errors.bad_request(said)
        exists = self.storage.get(kind.stored, key) is not None
        if not exists and kind.strategy.allow_create_on_update and not write.subresource:
            write.may_create()
            return await self.create(write, obj)
        warnings = _decode(write, obj)

        def replaced(old: Object) -> Object:
            _check_replacement(kind, obj, old)
            copied: Object = _copied(obj)
            return copied

        return await self._modify(write, replaced, warnings)

    async def patch(self, write: Write, media: PatchType, body: Any) -> Outcome:
        """PATCH."""
        if media is PatchType.APPLY:
            return await self._apply(write, body)
        warnings: list[str] = []

        def patched(old: Object) -> Object:
            new = patches.apply(media, old, _copied(body), write.kind.shape)
            warnings[:] = _decode_patched(write, new)
            return new

        return await self._modify(write, patched, warnings)

    def bind(self, kind: Kind, key: Key, binding: Object, *, dry_run: bool = False) -> Object:
        """The answer to a Binding of a Pod.  Raises Refused.  It awaits nothing: no other write can clash with it."""
        name = (binding.get("target") or {}).get("name")
        if not name:
            raise errors.invalid("", "Binding", key.name, [required("target.name")])
        entry = self.entry(kind, key)
        pod = conversion.decoded(kind, entry)
        if problem := bindings.refusal(pod, key.name, metadata(binding).get("uid")):
            raise errors.conflict("", "pods/binding", key.name, problem)
        if not dry_run:
            node = self.storage.get(NODES, Key("", name))
            self.commit(kind, entry, bindings.bound_by(binding, pod, node.labels if node else {}, self.now()))
        return dict(errors.SUCCESS)

    async def _apply(self, write: Write, config: Any) -> Outcome:
        kind, key = write.kind, write.key
        _check_applied(write, config)
        resets = _resets(kind, write.subresource)

        def applied(live: Object) -> Object:
            manager = self._manager(write, "Apply")
            return apply.apply(live, _copied(config), *manager, force=write.options.force, resets=resets)

        if write.subresource or self.storage.get(kind.stored, key) is not None:
            return await self._modify(write, applied, [], applies=True)
        write.may_create()
        obj = applied({})
        return await self._create(write, obj, [], obj["metadata"]["managedFields"])

    async def _modify(
        self, write: Write, change: Callable[[Object], Object], warnings: list[str], *, applies: bool = False
    ) -> Outcome:
        """Apply a change to the object as it is now, again when it has changed meanwhile."""
        write = replace(write, operation="UPDATE")
        while True:
            entry = self.entry(write.kind, write.key)
            new = change(conversion.decoded(write.kind, entry))
            wanted, res = new["metadata"].get("resourceVersion"), write.kind.resource
            if wanted and wanted != str(entry.revision):
                raise errors.conflict(res.group, res.plural, write.key.name, errors.STALE_VERSION)
            try:
                outcome = await self._update(write, entry, new, applies=applies)
            except Clash:
                continue
            outcome.warnings = [*warnings, *outcome.warnings]
            return outcome

    async def _update(self, write: Write, entry: Entry, new: Object, *, applies: bool) -> Outcome:
        """One attempt.  Raises Clash when the entry is no longer the newest."""
        kind, strategy, old = write.kind, write.kind.strategy, conversion.decoded(write.kind, entry)
        meta = new["metadata"]
        managed = meta.pop("managedFields", None)
        keep(meta, old["metadata"], *_KEPT_FIELDS)
        meta.setdefault("uid", old["metadata"]["uid"])
        strategy.default(new)
        new, warnings = await self.admission.mutate(write, new, old)
        strategy.prepare_for_update(new, old, write.subresource)
        _raise_invalid(kind, new, strategy.validate_update(new, old, write.subresource))
        warnings += await self.admission.validate(write, new, old)
        new["metadata"]["managedFields"] = managed if applies else apply.update(old, new, *self._manager(write))
        new["metadata"]["resourceVersion"] = str(entry.revision)
        if write.options.dry_run:
            return Outcome(new, warnings=warnings)
        if _timeless(new) == _timeless(old):
            if self.storage.get(kind.stored, write.key) is not entry:
                raise Clash(write.key)
            return Outcome(old, warnings=warnings)
        return Outcome(self.commit(kind, entry, new), warnings=warnings)

    def commit(self, kind: Kind, entry: Entry, new: Object) -> Object:
        """Store a new version, or remove the object if its deletion is complete.  Raises Clash."""
        if ended(new):
            self.storage.delete(kind.stored, key_of(new), entry)
            return new
        return conversion.decoded(kind, self.storage.write(kind.stored, conversion.stored(kind, new), entry))


def ended(obj: Object) -> bool:
    """Whether its deletion is complete: no finalizer, which Namespaces also have in the spec, and no grace period."""
    meta = obj["metadata"]
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
    kept_by_spec = obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers")
    return bool(meta.get("deletionTimestamp")) and not held and not kept_by_spec


def _copied(value: Any) -> Any:
    """A copy of what a client sent, for one attempt: defaulting and pruning change it."""
    return orjson.loads(orjson.dumps(value))


def _check_namespace(obj: Object, namespace: str) -> None:
    """Set the namespace to that of the path.  Raises Refused (400) when the object has another."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict | None):
        raise errors.bad_request("metadata is not an object")
    meta = obj["metadata"] = meta or {}
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta.pop("namespace", None)
    if namespace:
        meta["namespace"] = namespace


def _check_replacement(kind: Kind, obj: Object, old: Object) -> None:
    """Raises Refused: 409 for another uid, 422 without a resourceVersion where one is required."""
    res, meta, stored = kind.resource, obj["metadata"], old["metadata"]
    if meta.get("uid") and meta["uid"] != stored["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {stored['uid']}"
        raise errors.conflict(res.group, res.plural, meta["name"], why)
    if not meta.get("resourceVersion") and not kind.strategy.allow_unconditional_update:
        cause = wrong("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(res.group, res.plural, meta["name"], [cause])


def _check_applied(write: Write, config: Any) -> None:
    """Check that an applied configuration is of this object and has no unknown fields.  Raises Refused."""
    kind, key = write.kind, write.key
    if not isinstance(config, dict):
        raise errors.bad_request("error decoding YAML: the configuration is not an object")
    decoding.check_kind(kind, config)
    _check_namespace(config, key.namespace)
    config["metadata"].setdefault("name", key.name)
    if config["metadata"].get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    decoding.check_types(kind, config)
    if unknown := decoding.drop_unknown(kind, config):
        fields = "\n".join(f".{path}: field not declared in schema" for path in unknown)
        what = f"{key}; {kind.resource.api_version}, Kind={kind.resource.kind}"
        raise Refused(500, "", f"failed to create typed patch object ({what}): {fields}")


def _resets(kind: Kind, subresource: str) -> tuple[str, ...]:
    """The top-level members that server-side apply to this path does not write."""
    if subresource == "status":
        return tuple(name for name in kind.shape.properties if name != "status")
    return ("status",) if "status" in kind.subresources else ()


def _decode(write: Write, obj: Object) -> list[str]:
    """Check types and drop unknown fields; returns warnings.  Raises Undecodable."""
    decoding.check_types(write.kind, obj)
    unknown = [f'unknown field "{path}"' for path in decoding.drop_unknown(write.kind, obj)]
    problems = [*write.duplicates, *unknown]
    if problems and write.options.validation == "Strict":
        raise decoding.Undecodable(write.kind, f"strict decoding error: {', '.join(problems)}")
    return problems if write.options.validation == "Warn" else []


def _decode_patched(write: Write, obj: Object) -> list[str]:
    """The same for the result of a patch, which is refused with 422 and the whole object."""
    shown = orjson.dumps(obj).decode()
    try:
        return _decode(write, obj)
    except decoding.Undecodable as error:
        raise errors.invalid("", "", "", [wrong("patch", shown, error.why)]) from error


def _raise_invalid(kind: Kind, obj: Object, causes: Sequence[FieldError]) -> None:
    if causes:
        raise errors.invalid(kind.resource.group, kind.resource.kind, obj["metadata"].get("name") or "", causes)


def _timeless(obj: Object) -> Object:
    """The object without the times of its managedFields."""
    entries = [{**each, "time": ""} for each in obj["metadata"].get("managedFields") or ()]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
