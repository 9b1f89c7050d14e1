"""The objects that `tollbar dev` applies to a cluster and removes again.

Everything is applied on the server side under one field manager.  What was there before stays: a label marks the
objects that did not exist, so that the next run removes what a killed run has left.

Removing a CustomResourceDefinition that was not there before removes the rules and WorkloadClaims that were made
meanwhile; their names are reported.  Two runs against one cluster would overwrite each other's webhook configurations,
so the second one refuses to start.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import click

from tollbar import wellknown
from tollbar.api import crds, gates, webhooks
from tollbar.cli.status.webhook import is_called
from tollbar.cli.waiting import NotSeen, Selection, is_gone, served, until
from tollbar.gates import Gate
from tollbar.gates.evaluation import declaration, webhook_of
from tollbar.model import conditions
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec, uid_of
from tollbar.model.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    PLACEMENT_RULES,
    POD_QUOTAS,
    SCHEDULING_GATES,
    TOLERATION_RULES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    WORKLOAD_CLAIMS,
    Resource,
)
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.detection import user_name
from tollbar.runtime.errors import Conflict, NotFound
from tollbar.runtime.retry import READ, WRITE

_MANAGER: Final = "tollbar-dev"
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_CONFIGURATIONS: Final = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, webhooks.PODS_NAME),
    (MUTATING_WEBHOOK_CONFIGURATIONS, webhooks.GATES_NAME),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, webhooks.RULES_NAME),
)
_POLL_SECONDS: Final = 0.05
_TOUCH_SECONDS: Final = 3.0
_TOUCHES: Final = 20
_SERVED_SECONDS: Final = 30.0


def is_of_dev(obj: Object) -> bool:
    """Whether a run of `tollbar dev` made this object."""
    return labels_of(obj).get(_MANAGED_BY) == _MANAGER


class Applied:
    """What was applied to one cluster; `undo` removes it."""

    def __init__(self, client: Client, report: Callable[[str], None]) -> None:
        self._client = client
        self._report = report
        self._created: list[tuple[Resource, Object]] = []
        self._owners: list[str] | None = None

    async def take_over(self) -> None:
        """Remove the webhook configurations of a run that was killed.  Raises ClickException when they are in use."""
        for resource, name in _CONFIGURATIONS:
            found = await self._find(resource, name)
            if found is None:
                continue
            if not is_of_dev(found):
                raise click.ClickException(
                    f"Tollbar is installed in this cluster: {resource.kind} {name} exists."
                    "  Use another cluster, or run `tollbar drain` first"
                )
            if await _listening(found):
                raise click.ClickException("another `tollbar dev` serves this cluster: end that one first")
            self._report(f"removing {resource.kind} {name}, left behind by an earlier run")
            await self._remove(resource, found)

    async def apply_definitions(self) -> None:
        """Apply the CustomResourceDefinitions, and wait until the API server serves them.  Raises NotSeen."""
        for wanted in crds.all_crds():
            found = await self._find(CUSTOM_RESOURCE_DEFINITIONS, metadata(wanted)["name"])
            if found is not None and metadata(found).get("deletionTimestamp"):
                await self._gone(metadata(wanted)["name"])
            await self._apply(CUSTOM_RESOURCE_DEFINITIONS, wanted)
        for wanted in crds.all_crds():
            await until(
                self._client,
                Selection.named(CUSTOM_RESOURCE_DEFINITIONS, key_of(wanted)),
                _is_established,
                timeout=30,
                what=f"CustomResourceDefinition {key_of(wanted)} established",
            )
        for resource in (TOLERATION_RULES, PLACEMENT_RULES, SCHEDULING_GATES, WORKLOAD_CLAIMS, POD_QUOTAS):
            await served(self._client, resource, timeout=_SERVED_SECONDS)

    async def apply_gate(self) -> str:
        """Apply the SchedulingGate, with the user of this kubeconfig as an owner; return the user's name."""
        user = await user_name(self._client)
        wanted = gates.shipped_gate((gates.CONTROLLERS, user))
        found = await self._find(SCHEDULING_GATES, metadata(wanted)["name"])
        if found is None or is_of_dev(found):
            await self._apply(SCHEDULING_GATES, wanted)
        elif user not in spec(found).get("owners", ()):
            self._owners = list(spec(found).get("owners", ()))
            await self._own([*self._owners, user])
        return user

    async def apply_gates_of(self, classes: Iterable[Gate], user: str) -> None:
        """Apply the SchedulingGates of these gate classes; one that is there stays as it is."""
        for gate in classes:
            wanted = declaration(gate, (gates.CONTROLLERS, user))
            found = await self._find(SCHEDULING_GATES, metadata(wanted)["name"])
            if found is None or is_of_dev(found):
                await self._apply(SCHEDULING_GATES, wanted)

    async def apply_webhooks(self, base_url: str, ca_pem: bytes, classes: Iterable[Gate] = ()) -> None:
        """Apply the webhook configurations, with `base_url`; the API server uses them when `is_reached` says so."""
        to = webhooks.at_url(base_url, ca_pem)
        if told := [webhook_of(each) for each in classes]:
            await self._apply(MUTATING_WEBHOOK_CONFIGURATIONS, webhooks.gates_configuration(to, told))
        await self._apply(MUTATING_WEBHOOK_CONFIGURATIONS, webhooks.pods_configuration(to))
        await self._apply(VALIDATING_WEBHOOK_CONFIGURATIONS, webhooks.rules_configuration(to))

    async def is_reached(self, *, timeout: float) -> bool:
        """Whether the API server calls the webhook within `timeout` seconds: an invalid rule is refused."""
        clock = SystemClock()
        deadline = clock.monotonic() + timeout
        while clock.monotonic() < deadline:
            if await is_called(self._client):
                return True
            await clock.sleep(_POLL_SECONDS)
        return False

    async def undo(self) -> None:
        """Remove what was not there before, newest first; CustomResourceDefinitions are gone when this returns."""
        if self._owners is not None:
            with suppress(NotFound):
                await self._own(self._owners)
            self._owners = None
        await self._announce_losses()
        while self._created:
            resource, obj = self._created.pop()
            await self._remove(resource, obj)
            if resource is CUSTOM_RESOURCE_DEFINITIONS:
                await self._gone(metadata(obj)["name"])

    async def _gone(self, name: str) -> None:
        """Wait until a deleted CustomResourceDefinition is no more.

        The API server's finalizer misses one whose status changes at that moment, until its resync after five minutes
        (apiextensions-apiserver, crd_finalizer); another change of the object makes it look again.
        """
        selection = Selection.named(CUSTOM_RESOURCE_DEFINITIONS, Key("", name))
        for touch in range(_TOUCHES):
            with suppress(NotSeen, NotFound):
                await until(self._client, selection, is_gone, timeout=_TOUCH_SECONDS, what=f"{name} gone")
                return
            body = {"metadata": {"annotations": {f"{wellknown.ANNOTATION_PREFIX}removing": str(touch)}}}
            with suppress(NotFound):
                await self._client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, body, patch_type=PatchType.MERGE)
        raise click.ClickException(f"CustomResourceDefinition {name} is still there, being deleted")

    async def _announce_losses(self) -> None:
        going = {metadata(obj)["name"] for resource, obj in self._created if resource is CUSTOM_RESOURCE_DEFINITIONS}
        for resource, also in (
            (TOLERATION_RULES, ""),
            (PLACEMENT_RULES, ""),
            (WORKLOAD_CLAIMS, ", and the claims made for them"),
            (POD_QUOTAS, ""),
        ):
            if f"{resource.plural}.{resource.group}" not in going:
                continue
            with suppress(NotFound):
                found: Object = await READ(self._client.list, resource)
                if names := [str(key_of(obj)) for obj in found["items"]]:
                    self._report(f"removing {resource.kind}s with their definition{also}: {', '.join(names)}")

    async def _apply(self, resource: Resource, wanted: Object) -> None:
        name = metadata(wanted)["name"]
        before = await self._find(resource, name)
        ours = before is None or is_of_dev(before)
        body = _labelled(wanted) if ours else wanted
        if ours:
            self._created.append((resource, body))  # first, so that an interrupted write is undone as well
        await WRITE(
            self._client.patch, resource, name, body, patch_type=PatchType.APPLY, field_manager=_MANAGER, force=True
        )

    async def _own(self, owners: list[str]) -> None:
        name = metadata(gates.shipped_gate())["name"]
        body = {"spec": {"owners": owners}}
        await WRITE(self._client.patch, SCHEDULING_GATES, name, body, patch_type=PatchType.MERGE)

    async def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            found: Object = await READ(self._client.get, resource, name)
        except NotFound:
            return None
        return found

    async def _remove(self, resource: Resource, obj: Object) -> None:
        with suppress(NotFound, Conflict):
            await WRITE(self._client.delete, resource, metadata(obj)["name"], uid=uid_of(obj))


def _labelled(obj: Object) -> Object:
    return {**obj, "metadata": {**metadata(obj), "labels": {**labels_of(obj), _MANAGED_BY: _MANAGER}}}


def _is_established(definition: Object | None) -> bool:
    return conditions.is_true(definition, "Established")


async def _listening(configuration: Object) -> bool:
    """Whether something on this machine listens at the configuration's URL."""
    url = urlsplit(configuration["webhooks"][0]["clientConfig"].get("url") or "")
    try:
        _, writer = await asyncio.open_connection(url.hostname, url.port)
    except OSError:
        return False
    writer.close()
    return True
