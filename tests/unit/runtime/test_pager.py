"""Lists without a cache: pages of bounded length, and what happens when the state that they show is gone."""

from typing import Any

import pytest
from unit.runtime.answers import expired, page, pod, refusal

from tollbar.model import resources
from tollbar.model.objects import key_of
from tollbar.runtime import pager
from tollbar.runtime.client import PAGE_TEXT
from tollbar.runtime.errors import Gone

EXPIRED = refusal(410, "Expired")


async def test_pages_come_one_after_the_other(server: Any, connect: Any) -> None:
    server.lists = [page(9, pod("a", 3), token="next"), page(9, pod("b", 4))]
    every = pager.every(await connect(), resources.PODS, "shop", field_selector="c=d", page=1)
    assert [key_of(each).name async for each in every] == ["a", "b"]
    selectors = {"limit": "1", "fieldSelector": "c=d"}
    assert [request.query for request in server.requests] == [selectors, {**selectors, "continue": "next"}]


async def test_pages_that_expire_are_followed_by_the_rest_as_it_is_by_then(server: Any, connect: Any) -> None:
    server.lists = [
        page(9, pod("a", 3), token="next"),
        expired("rest"),
        page(12, pod("b", 11), token="more"),
        expired("end"),
        page(15, pod("c", 5)),
    ]
    every = pager.every(await connect(), resources.PODS)
    assert [key_of(each).name async for each in every] == ["a", "b", "c"]
    asked = [(request.query["limit"], request.query.get("continue")) for request in server.requests]
    assert asked == [("500", None), ("500", "next"), ("500", "rest"), ("500", "more"), ("500", "end")]


async def test_a_page_that_is_too_long_is_asked_for_with_fewer_objects(server: Any, connect: Any) -> None:
    """Whoever creates the objects says how large they are."""
    large, small = pod("a", 3, spec={"x": "y" * PAGE_TEXT}), pod("b", 4)
    begins, goes_on = page(9, large, token="next"), page(9, small, token="last")
    server.lists = [page(9, large, small), begins, goes_on, page(9, pod("c", 5))]
    pages = pager.pages(await connect(), resources.PODS, page=4)
    assert [[key_of(each).name for each in objects] async for objects in pages] == [["a"], ["b"], ["c"]]
    asked = [(request.query["limit"], request.query.get("continue")) for request in server.requests]
    assert asked == [("4", None), ("1", None), ("1", "next"), ("2", "last")]


FIRST = page(9, pod("a", 3), token="next")
WITHOUT: dict[str, list[dict[str, Any]]] = {
    "of a list without pages": [EXPIRED],
    "from a server that gives no other token": [FIRST, EXPIRED],
    "from a server that gives the same token": [FIRST, expired("next")],
    "from a server that gives one that has expired": [FIRST, expired("rest"), expired("rest")],
}


@pytest.mark.parametrize("lists", WITHOUT.values(), ids=WITHOUT)
async def test_what_is_gone_without_a_rest_is_an_error(lists: list[dict[str, Any]], server: Any, connect: Any) -> None:
    server.lists = [*lists]
    with pytest.raises(Gone):
        [each async for each in pager.every(await connect(), resources.PODS)]
    assert len(server.requests) == len(lists)
