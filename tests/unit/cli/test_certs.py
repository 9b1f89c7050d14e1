"""`tollbar certs`: files, mistakes, and how a webhook configuration comes to trust a new CA."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tollbar.api import webhooks
from tollbar.cli import main
from tollbar.cli.certs import issued, trusting


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["certs", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_ca_and_a_leaf_for_every_host(tmp_path: Path) -> None:
    code, printed, _ = invoke(
        "--dir", str(tmp_path / "new"), "--host", "a.example", "--host", "127.0.0.1", "-o", "json"
    )

    leaf, ca = (
        x509.load_pem_x509_certificate((tmp_path / "new" / name).read_bytes()) for name in ("tls.crt", "ca.crt")
    )
    leaf.verify_directly_issued_by(ca)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert (code, [str(name.value) for name in names]) == (0, ["a.example", "127.0.0.1"])
    assert json.loads(printed) == {
        "directory": str(tmp_path / "new"),
        "hosts": ["a.example", "127.0.0.1"],
        "expires": leaf.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "applied": [],
    }
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def test_without_a_directory_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    files = issued(None, ["webhook.ns.svc"])
    leaf, authority = (x509.load_pem_x509_certificate(files[name]) for name in ("tls.crt", "ca.crt"))
    key = serialization.load_pem_private_key(files["tls.key"], None)
    leaf.verify_directly_issued_by(authority)
    assert (files.keys(), key.public_key()) == ({"tls.crt", "tls.key", "ca.crt"}, leaf.public_key())


def test_what_is_fresh_is_kept(tmp_path: Path) -> None:
    arguments = ("--dir", str(tmp_path), "--host", "a.example")
    invoke(*arguments)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    invoke(*arguments)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


MISTAKES: dict[str, dict[str, Any]] = {
    "nothing to do": {"given": (), "want": (2, "Error: needs --dir and --host, or --apply; see `main certs --help`")},
    "no host": {
        "given": ("--dir", "x"),
        "want": (2, "Error: needs --dir and --host, or --apply; see `main certs --help`"),
    },
    "not a host": {
        "given": ("--dir", "x", "--host", "https://a"),
        "want": (1, "Error: not a DNS name or IP address: 'https://a'"),
    },
    "a directory that cannot be": {
        "given": ("--dir", "/dev/null/x", "--host", "a"),
        "want": (2, "Error: cannot write /dev/null/x: Not a directory"),
    },
    "no cluster": {
        "given": ("--apply", "--kubeconfig", "/nowhere"),
        "want": (1, "Error: no kubeconfig at /nowhere"),
    },
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    code, printed, errors = invoke(*case["given"])

    assert (code, printed, errors.splitlines()[-1]) == (case["want"][0], "", case["want"][1])


def pem(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


BUNDLES: dict[str, dict[str, Any]] = {
    "none before": {"given": None, "want": pem("new")},
    "another before is kept": {"given": encoded(pem("old")), "want": pem("new") + pem("old")},
    "only one is kept": {"given": encoded(pem("old") + pem("older")), "want": pem("new") + pem("old")},
    "the same again": {"given": encoded(pem("new") + pem("old")), "want": pem("new") + pem("old")},
    "junk is dropped": {"given": encoded("junk"), "want": pem("new")},
    "so is what is no base64": {"given": "***", "want": pem("new")},
}


@pytest.mark.parametrize("case", BUNDLES.values(), ids=BUNDLES)
def test_a_configuration_trusts_the_new_ca_and_the_one_before(case: dict[str, Any]) -> None:
    configuration = webhooks.rules_configuration(webhooks.at_service())
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = case["given"]

    assert trusting(configuration, pem("new").encode()) == (
        {"op": "test", "path": "/webhooks/0/name", "value": "rules.tollbar.dev"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": encoded(case["want"])},
    )


def test_a_webhook_by_url_is_not_changed() -> None:
    configuration = webhooks.rules_configuration(webhooks.at_url("https://127.0.0.1:1", b"own"))

    assert trusting(configuration, pem("new").encode()) == ()
