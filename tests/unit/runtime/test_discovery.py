"""From a plural name to a kind, by what discovery says."""

from typing import Any

import orjson
import pytest

from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.discovery import find
from tollbar.runtime.errors import ApiError, NotFound, ServerError

VERBS = ["create", "get", "list", "watch"]
DEPLOYMENTS = {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": VERBS}
BINDINGS = {"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]}
SCALE = {"name": "deployments/scale", "kind": "Scale", "namespaced": True}
SERVED: dict[str, Object] = {
    "/api/v1": {"resources": [BINDINGS, {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": VERBS}]},
    "/apis/apps": {
        "versions": [{"version": "v2beta1"}, {"version": "v1"}, {"version": "v0"}],
        "preferredVersion": {"version": "v1"},
    },
    "/apis/apps/v2beta1": {"resources": [DEPLOYMENTS, {**DEPLOYMENTS, "name": "rollouts", "kind": "Rollout"}]},
    "/apis/apps/v1": {"resources": [SCALE, DEPLOYMENTS]},
    "/apis/broken": {},
}


class Server:
    """Discovery documents by path; what is asked for at `failing` has `error`, or another answer."""

    def __init__(self, failing: str = "", error: bytes | ApiError = b"") -> None:
        self._failing = failing
        self._error = error

    async def raw(self, _method: str, path: str) -> bytes:
        if path == self._failing:
            if isinstance(self._error, ApiError):
                raise self._error
            return self._error
        if path not in SERVED:
            raise NotFound(404, "NotFound", "404 page not found")
        return orjson.dumps(SERVED[path])


NO_ANSWERS = {"a failing server": ServerError(503, "ServiceUnavailable", "no backend"), "a proxy": b"<html>"}
WANTED = {
    ("apps", "deployments"): Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    ("apps", "rollouts"): Resource("apps", "v2beta1", "rollouts", "Rollout", namespaced=True),
    ("", "nodes"): Resource("", "v1", "nodes", "Node", namespaced=False),
    ("", "bindings"): None,
    ("apps", "deployment"): None,
    ("broken", "things"): None,
    ("example.com", "things"): None,
}


@pytest.mark.parametrize(("name", "want"), WANTED.items(), ids=map(".".join, WANTED))
async def test_kinds(name: tuple[str, str], want: Resource | None) -> None:
    server: Any = Server()
    assert await find(server, *name) == want


@pytest.mark.parametrize("error", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_an_answer_that_says_nothing_is_not_a_kind_that_is_not_served(error: bytes | ApiError) -> None:
    server: Any = Server("/apis/apps/v1", error)
    with pytest.raises(ApiError):
        await find(server, "apps", "deployments")
