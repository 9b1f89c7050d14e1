"""The certificate: loaded when it is there, replaced while the server runs, kept when the new one is broken."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fakes.manager import Managed
from unit.webhooks.serving import PATIENT

from tollbar.model.certificates import KeyPair
from tollbar.model.objects import Object
from tollbar.runtime import certs
from tollbar.runtime.config import Address
from tollbar.runtime.metrics import Metrics
from tollbar.views import authority
from tollbar.views.authority import Authorities
from webhooks.review import Answer
from webhooks.server import AdmissionServer
from webhooks.tls import POLL_SECONDS, FileCertificate, SignedCertificate

NONE_FOUND = "no usable certificate has been found"
DAY = 86_400.0
EXPIRED = "the certificate has expired"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ENCRYPTED_KEY = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)


@dataclass
class StepClock:
    """Sleeping ends when the test says so."""

    time: float = 1_700_000_000.0
    sleeping: "asyncio.Queue[float]" = field(default_factory=asyncio.Queue)
    wake: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.sleeping.put_nowait(seconds)
        await self.wake.acquire()
        self.time += seconds


class Files:
    """A pair of PEM files, written at once, half, or wrongly."""

    def __init__(self, directory: Path, ca: trustme.CA) -> None:
        self.cert, self.key = directory / "tls.crt", directory / "tls.key"
        self._ca = ca
        self._writes = 0

    def issue(self, *, expired: bool = False) -> trustme.LeafCert:
        return self._ca.issue_cert("127.0.0.1", not_after=LONG_AGO if expired else None)

    def write(self, leaf: trustme.LeafCert, key: trustme.LeafCert | None = None) -> str:
        """The serial number; `key` is another certificate, whose key is written."""
        pem = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        self.put(self.cert, pem)
        self.put(self.key, (key or leaf).private_key_pem.bytes())
        return serial(x509.load_pem_x509_certificate(pem))

    def put(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self._writes += 1
        os.utime(path, (self._writes, self._writes))  # two writes within one tick of the file system's clock


class Server:
    """A certificate that is looked after, and a server that uses it."""

    def __init__(self, files: Files, trust: ssl.SSLContext, metrics: Metrics, client_ca_file: str = "") -> None:
        self.clock = StepClock()
        self.certificate = FileCertificate(
            str(files.cert), str(files.key), client_ca_file, clock=self.clock, metrics=metrics
        )
        self.metrics = metrics
        self.trust = trust
        self._server = AdmissionServer(
            Address("127.0.0.1", 0),
            self.certificate.context,
            {"/": lambda _: Answer()},
            clock=self.clock,
            metrics=metrics,
            limits=PATIENT,
        )
        self._stop = asyncio.Event()

    async def start(self) -> None:
        self._serving = asyncio.create_task(self._server.run(self._stop))
        self._looking = asyncio.create_task(self.certificate.run())
        await self._server.listening.wait()
        self.polls = [await self.clock.sleeping.get()]

    async def poll(self) -> None:
        """The next look at the files."""
        self.clock.wake.release()
        self.polls.append(await self.clock.sleeping.get())

    async def connect(self) -> "Connection":
        return Connection(*await asyncio.open_connection("127.0.0.1", self._server.port, ssl=self.trust))

    async def serial(self) -> str:
        """Which certificate a new client sees."""
        connection = await self.connect()
        connection.writer.close()
        return connection.serial

    def expiry(self) -> float | None:
        return self.metrics.registry.get_sample_value("tollbar_certificate_expiry_timestamp_seconds")

    def reads(self) -> tuple[float | None, float | None]:
        """Attempts to load the files, and those that failed."""
        value = self.metrics.registry.get_sample_value
        return value("certwatcher_read_certificate_total"), value("certwatcher_read_certificate_errors_total")

    async def stop(self) -> None:
        self._looking.cancel()
        self._stop.set()
        await self._serving


@dataclass
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def serial(self) -> str:
        der = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return serial(x509.load_der_x509_certificate(der))

    async def status(self) -> bytes:
        """Of an answer to a request on this connection."""
        self.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: "))
        await self.reader.readexactly(int(length.split()[1]))
        return head.split(b"\r\n")[0]


def serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"


@pytest.fixture
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, ca: trustme.CA) -> Files:
    return Files(tmp_path, ca)


@pytest.fixture
async def server(files: Files, ca: trustme.CA, metrics: Metrics) -> AsyncIterator[Server]:
    trust = ssl.create_default_context()
    ca.configure_trust(trust)
    server = Server(files, trust, metrics)
    yield server
    await server.stop()


async def test_a_new_certificate_serves_new_connections_while_old_ones_go_on(server: Server, files: Files) -> None:
    first = files.write(files.issue())
    await server.start()
    old = await server.connect()
    before = await old.status()
    second = files.write(files.issue())
    await server.poll()
    new = await server.serial()
    assert (old.serial, before, new, await old.status(), server.polls) == (
        first,
        b"HTTP/1.1 400 Bad Request",
        second,
        b"HTTP/1.1 400 Bad Request",
        [POLL_SECONDS] * 2,
    )
    old.writer.close()


async def test_a_broken_pair_is_reported_once_and_the_old_one_stays_until_it_is_whole(
    server: Server, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="webhooks.tls")
    good = files.write(files.issue())
    await server.start()
    seen = []
    breakages = (
        lambda: files.write(files.issue(), key=files.issue()),
        lambda: files.put(files.cert, b"-----BEGIN CERTIFICATE-----\nAAAA"),
        lambda: files.put(files.key, b""),
        lambda: files.key.unlink(),
    )
    for break_it in breakages:
        break_it()
        await server.poll()
        await server.poll()
        seen.append(await server.serial())
    whole = files.write(files.issue())
    await server.poll()
    seen.append(await server.serial())
    lines = [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records]
    loaded, refused = ("INFO", "loaded the certificate", None), ("ERROR", "cannot use the certificate", None)
    assert (seen, lines, server.reads()) == ([good] * 4 + [whole], [loaded, *[refused] * 4, loaded], (6.0, 4.0))


async def test_there_is_a_problem_until_there_are_files(server: Server, files: Files) -> None:
    await server.start()
    before = server.certificate.problem()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await server.connect()
    wanted = files.write(files.issue())
    await server.poll()
    assert (before, await server.serial(), server.certificate.problem()) == (NONE_FOUND, wanted, None)


async def test_an_expired_certificate_is_a_problem_and_measured(server: Server, files: Files) -> None:
    files.write(files.issue(expired=True))
    await server.start()
    assert (server.certificate.problem(), server.expiry()) == (EXPIRED, LONG_AGO.timestamp())


async def test_a_certificate_becomes_a_problem_when_it_expires(server: Server, files: Files) -> None:
    files.write(files.issue())
    await server.start()
    before = server.certificate.problem()
    server.clock.time = server.expiry() or 0.0
    assert (before, server.certificate.problem()) == (None, EXPIRED)


async def test_a_key_with_a_passphrase_is_refused_without_asking_for_it(
    server: Server, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    leaf = files.issue()
    files.write(leaf)
    files.put(files.key, ENCRYPTED_KEY)
    await server.start()
    assert (server.certificate.problem(), [record.getMessage() for record in caplog.records]) == (
        NONE_FOUND,
        ["cannot use the certificate"],
    )


def shows(client: trustme.LeafCert | None, ca: trustme.CA) -> ssl.SSLContext:
    """The context of a client that trusts the CA and shows a certificate of its own."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


