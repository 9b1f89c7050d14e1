"""The planes that the contract suite runs against, and a row's way to one."""

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from contract.api import Api, settings
from contract.hooks import Hooks, serving
from contract.objects import SERVICE_ACCOUNTS, made
from planes.access import Access
from planes.parameters import PLANES

from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.resources import NAMESPACES


@pytest.fixture(scope="session", params=PLANES)
def contracted(request: pytest.FixtureRequest) -> Any:
    """The plane under test."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def compacted(contracted: Any) -> None:
    """The server does not have its first versions any more: sooner than by itself, where that takes minutes."""
    if isinstance(contracted, RealPlane):
        contracted.compact()


@pytest.fixture(scope="session")
def access(contracted: Any) -> Access:
    return Access.of(settings(contracted))


@pytest.fixture(scope="module")
def home(access: Access) -> Iterator[Api]:
    """A fresh namespace for a module, in which Pods can be created at once."""
    api = Api(access, f"contract-{uuid.uuid4().hex[:10]}")
    api.request("POST", NAMESPACES.path(), made(NAMESPACES, api.namespace)).accepted()
    account = api.request("POST", api.path(SERVICE_ACCOUNTS), made(SERVICE_ACCOUNTS, "default"))
    assert account.code in (201, 409), account
    yield api
    api.request("DELETE", NAMESPACES.path("", api.namespace))
    api.close()


@pytest.fixture
def api(home: Api) -> Iterator[Api]:
    """The module's namespace, without what other rows created."""
    yield home
    home.clear()


@pytest.fixture(scope="module")
def server(access: Access) -> Iterator[Hooks]:
    """An admission webhook server that nobody is sent to yet."""
    if urlsplit(access.server).hostname not in ("127.0.0.1", "localhost"):
        pytest.skip("this API server cannot reach a webhook on our loopback address")
    with serving() as hooks:
        yield hooks
