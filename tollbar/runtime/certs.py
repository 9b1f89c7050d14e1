"""Serving certificates: a self-signed CA and a leaf for given hosts, as values or as PEM files in a directory.

Files: `tls.crt` and `tls.key` for the server, `ca.crt` (one or several CAs) for whoever verifies it, `ca.key` to renew
the leaf under the same CA.  ECDSA P-256 everywhere; the CA lives a year, a leaf 30 days and never longer than its CA.

Invariants: nothing is written unless something has to change; each file is replaced whole, `tls.crt` last, so a reader
that reloads when `tls.crt` changes finds its key in place; keys are readable by their owner alone; an old CA stays in
`ca.crt` until it expires, so that a leaf it signed is still trusted while others move.

Hazards: the clock of this machine must be right; validity starts five minutes early for clients whose clock is behind.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tollbar.model.certificates import AUTHORITY_LIFETIME, BACKDATED, LEAF_LIFETIME, Certificate, KeyPair
from tollbar.runtime import files

CA_CERT: Final = "ca.crt"
CA_KEY: Final = "ca.key"
TLS_CERT: Final = "tls.crt"
TLS_KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True)
class _Pair:
    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def ensure(directory: Path, hosts: Sequence[str], now: float) -> bool:
    """Have a valid CA and a leaf for exactly these DNS names and IP addresses; True when files changed.

    `now` is in seconds since the epoch; a certificate is replaced when two thirds of its life are over, and the leaf
    also when it names other hosts, does not belong to its key or CA, or cannot be read.  Raises ValueError for a host
    that no certificate can name, OSError when the directory cannot be written.
    """
    names = _subject_names(hosts)
    moment = datetime.fromtimestamp(now, UTC)
    directory.mkdir(parents=True, exist_ok=True)
    bundle = _read_certs(directory / CA_CERT)
    leaf = _read_pair(directory / TLS_CERT, directory / TLS_KEY)
    issuer = bundle[0] if bundle else None
    if leaf and issuer and _fresh(issuer, moment) and _fits(leaf.cert, issuer, names, moment):
        return False
    ca = _read_pair(directory / CA_CERT, directory / CA_KEY)
    if ca is None or not _fresh(ca.cert, moment):
        ca = _new_ca(moment, AUTHORITY_LIFETIME)
        trusted = [ca.cert, *(old for old in bundle if old.not_valid_after_utc > moment)]
        files.replace(directory / CA_KEY, _pem_key(ca.key), 0o600)
        files.replace(directory / CA_CERT, b"".join(map(_pem_cert, trusted)), 0o644)
    leaf = _new_leaf(ca, names, moment, LEAF_LIFETIME)
    files.replace(directory / TLS_KEY, _pem_key(leaf.key), 0o600)
    files.replace(directory / TLS_CERT, _pem_cert(leaf.cert), 0o644)
    return True


def expiry(path: Path) -> float:
    """When the first certificate of a PEM file expires, in seconds since the epoch.  Raises OSError, ValueError."""
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()


def new_authority(now: float, lifetime: float) -> KeyPair:
    """A CA that is valid for `lifetime` seconds from now on."""
    return _value(_new_ca(datetime.fromtimestamp(now, UTC), lifetime))


def issue(authority: KeyPair, hosts: Sequence[str], now: float, lifetime: float) -> KeyPair:
    """A leaf for these hosts that is valid for `lifetime` seconds, and never longer than its CA.

    Raises ValueError for a host that no certificate can name.
    """
    ca = _pair(authority.pem.encode(), authority.key.encode())
    if ca is None:
        raise ValueError("the authority's key does not belong to its certificate")
    return _value(_new_leaf(ca, _subject_names(hosts), datetime.fromtimestamp(now, UTC), lifetime))


@contextmanager
def file_of(pair: KeyPair) -> Iterator[str]:
    """A path under which OpenSSL, which takes nothing else, can read the certificate and its key.

    On Linux it is memory of this process; elsewhere a file that is there for the moment, for its owner alone.
    """
    content = (pair.pem + pair.key).encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield named.name


def read_authority(certificate: bytes, key: bytes) -> KeyPair | None:
    """A CA from PEM; None unless both parts can be read, belong together, and may sign certificates."""
    pair = _pair(certificate, key)
    return _value(pair) if pair is not None and _is_ca(pair.cert) else None


def read_bundle(pem: bytes) -> tuple[Certificate, ...]:
    """The certificates in PEM, in their order; none when one of them cannot be read."""
    try:
        return tuple(_dated(cert) for cert in x509.load_pem_x509_certificates(pem))
    except ValueError:
        return ()


def _dated(cert: x509.Certificate) -> Certificate:
    begins, ends = cert.not_valid_before_utc.timestamp(), cert.not_valid_after_utc.timestamp()
    return Certificate(_pem_cert(cert).decode(), begins, ends)


def _value(pair: _Pair) -> KeyPair:
    dated = _dated(pair.cert)
    return KeyPair(dated.pem, dated.begins, dated.ends, _pem_key(pair.key).decode())


def _is_ca(cert: x509.Certificate) -> bool:
    try:
        return bool(cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


def _subject_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    if not hosts:
        raise ValueError("a certificate needs at least one host")
    return [_subject_name(host) for host in dict.fromkeys(hosts)]


def _subject_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not host or not host.isascii() or len(host) > 253 or any(c.isspace() or c in "/:@" for c in host):
        raise ValueError(f"not a DNS name or IP address: {host!r}")
    return x509.DNSName(host)


def _fresh(cert: x509.Certificate, moment: datetime) -> bool:
    return _dated(cert).is_fresh(moment.timestamp())


def _fits(
    leaf: x509.Certificate,
    issuer: x509.Certificate,
    names: list[x509.GeneralName],
    moment: datetime,
) -> bool:
    try:
        leaf.verify_directly_issued_by(issuer)
        named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # any error in a certificate that somebody else made leads to a new one
        return False
    return _fresh(leaf, moment) and set(named) == set(names)


def _read_certs(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return []


def _read_pair(cert_path: Path, key_path: Path) -> _Pair | None:
    """The first certificate of a file with its key; None unless both are there and belong together."""
    try:
        return _pair(cert_path.read_bytes(), key_path.read_bytes())
    except FileNotFoundError:
        return None


def _pair(cert_pem: bytes, key_pem: bytes) -> _Pair | None:
    """The first certificate of `cert_pem` with its key; None unless both can be read and belong together."""
    try:
        certs = x509.load_pem_x509_certificates(cert_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not certs or not isinstance(key, ec.EllipticCurvePrivateKey) or certs[0].public_key() != key.public_key():
        return None
    return _Pair(certs[0], key)


def _new_ca(moment: datetime, lifetime: float) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial number in the name tells an old CA from a new one where a bundle holds both.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tollbar-ca-{serial:040x}"[:64])])
    builder = (
        _builder(name, name, key, moment, moment + timedelta(seconds=lifetime))
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Pair(builder.sign(key, hashes.SHA256()), key)


def _new_leaf(ca: _Pair, names: list[x509.GeneralName], moment: datetime, lifetime: float) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tollbar")])
    end = min(moment + timedelta(seconds=lifetime), ca.cert.not_valid_after_utc)
    builder = (
        _builder(subject, ca.cert.subject, key, moment, end)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
    )
    return _Pair(builder.sign(ca.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, moment: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(moment - timedelta(seconds=BACKDATED))
        .not_valid_after(end)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_cert(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
