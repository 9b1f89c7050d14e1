"""The webhook's certificates beside a real API server, which calls it by its Service: made, renewed and mended.

The API server resolves a Service of type ExternalName without a network of Pods, and verifies the Service's own name.
"""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from processes.stack import Process, Stack, eventually, patient

from tollbar.api import webhooks
from tollbar.cli.status.handshake import shake_hands
from tollbar.devplane.ports import free_ports
from tollbar.model.certificates import AUTHORITY_LIFETIME
from tollbar.model.objects import Object
from tollbar.runtime import certs
from tollbar.wellknown import GATE, LABEL_GATE, SYSTEM_NAMESPACE

SECRET = ("secret", "tollbar-webhook-ca", "-n", SYSTEM_NAMESPACE)
HOST = f"{webhooks.SERVICE_NAME}.{SYSTEM_NAMESPACE}.svc"
UNSIGNED: dict[str, object] = {"webhook__certFile": "", "webhook__keyFile": ""}
SHORT: dict[str, object] = {
    "certificates__authorityLifetime": "24s",
    "certificates__certificateLifetime": "9s",
    "certificates__prePublication": "3s",
}
TRIED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "tried-", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "example.com/app"}], "schedulingGates": [{"name": GATE}]},
}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _without_an_authority(stack: Stack) -> Iterator[None]:
    """Every test finds none; the namespace outlives the installation, those of other modules too."""
    stack.plane.kubectl("delete", "--ignore-not-found", *SECRET)
    yield
    stack.unregister()
    stack.plane.kubectl("delete", "--ignore-not-found", *SECRET)


def register(stack: Stack) -> None:
    """The webhook configurations as they are shipped, but for the port, and a Service that leads to this machine."""
    kubectl, to = stack.plane.kubectl, webhooks.at_service()

    def here(path: str) -> Object:
        return {"service": {**to(path)["service"], "port": stack.serving}}

    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": webhooks.SERVICE_NAME, "namespace": SYSTEM_NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    kubectl("delete", "--ignore-not-found", "service", webhooks.SERVICE_NAME, "-n", SYSTEM_NAMESPACE)
    kubectl.apply(service, *map(patient, (webhooks.pods_configuration(here), webhooks.rules_configuration(here))))


def is_decided(stack: Stack) -> bool:
    """Whether the webhook has been asked about a Pod that is created now."""
    created = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    pod = json.loads(stack.plane.kubectl(*created, stdin=json.dumps(TRIED)))
    return LABEL_GATE in pod["metadata"].get("labels", {})


