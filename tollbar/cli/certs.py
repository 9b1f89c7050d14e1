"""`tollbar certs`: a CA and a serving certificate for the webhook, as files, and into a cluster with `--apply`.

For installations with the component certificate-files, and for development: by default the controllers keep an
authority with which the webhook signs its own certificates.  The certificate's DNS names and the Secret's namespace
come from the Service that the webhook configurations name: a kustomization may have renamed or moved everything.

The configurations get the new CA, beside the previous one, before the Secret gets the new certificate, so that the API
server can verify the webhook at any moment of a rotation.  A fresh certificate in `--dir` is kept.
"""

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import click

from tollbar.api import webhooks
from tollbar.cli import console
from tollbar.cli.drain import is_ours
from tollbar.model import jsonpatch, timestamps
from tollbar.model.certificates import AUTHORITY_LIFETIME, LEAF_LIFETIME
from tollbar.model.jsonpatch import Patch, pointer
from tollbar.model.objects import Object, metadata
from tollbar.model.resources import SECRETS, WEBHOOK_CONFIGURATIONS, Resource
from tollbar.runtime import certs
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import NotFound
from tollbar.runtime.retry import READ, WRITE

Files: TypeAlias = Mapping[str, bytes]
"""A certificate, its key and its CAs as PEM, by the names of their files."""

SECRET: Final = f"{webhooks.SERVICE_NAME}-tls"
_MANAGER: Final = "tollbar-certs"
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """Our webhook configurations that call a Service, and that Service."""

    configurations: tuple[tuple[Resource, Object], ...]
    namespace: str
    hosts: tuple[str, ...]


@click.command("certs")
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path), help="Where the files go.")
@click.option(
    "--host", "hosts", multiple=True, metavar="H", help="A DNS name or IP address of the webhook.  Repeatable."
)
@click.option(
    "--apply",
    "applying",
    is_flag=True,
    help="Also write the certificate to the Secret and the CA to the webhook configurations of an installation.",
)
@console.cluster_options
@console.output_option
def command(
    directory: Path | None,
    hosts: tuple[str, ...],
    applying: bool,
    cluster: console.Cluster,
    output: console.Output,
) -> None:
    """Make a CA and a certificate for the webhook.

    Writes ca.crt, ca.key, tls.crt and tls.key to --dir; files that are still fresh are kept.  With --apply the names
    of the installation's Service are added, and --dir is optional: without it the CA's key is not kept.

    Only installations with the component certificate-files need this: otherwise certificates renew themselves.
    """
    if not applying and (directory is None or not hosts):
        raise click.UsageError("needs --dir and --host, or --apply")
    if applying:
        hosts, files, applied = console.run(_apply(cluster, directory, hosts))
    else:
        files, applied = issued(directory, hosts), []
    (certificate, *_) = certs.read_bundle(files[certs.TLS_CERT])
    data = {
        "directory": str(directory) if directory else None,
        "hosts": list(hosts),
        "expires": timestamps.time(certificate.ends),
        "applied": applied,
    }
    row = {**data, "directory": directory or "-", "hosts": ",".join(hosts), "applied": len(applied)}
    console.emit([row], data, output)


def make(directory: Path, hosts: Sequence[str]) -> bytes:
    """Make sure that the directory has a fresh certificate for these hosts; returns its CAs as PEM.

    Raises UnwritableFile, and ClickException for a host that no certificate can name.
    """
    try:
        with console.writing(directory):
            certs.ensure(directory, hosts, time.time())
            authorities = (directory / certs.CA_CERT).read_bytes()
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    return authorities


def issued(directory: Path | None, hosts: Sequence[str]) -> Files:
    """A certificate for these hosts, from the directory, where it is made if need be, or never written to a file."""
    if directory is not None:
        make(directory, hosts)
        return {name: (directory / name).read_bytes() for name in (certs.TLS_CERT, certs.TLS_KEY, certs.CA_CERT)}
    now = time.time()
    authority = certs.new_authority(now, AUTHORITY_LIFETIME)
    try:
        leaf = certs.issue(authority, hosts, now, LEAF_LIFETIME)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    pems = {certs.TLS_CERT: leaf.pem, certs.TLS_KEY: leaf.key, certs.CA_CERT: authority.pem}
    return {name: pem.encode() for name, pem in pems.items()}


