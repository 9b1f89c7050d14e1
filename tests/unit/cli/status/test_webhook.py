"""What `tollbar status` finds at the address of the webhook, which is a real listener here, and what it cannot try."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme
from cryptography import x509
from objects.builders import Built

from tollbar.api import webhooks
from tollbar.cli.reading import Reading
from tollbar.cli.status.handshake import Handshake, shake_hands
from tollbar.cli.status.webhook import Admission, Configurations, Webhook, look
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.errors import ApiError, Forbidden, Invalid

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def listening(leaf: trustme.LeafCert) -> AsyncIterator[int]:
    """The port of a listener with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), HOST, 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


def expiry(leaf: trustme.LeafCert) -> float:
    return x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).not_valid_after_utc.timestamp()


async def shaken(ca: trustme.CA, port: int, *, timeout: float = 30.0) -> Handshake:
    return await shake_hands(HOST, port, server_name=HOST, bundle=ca.cert_pem.bytes(), timeout=timeout)


async def test_a_certificate_that_the_bundle_signed_is_trusted(ca: trustme.CA) -> None:
    leaf = ca.issue_cert(HOST)
    async with listening(leaf) as port:
        assert await shaken(ca, port) == Handshake("", expiry(leaf))


async def test_a_certificate_that_is_its_own_anchor_is_trusted_as_go_trusts_it(ca: trustme.CA) -> None:
    leaf = ca.issue_cert(HOST)
    async with listening(leaf) as port:
        found = await shake_hands(HOST, port, server_name=HOST, bundle=leaf.cert_chain_pems[0].bytes())
    assert found == Handshake("", expiry(leaf))


async def test_an_expired_certificate(ca: trustme.CA) -> None:
    async with listening(ca.issue_cert(HOST, not_after=LONG_AGO)) as port:
        assert await shaken(ca, port) == Handshake(
            "the certificate, or its CA, has expired: the certificate at 2020-01-01T00:00:00Z", LONG_AGO.timestamp()
        )


async def test_a_certificate_of_another_ca(ca: trustme.CA) -> None:
    leaf = trustme.CA().issue_cert(HOST)
    async with listening(leaf) as port:
        assert await shaken(ca, port) == Handshake(
            "the CA bundle does not fit the certificate: unable to get local issuer certificate", expiry(leaf)
        )


async def test_a_certificate_for_another_name(ca: trustme.CA) -> None:
    leaf = ca.issue_cert("10.9.8.7")
    async with listening(leaf) as port:
        assert await shaken(ca, port) == Handshake("the certificate is not for 127.0.0.1", expiry(leaf))


async def test_nothing_listens(ca: trustme.CA) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
        assert await shaken(ca, port) == Handshake(f"nothing listens at 127.0.0.1:{port}")


async def test_no_answer(ca: trustme.CA) -> None:
    with socket.create_server((HOST, 0)) as silent:  # the kernel takes the connection, and nobody reads
        port = silent.getsockname()[1]
        assert await shaken(ca, port, timeout=0.1) == Handshake(f"no answer at 127.0.0.1:{port} within 0.1 s")


