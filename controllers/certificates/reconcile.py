"""The authority and the webhook configurations: at most one step with the Secret, and the bundles that differ."""

import asyncio
import base64
import binascii
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.decide import authority as decision
from tollbar.decide.authority import AuthorityFacts, Step
from tollbar.model import jsonpatch, timestamps
from tollbar.model.certificates import Certificate
from tollbar.model.jsonpatch import Operation, pointer
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.model.resources import SECRETS
from tollbar.runtime import certs
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.config import Configuration
from tollbar.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.retry import WRITE
from tollbar.runtime.store import Store
from tollbar.views import authority
from tollbar.views.authority import Authorities

_log: Final = logging.getLogger(__name__)

_INJECTED: Final = "cert-manager.io/inject-"
"""How the annotations begin by which cert-manager's cainjector writes the bundles of a configuration."""
_AT_MOST: Final = 3600.0
"""Seconds until the next look: waiting goes by the monotonic clock, and the wall clock may be set meanwhile."""


@dataclass(frozen=True, slots=True)
class Deps:
    """`configurations` are the stores of both kinds of webhook configurations."""

    secrets: Store
    configurations: Sequence[Store]
    client: Client
    settings: Configuration
    clock: Clock
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class _Webhook:
    """One entry of a configuration, by its index."""

    store: Store
    configuration: Object
    index: int

    @property
    def config(self) -> Object:
        found: Object = self.configuration["webhooks"][self.index]["clientConfig"]
        return found

    @property
    def trusts(self) -> tuple[Certificate, ...]:
        try:
            return certs.read_bundle(base64.b64decode(self.config.get("caBundle") or "", validate=True))
        except binascii.Error:
            return ()


async def reconcile(key: Key, deps: Deps) -> Outcome:
    secret, now = deps.secrets.get(key), deps.clock.now()
    found = authority.read(secret)
    webhooks = [each for store in deps.configurations for each in _ours(store, key.namespace)]
    facts = AuthorityFacts(
        current=found.current,
        next=found.next,
        bundles=[webhook.trusts for webhook in webhooks],
        pre_publication=deps.settings.certificates.pre_publication,
    )
    plan = decision.decide(facts, now)
    if found.current is not None:
        deps.metrics.gauge("tollbar_certificate_authority_expiry_timestamp_seconds").set(found.current.ends)
    try:
        await _trust(webhooks, plan.bundles, deps)
        if plan.step is Step.PREPARE:
            await _prepare(key, secret, found, now, deps)
        elif plan.step is Step.PROMOTE:
            await _promote(secret, found, deps)
    except (AlreadyExists, Conflict, NotFound) as error:
        return Requeue(error.reason)
    except Invalid as error:
        if error.refused:
            raise
        return Requeue(error.reason)
    return DONE if plan.wait is None else RetryAfter(min(plan.wait, _AT_MOST))


def _ours(store: Store, namespace: str) -> Iterator[_Webhook]:
    """The webhooks whose bundle we write: they call a Service of our namespace, and nobody else injects one."""
    for configuration in store.values():
        if any(name.startswith(_INJECTED) for name in annotations_of(configuration)):
            continue
        for index, each in enumerate(configuration.get("webhooks") or ()):
            if ((each.get("clientConfig") or {}).get("service") or {}).get("namespace") == namespace:
                yield _Webhook(store, configuration, index)


async def _trust(webhooks: Sequence[_Webhook], bundles: Sequence[Sequence[Certificate]], deps: Deps) -> None:
    """One patch for each configuration in which a bundle differs."""
    changes: dict[tuple[str, Key], tuple[_Webhook, list[Operation]]] = {}
    for webhook, wanted in zip(webhooks, bundles, strict=True):
        text = base64.b64encode("".join(each.pem for each in wanted).encode()).decode()
        if wanted and webhook.config.get("caBundle") != text:
            path = pointer("webhooks", webhook.index, "clientConfig", "caBundle")
            identity = (webhook.store.resource.kind, key_of(webhook.configuration))
            changes.setdefault(identity, (webhook, []))[1].append(jsonpatch.add(path, text))
    for (kind, key), (webhook, operations) in changes.items():
        patch = (_unchanged(webhook.configuration), *operations)
        store = webhook.store
        store.assume(await WRITE(deps.client.patch, store.resource, key.name, patch))
        _log.info("wrote the authorities to a webhook configuration", extra={"kind": kind, "object": str(key)})


async def _prepare(key: Key, secret: Object | None, found: Authorities, now: float, deps: Deps) -> None:
    """Add a new authority beside the current one, if there is one that can be used."""
    made = await asyncio.to_thread(certs.new_authority, now, deps.settings.certificates.authority_lifetime)
    if secret is not None and found.current is None:
        _log.warning("the Secret has no authority that can be used, a new one is made", extra={"object": str(key)})
    data = authority.data_of(found._replace(next=made))
    if secret is None:
        obj = {
            **SECRETS.type_meta,
            "metadata": {
                "name": key.name,
                "labels": {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "webhook"},
            },
            "type": "Opaque",
            "data": data,
        }
        deps.secrets.assume(await WRITE(deps.client.create, SECRETS, obj, key.namespace), created=True)
    else:
        await _write(secret, data, deps)
    _log.info("made a new authority", extra={"object": str(key), "expires": timestamps.time(made.ends)})


async def _promote(secret: Object | None, found: Authorities, deps: Deps) -> None:
    if secret is None or found.next is None:
        return
    await _write(secret, authority.data_of(Authorities(current=found.next)), deps)
    said = {"object": str(key_of(secret)), "expires": timestamps.time(found.next.ends)}
    _log.info("certificates are signed by the new authority from now on", extra=said)


async def _write(secret: Object, data: Object, deps: Deps) -> None:
    key = key_of(secret)
    patch = (_unchanged(secret), jsonpatch.add(pointer("data"), data))
    deps.secrets.assume(await WRITE(deps.client.patch, SECRETS, key.name, patch, namespace=key.namespace))


def _unchanged(obj: Object) -> Operation:
    return jsonpatch.test(pointer("metadata", "resourceVersion"), metadata(obj)["resourceVersion"])
