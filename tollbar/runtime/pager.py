"""Lists a resource page by page without a cache; how many objects the next page may have, and what comes after one.

All pages show the state at the time of the first one, unless that takes longer than the API server keeps it, some five
minutes.  Then the rest shows the objects as they are by then (client-go's pager starts over, with all in one page).  So
no object comes twice, and of those that were there at the time of the first page, none is missing that is still there.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import orjson

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import PAGE, PAGE_TEXT, Client
from tollbar.runtime.errors import Gone, TooLong
from tollbar.runtime.retry import READ

T = TypeVar("T")


@dataclass(slots=True)
class Paging:
    """What the next call of a list in pages asks for.

    `limit` is the number of objects to ask for; it grows up to `most_objects` while pages are short.  `token` is the
    `continue` token, empty for the first page.  `ask` goes on with the rest of a list whose token has expired.  Who
    needs all pages of one state does not use `ask`, but empties `token` and lists again.
    """

    limit: int
    most_objects: int = PAGE
    token: str = ""
    ended: bool = False
    """Whether the last page has come."""

    async def ask(self, call: Callable[..., Awaitable[T]]) -> T:
        """The answer to `call(limit=..., continue_=..., most=...)`, with the arguments of `Client.list`.

        A page whose text has more than `PAGE_TEXT` bytes is given up and asked for with fewer objects.  A list whose
        token has expired goes on with the rest.  Raises ApiError, and Gone where there is no rest: of a list that has
        not begun, or from a server that gives no other token.
        """
        while True:
            try:
                return await call(limit=self.limit, continue_=self.token, most=PAGE_TEXT)
            except TooLong:
                self.too_long()
            except Gone as error:
                if error.rest in ("", self.token):
                    raise
                self.token = error.rest

    def too_long(self) -> None:
        """The text of this page is too long: it is asked for with fewer objects."""
        self.limit = max(1, self.limit // 4)

    def came(self, page: Object) -> None:
        """Go on to the page after this one, with twice as many objects while the text is short."""
        self.token = metadata(page).get("continue") or ""
        self.ended = not self.token
        if not self.ended and self.limit < self.most_objects and _is_short(page):
            self.limit = min(2 * self.limit, self.most_objects)


async def pages(
    client: Client,
    resource: Resource,
    namespace: str = "",
    *,
    field_selector: str = "",
    page: int = PAGE,
) -> AsyncGenerator[list[Object], None]:
    """Every page's objects, `page` of them at once at most.  Raises ApiError.

    A page whose text has more than `PAGE_TEXT` bytes is given up and asked for with fewer objects.
    """
    call = partial(READ, client.list, resource, namespace, field_selector=field_selector)
    paging = Paging(page, page)
    while not paging.ended:
        listed: Object = await paging.ask(call)
        yield listed.get("items") or []
        paging.came(listed)


async def every(
    client: Client,
    resource: Resource,
    namespace: str = "",
    *,
    field_selector: str = "",
    page: int = PAGE,
) -> AsyncGenerator[Object, None]:
    """Every object; see `pages`."""
    async for objects in pages(client, resource, namespace, field_selector=field_selector, page=page):
        for obj in objects:
            yield obj


def _is_short(page: Object) -> bool:
    try:
        return 2 * len(orjson.dumps(page)) <= PAGE_TEXT
    except TypeError:  # nested too deeply to be written
        return False