def bundle(stack: Stack) -> bytes:
    """What the API server trusts, the same for both webhooks."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    found = stack.plane.kubectl.json("get", kinds, "-l", "app.kubernetes.io/name=tollbar")["items"]
    texts = {webhook["clientConfig"].get("caBundle", "") for each in found for webhook in each["webhooks"]}
    return base64.b64decode(texts.pop()) if len(texts) == 1 else b""


def problem(port: int, trusted: bytes) -> str:
    return asyncio.run(shake_hands("127.0.0.1", port, server_name=HOST, bundle=trusted)).problem


def signing(stack: Stack) -> str:
    """The current authority."""
    data: dict[str, Any] = stack.plane.kubectl.json("get", *SECRET).get("data") or {}
    return str(data.get("tls.crt", ""))


def undecided_until(stack: Stack, holds: Callable[[], bool], what: str) -> int:
    """How many Pods are created past the webhook until this holds: one is created each time before that is asked."""
    missed = 0

    def tried() -> bool:
        nonlocal missed
        missed += not is_decided(stack)
        return holds()

    eventually(tried, seconds=120, what=what)
    return missed


def signed(process: Process) -> int:
    return process.said("signed a certificate")


def test_two_replicas_serve_certificates_of_one_authority_that_nobody_made_for_them(stack: Stack) -> None:
    (other,) = free_ports(1)
    first = stack.start("first", "webhooks", ready=False, **UNSIGNED)
    second = stack.start("second", "webhooks", ready=False, webhook__port=other, **UNSIGNED)
    eventually(lambda: first.said("has no authority that can be used"), what="it waits for an authority")
    register(stack)
    leading = {"leaderElection__enabled": True}
    stack.controllers("one", **leading)
    stack.controllers("two", **leading)
    eventually(lambda: first.is_ready() and second.is_ready(), what="both have a certificate")
    eventually(lambda: is_decided(stack), what="the API server calls the webhook")
    trusted = bundle(stack)
    problems = [problem(port, trusted) for port in (stack.serving, other)]
    status = [line for line in stack.tollbar("status").stdout.splitlines() if line.startswith("problem")]
    assert (trusted.count(b"BEGIN CERTIFICATE"), problems, [line for line in status if "certificate" in line]) == (
        1,
        ["", ""],
        [],
    )
    assert not [line for line in status if "CA bundle" in line or "gets no answer" in line]


def test_pods_are_decided_while_the_authority_and_the_certificates_are_renewed(stack: Stack) -> None:
    stack.controllers(**SHORT)
    register(stack)
    webhook = stack.webhook(**UNSIGNED, **SHORT)
    eventually(lambda: is_decided(stack), what="the API server calls the webhook")
    seen = {signing(stack)}

    def renewed_twice() -> bool:
        seen.add(signing(stack))
        return len(seen) > 2

    missed = undecided_until(stack, renewed_twice, "two more authorities")
    certificates = signed(webhook)
    missed += undecided_until(stack, lambda: signed(webhook) > certificates, "signed by the last one")
    expiry = webhook.metrics()["tollbar_certificate_expiry_timestamp_seconds"][""]
    authority = stack.running["controllers"].metrics()
    assert (missed, expiry <= authority["tollbar_certificate_authority_expiry_timestamp_seconds"][""]) == (0, True)


DAMAGES: dict[str, tuple[str, ...]] = {
    "deleted": ("delete", *SECRET),
    "filled with rubbish": (
        "patch",
        *SECRET,
        "--type=merge",
        "-p",
        '{"data": {"tls.crt": "bm8=", "next.crt": "bm8="}}',
    ),
    "emptied": ("patch", *SECRET, "--type=json", "-p", '[{"op": "remove", "path": "/data"}]'),
}


def test_after_a_year_in_which_nothing_ran_all_is_made_anew_and_no_creation_fails(stack: Stack) -> None:
    """By the clock, the authority and all that it has signed have expired."""
    kubectl, year = stack.plane.kubectl, 366 * 86400.0
    old = certs.new_authority(time.time() - year, AUTHORITY_LIFETIME)
    files = (f"--from-literal=tls.crt={old.pem}", f"--from-literal=tls.key={old.key}")
    kubectl("create", "secret", "generic", SECRET[1], *SECRET[2:], *files)
    register(stack)
    trusted = {"webhooks": [{"name": "pods.tollbar.dev", "clientConfig": {"caBundle": encoded(old.pem)}}]}
    kubectl("patch", "mutatingwebhookconfiguration", webhooks.PODS_NAME, "-p", json.dumps(trusted))
    webhook = stack.start("webhook", "webhooks", ready=False, **UNSIGNED)
    eventually(lambda: webhook.said("no authority that can be used"), what="the expired one is not used")
    assert not is_decided(stack)
    controllers = stack.controllers(certificates__prePublication="3s")
    eventually(lambda: is_decided(stack), what="decided again")
    assert (signed(webhook), controllers.said("made a new authority")) == (1, 1)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_secret_that_somebody_deletes_or_damages_is_made_anew_and_no_pod_misses_it(stack: Stack) -> None:
    soon = {"certificates__prePublication": "3s"}
    controllers = stack.controllers(**soon)
    register(stack)
    webhook = stack.webhook(**UNSIGNED, **soon)
    eventually(lambda: is_decided(stack), what="the API server calls the webhook")
    missed = {}
    for name, damage in DAMAGES.items():
        before = signed(webhook)
        stack.plane.kubectl(*damage)
        missed[name] = undecided_until(stack, lambda before=before: signed(webhook) > before, f"mended: {name}")
        eventually(lambda: problem(stack.serving, bundle(stack)) == "", what=f"trusted: {name}")
    warned = controllers.said("the Secret has no authority that can be used, a new one is made")
    assert (missed, warned) == (dict.fromkeys(DAMAGES, 0), 2)