async def _apply(
    cluster: console.Cluster, directory: Path | None, hosts: Sequence[str]
) -> tuple[tuple[str, ...], Files, list[str]]:
    """The certificate's hosts, the certificate, and what was written."""
    async with console.connected(cluster, "certs") as client:
        target = await find(client)
        names = tuple(dict.fromkeys((*hosts, *target.hosts)))
        files = await asyncio.to_thread(issued, directory, names)
        applied = []
        for resource, found in target.configurations:
            await WRITE(client.patch, resource, metadata(found)["name"], trusting(found, files[certs.CA_CERT]))
            applied.append(f"{resource.kind} {metadata(found)['name']}")
        await _write_secret(client, target.namespace, files)
        applied.append(f"Secret {target.namespace}/{SECRET}")
    console.say("the webhook reads its certificate again when the kubelet has updated the volume, within two minutes")
    return names, files, applied


async def find(client: Client) -> Target:
    """The installation in the cluster.  Raises ClickException when there is none, or more than one."""
    found = []
    for resource in WEBHOOK_CONFIGURATIONS:
        page: Object = await READ(client.list, resource)
        found += [(resource, each) for each in page["items"] if is_ours(each) and _services(each)]
    services = {service for _, each in found for service in _services(each)}
    namespaces = {namespace for _, namespace in services}
    if not services:
        raise click.ClickException(
            "no webhook configuration of Tollbar that calls a Service: apply the manifests first"
        )
    if len(namespaces) > 1:
        raise click.ClickException(f"Tollbar is installed more than once: in {', '.join(sorted(namespaces))}")
    hosts = tuple(sorted(f"{name}.{namespace}.svc" for name, namespace in services))
    return Target(tuple(found), namespaces.pop(), hosts)


def _services(configuration: Object) -> list[tuple[str, str]]:
    """Name and namespace of every Service that it calls."""
    configs = (webhook.get("clientConfig") or {} for webhook in configuration.get("webhooks") or ())
    return [(each["service"]["name"], each["service"]["namespace"]) for each in configs if each.get("service")]


def trusting(configuration: Object, authority: bytes) -> Patch:
    """The patch that makes each webhook of a configuration trust `authority` in addition to the previous CA."""
    operations = []
    for index, webhook in enumerate(configuration["webhooks"]):
        if not webhook["clientConfig"].get("service"):
            continue
        operations.append(jsonpatch.test(pointer("webhooks", index, "name"), webhook["name"]))
        bundle = _bundle(authority, webhook["clientConfig"].get("caBundle") or "")
        path = pointer("webhooks", index, "clientConfig", "caBundle")
        operations.append(jsonpatch.add(path, base64.b64encode(bundle).decode()))
    return tuple(operations)


def _bundle(authority: bytes, before: str) -> bytes:
    """`authority` and the newest previous CA that it does not contain; only one, so that bundles do not grow."""
    try:
        old = _PEM.findall(base64.b64decode(before, validate=True))
    except binascii.Error:
        old = []
    kept = [each for each in old if each.strip() not in authority][:1]
    return b"".join([authority, *kept])


async def _write_secret(client: Client, namespace: str, files: Files) -> None:
    secret = {
        **SECRETS.type_meta,
        "metadata": {"name": SECRET, "namespace": namespace, "labels": {"app.kubernetes.io/name": "tollbar"}},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }
    try:
        await WRITE(
            client.patch,
            SECRETS,
            SECRET,
            secret,
            namespace=namespace,
            patch_type=PatchType.APPLY,
            field_manager=_MANAGER,
            force=True,
        )
    except NotFound:
        raise click.ClickException(f"namespace {namespace} does not exist: apply the manifests first") from None
