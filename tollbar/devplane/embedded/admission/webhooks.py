"""The calls of admission webhooks for one request, and their effect on the object.

Mutating webhooks are called one after the other, by the names of their configurations; those with reinvocationPolicy
IfNeeded again when a later one changed the object.  Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
"""

import base64
import uuid
from collections.abc import Set
from typing import Any

import orjson

from tollbar.devplane.embedded import patches
from tollbar.devplane.embedded.admission import matching
from tollbar.devplane.embedded.admission.calls import Caller, NotCalled, denial, internal
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model.objects import Object
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, Resource


class Webhooks:
    """The webhooks of one kind of configuration, mutating or validating, for one request."""

    def __init__(
        self, storage: Storage, caller: Caller, configurations: Resource, write: Write, old: Object | None
    ) -> None:
        self._storage = storage
        self._caller = caller
        self._configurations = configurations
        self._write = write
        self._old = old
        self.warnings: list[str] = []
        self.changed = False
        """Whether any webhook changed the object, so that the chain runs again."""
        self._waiting: set[str] = set()
        """Webhooks with reinvocationPolicy IfNeeded that have been called since the last change."""
        self._again: set[str] = set()

    async def call(self, new: Object, among: Set[str] | None = None) -> Object:
        """The object after all of them, or those `among`, were called.  Raises Refused."""
        for key, entry in self._storage.items(self._configurations):
            for index, webhook in enumerate(entry.decoded().get("webhooks") or ()):
                name = f"{key.name}/{index}"
                if among is None or name in among:
                    new = await self._invoke(name, webhook, new)
        return new

    async def call_again(self, new: Object, *, changed_since: bool) -> Object:
        """The object after reinvocation, which is only of webhooks that were called before.  Raises Refused."""
        if changed_since:
            self._mark_for_reinvocation()
        return await self.call(new, self._again)

    async def _invoke(self, name: str, webhook: Object, new: Object) -> Object:
        """The object after one webhook was called, if it matches."""
        if not matching.selected(self._storage, webhook, self._write, new, self._old):
            return new
        request = _request(self._write, new, self._old)
        if not matching.conditions_hold(webhook, self._write, request):
            return new
        response = await self._ask(webhook, request)
        patch = response.get("patch") if self._configurations == MUTATING_WEBHOOK_CONFIGURATIONS else None
        patched = _patched(new, patch) if patch else new
        if patched != new:
            self._mark_for_reinvocation()
            self.changed = True
        if webhook.get("reinvocationPolicy") == "IfNeeded":
            self._waiting.add(name)
        return patched

    async def _ask(self, webhook: Object, request: Object) -> Object:
        """The response; {} when there is none and failurePolicy is Ignore.  Raises Refused."""
        try:
            response = await self._caller.call(webhook, request)
        except NotCalled as error:
            if webhook.get("failurePolicy") == "Ignore":
                return {}
            raise internal(f'failed calling webhook "{webhook["name"]}": {error}') from error
        if not response.get("allowed"):
            raise denial(webhook, response.get("status") or {})
        self.warnings += response.get("warnings") or ()
        return response

    def _mark_for_reinvocation(self) -> None:
        self._again |= self._waiting
        self._waiting.clear()


def _request(write: Write, new: Object, old: Object | None) -> Object:
    """The AdmissionRequest (admission.k8s.io/v1)."""
    res = write.kind.resource
    kind = {"group": res.group, "version": res.version, "kind": res.kind}
    resource = {"group": res.group, "version": res.version, "resource": res.plural}
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": write.operation,
        "userInfo": write.user.info(),
        "object": new or None,
        "oldObject": old,
        "dryRun": write.options.dry_run,
        "options": write.options.raw or None,
    }
    optional = {
        "subResource": write.subresource,
        "requestSubResource": write.subresource,
        "name": write.key.name,
        "namespace": write.key.namespace,
    }
    return request | {member: value for member, value in optional.items() if value}


def _patched(obj: Object, patch: str) -> Object:
    """The object after a webhook's JSON Patch.  One that does not apply fails the request under any failurePolicy."""
    try:
        operations = orjson.loads(base64.b64decode(patch))
    except ValueError as error:
        raise internal(f"error decoding patch: {error}") from error
    for operation in operations:
        try:
            obj = patches.json_patch(obj, [operation])
        except Refused as error:
            raise internal(_misfit(operation)) from error
    return obj


def _misfit(operation: Object) -> str:
    """The text of the API server's library."""
    path = operation.get("path")
    if operation.get("op") == "test":
        return f"testing value {path} failed: test failed"
    return f'{operation.get("op")} operation does not apply: doc is missing path: "{path}": missing value'