@pytest.mark.parametrize("bundle", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
async def test_a_bundle_that_is_none(bundle: bytes) -> None:
    assert await shake_hands(HOST, 1, server_name=HOST, bundle=bundle) == Handshake("the CA bundle cannot be read")


@dataclass
class Server:
    """An API server with these objects, by plural; `dry_run` is what it answers to the broken rule."""

    found: dict[str, list[Object]] = field(default_factory=dict)
    dry_run: ApiError | None = None
    host: str = "https://127.0.0.1:6443"

    async def list(self, res: Resource, *_: Any, **__: Any) -> Object:
        return {"items": self.found.get(res.plural, [])}

    async def raw(self, *_: Any, **__: Any) -> bytes:
        if self.dry_run is not None:
            raise self.dry_run
        return b"{}"


async def seen(server: Server) -> Admission:
    client: Any = server
    reading = Reading(client)
    return await look(reading, await Configurations.read(reading))


def configurations(to: webhooks.ClientConfig) -> dict[str, list[Object]]:
    return {
        "mutatingwebhookconfigurations": [
            webhooks.pods_configuration(to),
            {"metadata": {"name": "x"}, "webhooks": [{}]},
        ],
        "validatingwebhookconfigurations": [webhooks.rules_configuration(to)],
    }


def both(webhook: Webhook) -> dict[str, Any]:
    return {"pods": (webhook,), "rules": (replace(webhook, configuration="zz-tollbar-rules"),)}


def at_service(ca: trustme.CA) -> webhooks.ClientConfig:
    bundle = base64.b64encode(ca.cert_pem.bytes()).decode()
    return lambda path: {**webhooks.at_service()(path), "caBundle": bundle}


def endpoints(service: str, *ready: bool | None) -> Object:
    conditions = [{} if each is None else {"ready": each} for each in ready]
    labels = {"kubernetes.io/service-name": service}
    return Built(
        metadata={"name": f"{service}-x1", "labels": labels}, endpoints=[{"conditions": c} for c in conditions]
    )


SERVICE = "tollbar-webhook.tollbar-system.svc"
REFUSED = Invalid(422, "Invalid", 'admission webhook "rules.tollbar.dev" denied the request: no')


async def test_a_webhook_at_a_url_is_tried(ca: trustme.CA) -> None:
    leaf = ca.issue_cert(HOST)
    async with listening(leaf) as port:
        to = webhooks.at_url(f"https://{HOST}:{port}", ca.cert_pem.bytes())
        found = await seen(Server(configurations(to), REFUSED))
    trusted = Webhook("zz-tollbar-pods", f"{HOST}:{port}", "", expires=expiry(leaf))
    assert found == Admission(**both(trusted), by_policy=False, called=True)


async def test_a_url_on_the_loopback_of_another_machine_is_not_tried(ca: trustme.CA) -> None:
    to = webhooks.at_url(f"https://{HOST}:1", ca.cert_pem.bytes())
    found = await seen(Server(configurations(to), REFUSED, host="https://10.0.0.1:6443"))
    not_tried = Webhook("zz-tollbar-pods", f"{HOST}:1", "", "it is on the API server's own machine")
    assert found == Admission(**both(not_tried), by_policy=False, called=True)


ENDPOINTS: dict[str, tuple[list[Object], int]] = {
    "none": ([], 0),
    "none is ready": ([endpoints("tollbar-webhook", False, False)], 0),
    "some are, in several slices": (
        [endpoints("tollbar-webhook", True, False), endpoints("tollbar-webhook", True, None)],
        3,
    ),
    "those of another Service": ([endpoints("other", True)], 0),
}


@pytest.mark.parametrize(("slices", "want"), ENDPOINTS.values(), ids=ENDPOINTS)
async def test_of_a_service_the_endpoints_are_counted_where_its_name_has_no_address(
    ca: trustme.CA, slices: list[Object], want: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio, "open_connection", fails)
    found = await seen(Server({**configurations(at_service(ca)), "endpointslices": slices}, REFUSED))
    not_tried = Webhook("zz-tollbar-pods", f"{SERVICE}:443", "", f"{SERVICE} has no address here", want)
    assert found == Admission(**both(not_tried), by_policy=False, called=True)


CALLED: dict[str, tuple[ApiError | None, bool | None]] = {
    "the webhook refuses the rule": (REFUSED, True),
    "the rule passes": (None, False),
    "the user may not create rules": (Forbidden(403, "Forbidden", "no"), None),
    "somebody else refuses it": (Invalid(422, "Invalid", 'admission webhook "x.example.com" denied the request'), None),
}


@pytest.mark.parametrize(("answer", "want"), CALLED.values(), ids=CALLED)
async def test_the_api_server_itself_is_asked_in_a_dry_run(answer: ApiError | None, want: bool | None) -> None:
    to = webhooks.at_url("https://127.0.0.1:1", b"")
    assert (await seen(Server(configurations(to), answer))).called is want


async def test_without_a_webhook_a_policy_may_be_in_its_place() -> None:
    binding = Built(metadata={"name": "tollbar-gate", "labels": {"app.kubernetes.io/name": "tollbar"}})
    assert [
        await seen(Server({})),
        await seen(Server({"mutatingadmissionpolicybindings": [binding]})),
    ] == [Admission((), (), by_policy=False, called=None), Admission((), (), by_policy=True, called=None)]


def kueue(name: str, *, service: str = "kueue-webhook-service", path: str = "/mutate--v1-pod") -> Object:
    config = {"service": {"namespace": "kueue-system", "name": service, "path": path}}
    return {
        "metadata": {"name": name},
        "webhooks": [{"name": "mjob.kb.io"}, {"name": "mpod.kb.io", "clientConfig": config}],
    }


LATE: dict[str, tuple[Object, bool]] = {
    "as Kueue names it": (kueue("kueue-mutating-webhook-configuration"), False),
    "after ours": (kueue("zzz-kueue"), True),
    "after ours, known by its Service": (kueue("zzz-queue"), True),
    "after ours, without Pods": (kueue("zzz-kueue", path="/mutate-batch-v1-job"), False),
    "somebody else's": (kueue("zzz-other", service="other"), False),
}


@pytest.mark.parametrize(("other", "is_late"), LATE.values(), ids=LATE)
async def test_kueue_has_to_be_called_before_tollbar(other: Object, is_late: bool) -> None:
    found = configurations(webhooks.at_url("https://127.0.0.1:1", b""))
    found["mutatingwebhookconfigurations"].append(other)
    name = other["metadata"]["name"]
    admission = await seen(Server(found, REFUSED))
    assert admission.late_kueue == ((name,) if is_late else ())
    assert [name in problem for problem in admission.problems(0.0)].count(True) == is_late
