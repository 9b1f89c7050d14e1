"""The Secret with the authority and the trust of the webhook configurations, with an API server in a dictionary."""

import base64
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.manager import Managed
from objects import patching

import controllers.certificates
from tollbar.api import webhooks
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.model.resources import Resource
from tollbar.runtime import certs
from tollbar.runtime.errors import AlreadyExists, Invalid
from tollbar.views import authority
from tollbar.wellknown import SYSTEM_NAMESPACE

KEY = Key(SYSTEM_NAMESPACE, authority.SECRET)
NOW = 1_800_000_000.0
DAY = 86_400.0


@dataclass
class Clock:
    time: float = NOW

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


@dataclass
class Api:
    """Objects by kind, each of which there is one, and the calls in words."""

    objects: dict[str, Object] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    versions: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def put(self, obj: Object, **metadata: Any) -> Object:
        meta = {"uid": obj["kind"], **obj["metadata"], **metadata, "resourceVersion": str(next(self.versions))}
        self.objects[obj["kind"]] = stored = {**obj, "metadata": meta}
        return stored

    async def create(self, resource: Resource, obj: Object, namespace: str) -> Object:
        self.calls.append(f"create {resource.kind}")
        if resource.kind in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "there")
        return self.put(obj, namespace=namespace)

    async def patch(self, resource: Resource, name: str, body: Any, *, namespace: str = "") -> Object:
        self.calls.append(f"patch {resource.kind}")
        try:
            return self.put(patching.apply(self.objects[resource.kind], body))
        except patching.Refused as error:
            raise Invalid(422, "Invalid", str(error)) from None

    @property
    def trusted(self) -> list[bytes]:
        """The bundle of each configuration."""
        found = (obj["webhooks"][0]["clientConfig"] for kind, obj in self.objects.items() if kind != "Secret")
        return [base64.b64decode(config.get("caBundle") or "") for config in found]

    @property
    def authorities(self) -> authority.Authorities:
        return authority.read(self.objects.get("Secret"))


