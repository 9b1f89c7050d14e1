"""Malformed and hostile requests: they are refused with a message and nothing of them is stored."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.devplane.embedded import decoding, options, paths, protobuf, selectors, server
from tollbar.devplane.embedded.access import Access, account_user
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.storage import Storage
from tollbar.devplane.embedded.validation import definitions, others
from tollbar.model.objects import Key, Object
from tollbar.model.resources import PODS
from tollbar.runtime.clock import SystemClock

BODIES: dict[str, Callable[[], Any]] = {
    "JSON without an end": lambda: decoding.parse_object(b'{"a":' * 100_000),
    "half of a surrogate": lambda: decoding.parse_object(rb'{"a":"\ud800"}'),
    "NaN": lambda: decoding.parse_object(b'{"a":NaN}'),
    "a binding to a list": lambda: decoding.check_body("Binding", {"target": {"name": [1]}}),
    "labels of a binding": lambda: decoding.check_body("Binding", {"metadata": {"labels": {"a": 1}}}),
    "a review of text": lambda: decoding.check_body("SubjectAccessReview", {"spec": "all"}),
    "seconds that are text": lambda: decoding.check_body("TokenRequest", {"spec": {"expirationSeconds": "1"}}),
    "a grace that is text": lambda: decoding.check_body("DeleteOptions", {"gracePeriodSeconds": "5"}),
    "a varint for a message": lambda: protobuf.decode(b"k8s\0\x08\x01"),
    "a label selector without a key": lambda: selectors.parse(Kinds().at(PODS), "!", ""),
    "a label selector of signs": lambda: selectors.parse(Kinds().at(PODS), "(", ""),
    "a watch for some seconds": lambda: options.watching({"timeoutSeconds": "some"}, 1),
    "a number of five thousand digits": lambda: options.listing({"limit": "9" * 5000}, 1),
}


@pytest.mark.parametrize("attempt", BODIES.values(), ids=BODIES)
def test_bodies_and_queries(attempt: Callable[[], Any]) -> None:
    with pytest.raises(Refused) as refused:
        attempt()
    assert refused.value.code == 400


PLACES: dict[str, tuple[str, str, int]] = {
    "a binding cannot be read": ("GET", "/api/v1/namespaces/n/pods/p/binding", 405),
    "a binding is no way to write the Pod": ("PATCH", "/api/v1/namespaces/n/pods/p/binding", 405),
    "a token is no way to write the account": ("PUT", "/api/v1/namespaces/n/serviceaccounts/a/token", 405),
    "a Node is in no namespace": ("POST", "/api/v1/namespaces/n/nodes", 404),
    "a Pod is in a namespace": ("GET", "/api/v1/pods/p", 404),
    "Pods are made in a namespace": ("POST", "/api/v1/pods", 405),
    "Pods of all namespaces are not deleted at once": ("DELETE", "/api/v1/pods", 405),
    "logs are not there": ("GET", "/api/v1/namespaces/n/pods/p/log", 501),
    "a kind without a status has no such path": ("GET", "/api/v1/namespaces/n/configmaps/c/status", 404),
}


@pytest.mark.parametrize(("method", "path", "want"), PLACES.values(), ids=PLACES)
def test_places(method: str, path: str, want: int) -> None:
    about = paths.parse(path)
    assert about is not None
    kind = Kinds().find(about.group, about.version, about.plural)
    assert kind is not None
    with pytest.raises(Refused) as refused:
        server.check_path(kind, about, paths.action(method, path, {}, about).verb)
    assert refused.value.code == want


def test_nulls_in_lists_are_refused() -> None:
    obj: Object = {"metadata": {}, "spec": {"containers": [None]}}
    with pytest.raises(Refused, match=r"null in the list spec\.containers"):
        decoding.check_types(Kinds().at(PODS), obj)


STORED: dict[str, tuple[list[Any], list[str]]] = {
    "a role binding to nothing": (others.validate_binding({}), ["roleRef.kind", "roleRef.name"]),
    "a definition that moves": (
        definitions.validate_update({"spec": {"scope": "Cluster"}}, {"spec": {"scope": "Namespaced"}}),
        ["spec.scope"],
    ),
}


@pytest.mark.parametrize(("errors", "want"), STORED.values(), ids=STORED)
def test_objects_that_are_refused(errors: list[Any], want: list[str]) -> None:
    assert [error.field for error in errors] == want


def test_a_token_ends_with_its_account() -> None:
    storage, kind = Storage(), Kinds().at(SERVICE_ACCOUNTS)
    storage.open(kind.stored, ())
    account = {"metadata": {"namespace": "n", "name": "a", "uid": "u"}}
    access = Access(storage, SystemClock())
    entry = storage.write(kind.stored, account, None)
    token = f"Bearer {access.issue(account_user('n', 'a', 'u'), 60)}"
    assert access.user(token).uid == "u"
    storage.delete(kind.stored, Key("n", "a"), entry)
    with pytest.raises(Refused):
        access.user(token)
