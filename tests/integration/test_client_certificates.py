"""A webhook that insists on client certificates, and an API server that shows one (docs/tasks/restrict-access.md).

Needs flags of kube-apiserver, so a control plane of its own.
"""

import http.client
import ssl
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import trustme
import yaml
from processes.stack import Stack

from tollbar.api.webhooks import PODS_PATH
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import API_SERVER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

pytestmark = pytest.mark.timeout(300)


def admission(directory: Path, client: trustme.LeafCert) -> Path:
    """The file for --admission-control-config-file, with a kubeconfig for the webhooks at every address."""
    pem = directory / "client.pem"
    client.private_key_and_cert_chain_pem.write_to_path(str(pem))
    credentials = {"client-certificate": str(pem), "client-key": str(pem)}
    kubeconfig = directory / "webhooks.kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": credentials}]})
    )
    group = "apiserver.config.k8s.io/v1"
    configuration = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
    plugins = [
        {"name": name, "configuration": configuration}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    file = directory / "admission.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return file


def test_the_api_server_is_served_by_its_certificate_and_nobody_else_is(binaries: Binaries, tmp_path: Path) -> None:
    ca, client_ca = trustme.CA(), tmp_path / "client-ca.crt"
    ca.cert_pem.write_to_path(str(client_ca))
    flags = (f"--admission-control-config-file={admission(tmp_path, ca.issue_cert('kube-apiserver'))}",)
    options = Options(scheduler=False, flags={API_SERVER: flags})
    with RealPlane(binaries, tmp_path / "plane", options) as plane, ExitStack() as ending:
        stack = Stack(plane, tmp_path)
        ending.callback(stack.stop)
        stack.install()
        stack.webhook(webhook__clientCAFile=str(client_ca))
        stack.register()  # returns when the webhook has refused a rule and changed a Pod
        trust = ssl.create_default_context(cadata=stack.authority.decode())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(stack.serving, trust)


def ask(port: int, trust: ssl.SSLContext) -> int:
    """The status of the answer to a client without a certificate."""
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=trust)) as connection:
        connection.request("POST", PODS_PATH, "{}")
        return connection.getresponse().status