class Replica:
    """One process, which sees the API server's objects when it is told to look."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self.api = api
        self.manager = Managed(api, clock=clock)
        self.controller = controllers.certificates.setup(self.manager)

    def look(self) -> None:
        for store in self.manager.caches.stores.values():
            for key in list(store.keys()):
                if store.resource.kind not in self.api.objects:
                    store.discard(key)
        self.manager.fill(self.api.objects.values())

    async def reconcile(self) -> Outcome:
        outcome: Outcome = await self.controller.reconcile(KEY)
        return outcome

    async def settle(self) -> Outcome:
        """Until nothing more is written."""
        while True:
            before = len(self.api.calls)
            self.look()
            outcome = await self.reconcile()
            if len(self.api.calls) == before:
                return outcome


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> Api:
    made, to = Api(), webhooks.at_service()
    made.put(webhooks.pods_configuration(to))
    made.put(webhooks.rules_configuration(to))
    return made


CONFIGURATIONS = ["patch MutatingWebhookConfiguration", "patch ValidatingWebhookConfiguration"]


async def test_from_nothing_to_a_trusted_authority(api: Api, clock: Clock) -> None:
    outcome = await Replica(api, clock).settle()
    current, following = api.authorities
    assert current is not None
    assert (api.calls, outcome, api.trusted, following) == (
        ["create Secret", *CONFIGURATIONS, "patch Secret"],
        RetryAfter(3600.0),
        [current.pem.encode()] * 2,
        None,
    )


async def test_a_rotation_keeps_the_old_authority_trusted(api: Api, clock: Clock) -> None:
    replica = Replica(api, clock)
    await replica.settle()
    (old, _), api.calls[:] = api.authorities, []
    clock.time += 244 * DAY
    waiting = await replica.settle()
    between, prepared = api.authorities, list(api.calls)
    clock.time += 60.0
    await replica.settle()
    new, following = api.authorities
    assert old is not None
    assert new is not None
    assert (prepared, waiting, between, (new, following), api.trusted) == (
        ["patch Secret", *CONFIGURATIONS],
        RetryAfter(60.0),
        (old, new),
        (between.next, None),
        [(new.pem + old.pem).encode()] * 2,
    )


async def test_of_two_that_begin_at_once_one_makes_the_authority(api: Api, clock: Clock) -> None:
    first, second = Replica(api, clock), Replica(api, clock)
    for each in (first, second):
        each.look()
    outcomes = [await first.reconcile(), await second.reconcile()]
    await first.settle()
    made = api.authorities
    stale = await second.reconcile()
    await second.settle()
    assert (outcomes, stale, api.authorities == made) == (
        [DONE, Requeue("AlreadyExists")],
        Requeue("AlreadyExists"),
        True,
    )


async def test_a_write_that_somebody_else_was_quicker_with_is_refused_and_decided_again(api: Api, clock: Clock) -> None:
    replica = Replica(api, clock)
    await replica.settle()
    clock.time += 244 * DAY
    api.put(api.objects["Secret"])
    before = api.authorities
    assert (await replica.reconcile(), api.authorities) == (Requeue("Invalid"), before)


DAMAGES: dict[str, Callable[[Api], object]] = {
    "deleted": lambda api: api.objects.pop("Secret"),
    "without data": lambda api: api.put({**api.objects["Secret"], "data": None}),
    "not base64": lambda api: api.put({**api.objects["Secret"], "data": {"tls.crt": "%", "tls.key": "%"}}),
    "not PEM": lambda api: api.put({**api.objects["Secret"], "data": {"tls.crt": "bm8=", "tls.key": "bm8="}}),
    "the key of another": lambda api: api.put(
        {
            **api.objects["Secret"],
            "data": {
                **api.objects["Secret"]["data"],
                "tls.key": authority.data_of(authority.Authorities(certs.new_authority(NOW, DAY)))["tls.key"],
            },
        }
    ),
    "a certificate that may not sign": lambda api: api.put(
        {
            **api.objects["Secret"],
            "data": authority.data_of(authority.Authorities(certs.issue(the(api), ["a.example"], NOW, DAY))),
        }
    ),
}


def the(api: Api) -> Any:
    current = api.authorities.current
    assert current is not None
    return current


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_what_is_lost_is_made_anew_and_what_was_trusted_stays_so(
    api: Api, clock: Clock, damage: Callable[[Api], object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    replica = Replica(api, clock)
    await replica.settle()
    lost = the(api)
    clock.time += DAY
    damage(api)
    waiting = await replica.settle()
    unsigned = api.authorities.current
    clock.time += 60.0
    await replica.settle()
    assert (waiting, unsigned, api.trusted) == (RetryAfter(60.0), None, [(the(api).pem + lost.pem).encode()] * 2)
    assert "made a new authority" in caplog.messages


OTHERS: dict[str, Callable[[Object], Object]] = {
    "by URL": lambda _: {},
    "a Service of another namespace": lambda each: {"service": {**each["service"], "namespace": "elsewhere"}},
}


@pytest.mark.parametrize("to", OTHERS.values(), ids=OTHERS)
async def test_where_no_webhook_of_ours_is_called_by_a_service_no_secret_is_made(
    api: Api, clock: Clock, to: Callable[[Object], Object]
) -> None:
    for kind, obj in list(api.objects.items()):
        config = to(obj["webhooks"][0]["clientConfig"])
        api.put({**obj, "webhooks": [{**obj["webhooks"][0], "clientConfig": config}]})
        assert kind in api.objects
    assert (await Replica(api, clock).settle(), api.calls) == (DONE, [])


async def test_what_cert_manager_injects_is_left_alone(api: Api, clock: Clock) -> None:
    for obj in list(api.objects.values()):
        api.put(obj, annotations={"cert-manager.io/inject-ca-from": "a/b"})
    assert (await Replica(api, clock).settle(), api.calls) == (DONE, [])


async def test_a_bundle_that_somebody_overwrites_is_written_again(api: Api, clock: Clock) -> None:
    replica = Replica(api, clock)
    await replica.settle()
    (want, _), api.calls[:] = api.trusted, []
    pods = api.objects["MutatingWebhookConfiguration"]
    config = {**pods["webhooks"][0]["clientConfig"], "caBundle": "bm8="}
    api.put({**pods, "webhooks": [{**pods["webhooks"][0], "clientConfig": config}]})
    await replica.settle()
    assert (api.calls, api.trusted) == (CONFIGURATIONS[:1], [want, want])


async def test_when_the_authority_expires_is_a_metric(api: Api, clock: Clock) -> None:
    replica = Replica(api, clock)
    await replica.settle()
    name = "tollbar_certificate_authority_expiry_timestamp_seconds"
    assert replica.manager.metrics.registry.get_sample_value(name) == NOW + 365 * DAY
