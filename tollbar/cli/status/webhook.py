"""Whether the API server can call Tollbar's webhook, for `tollbar status`.

Looked at are the webhook configurations, the endpoints of the Service that they name, and the certificate that is
presented at their address, where that can be reached from here.  What the API server itself gets is tried with a dry
run of a broken rule, which the webhook has to refuse.
"""

import base64
import binascii
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import orjson

from tollbar.api import webhooks
from tollbar.cli.drain import is_ours
from tollbar.cli.reading import Reading
from tollbar.cli.status.handshake import Handshake, shake_hands
from tollbar.model import timestamps
from tollbar.model.objects import Object, labels_of, metadata
from tollbar.model.resources import (
    ENDPOINT_SLICES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    TOLERATION_RULES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Unreachable

EXPIRES_SOON: Final = 7 * 86400.0
"""Seconds before its end at which a certificate is a problem: it should have been renewed by then."""
_RULES_WEBHOOK: Final = webhooks.rules_configuration(webhooks.at_service())["webhooks"][0]["name"]
_KUEUE_PODS: Final = "/mutate--v1-pod"
"""Where Kueue is asked about Pods (kubernetes-sigs/kueue, pkg/controller/jobs/pod)."""
_WRONG: Final[Object] = {
    **TOLERATION_RULES.type_meta,
    "metadata": {"name": "tollbar-probe"},
    "spec": {
        "match": {"type": "CEL", "cel": {"expression": "pod."}},
        "tolerations": [{"key": "example.com/probe", "operator": "Exists"}],
    },
}


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: what of its address and certificate is known.

    `not_tried` is why no connection was attempted, empty when it was; `endpoints` the number of ready endpoints of its
    Service, None for a URL and where EndpointSlices may not be read; `expires` in epoch seconds.
    """

    configuration: str
    address: str
    problem: str
    not_tried: str = ""
    endpoints: int | None = None
    expires: float | None = None

    def __str__(self) -> str:
        seen = f"not tried: {self.not_tried}" if self.not_tried else self.problem or "trusted"
        until = f", certificate until {timestamps.time(self.expires)}" if self.expires is not None else ""
        count = f", ready endpoints: {self.endpoints}" if self.endpoints is not None else ""
        return f"{self.address}: {seen}{until}{count}"


@dataclass(frozen=True, slots=True)
class Admission:
    """What Tollbar does at admission.  `called` tells whether the API server gets the webhook's answers, None when
    that cannot be tried; `by_policy` whether a MutatingAdmissionPolicy gates Pods in the webhook's place; `late_kueue`
    names the configurations of Kueue whose webhook is called for Pods after Tollbar's."""

    pods: tuple[Webhook, ...] | None
    rules: tuple[Webhook, ...] | None
    by_policy: bool | None
    called: bool | None
    late_kueue: tuple[str, ...] = ()

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        return (*(self.pods or ()), *(self.rules or ()))

    def problems(self, now: float) -> Iterator[str]:
        """Each in one line."""
        if self.pods == () and self.by_policy is False:
            yield "no MutatingWebhookConfiguration of Tollbar: tolerations come late; apply the manifests again"
        if self.rules == () and (self.pods or self.by_policy is False):
            yield "no ValidatingWebhookConfiguration of Tollbar: broken rules are stored; apply the manifests again"
        found: dict[str, list[str]] = {}
        for webhook in self.webhooks:
            for problem in _problems(webhook, now):
                found.setdefault(problem, []).append(webhook.configuration)
        for problem, names in found.items():
            yield f"{', '.join(names)}: {problem}"
        if self.called is False:
            yield "the API server gets no answer from the webhook: a broken rule passed a dry run"
        for name in self.late_kueue:
            yield (
                f"{name}: Kueue's webhook is called for Pods after Tollbar's, so that the role of a Pod in its group"
                " depends on when Tollbar decides: give it a name that sorts before"
            )


def _is_kueue(configuration: Object) -> bool:
    """Whether it asks Kueue about Pods: by the path of that webhook, and the name of the configuration or Service."""
    for webhook in configuration.get("webhooks") or ():
        service = (webhook.get("clientConfig") or {}).get("service") or {}
        if service.get("path") == _KUEUE_PODS and "kueue" in f"{metadata(configuration)['name']} {service.get('name')}":
            return True
    return False


def _problems(webhook: Webhook, now: float) -> Iterator[str]:
    if webhook.problem:
        yield webhook.problem
    elif webhook.expires is not None and webhook.expires - now < EXPIRES_SOON:
        yield f"the certificate expires at {timestamps.time(webhook.expires)} and has not been renewed"
    if webhook.endpoints == 0:
        yield f"no ready endpoint for {webhook.address}: look at the Pods of the Deployment tollbar-webhook"


async def look(reading: Reading, configurations: "Configurations") -> Admission:
    """Raises Unreachable when the API server does not answer."""
    probe = _Probe(reading)
    pods = await probe.webhooks(configurations.mutating)
    rules = await probe.webhooks(configurations.validating)
    by_policy: bool | None = False
    if not pods and pods is not None:
        bindings = await reading.list(MUTATING_ADMISSION_POLICY_BINDINGS, keep=is_ours)
        by_policy = None if bindings is None else bool(bindings)
    called = await _tried(reading.client) if rules else None
    return Admission(pods, rules, by_policy, called, tuple(configurations.late_kueue))


@dataclass(frozen=True, slots=True)
class Configurations:
    """Tollbar's webhook configurations; None where they may not be read.

    `late_kueue` are names of those of Kueue that the API server calls after Tollbar's: it goes by name.
    """

    mutating: Sequence[Object] | None
    validating: Sequence[Object] | None
    late_kueue: Sequence[str] = ()

    @classmethod
    async def read(cls, reading: Reading) -> "Configurations":
        mutating = await reading.list(
            MUTATING_WEBHOOK_CONFIGURATIONS, keep=lambda each: is_ours(each) or _is_kueue(each)
        )
        ours = None if mutating is None else [each for each in mutating if is_ours(each)]
        first = min((metadata(each)["name"] for each in ours or ()), default="")
        names = (metadata(each)["name"] for each in mutating or () if not is_ours(each))
        return cls(
            ours,
            await reading.list(VALIDATING_WEBHOOK_CONFIGURATIONS, keep=is_ours),
            [name for name in names if first and name > first],
        )

    @property
    def all(self) -> Sequence[Object]:
        return (*(self.mutating or ()), *(self.validating or ()))


async def is_called(client: Client) -> bool:
    """Whether the API server gets an answer from the webhook, which then refuses an invalid rule in a dry run.

    Raises ApiError when something else refuses the dry run, such as a missing right to create rules.
    """
    try:
        await client.raw("POST", TOLERATION_RULES.path(), orjson.dumps(_WRONG), query={"dryRun": "All"})
    except ApiError as error:
        if f'admission webhook "{_RULES_WEBHOOK}"' in error.message:
            return True
        raise
    return False


async def _tried(client: Client) -> bool | None:
    try:
        return await is_called(client)
    except Unreachable:
        raise
    except ApiError:
        return None


class _Probe:
    """Looks at each address once, whatever the number of webhooks that have it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._shaken: dict[tuple[str, int, bytes], Handshake] = {}
        self._ready: dict[tuple[str, str], int | None] = {}

    async def webhooks(self, configurations: Sequence[Object] | None) -> tuple[Webhook, ...] | None:
        """Those of one configuration that are alike count as one."""
        if configurations is None:
            return None
        found = [
            await self._webhook(metadata(configuration)["name"], each.get("clientConfig") or {})
            for configuration in configurations
            for each in configuration.get("webhooks") or ()
        ]
        return tuple(dict.fromkeys(found))

    async def _webhook(self, name: str, config: Object) -> Webhook:
        service = config.get("service")
        if service:
            host, port = f"{service['name']}.{service['namespace']}.svc", int(service.get("port") or 443)
            endpoints = await self._endpoints(service["namespace"], service["name"])
        else:
            url = urlsplit(config.get("url") or "")
            host, port, endpoints = url.hostname or "", url.port or 443, None
        address = f"{host}:{port}"
        bundle = config.get("caBundle")
        if not bundle:
            why = "no CA bundle, so that the webhook cannot be called: nobody has written one"
            return Webhook(name, address, why, endpoints=endpoints)
        if _is_loopback(host) and not _is_loopback(urlsplit(self._reading.client.host).hostname or ""):
            return Webhook(name, address, "", "it is on the API server's own machine")
        try:
            shaken = await self._shake(host, port, bundle)
        except socket.gaierror:
            return Webhook(name, address, "", f"{host} has no address here", endpoints)
        return Webhook(name, address, shaken.problem, "", endpoints, shaken.expires)

    async def _shake(self, host: str, port: int, bundle: str) -> Handshake:
        try:
            pem = base64.b64decode(bundle, validate=True)
        except binascii.Error:
            pem = b""
        if (host, port, pem) not in self._shaken:
            self._shaken[host, port, pem] = await shake_hands(host, port, server_name=host, bundle=pem)
        return self._shaken[host, port, pem]

    async def _endpoints(self, namespace: str, service: str) -> int | None:
        if (namespace, service) not in self._ready:
            slices = await self._reading.list(
                ENDPOINT_SLICES,
                namespace,
                keep=lambda each: labels_of(each).get("kubernetes.io/service-name") == service,
            )
            self._ready[namespace, service] = None if slices is None else sum(map(_ready_endpoints, slices))
        return self._ready[namespace, service]


def _ready_endpoints(endpoints: Object) -> int:
    """A condition `ready` that is absent counts as true (discovery.k8s.io/v1)."""
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints.get("endpoints") or ())


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
