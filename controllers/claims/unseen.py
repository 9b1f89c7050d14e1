"""Finds claims that exist but that the cache does not show yet, before another one is created.

The last leader may have created a claim just before it stopped, and the answer to a creation may be lost; names are
generated, so a second claim for the same Pod would cause no conflict.  The last leader has stopped when this one
starts, so a cache that has reached the API server's resourceVersion of that time shows all claims.  Until then, the
claims of a namespace are listed once before the first one is created in it.

Costs one read when this process becomes leader, and one list for each namespace in which a claim is created before the
watch has caught up, which takes a minute at most and ends the list; nothing is written.

Hazard: a process that was suspended while it created a claim may resume and create it after all.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tollbar.model import resourceversion
from tollbar.model.ask import Absence, Get
from tollbar.model.objects import Key, Object, controller_of, key_of, uid_of
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime import asking
from tollbar.runtime.client import Client
from tollbar.runtime.store import Store

_NEVER: Final = float("inf")
_LOOK_AGAIN: Final = 0.5
"""Seconds between two looks at how far the cache is, while a namespace is listed."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A question: the claims of a namespace that exist, or of those the ones with this controlling owner, a uid.

    They are in the cache when it is answered; the answer itself says nothing.
    """

    namespace: str
    owner: str = ""


class UnseenClaims:
    """`claims` is the cache, to which claims that are found are added; `reading` is the manager's."""

    def __init__(self, client: Client, reading: asyncio.Semaphore, claims: Store) -> None:
        self._client = client
        self._reading = reading
        self._claims = claims
        self._version = _NEVER
        self._listed: set[str] = set()
        self._listing: dict[str, asyncio.Task[None]] = {}
        """The lists of namespaces that are under way."""
        self._lost: dict[tuple[str, Key], str] = {}
        """Uids of Pods and PodGroups by kind and key."""

    async def begin(self) -> None:
        """Record the API server's resourceVersion, after any other generator has stopped.  Raises ApiError."""
        self._stop_listing()
        self._version = _NEVER
        version = await asking.read(self._reading, resourceversion.of, self._client.list, RESOURCE_CLAIMS, limit=1)
        self._version = version or _NEVER

    def lost(self, consumer: Object) -> None:
        """The answer to a creation for this Pod or PodGroup was lost: the claim may exist."""
        self._lost[consumer["kind"], key_of(consumer)] = uid_of(consumer)

    def forget(self, kind: str, consumer: Key) -> None:
        """Drop what is known about a lost answer for this Pod or PodGroup."""
        self._lost.pop((kind, consumer), None)

    def questions(self, consumer: Object) -> tuple[Existing, ...]:
        """What to ask before a claim is created for this Pod or PodGroup."""
        namespace = key_of(consumer).namespace
        if self._lost.get((consumer["kind"], key_of(consumer))) == uid_of(consumer):
            return (Existing(namespace, uid_of(consumer)),)
        if self._has_caught_up() or namespace in self._listed:
            return ()
        return (Existing(namespace),)

    async def show(self, question: Existing) -> None:
        """Answers it.  A namespace is listed once for all who ask meanwhile, and no longer than until the cache shows
        what is looked for.  Raises ApiError."""
        namespace, owner = question.namespace, question.owner
        if owner:
            await self._list(namespace, lambda claim: (controller_of(claim) or {}).get("uid") == owner)
            return
        while not self._has_caught_up() and namespace not in self._listed:
            listing = self._listing.get(namespace) or self._begin_listing(namespace)
            await asyncio.wait({listing}, timeout=_LOOK_AGAIN)
            if listing.done() and not listing.cancelled():
                listing.result()

    def learn(self, question: object, answer: Any, consumer: Object) -> None:
        """Add the claim of an answer to the cache."""
        match question:
            case Get(resource=resource) if resource == RESOURCE_CLAIMS and not isinstance(answer, Absence):
                self._claims.assume(answer, created=True)
            case Existing(owner=owner) if owner:
                self.forget(consumer["kind"], key_of(consumer))

    async def _list(self, namespace: str, accepts: Callable[[Object], bool]) -> None:
        def take(claim: Object) -> None:
            if accepts(claim):
                self._claims.assume(claim, created=True)

        await asking.each_list_item(take, self._client, self._reading, RESOURCE_CLAIMS, namespace)

    def _begin_listing(self, namespace: str) -> "asyncio.Task[None]":
        listing = self._listing[namespace] = asyncio.ensure_future(self._list(namespace, lambda _: True))
        listing.add_done_callback(lambda ended: self._over(namespace, ended))
        return listing

    def _over(self, namespace: str, ended: "asyncio.Task[None]") -> None:
        if self._listing.get(namespace) is not ended:
            return
        del self._listing[namespace]
        if not ended.cancelled() and ended.exception() is None:
            self._listed.add(namespace)

    def _stop_listing(self) -> None:
        """Forget what was listed, too."""
        self._listed.clear()
        for listing in self._listing.values():
            listing.cancel()
        self._listing.clear()

    def _has_caught_up(self) -> bool:
        """Whether the cache shows everything that existed at `begin`; lists are stopped then."""
        if self._version and (resourceversion.number(self._claims.resource_version) or 0) >= self._version:
            self._version = 0
            self._stop_listing()
        return self._version == 0
