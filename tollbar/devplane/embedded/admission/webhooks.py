"""The webhooks of one request: which are asked, in which order, and what their answers do to the object.

Called by the chain.  Mutating webhooks are asked one after the other, by the names of their configurations; those with
reinvocationPolicy IfNeeded once more when one after them changed the object.  Source:
k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
"""

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import orjson

from tollbar.devplane.embedded import patches
from tollbar.devplane.embedded.admission import matching
from tollbar.devplane.embedded.admission.calls import Caller, NotCalled, denial, internal, unanswered
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.requests import Attributes
from tollbar.devplane.embedded.storage import Storage
from tollbar.model.objects import Object
from tollbar.runtime.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource


class _Webhooks:
    """What both kinds have in common."""

    configurations: Resource

    def __init__(self, storage: Storage, caller: Caller, about: Attributes, old: Object | None) -> None:
        self._storage = storage
        self._caller = caller
        self._about = about
        self._old = old
        self.warnings: list[str] = []

    def _each(self) -> Iterator[tuple[str, Object]]:
        """All webhooks in order, with something that tells them apart."""
        for key, entry in self._storage.items(self.configurations):
            for index, webhook in enumerate(entry.decoded().get("webhooks") or ()):
                yield f"{key.name}/{index}", webhook

    def _concerns(self, webhook: Object, new: Object) -> Object | None:
        """The request to send, when the webhook is to be asked.  Raises Refused."""
        if not matching.selected(self._storage, webhook, self._about, new, self._old):
            return None
        request = _request(self._about, new, self._old)
        return request if matching.conditions_hold(webhook, self._about, request) else None

    async def _ask(self, webhook: Object, request: Object) -> Object:
        """The response, {} when there is none and that does not matter.  Raises Refused."""
        try:
            response = await self._caller.call(webhook, request)
        except NotCalled as error:
            if webhook.get("failurePolicy") == "Ignore":
                return {}
            raise unanswered(webhook, error) from error
        if not response.get("allowed"):
            raise denial(webhook, response.get("status") or {})
        self.warnings += response.get("warnings") or ()
        return response


class Validating(_Webhooks):
    configurations = VALIDATING_WEBHOOK_CONFIGURATIONS

    async def call(self, new: Object) -> list[str]:
        """Warnings.  Raises Refused."""
        for _, webhook in self._each():
            if (request := self._concerns(webhook, new)) is not None:
                await self._ask(webhook, request)
        return self.warnings


class Mutating(_Webhooks):
    configurations = MUTATING_WEBHOOK_CONFIGURATIONS

    def __init__(self, storage: Storage, caller: Caller, about: Attributes, old: Object | None) -> None:
        super().__init__(storage, caller, about, old)
        self.changed = False
        """Whether any webhook changed the object: the chain is then run once more."""
        self._waiting: set[str] = set()
        """Those that were asked, and want to be again if somebody changes the object."""
        self._again: set[str] = set()

    async def call(self, new: Object) -> Object:
        """The object after the first round.  Raises Refused."""
        for name, webhook in self._each():
            new = await self._invoke(name, webhook, new)
        return new

    async def call_again(self, new: Object, *, changed_since: bool) -> Object:
        """The object after the second round, which nobody joins who was not asked in the first.  Raises Refused."""
        if changed_since:
            self._recall()
        for name, webhook in self._each():
            if name in self._again:
                new = await self._invoke(name, webhook, new)
        return new

    async def _invoke(self, name: str, webhook: Object, new: Object) -> Object:
        request = self._concerns(webhook, new)
        if request is None:
            return new
        response = await self._ask(webhook, request)
        patched = _patched(new, response["patch"]) if response.get("patch") else new
        if patched != new:
            self._recall()
            self.changed = True
        if webhook.get("reinvocationPolicy") == "IfNeeded":
            self._waiting.add(name)
        return patched

    def _recall(self) -> None:
        self._again |= self._waiting
        self._waiting.clear()


def _request(about: Attributes, new: Object, old: Object | None) -> Object:
    """The AdmissionRequest (admission.k8s.io/v1)."""
    res = about.kind.resource
    kind = {"group": res.group, "version": res.version, "kind": res.kind}
    resource = {"group": res.group, "version": res.version, "resource": res.plural}
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": about.operation,
        "userInfo": about.user.info(),
        "object": new or None,
        "oldObject": old,
        "dryRun": about.dry_run,
        "options": dict(about.options) or None,
    }
    optional = {
        "subResource": about.subresource,
        "requestSubResource": about.subresource,
        "name": about.name,
        "namespace": about.namespace,
    }
    return request | {member: value for member, value in optional.items() if value}


def _patched(obj: Object, patch: str) -> Object:
    """The object after a webhook's JSON Patch.  A patch that does not fit fails the request, whatever the policy."""
    try:
        operations = orjson.loads(base64.b64decode(patch))
    except ValueError as error:
        raise internal(f"error decoding patch: {error}") from error
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise internal("error decoding patch: it is no list of operations")
    for operation in operations:
        try:
            obj = patches.json_patch(obj, [operation])
        except Refused as error:
            raise internal(_misfit(operation)) from error
    return obj


def _misfit(operation: Object) -> str:
    """In the words of the API server's library."""
    path = operation.get("path")
    if operation.get("op") == "test":
        return f"testing value {path} failed: test failed"
    return f'{operation.get("op")} operation does not apply: doc is missing path: "{path}": missing value'
