"""Finds claims that exist but that the cache does not show yet, before another one is created.

The last leader may have created a claim just before it stopped, and the answer to a creation may be lost; names are
generated, so a second claim for the same Pod would cause no conflict.  The last leader has stopped when this one
starts, so a cache that has reached the API server's resourceVersion of that time shows all claims.  Until then, the
claims of a namespace are listed once before the first one is created in it.

Costs one read when this process becomes leader, and one list for each namespace in which a claim is created before the
watch has caught up, which takes a minute at most; nothing is written.

Hazard: a process that was suspended while it created a claim may resume and create it after all.
"""

from typing import Any, Final

from tollbar.model import resourceversion
from tollbar.model.ask import Absence, Get, List
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.client import Client
from tollbar.runtime.retry import READ
from tollbar.runtime.store import Store

_NEVER: Final = float("inf")


class UnseenClaims:
    """`claims` is the cache, to which claims that are found are added."""

    def __init__(self, client: Client, claims: Store) -> None:
        self._client = client
        self._claims = claims
        self._version = _NEVER
        self._listed: set[str] = set()
        self._lost: dict[tuple[str, Key], str] = {}
        """Uids of Pods and PodGroups by kind and key."""

    async def begin(self) -> None:
        """Record the API server's resourceVersion, after any other generator has stopped.  Raises ApiError."""
        self._listed.clear()
        self._version = _NEVER
        page: Object = await READ(self._client.list, RESOURCE_CLAIMS, limit=1)
        self._version = resourceversion.number(str(metadata(page).get("resourceVersion"))) or _NEVER

    def lost(self, consumer: Object) -> None:
        """The answer to a creation for this Pod or PodGroup was lost: the claim may exist."""
        self._lost[consumer["kind"], key_of(consumer)] = uid_of(consumer)

    def forget(self, kind: str, consumer: Key) -> None:
        """Drop what is known about a lost answer for this Pod or PodGroup."""
        self._lost.pop((kind, consumer), None)

    def questions(self, consumer: Object) -> tuple[List, ...]:
        """The lists to read before a claim is created for this Pod or PodGroup."""
        namespace = key_of(consumer).namespace
        if self._lost.get((consumer["kind"], key_of(consumer))) == uid_of(consumer):
            return (List(RESOURCE_CLAIMS, namespace, owner=uid_of(consumer)),)
        if self._has_caught_up() or namespace in self._listed:
            return ()
        return (List(RESOURCE_CLAIMS, namespace, shared=True),)

    def learn(self, question: object, answer: Any, consumer: Object) -> None:
        """Add the claims of an answer to the cache; those of a shared list once."""
        match question:
            case Get(resource=resource) if resource == RESOURCE_CLAIMS and not isinstance(answer, Absence):
                self._claims.assume(answer, created=True)
            case List(namespace=namespace, owner=owner) if owner or namespace not in self._listed:
                for claim in answer:
                    self._claims.assume(claim, created=True)
                if owner:
                    self.forget(consumer["kind"], key_of(consumer))
                else:
                    self._listed.add(namespace)

    def _has_caught_up(self) -> bool:
        """Whether the cache shows everything that existed at `begin`; the listed namespaces are dropped then."""
        if self._version and (resourceversion.number(self._claims.resource_version) or 0) >= self._version:
            self._version = 0
            self._listed.clear()
        return self._version == 0
