"""Waits, when a process begins to lead, until its cache shows everything that was released before.

The previous leader's watch may have been ahead of this one's.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from tollbar.model import resourceversion
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime import asking
from tollbar.runtime.errors import ApiError
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store

_log: Final = logging.getLogger(__name__)

_LIST_AGAIN: Final = 5.0
"""Seconds until Pods are listed again when that failed."""
_LOOK_AGAIN: Final = 0.05
"""Seconds between two looks at how far the cache is."""
_EVERYWHERE: Final = ("",)


async def caught_up(
    manager: Manager,
    store: Store,
    *,
    namespaces: Callable[[], Iterable[str]] = lambda: _EVERYWHERE,
    label_selector: str = "",
) -> None:
    """Return once the store, which has synced, is as new as the newest object that the API server has now.

    Only objects of these namespaces with these labels are considered.  While they cannot be listed it waits, so that
    nothing is granted.
    """
    while True:
        try:
            listed = [await _newest(manager, store.resource, each, label_selector) for each in namespaces()]
            newest = max(listed, default=0)
            break
        except ApiError as error:
            level = error.level(logging.ERROR)
            about = {"resource": store.resource.plural, "error": str(error)}
            _log.log(level, "what counts cannot be listed, no Pod is released", extra=about)
            await manager.clock.sleep(_LIST_AGAIN)
    while (resourceversion.number(store.resource_version) or 0) < newest:
        await manager.clock.sleep(_LOOK_AGAIN)


async def _newest(manager: Manager, resource: Resource, namespace: str, label_selector: str) -> int:
    """The greatest resourceVersion, 0 where there is no object."""
    newest = 0

    def take(obj: Object) -> None:
        nonlocal newest
        newest = max(newest, resourceversion.of(obj) or 0)

    await asking.each_list_item(
        take, manager.client, manager.listing, resource, namespace, label_selector=label_selector
    )
    return newest
