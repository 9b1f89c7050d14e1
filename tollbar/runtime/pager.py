"""Lists a resource page by page without a cache, as client-go's pager does.

All pages show the state at the time of the first one.
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

    A list whose `continue` token expires starts over, so some objects may come twice.
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
