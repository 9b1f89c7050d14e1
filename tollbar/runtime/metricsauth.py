"""Authentication and authorization of those who read /metrics, by the API server and over TLS.

Works as controller-runtime's WithAuthenticationAndAuthorization (pkg/metrics/filters).  A request has to show a bearer
token.  A TokenReview says whose it is, a SubjectAccessReview whether that user may `get` the path (`nonResourceURLs` of
a ClusterRole).  Both need rights of this process: ClusterRole tollbar-metrics-auth.

Invariants: of a token only its hash is kept; how many answers are kept, and how many reviews are under way, is bounded.

Hazards: a right that is taken away is honoured a minute later.  Nobody is let in while the API server does not answer.
The certificate is made when the process starts and signed by nobody, so that clients cannot verify it; its end is of no
consequence for them.
"""

import asyncio
import hashlib
import logging
import ssl
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tollbar.model.objects import Object
from tollbar.model.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError

_log: Final = logging.getLogger(__name__)

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 30.0
"""For how long an answer counts that lets somebody in, and one that does not."""
_KEPT: Final = 1024
"""Answers that are kept at most."""
_UNDER_WAY: Final = 8
"""Reviews that may be under way at one time."""
_ANSWER_SECONDS: Final = 10.0
"""How long a request waits for its reviews."""
_LIFETIME: Final = 365 * 86400.0
"""Seconds for which the certificate is valid."""


class ReviewClient(Protocol):
    """What is needed of a client: to create TokenReviews and SubjectAccessReviews."""

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """An HTTP status, and one sentence for whoever is refused."""

    status: int
    text: str = ""


_NO_TOKEN: Final = Verdict(401, "a bearer token is needed")
_NOBODY: Final = Verdict(401, "the API server does not know this token")
_ALLOWED: Final = Verdict(200)


class MetricsAuth:
    """Asks the API server about the tokens of requests, and remembers the answers."""

    def __init__(self, client: ReviewClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Verdict]] = OrderedDict()
        self._turns = asyncio.Semaphore(_UNDER_WAY)

    async def verdict(self, authorization: str, path: str) -> Verdict:
        """Whether a request with this Authorization header may GET the path; 503 if the API server gives no answer."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or not token.isascii():
            return _NO_TOKEN
        key = hashlib.sha256(f"{path} {token}".encode()).digest()
        if (known := self._remembered(key)) is not None:
            return known
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._turns:
                if (known := self._remembered(key)) is not None:
                    return known
                verdict = await self._asked(token.strip(), path)
        except (ApiError, TimeoutError) as error:
            _log.warning("cannot ask who reads the metrics", extra={"error": str(error) or "no answer in time"})
            return Verdict(503, "the API server does not say whether this is allowed")
        self._remember(key, verdict)
        return verdict

    async def context(self) -> ssl.SSLContext:
        """What to serve with: a new key, and a certificate that it has signed itself."""
        return await asyncio.to_thread(_context, self._clock.now())

    async def _asked(self, token: str, path: str) -> Verdict:
        review = await self._client.create(TOKEN_REVIEWS, _review(TOKEN_REVIEWS, {"token": token}))
        status = review.get("status", {})
        if not status.get("authenticated"):
            return _NOBODY
        user = status.get("user", {})
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, _review(SUBJECT_ACCESS_REVIEWS, spec))
        if answer.get("status", {}).get("allowed"):
            return _ALLOWED
        return Verdict(403, f"{spec['user']} may not get {path}")

    def _remembered(self, key: bytes) -> Verdict | None:
        until, verdict = self._known.get(key, (0.0, None))
        if verdict is None or self._clock.monotonic() >= until:
            return None
        self._known.move_to_end(key)
        return verdict

    def _remember(self, key: bytes, verdict: Verdict) -> None:
        seconds = ALLOWED_SECONDS if verdict is _ALLOWED else REFUSED_SECONDS
        self._known[key] = (self._clock.monotonic() + seconds, verdict)
        self._known.move_to_end(key)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)


def _review(resource: Resource, spec: dict[str, Any]) -> Object:
    return {**resource.type_meta, "metadata": {}, "spec": spec}


def _context(now: float) -> ssl.SSLContext:
    from tollbar.runtime import certs  # it loads cryptography, 8 MB, for TLS alone

    pair = certs.issue(certs.new_authority(now, _LIFETIME), ["localhost"], now, _LIFETIME)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with certs.file_of(pair) as path:
        context.load_cert_chain(path)
    return context
