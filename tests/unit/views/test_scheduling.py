"""The indexes by which the plugins of the scheduler find objects."""

from collections.abc import Callable, Hashable, Iterable

import pytest

from tollbar.model.objects import Object
from tollbar.views.scheduling import attached_node, selector_label


def service(**selector: str) -> Object:
    return {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": selector} if selector else {}}


INDEXED: dict[str, tuple[Callable[[Object], Iterable[Hashable]], Object, list[Hashable]]] = {
    "a Service by one label, always the same": (
        selector_label,
        service(tier="front", app="web"),
        [("shop", "app", "web")],
    ),
    "a Service without a selector": (selector_label, service(), []),
    "a VolumeAttachment": (attached_node, {"spec": {"nodeName": "n1", "attacher": "disk.example.com"}}, ["n1"]),
}


@pytest.mark.parametrize(("index", "obj", "want"), INDEXED.values(), ids=INDEXED)
def test_indexes(index: Callable[[Object], Iterable[Hashable]], obj: Object, want: list[Hashable]) -> None:
    assert list(index(obj)) == want
