"""What a request means: create, update and patch of any kind, in the API server's order.

Called by the server for clients and by the controllers as `SYSTEM`.  The order is decoding, defaulting, mutating
admission, defaulting, the strategy's preparation and validation, validating admission, storage.  A write is compare and
swap on the version it has read; a patch that clashes is applied again to the newer object.

Objects here are a version of their kind with apiVersion and kind, and belong to the call that made them.
"""

import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from tollbar.devplane.embedded import apply, decoding, errors, patches, shapes, versions
from tollbar.devplane.embedded.errors import Cause, Refused
from tollbar.devplane.embedded.kinds import Kind, Kinds
from tollbar.devplane.embedded.requests import Attributes, User
from tollbar.devplane.embedded.storage import Clash, Entry, Storage
from tollbar.model import timestamps
from tollbar.model.objects import Key, Object
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock

_NAME_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED: Final = 5
_NAME_MAX: Final = 63
_SYSTEM_FIELDS: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
    "resourceVersion",
    "managedFields",
)
_KEPT_FIELDS: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


class Admission(Protocol):
    """Who is asked before a write; see `tollbar.devplane.embedded.admission`."""

    async def mutate(self, about: Attributes, new: Object, old: Object | None) -> tuple[Object, list[str]]:
        """The object to go on with, defaulted again, and warnings; `new` is {} at a deletion.  Raises Refused."""
        ...

    async def validate(self, about: Attributes, new: Object, old: Object | None) -> list[str]:
        """Validating admission: warnings.  Raises Refused."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the query or body of a write asks for, beside the object."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    raw: Object = field(default_factory=dict)
    """The options object that admission webhooks are shown."""


@dataclass(slots=True)
class Outcome:
    """An answer: 201 for what was created; `object` is a version of the kind, or a Status."""

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
        """The time as metadata has it."""
        return timestamps.time(self.clock.now())

    def entry(self, kind: Kind, key: Key) -> Entry:
        """Raises Refused (404)."""
        found = self.storage.get(kind.stored, key)
        if found is None:
            raise errors.not_found(kind.resource.group, kind.resource.plural, key.name)
        return found

    async def create(
        self, kind: Kind, namespace: str, obj: Object, user: User, options: Options, doubled: Sequence[str] = ()
    ) -> Outcome:
        """POST.  `doubled` is what decoding said of keys that came twice."""
        decoding.check_kind(kind, obj)
        _check_namespace(obj, namespace)
        if obj["metadata"].get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        warnings = self._decode(kind, obj, options, doubled)
        for member in _SYSTEM_FIELDS:
            obj["metadata"].pop(member, None)
        kind.strategy.default(obj)
        return await self._create(kind, obj, user, options, warnings, obj)

    async def _create(
        self, kind: Kind, obj: Object, user: User, options: Options, warnings: list[str], managed: Object | None
    ) -> Outcome:
        """`managed` is None when the object comes with its managedFields, of an application."""
        meta = obj["metadata"]
        namespace, name = meta.get("namespace") or "", meta.get("name") or ""
        entries = None if managed is not None else meta.pop("managedFields")
        attributes = Attributes("CREATE", kind, namespace, name, user, "", options.dry_run, options.raw)
        obj, said = await self.admission.mutate(attributes, obj, None)
        warnings += said
        _check_namespace(obj, namespace)
        kind.strategy.prepare_for_create(obj)
        meta = obj["metadata"]
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = _generated(meta["generateName"])
        meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), self.now()
        self._validated(kind, obj, kind.strategy.validate(obj))
        warnings += await self.admission.validate(attributes, obj, None)
        key = Key(namespace, meta["name"])
        taken = self.storage.get(kind.stored, key)
        if taken is not None:
            deleting = bool(taken.decoded()["metadata"].get("deletionTimestamp"))
            raise errors.already_exists(kind.resource.group, kind.resource.plural, key.name, deleting=deleting)
        if entries is None:
            identity = apply.Identity(options.manager, "Update", kind.resource.api_version, "")
            entries = apply.update({}, obj, shapes.of(kind), identity, self.now())
        meta["managedFields"] = entries
        if not options.dry_run:
            obj = versions.decoded(kind, self.storage.write(kind.stored, versions.stored(kind, obj), None))
        return Outcome(obj, created=True, warnings=warnings)

    async def update(
        self,
        kind: Kind,
        key: Key,
        obj: Object,
        user: User,
        options: Options,
        subresource: str = "",
        doubled: Sequence[str] = (),
        may_create: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """PUT of the object or of a subresource.  `may_create` raises when the user may not create it."""
        decoding.check_kind(kind, obj)
        _check_namespace(obj, key.namespace)
        name = obj["metadata"].get("name") or ""
        if name != key.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({key.name})"
                if name
                else "the name of the object (based on URL) was undeterminable: name must be provided"
            )
        if self.storage.get(kind.stored, key) is None and kind.strategy.allow_create_on_update and not subresource:
            may_create()
            return await self.create(kind, key.namespace, obj, user, options, doubled)
        warnings = self._decode(kind, obj, options, doubled)

        def replaced(old: Object) -> Object:
            self._check_replacement(kind, obj, old)
            copied: Object = _copied(obj)
            return copied

        return await self._modify(kind, key, replaced, user, options, subresource, warnings)

    def _check_replacement(self, kind: Kind, obj: Object, old: Object) -> None:
        res, meta, stored = kind.resource, obj["metadata"], old["metadata"]
        if meta.get("uid") and meta["uid"] != stored["uid"]:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {stored['uid']}"
            raise errors.conflict(res.group, res.plural, meta["name"], why)
        if not meta.get("resourceVersion") and not kind.strategy.allow_unconditional_update:
            cause = Cause(
                "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            raise errors.invalid(res.group, res.plural, meta["name"], [cause])

    async def patch(
        self,
        kind: Kind,
        key: Key,
        media: PatchType,
        body: Any,
        user: User,
        options: Options,
        subresource: str = "",
        may_create: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """PATCH.  `may_create` raises when the user may not create what an application would."""
        warnings: list[str] = []
        if media is PatchType.APPLY:
            return await self._apply(kind, key, body, user, options, subresource, may_create)

        def patched(old: Object) -> Object:
            new = _patched(kind, old, media, _copied(body))
            warnings[:] = self._decode_patched(kind, new, options)
            return new

        return await self._modify(kind, key, patched, user, options, subresource, warnings)

    async def _apply(
        self,
        kind: Kind,
        key: Key,
        config: Any,
        user: User,
        options: Options,
        subresource: str,
        may_create: Callable[[], None],
    ) -> Outcome:
        config = self._checked_config(kind, key, config)
        shape = shapes.of(kind)
        identity = apply.Identity(options.manager, "Apply", kind.resource.api_version, subresource)
        resets = _resets(kind, subresource)

        def applied(live: Object) -> Object:
            return apply.apply(live, _copied(config), shape, identity, self.now(), force=options.force, resets=resets)

        if self.storage.get(kind.stored, key) is not None:
            return await self._modify(kind, key, applied, user, options, subresource, [], applies=True)
        if subresource:
            raise errors.not_found(kind.resource.group, kind.resource.plural, key.name)
        may_create()
        obj = applied({})
        for member in _SYSTEM_FIELDS[:-1]:
            obj["metadata"].pop(member, None)
        kind.strategy.default(obj)
        return await self._create(kind, obj, user, options, [], None)

    def _checked_config(self, kind: Kind, key: Key, config: Any) -> Object:
        """The applied configuration, which names its own object.  Raises Refused."""
        if not isinstance(config, dict):
            raise errors.bad_request("error decoding YAML: the configuration is not an object")
        decoding.check_kind(kind, config)
        _check_namespace(config, key.namespace)
        config["metadata"].setdefault("name", key.name)
        if config["metadata"].get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        decoding.check_types(kind, config)
        unknown = decoding.drop_unknown(kind, config)
        if unknown:
            fields = "\n".join(f".{each.split(chr(34))[1]}: field not declared in schema" for each in unknown)
            what = f"{key}; {kind.resource.api_version}, Kind={kind.resource.kind}"
            raise Refused(500, "", f"failed to create typed patch object ({what}): {fields}")
        return config

    async def _modify(
        self,
        kind: Kind,
        key: Key,
        change: Callable[[Object], Object],
        user: User,
        options: Options,
        subresource: str,
        warnings: list[str],
        *,
        applies: bool = False,
    ) -> Outcome:
        """Change what is there now, again when somebody else was faster."""
        while True:
            entry = self.entry(kind, key)
            new = change(versions.decoded(kind, entry))
            wanted = new["metadata"].get("resourceVersion")
            if wanted and wanted != str(entry.revision):
                res = kind.resource
                raise errors.conflict(res.group, res.plural, key.name, errors.STALE_VERSION)
            try:
                outcome = await self._update(kind, entry, new, user, options, subresource, applies=applies)
            except Clash:
                continue
            outcome.warnings = [*warnings, *outcome.warnings]
            return outcome

    async def _update(
        self, kind: Kind, entry: Entry, new: Object, user: User, options: Options, subresource: str, *, applies: bool
    ) -> Outcome:
        """One attempt.  Raises Clash when the entry is not the newest any more."""
        old = versions.decoded(kind, entry)
        meta, stored = new["metadata"], old["metadata"]
        managed = meta.pop("managedFields", None) if applies else None
        _keep_system_fields(meta, stored)
        kind.strategy.default(new)
        key = Key(stored.get("namespace") or "", stored["name"])
        attributes = Attributes("UPDATE", kind, *key, user, subresource, options.dry_run, options.raw)
        new, warnings = await self.admission.mutate(attributes, new, old)
        _prepare(kind, new, old, subresource)
        self._validated(kind, new, kind.strategy.validate_update(new, old, subresource))
        warnings += await self.admission.validate(attributes, new, old)
        if not applies:
            identity = apply.Identity(options.manager, "Update", kind.resource.api_version, subresource)
            managed = apply.update(old, new, shapes.of(kind), identity, self.now())
        new["metadata"]["managedFields"] = managed
        new["metadata"]["resourceVersion"] = str(entry.revision)
        if options.dry_run:
            return Outcome(new, warnings=warnings)
        if _same(new, old):
            if self.storage.get(kind.stored, key) is not entry:
                raise Clash(key)
            return Outcome(old, warnings=warnings)
        return Outcome(self.commit(kind, entry, new), warnings=warnings)

    def commit(self, kind: Kind, entry: Entry, new: Object) -> Object:
        """Store a new version, or remove the object when nothing keeps it any more.  Raises Clash."""
        if ended(new):
            key = Key(new["metadata"].get("namespace") or "", new["metadata"]["name"])
            self.storage.delete(kind.stored, key, entry)
            return new
        return versions.decoded(kind, self.storage.write(kind.stored, versions.stored(kind, new), entry))

    def _decode(self, kind: Kind, obj: Object, options: Options, doubled: Sequence[str]) -> list[str]:
        """Check types, drop unknown fields; warnings.  Raises Refused (400)."""
        decoding.check_types(kind, obj)
        problems = [*doubled, *decoding.drop_unknown(kind, obj)]
        if problems and options.validation == "Strict":
            raise decoding.strict(kind, problems)
        return problems if options.validation == "Warn" else []

    def _decode_patched(self, kind: Kind, obj: Object, options: Options) -> list[str]:
        """The same for what a patch made, which is refused with 422 and the whole object."""
        shown = orjson.dumps(obj).decode()
        try:
            decoding.check_types(kind, obj)
            problems = decoding.drop_unknown(kind, obj)
            if problems and options.validation == "Strict":
                raise decoding.strict(kind, problems)
        except Refused as error:
            why = error.message.partition("cannot be handled as a ")[2].partition(": ")[2] or error.message
            cause = Cause("FieldValueInvalid", "patch", f"Invalid value: {orjson.dumps(shown).decode()}: {why}")
            raise errors.invalid("", "", "", [cause]) from error
        return problems if options.validation == "Warn" else []

    def _validated(self, kind: Kind, obj: Object, causes: Sequence[Cause]) -> None:
        if causes:
            raise errors.invalid(kind.resource.group, kind.resource.kind, obj["metadata"].get("name") or "", causes)


def _copied(value: Any) -> Any:
    """What a client sent, for one attempt: defaulting and pruning change it, and a clash asks for another."""
    return orjson.loads(orjson.dumps(value))


def ended(obj: Object) -> bool:
    """Whether a deletion has nothing left to wait for."""
    meta = obj["metadata"]
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or kept_by_spec(obj)
    return bool(meta.get("deletionTimestamp")) and not held


def kept_by_spec(obj: Object) -> bool:
    """Namespaces have finalizers in their spec too."""
    return obj["kind"] == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _check_namespace(obj: Object, namespace: str) -> None:
    """Give the object the namespace of its path.  Raises Refused (400)."""
    if not isinstance(obj.get("metadata"), dict):
        if obj.get("metadata") is not None:
            raise errors.bad_request("metadata is not an object")
        obj["metadata"] = {}
    meta = obj["metadata"]
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta.pop("namespace", None)
    if namespace:
        meta["namespace"] = namespace


def _generated(prefix: str) -> str:
    suffix = "".join(secrets.choice(_NAME_CHARACTERS) for _ in range(_GENERATED))
    return prefix[: _NAME_MAX - _GENERATED] + suffix


def _patched(kind: Kind, old: Object, media: PatchType, body: Any) -> Object:
    if media is PatchType.JSON:
        new = patches.json_patch(old, body)
    elif not isinstance(body, dict):
        raise errors.bad_request("error decoding patch: json: cannot unmarshal the body into an object")
    elif media is PatchType.MERGE:
        new = patches.merge_patch(old, body)
    else:
        try:
            new = patches.strategic_merge(old, body, shapes.of(kind))
        except (TypeError, AttributeError) as error:
            raise errors.bad_request(f"invalid strategic merge patch format: {error}") from error
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise errors.stale()
    return new


def _resets(kind: Kind, subresource: str) -> tuple[str, ...]:
    """The members that an application through a path does not write."""
    if subresource == "status":
        members = [name for name in shapes.of(kind).properties if name != "status"]
        return tuple(members)
    return ("status",) if "status" in kind.subresources else ()


def _keep_system_fields(meta: Object, stored: Object) -> None:
    for member in _KEPT_FIELDS:
        if member in stored:
            meta[member] = stored[member]
        else:
            meta.pop(member, None)
    meta.setdefault("uid", stored["uid"])
    meta.pop("managedFields", None)


def _prepare(kind: Kind, new: Object, old: Object, subresource: str) -> None:
    if subresource == "finalize":
        body = {**(old.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers")}
        new.clear()
        new.update({**old, "metadata": dict(old["metadata"])})
        new["spec"] = {key: value for key, value in body.items() if value}
    else:
        kind.strategy.prepare_for_update(new, old, subresource)


def _same(new: Object, old: Object) -> bool:
    """Whether nothing differs but when managers wrote."""
    return bool(_timeless(new) == _timeless(old))


def _timeless(obj: Object) -> Any:
    entries = [{**each, "time": ""} for each in obj["metadata"].get("managedFields") or ()]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}
