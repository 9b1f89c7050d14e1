"""Lists a resource page by page without a cache; how many objects the next page may have, and what comes after one.

All pages show the state at the time of the first one, unless that takes longer than the API server keeps it, some five
minutes.  Then the rest shows the objects as they are by then (client-go's pager starts over, with all in one page).  So
no object comes twice, and of those that were there at the time of the first page, none is missing that is still there.
"""

from collections.abc import AsyncGenerator

import orjson

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import PAGE, PAGE_TEXT, Client
from tollbar.runtime.errors import Gone, TooLong
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
    """Every page's objects, `page` of them at once at most.  Raises ApiError.

    A page whose text has more than `PAGE_TEXT` bytes is given up and asked for with fewer objects.
    """
    more, limit = "", page
    while True:
        try:
            listed: Object = await READ(
                client.list,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_=more,
                most=PAGE_TEXT,
            )
        except TooLong:
            limit = fewer(limit)
            continue
        except Gone as error:
            more = rest(error, more)
            continue
        yield listed.get("items") or []
        more = metadata(listed).get("continue") or ""
        if not more:
            return
        limit = next_limit(listed, limit, page)


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


def rest(error: Gone, more: str) -> str:
    """The `continue` token by which a list goes on whose token `more` has expired.

    Raises the error where there is none: of a list that has not begun, or from a server that gives no other token.
    """
    if error.rest in ("", more):
        raise error
    return error.rest


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
