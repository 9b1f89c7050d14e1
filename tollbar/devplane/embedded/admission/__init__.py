"""Admission: who is asked before a write is stored, in the API server's order.

Called by the registry: `mutate` after defaulting, `validate` after validation.  `builtin` has the plugins of the API
server that matter here, `webhooks` calls those of users.  Admission policies, quotas and limits are left out.
"""

import orjson

from tollbar.devplane.embedded import decoding
from tollbar.devplane.embedded.admission import builtin
from tollbar.devplane.embedded.admission.calls import Caller, internal
from tollbar.devplane.embedded.admission.webhooks import Webhooks
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model.objects import Object
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS

_EXEMPT = frozenset({MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS})
"""Kinds about which no webhook is asked, so that a broken one can be removed."""


class Admission:
    """The chain.  Close it when the server ends."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._caller = Caller()

    async def close(self) -> None:
        await self._caller.close()

    async def mutate(self, about: Write, new: Object, old: Object | None) -> tuple[Object, list[str]]:
        """The object as it is after all mutation, defaulted again, and warnings for the client.  Raises Refused.

        At a deletion `new` is {}, and nothing may change.
        """
        builtin.check(self._storage, about)
        obj: Object = orjson.loads(orjson.dumps(new))
        builtin.mutate(self._storage, about, obj)
        if about.kind.resource in _EXEMPT:
            return obj, []
        hooks = Webhooks(self._storage, self._caller, MUTATING_WEBHOOK_CONFIGURATIONS, about, old)
        obj = await hooks.call(obj)
        if hooks.changed:
            obj = _defaulted(about, obj)
            before = orjson.dumps(obj)
            builtin.mutate(self._storage, about, obj)
            obj = _defaulted(about, await hooks.call_again(obj, changed_since=orjson.dumps(obj) != before))
        return obj, hooks.warnings

    async def validate(self, about: Write, new: Object, old: Object | None) -> list[str]:
        """Warnings for the client.  Raises Refused."""
        if about.kind.resource in _EXEMPT:
            return []
        hooks = Webhooks(self._storage, self._caller, VALIDATING_WEBHOOK_CONFIGURATIONS, about, old)
        await hooks.call(new)
        return hooks.warnings


def _defaulted(about: Write, obj: Object) -> Object:
    """As it is decoded from what webhooks made of it: what is unknown goes silently.  Raises Refused (500)."""
    if obj and not about.subresource:
        try:
            decoding.check_types(about.kind, obj)
        except Refused as error:
            raise internal(error.message) from error
        decoding.drop_unknown(about.kind, obj)
        about.kind.strategy.default(obj)
    return obj
