"""Reads and writes of the plane's own controllers, as the user `SYSTEM`.

A patch is computed again when the object has changed meanwhile.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tollbar.devplane.embedded import conversion, deletion
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.registry import Outcome, Registry
from tollbar.devplane.embedded.requests import Write, WriteOptions
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.resources import Resource
from tollbar.runtime.client import PatchType

_log: Final = logging.getLogger(__name__)

MANAGER: Final = "kube-controller-manager"


class Writer:
    """`manager` is the field manager of its writes."""

    def __init__(self, registry: Registry, manager: str = MANAGER) -> None:
        self.registry = registry
        self._options = WriteOptions(manager=manager, force=True)

    def get(self, resource: Resource, key: Key) -> Object | None:
        """The object as it is now."""
        entry = self.registry.storage.get(resource, key)
        return conversion.decoded(self.registry.kinds.at(resource), entry) if entry else None

    def all(self, resource: Resource, namespace: str = "") -> list[Object]:
        """All objects as they are now, in order of their keys."""
        kind = self.registry.kinds.at(resource)
        return [conversion.decoded(kind, entry) for _, entry in self.registry.storage.items(resource, namespace)]

    async def create(self, resource: Resource, obj: Object) -> Object | None:
        """The stored object; None when one of that name exists or the write was refused."""
        write = self._write(resource, key_of(obj))
        created = await _tried(write, self.registry.create(write, obj))
        return created.object if created else None

    async def edit(
        self, resource: Resource, obj: Object, patch: Callable[[Object], Object | None], subresource: str = ""
    ) -> bool:
        """Apply the merge patch that `patch` makes of the object, again on conflicts; None means that none is needed.

        False when the object of this uid is gone or the patch was refused.
        """
        write = self._write(resource, key_of(obj), subresource)
        while (found := self.get(resource, write.key)) is not None and uid_of(found) == uid_of(obj):
            body = patch(found)
            if body is None:
                return True
            meta = {**(body.get("metadata") or {}), "resourceVersion": found["metadata"]["resourceVersion"]}
            try:
                await self.registry.patch(write, PatchType.MERGE, {**body, "metadata": meta})
            except Refused as error:
                if error.code == 409:
                    continue
                _report(error, write)
                return False
            return True
        return False

    async def apply(self, resource: Resource, obj: Object, subresource: str = "") -> None:
        """Server-side apply, with force."""
        write = self._write(resource, key_of(obj), subresource)
        await _tried(write, self.registry.patch(write, PatchType.APPLY, obj))

    async def delete(self, resource: Resource, obj: Object, **wanted: object) -> None:
        """Delete the object of this uid; `wanted` are members of DeleteOptions."""
        write = self._write(resource, key_of(obj))
        options = {"preconditions": {"uid": uid_of(obj)}, **wanted}
        await _tried(write, deletion.delete(self.registry, write, options))

    def _write(self, resource: Resource, key: Key, subresource: str = "") -> Write:
        return Write(self.registry.kinds.at(resource), key, options=self._options, subresource=subresource)


async def _tried(write: Write, attempt: Awaitable[Outcome]) -> Outcome | None:
    try:
        return await attempt
    except Refused as error:
        _report(error, write)
        return None


def _report(error: Refused, write: Write) -> None:
    """Log a refusal, unless it is NotFound, AlreadyExists or Conflict."""
    if error.code not in (404, 409):
        context = {"resource": write.kind.resource.plural, "object": str(write.key), "error": error.message}
        _log.warning("a controller's write was refused", extra=context)
