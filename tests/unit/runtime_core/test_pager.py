"""Lists without a cache: page by page, and what happens when the state that the pages show is gone."""

from typing import Any

import pytest
from unit.runtime_core.answers import page, pod, refusal

from tollbar.model import resources
from tollbar.model.objects import key_of
from tollbar.runtime import pager
from tollbar.runtime.errors import Gone

EXPIRED = refusal(410, "Expired")


async def test_pages_come_one_after_the_other(server: Any, connect: Any) -> None:
    server.lists = [page(9, pod("a", 3), token="next"), page(9, pod("b", 4))]
    every = pager.every(await connect(), resources.PODS, "shop", label_selector="a=b", field_selector="c=d", page=1)
    assert [key_of(each).name async for each in every] == ["a", "b"]
    selectors = {"limit": "1", "labelSelector": "a=b", "fieldSelector": "c=d"}
    assert [request.query for request in server.requests] == [selectors, {**selectors, "continue": "next"}]


async def test_pages_that_expire_are_followed_by_all_in_one(server: Any, connect: Any) -> None:
    server.lists = [page(9, pod("a", 3), token="next"), EXPIRED, page(12, pod("a", 3), pod("b", 4))]
    every = pager.every(await connect(), resources.PODS)
    assert [key_of(each).name async for each in every] == ["a", "a", "b"]
    asked = [(request.query["limit"], request.query.get("continue")) for request in server.requests]
    assert asked == [("500", None), ("500", "next"), ("0", None)]


async def test_what_is_gone_without_pages_is_an_error(server: Any, connect: Any) -> None:
    server.lists = [EXPIRED]
    with pytest.raises(Gone):
        [each async for each in pager.every(await connect(), resources.PODS)]
    assert len(server.requests) == 1