async def test_only_clients_of_a_ca_in_the_file_are_served_and_the_file_is_read_again(
    files: Files, ca: trustme.CA, metrics: Metrics, tmp_path: Path
) -> None:
    ours, theirs, client_ca = trustme.CA(), trustme.CA(), tmp_path / "client-ca.crt"
    clients = {
        "none": None,
        "of the serving CA": ca.issue_cert("client"),
        "ours": ours.issue_cert("client"),
        "theirs": theirs.issue_cert("client"),
    }
    files.write(files.issue())
    files.put(client_ca, ours.cert_pem.bytes())
    server = Server(files, shows(clients["ours"], ca), metrics, str(client_ca))
    await server.start()

    async def served() -> list[str]:
        found = []
        for name, client in clients.items():
            server.trust = shows(client, ca)
            with suppress(ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
                connection = await server.connect()
                try:
                    await connection.status()
                    found.append(name)
                finally:
                    connection.writer.transport.abort()
        return found

    open_before = await server.connect()
    seen = [await served()]
    for content in (theirs.cert_pem.bytes(), b"", ours.cert_pem.bytes() + theirs.cert_pem.bytes()):
        files.put(client_ca, content)
        await server.poll()
        seen.append(await served())
    assert (seen, await open_before.status()) == (
        [["ours"], ["theirs"], ["theirs"], ["ours", "theirs"]],
        b"HTTP/1.1 400 Bad Request",
    )
    open_before.writer.close()
    await server.stop()


HOST = "anything.tollbar-system.svc"


class Signing:
    """A replica of the webhook without files, with the Secret as it sees it."""

    def __init__(self, client_ca_file: str = "") -> None:
        self.clock = StepClock(time.time())
        self.manager = Managed(clock=self.clock, **{"webhook.clientCAFile": client_ca_file})
        self.certificate = SignedCertificate(self.manager)
        self._versions = count(1)

    def store(self, data: Object) -> None:
        meta = {
            "name": "tollbar-webhook-ca",
            "namespace": "tollbar-system",
            "resourceVersion": str(next(self._versions)),
        }
        self.manager.fill([{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}])

    def authority(self, lifetime: float = 365 * DAY) -> KeyPair:
        """A new one, in the Secret."""
        made = certs.new_authority(self.clock.time, lifetime)
        self.store(authority.data_of(Authorities(made)))
        return made

    def serial(self, trusted: KeyPair) -> str:
        """Of the certificate that a client gets who trusts this authority and expects HOST."""
        trust = ssl.create_default_context(cadata=trusted.pem)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust.wrap_bio(to_client, to_server, server_hostname=HOST)
        server = self.certificate.context().wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        return serial(x509.load_der_x509_certificate(client.getpeercert(binary_form=True) or b""))

    def expires(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value("tollbar_certificate_expiry_timestamp_seconds")


async def test_a_replica_signs_a_certificate_and_serves_it_until_it_is_due() -> None:
    replica = Signing()
    replica.clock.time -= 21 * DAY
    trusted = replica.authority()
    await replica.certificate.refresh()
    first, expires = replica.serial(trusted), replica.expires()
    await replica.certificate.refresh()
    again = replica.serial(trusted)
    replica.clock.time += 21 * DAY
    await replica.certificate.refresh()
    assert (replica.certificate.problem(), again == first, replica.serial(trusted) != first) == (None, True, True)
    assert expires == pytest.approx(replica.clock.time + 9 * DAY, abs=1)


async def test_another_authority_signs_at_once() -> None:
    replica = Signing()
    old = replica.authority()
    await replica.certificate.refresh()
    replica.serial(old)
    new = replica.authority()
    await replica.certificate.refresh()
    replica.serial(new)
    with pytest.raises(ssl.SSLCertVerificationError):
        replica.serial(old)


UNUSABLE: dict[str, Callable[[Signing], object]] = {
    "the Secret is empty": lambda replica: replica.store({}),
    "the Secret holds rubbish": lambda replica: replica.store({"tls.crt": "bm8=", "tls.key": "bm8="}),
    "only the next authority is there": lambda replica: replica.store(
        authority.data_of(Authorities(None, certs.new_authority(replica.clock.time, DAY)))
    ),
    "the authority has expired": lambda replica: replica.authority(lifetime=-1.0),
}


@pytest.mark.parametrize("damage", UNUSABLE.values(), ids=UNUSABLE)
async def test_what_was_signed_is_served_while_the_authority_is_unusable_which_is_said_once(
    damage: Callable[[Signing], object], caplog: pytest.LogCaptureFixture
) -> None:
    replica = Signing()
    trusted = replica.authority()
    await replica.certificate.refresh()
    first = replica.serial(trusted)
    damage(replica)
    await replica.certificate.refresh()
    await replica.certificate.refresh()
    said = [record.getMessage() for record in caplog.records]
    assert (replica.serial(trusted), replica.certificate.problem(), said) == (
        first,
        None,
        ["the Secret has no authority that can be used"],
    )


async def test_without_a_secret_the_replica_is_not_ready() -> None:
    replica = Signing()
    await replica.certificate.refresh()
    assert replica.certificate.problem() == NONE_FOUND


def open_files() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


async def test_the_key_of_a_certificate_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", forbidden)
    replica = Signing()
    trusted = replica.authority()
    before = open_files()
    await replica.certificate.refresh()
    assert (bool(replica.serial(trusted)), open_files() - before) == (True, set())


async def test_a_signed_certificate_stays_when_the_cas_of_clients_are_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "client-ca.crt"
    await asyncio.to_thread(trustme.CA().cert_pem.write_to_path, file)
    replica = Signing(str(file))
    replica.authority()
    contexts = []
    for content in (None, None, trustme.CA().cert_pem.bytes(), b"rubbish"):
        if content is not None:
            await asyncio.to_thread(file.write_bytes, content)
        await replica.certificate.refresh()
        contexts.append(replica.certificate.context())
    first, second, third, fourth = contexts
    assert (first is second, second is third, third is fourth, third.verify_mode) == (
        True,
        False,
        True,
        ssl.CERT_REQUIRED,
    )
    assert [record.getMessage() for record in caplog.records if "certif" in record.name or "tls" in record.name] == [
        "signed a certificate",
        "read the CAs of clients again",
        "cannot use the CAs of clients",
    ]
