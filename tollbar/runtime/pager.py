"""Whole lists, page by page, for whoever asks once and keeps no cache (as client-go's pager does it).

Called by commands, and by controllers where a decision must not rest on a cache.  What a page has is as old as the
list's first page.
"""

from collections.abc import AsyncGenerator

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client
from tollbar.runtime.errors import Gone
from tollbar.runtime.retry import READ


async def pages(
    client: Client, resource: Resource, namespace: str = "", *, field_selector: str = ""
) -> AsyncGenerator[list[Object], None]:
    """Every page's objects.  Raises ApiError.

    A list that takes longer than the server remembers its version starts over: some objects come twice then.
    """
    more = ""
    while True:
        try:
            page: Object = await READ(client.list, resource, namespace, field_selector=field_selector, continue_=more)
        except Gone:
            more = ""
            continue
        yield page.get("items") or []
        more = metadata(page).get("continue") or ""
        if not more:
            return


async def every(
    client: Client, resource: Resource, namespace: str = "", *, field_selector: str = ""
) -> AsyncGenerator[Object, None]:
    """Every object; see `pages`."""
    async for page in pages(client, resource, namespace, field_selector=field_selector):
        for obj in page:
            yield obj
