"""Reads objects for a command that shows what the user may read, and reports what the user may not."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Forbidden, NotFound
from tollbar.runtime.retry import READ


@dataclass(slots=True)
class Reading:
    """`unread` has a line for every read that was refused, in the words of the API server."""

    client: Client
    unread: list[str] = field(default_factory=list)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        field_selector: str = "",
        keep: Callable[[Object], bool] = lambda _obj: True,
        project: Callable[[Object], Object] = lambda obj: obj,
    ) -> list[Object] | None:
        """What `project` leaves of the objects that `keep` wants, none of a kind that is not served; None when they may
        not be read."""
        try:
            every = pager.every(self.client, resource, namespace, field_selector=field_selector)
            return [project(obj) async for obj in every if keep(obj)]
        except NotFound:
            return []
        except Forbidden as error:
            self._refused(error)
            return None

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object, {} when there is none; None when it may not be read."""
        try:
            found: Object = await READ(self.client.get, resource, name, namespace)
        except NotFound:
            return {}
        except Forbidden as error:
            self._refused(error)
            return None
        return found

    async def document(self, path: str) -> bytes | None:
        """What is at this path, such as a document of OpenAPI; None when nothing is there or it may not be read."""
        try:
            found: bytes = await READ(self.client.raw, "GET", path)
        except NotFound:
            return None
        except Forbidden as error:
            self._refused(error)
            return None
        return found

    def _refused(self, error: ApiError) -> None:
        self.unread.append(error.excerpt)
