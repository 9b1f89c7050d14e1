"""Lists a resource page by page without a cache, as client-go's pager does; how many objects the next page may have.

All pages show the state at the time of the first one.
"""

from collections.abc import AsyncGenerator

import orjson

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import ALL, PAGE, PAGE_TEXT, Client
from tollbar.runtime.errors import Gone
from tollbar.runtime.retry import READ


async def pages(
    client: Client,
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    page: int = PAGE,
) -> AsyncGenerator[list[Object], None]:
    """Every page's objects, `page` of them at once.  Raises ApiError.

    When the `continue` token expires everything comes in one page, so some objects come twice.
    """
    more = ""
    while True:
        try:
            listed: Object = await READ(
                client.list,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=page,
                continue_=more,
            )
        except Gone:
            if not more:
                raise
            more, page = "", ALL
            continue
        yield listed.get("items") or []
        more = metadata(listed).get("continue") or ""
        if not more:
            return


async def every(
    client: Client,
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    page: int = PAGE,
) -> AsyncGenerator[Object, None]:
    """Every object; see `pages`."""
    selected = {"label_selector": label_selector, "field_selector": field_selector}
    async for objects in pages(client, resource, namespace, **selected, page=page):
        for obj in objects:
            yield obj


def fewer(limit: int) -> int:
    """How many objects to list in the place of a page of so many whose text was too long."""
    return max(1, limit // 4)


def next_limit(page: Object, limit: int, most: int) -> int:
    """How many objects to list after this page of so many: twice as many while its text is short, at most `most`."""
    if limit >= most:
        return limit
    try:
        is_short = 2 * len(orjson.dumps(page)) <= PAGE_TEXT
    except TypeError:  # nested too deeply to be written
        is_short = False
    return min(2 * limit, most) if is_short else limit
