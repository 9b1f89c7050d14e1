"""Certificates: when they are made anew, what they say, and that Python's TLS accepts them."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from tollbar.runtime import certs

NOW = 1_800_000_000.0
DAY = 86_400.0
HOSTS = ["tollbar-webhook.tollbar-system.svc", "127.0.0.1", "::1"]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in after if before.get(name) != after[name]}


def bundle(directory: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates((directory / "ca.crt").read_bytes())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    assert certs.ensure(tmp_path / "tls", HOSTS, NOW)
    return tmp_path / "tls"


def test_an_empty_directory_gets_a_ca_and_a_leaf(made: Path) -> None:
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in made.iterdir()}
    assert modes == {"ca.crt": "0o644", "ca.key": "0o600", "tls.crt": "0o644", "tls.key": "0o600"}


def test_lifetimes_are_a_year_and_thirty_days(made: Path) -> None:
    lifetimes = [(certs.expiry(made / name) - NOW) / DAY for name in ("ca.crt", "tls.crt")]
    assert lifetimes == [365, 30]


def test_the_leaf_names_the_hosts_and_nothing_else(made: Path) -> None:
    leaf = x509.load_pem_x509_certificate((made / "tls.crt").read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == HOSTS


TIMES: dict[str, tuple[float, set[str]]] = {
    "a new certificate is kept": (0, set()),
    "and still after 19 days": (19, set()),
    "the leaf is renewed after 20 of its 30 days": (20.1, {"tls.crt", "tls.key"}),
    "and when it has expired": (31, {"tls.crt", "tls.key"}),
    "the CA stays for 243 of its 365 days": (243, {"tls.crt", "tls.key"}),
    "and is renewed, with the leaf, after that": (244, {"ca.crt", "ca.key", "tls.crt", "tls.key"}),
    "a clock that was set back years makes new ones": (-1000, {"ca.crt", "ca.key", "tls.crt", "tls.key"}),
}


@pytest.mark.parametrize(("days", "want"), TIMES.values(), ids=TIMES)
def test_time_decides_what_is_renewed(made: Path, days: float, want: set[str]) -> None:
    before = contents(made)
    result = certs.ensure(made, HOSTS, NOW + days * DAY)
    assert (changed(before, contents(made)), result) == (want, bool(want))


DAMAGE: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "the leaf is missing": (lambda d: (d / "tls.crt").unlink(), {"tls.crt", "tls.key"}),
    "the leaf is garbage": (lambda d: (d / "tls.crt").write_text("no"), {"tls.crt", "tls.key"}),
    "the key is garbage": (lambda d: (d / "tls.key").write_text("no"), {"tls.crt", "tls.key"}),
    "the key is another's": (
        lambda d: (d / "tls.key").write_bytes((d / "ca.key").read_bytes()),
        {"tls.crt", "tls.key"},
    ),
    "the CA is missing": (lambda d: (d / "ca.crt").unlink(), {"ca.crt", "ca.key", "tls.crt", "tls.key"}),
    "the CA's key is missing, which only a renewal needs": (lambda d: (d / "ca.key").unlink(), set()),
}


@pytest.mark.parametrize(("damage", "want"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_made_anew(made: Path, damage: Callable[[Path], object], want: set[str]) -> None:
    before = contents(made)
    damage(made)
    certs.ensure(made, HOSTS, NOW)
    assert changed(before, contents(made)) == want


HOST_CHANGES = {
    "the same hosts in another order are the same": (["::1", "127.0.0.1", HOSTS[0], HOSTS[0]], False),
    "one host less is another leaf": (HOSTS[:2], True),
    "one host more is another leaf": ([*HOSTS, "localhost"], True),
}


@pytest.mark.parametrize(("hosts", "want"), HOST_CHANGES.values(), ids=HOST_CHANGES)
def test_other_hosts_make_another_leaf(made: Path, hosts: list[str], want: bool) -> None:
    assert certs.ensure(made, hosts, NOW) is want


def test_an_old_ca_is_trusted_until_it_expires(made: Path) -> None:
    first = bundle(made)
    certs.ensure(made, HOSTS, NOW + 244 * DAY)
    second = bundle(made)
    certs.ensure(made, HOSTS, NOW + 488 * DAY)
    third = bundle(made)
    assert (second[1:], third[1:]) == (first, second[:1])


def test_a_new_ca_comes_with_a_leaf_when_the_key_of_the_old_is_lost(made: Path) -> None:
    old = bundle(made)
    (made / "ca.key").unlink()
    certs.ensure(made, HOSTS, NOW + 21 * DAY)
    assert (len(bundle(made)), bundle(made)[1:]) == (2, old)


BAD_HOSTS = {
    "no host at all": ([], "a certificate needs at least one host"),
    "a URL": (["https://x"], "not a DNS name or IP address: 'https://x'"),
    "an address with a port": (["127.0.0.1:8443"], "not a DNS name or IP address: '127.0.0.1:8443'"),
    "an empty name": ([""], "not a DNS name or IP address: ''"),
    "a name that is not ASCII": (["grüße"], "not a DNS name or IP address: 'grüße'"),
}


@pytest.mark.parametrize(("hosts", "want"), BAD_HOSTS.values(), ids=BAD_HOSTS)
def test_a_host_that_cannot_be_named_is_refused_before_anything_is_written(
    tmp_path: Path, hosts: list[str], want: str
) -> None:
    with pytest.raises(ValueError, match=r"^") as caught:
        certs.ensure(tmp_path / "tls", hosts, NOW)
    assert (str(caught.value), list(tmp_path.iterdir())) == (want, [])


def test_a_failed_write_leaves_the_old_files(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(made)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        certs.ensure(made, HOSTS, NOW + 400 * DAY)
    assert contents(made) == before


@pytest.mark.parametrize("host", HOSTS)
def test_a_tls_client_that_trusts_the_bundle_accepts_the_leaf(tmp_path: Path, host: str) -> None:
    now = time.time()
    certs.ensure(tmp_path, HOSTS, now - 300 * DAY)
    certs.ensure(tmp_path, HOSTS, now)  # the bundle now holds two CAs
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client_context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    assert (done, client.version()) == ({client, server}, "TLSv1.3")
