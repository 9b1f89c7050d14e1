"""A cluster as the claims controller sees it: real caches and view, filled with objects."""

from collections.abc import Iterable
from typing import Any

from fakes import FakeEngine

from controllers.claims.view import View
from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.runtime.clock import SystemClock
from tollbar.views.caches import ClaimCaches


def view_of(*objects: Object, gone: Iterable[str] = ()) -> View:
    """`gone` are uids of objects that are known to be deleted."""
    caches = ClaimCaches(
        engine=FakeEngine(), managed_namespaces={}, system_namespace="tollbar-system", pod_groups=resources.POD_GROUPS
    )
    view = View(caches, SystemClock())
    fill(view, *objects)
    for uid in gone:
        caches.deleted.add(uid)
    return view


def fill(view: View, *objects: Object) -> None:
    stores: dict[str, Any] = {store.resource.kind: store for store in view.caches.stores}
    for obj in objects:
        stores[obj["kind"]].apply(obj)
