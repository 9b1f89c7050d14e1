"""Admission, in the API server's order: `mutate` after defaulting, `validate` after validation.

`builtin` has some of the API server's plugins, `webhooks` calls admission webhooks.  Admission policies, quotas and
limit ranges are left out.
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
"""Kinds for which no webhook is called, so that a broken one can be removed."""


class Admission:
    """The admission chain.  Close it when the server ends."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._caller = Caller()

    async def close(self) -> None:
        await self._caller.close()

    async def mutate(self, write: Write, new: Object, old: Object | None) -> tuple[Object, list[str]]:
        """The object after all mutation, defaulted again, and warnings for the client.  Raises Refused.

        For a deletion `new` is {}.
        """
        builtin.check(self._storage, write)
        obj: Object = orjson.loads(orjson.dumps(new))
        builtin.mutate(self._storage, write, obj)
        if write.kind.resource in _EXEMPT:
            return obj, []
        hooks = Webhooks(self._storage, self._caller, MUTATING_WEBHOOK_CONFIGURATIONS, write, old)
        obj = await hooks.call(obj)
        if hooks.changed:
            obj = _defaulted(write, obj)
            before = orjson.dumps(obj)
            builtin.mutate(self._storage, write, obj)
            obj = _defaulted(write, await hooks.call_again(obj, changed_since=orjson.dumps(obj) != before))
        return obj, hooks.warnings

    async def validate(self, write: Write, new: Object, old: Object | None) -> list[str]:
        """Warnings for the client.  Raises Refused."""
        if write.kind.resource in _EXEMPT:
            return []
        hooks = Webhooks(self._storage, self._caller, VALIDATING_WEBHOOK_CONFIGURATIONS, write, old)
        await hooks.call(new)
        return hooks.warnings


def _defaulted(write: Write, obj: Object) -> Object:
    """The object that webhooks changed, decoded: unknown fields are dropped silently.  Raises Refused (500)."""
    if obj and not write.subresource:
        try:
            decoding.check_types(write.kind, obj)
        except Refused as error:
            raise internal(error.message) from error
        decoding.drop_unknown(write.kind, obj)
        write.kind.strategy.default(obj)
    return obj
