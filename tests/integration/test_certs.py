"""`tollbar certs --apply` against the real API server: a Secret, and webhook configurations that trust it."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509

from tollbar.api import webhooks
from tollbar.devplane.kubectl import Kubectl


def certs(plane: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tollbar.cli", "certs", "--apply", "--kubeconfig", str(plane.kubeconfig), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def configurations(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    """An installation in a namespace of another name."""
    to = webhooks.at_service(namespace)
    kubectl.apply(webhooks.pods_configuration(to), webhooks.rules_configuration(to))
    yield
    kubectl("delete", "mutatingwebhookconfiguration", webhooks.PODS_NAME)
    kubectl("delete", "validatingwebhookconfiguration", webhooks.RULES_NAME)


def bundles(kubectl: Kubectl) -> list[list[x509.Certificate]]:
    """The CAs that each webhook of ours trusts."""
    found = kubectl.json("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations")["items"]
    return [
        x509.load_pem_x509_certificates(base64.b64decode(webhook["clientConfig"]["caBundle"]))
        for each in found
        if each["metadata"]["name"] in (webhooks.PODS_NAME, webhooks.RULES_NAME)
        for webhook in each["webhooks"]
    ]


def serving(kubectl: Kubectl, namespace: str) -> x509.Certificate:
    secret = kubectl.json("get", "secret", "tollbar-webhook-tls", "-n", namespace)
    assert (secret["type"], set(secret["data"])) == ("kubernetes.io/tls", {"ca.crt", "tls.crt", "tls.key"})
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))


def test_the_secret_and_the_configurations_fit_together_and_a_rotation_keeps_the_old_trust(
    plane: Any, kubectl: Kubectl, namespace: str, configurations: None
) -> None:
    first = certs(plane)
    old = serving(kubectl, namespace)
    second = certs(plane)
    new = serving(kubectl, namespace)

    host = f"tollbar-webhook.{namespace}.svc"
    printed = json.loads(first.stdout)
    assert (first.returncode, second.returncode, printed["hosts"], printed["applied"]) == (
        0,
        0,
        [host],
        [
            "MutatingWebhookConfiguration zz-tollbar-pods",
            "ValidatingWebhookConfiguration zz-tollbar-rules",
            f"Secret {namespace}/tollbar-webhook-tls",
        ],
    ), first.stderr
    names = new.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [host]
    for newest, before in bundles(kubectl):
        new.verify_directly_issued_by(newest)
        old.verify_directly_issued_by(before)


def test_without_an_installation_it_says_what_to_do(plane: Any) -> None:
    done = certs(plane)

    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "Error: no webhook configuration of Tollbar that calls a Service: apply the manifests first\n",
    )
