"""`--metrics-secure` on a real API server, with the rights of the component metrics-auth: who may read /metrics."""

import http.client
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from integration.following import settles
from planes.policies import binding
from processes.stack import ROOT, Process, Stack, installed

from tollbar.devplane.kubectl import Kubectl

RIGHTS = str(ROOT / "manifests/components/metrics-auth/rights.yaml")
READER = "system:serviceaccount:default:reader"


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Only there are tokens and rights what they are in a cluster."""
    return real_plane


@pytest.fixture(scope="module")
def stack(plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def process(stack: Stack) -> Iterator[Process]:
    """The webhook, which has no other right to create anything."""
    yield stack.webhook(metrics__secure=True)
    stack.running["webhook"].stop()


def test_who_may_read_the_metrics(stack: Stack, process: Process, kubectl: Kubectl) -> None:
    role = binding("tollbar-metrics-reader", READER)
    accounts = {
        name: yaml.safe_load(stack.plane.service_account_kubeconfig("default", name).read_text())
        for name in ("reader", "default")
        if name == "default" or kubectl("create", "serviceaccount", "reader", "-n", "default")
    }
    tokens = {name: config["users"][0]["user"]["token"] for name, config in accounts.items()}
    port = process.metrics_port
    try:
        assert scraped(port, tokens["reader"])[0] == 503, "without rights of its own it cannot ask"
        kubectl("apply", "--server-side", "-f", RIGHTS)
        kubectl.apply(role)
        settles(lambda: scraped(port, tokens["reader"])[0], 200)
        seen = {name: scraped(port, token)[0] for name, token in (*tokens.items(), ("nobody", ""), ("forged", "x.y.z"))}
        text = scraped(port, tokens["reader"])[1]
    finally:
        kubectl("delete", "--ignore-not-found", "-f", RIGHTS)
        kubectl("delete", "--ignore-not-found", f"clusterrolebinding/{role['metadata']['name']}")
        kubectl("delete", "serviceaccount", "reader", "-n", "default")
    assert seen == {"reader": 200, "default": 403, "nobody": 401, "forged": 401}
    assert "tollbar_build_info" in text
    with pytest.raises(http.client.RemoteDisconnected):
        asked(http.client.HTTPConnection("127.0.0.1", port, timeout=10), tokens["reader"])


def scraped(port: int, token: str) -> tuple[int, str]:
    """Status and body, for whoever has this token; the certificate is signed by nobody."""
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    return asked(http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=blind), token)


def asked(connection: http.client.HTTPConnection, token: str) -> tuple[int, str]:
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text
