"""The API client: objects are plain dicts; calls and watches go over connections of their own (`exchange`, `stream`),
or over the aiohttp session of `kubernetes.aio` where there is a proxy.

Server, credentials and session come from `access`; encoding, deadlines, rate limits and errors are implemented here,
because the library's typed calls cost ten times as much CPU.

Invariants: every failure is an `ApiError`; every call has a deadline, which starts when the call is sent, not while it
waits for the rate limit; a 429 with Retry-After pauses all calls of this client for that time (a 429 without one, such
as that of EventRateLimit, concerns that call alone); no write is repeated here (see `retry`), so that a refusal says
that nothing was written.

Hazard: while the API server is down every call raises `Unreachable`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from enum import Enum
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from tollbar.model.objects import Object, key_of, metadata, uid_of
from tollbar.model.resources import PODS, Resource
from tollbar.runtime import decoding
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import (
    ApiError,
    NotLeading,
    TooLong,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unwritable,
    error_from_answer,
    error_from_status,
)
from tollbar.runtime.exchange import Answer, ExchangeError, NotConnectedError, TooLongError, request_of
from tollbar.runtime.limits import LONGEST_PAUSE, Pause, Slots, TokenBucket
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.outage import Outage
from tollbar.runtime.stream import Stream

if TYPE_CHECKING:
    from tollbar.runtime.access import Access

PAGE: Final = 500
ALL: Final = 0
"""Objects in a page of a list: by default, and for everything in one page."""
PAGE_TEXT: Final = 1024 * 1024
"""Bytes of text for a page, whose objects tenants may have made as large as they like: it takes some 30 MB of memory at
most, as does one object of the 1.5 MB that the API server takes."""
CALL_TIMEOUT: Final = 15.0
LIST_TIMEOUT: Final = 60.0
INACTIVITY: Final = 75.0
"""Seconds without a byte after which a watch is dead: the server sends a bookmark every minute."""

_FAILURES: Final = (aiohttp.ClientError, OSError)
_UNSENT: Final = (NotConnectedError, aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class PatchType(Enum):
    """The media type of a patch body."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object.  DELETED under a selector means that it left the set."""

    type: str
    object: Object


class Client:
    """One API server, one identity.  Made by `connect`; safe for any number of tasks of one event loop."""

    def __init__(
        self,
        access: "Access",
        *,
        qps: float,
        burst: int,
        in_flight: int,
        metrics: Metrics,
        user_agent: str,
        clock: Clock,
        outage: Outage | None,
        request_timeout: float | None,
    ) -> None:
        self._access = access
        self._request_timeout = request_timeout
        self._pause = Pause(clock)
        self._slots = Slots(in_flight, self._pause)
        self._bucket = TokenBucket(qps, burst or max(1, int(2 * qps)), clock) if qps > 0 else None
        self._clock = clock
        self._outage = outage
        self._may_write: Callable[[], bool] | None = None
        server = urlsplit(access.host)
        host, self._base_path = server.netloc, server.path
        self._host = host
        requests = metrics.counter("rest_client_requests_total")
        # To look a series up by its labels costs more than to count.
        self._counted = cache(lambda code, method: requests.labels(code, method, host).inc)
        # Not compressed: decompression would cost the one core of this process more than the network does.
        self._headers = {"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"}

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None,
        context: str | None = None,
        qps: float = 0,
        burst: int = 0,
        in_flight: int = 128,
        metrics: Metrics,
        user_agent: str,
        clock: Clock | None = None,
        outage: Outage | None = None,
        request_timeout: float | None = None,
    ) -> "Client":
        """Read the credentials; no request is made yet.

        Without `kubeconfig` (one path, or several joined by the path separator) the order is `$KUBECONFIG`, the
        service account of the Pod, `~/.kube/config`; `context` names one of the kubeconfig's, in place of its current
        one.  `qps` 0 means no limit of our own, `burst` 0 twice the qps; `in_flight` bounds concurrent calls, watches
        excepted; `outage` hears of failures.  `request_timeout`, in seconds, replaces the deadlines of all calls but
        watches; a call for which it is over is not repeated (`tollbar.runtime.retry`).  Raises KubeconfigError.
        """
        clock = clock or SystemClock()
        access = await (await asyncio.to_thread(_access)).load(kubeconfig, context, clock)
        return cls(
            access,
            qps=qps,
            burst=burst,
            in_flight=in_flight,
            metrics=metrics,
            user_agent=user_agent,
            clock=clock,
            outage=outage,
            request_timeout=request_timeout,
        )

    def fenced(self, may_write: Callable[[], bool]) -> "Client":
        """The same client, but its writes raise NotLeading where `may_write` says no at the moment of sending.

        They tell the API server, too, to work on them no longer than this client waits for the answer (the query
        parameter `timeout`, of which the lesser of it and --request-timeout counts: WithRequestDeadline in
        pkg/endpoints/filters of k8s.io/apiserver).  So what had no answer does not come to pass much later, however
        long that server works on requests.
        """
        fenced = copy(self)
        fenced._may_write = may_write
        return fenced

    async def close(self) -> None:
        await self._access.close()

    @property
    def host(self) -> str:
        """The base URL of the API server."""
        return self._access.host

    @property
    def cluster(self) -> str:
        """Which cluster this is, for a person: `dev at https://10.0.0.1:6443 (context admin@dev)`."""
        context, cluster = self._access.context, self._access.cluster
        return f"{cluster} at {self.host} (context {context})" if context else f"of this Pod at {self.host}"

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context; `default` if it has none."""
        return self._access.namespace or "default"

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        return decoded("GET", await self.raw("GET", res.path(namespace, name)))

    async def list(
        self,
        res: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        continue_: str = "",
        most: float = inf,
    ) -> Object:
        """One page as the decoded list object; `metadata.continue` is the next page's `continue_`.

        Items of built-in kinds carry no apiVersion and kind.  Raises Gone when `continue_` has expired, and TooLong for
        a page of more than `most` bytes, unless its limit is one object: ask for fewer.
        """
        query = {
            "limit": str(limit),
            "continue": continue_,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        most = inf if limit == 1 else most
        page = await self.raw("GET", res.path(namespace), query=query, timeout=LIST_TIMEOUT, most=most)
        return decoded("GET", page)

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        """Create in the given namespace, by default the object's own.  Raises AlreadyExists."""
        path = res.path(namespace or metadata(obj).get("namespace") or "")
        return decoded("POST", await self.raw("POST", path, _encode("POST", obj)))

    async def replace(self, res: Resource, obj: Object, subresource: str = "") -> Object:
        """PUT the object, which names itself; with its resourceVersion, a newer one at the server is a Conflict."""
        meta = metadata(obj)
        path = res.path(meta.get("namespace") or "", meta["name"], subresource)
        return decoded("PUT", await self.raw("PUT", path, _encode("PUT", obj)))

    async def patch(
        self,
        res: Resource,
        name: str,
        body: Object | Sequence[Object],
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.JSON,
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """The patched object.  APPLY needs a `field_manager`.  Raises Invalid, whose `refused` tells what to do."""
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        path = res.path(namespace, name, subresource)
        answer = await self.raw("PATCH", path, _encode("PATCH", body), query=query, content_type=patch_type.value)
        return decoded("PATCH", answer)

    async def delete(
        self,
        res: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Ask for deletion; finalizers may delay it.  With `uid`, another object of that name is a Conflict."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self.raw("DELETE", res.path(namespace, name), orjson.dumps(options))

    async def evict(self, pod: Object, *, resource_version: str = "") -> None:
        """Ask for the Pod's graceful deletion by the eviction API (policy/v1), which honours PodDisruptionBudgets.

        A budget that does not allow it is a TooManyRequests; another Pod of that name is a Conflict, and so is this one
        in another version, if `resource_version` is given.
        """
        key, preconditions = key_of(pod), {"uid": uid_of(pod)}
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": {"preconditions": preconditions},
        }
        await self.raw("POST", PODS.path(key.namespace, key.name, "eviction"), orjson.dumps(eviction))

    async def served(self, group_version: str) -> set[str]:
        """The plural names that discovery lists for `v1` or `group/version`; empty when it is not served."""
        prefix = "/apis/" if "/" in group_version else "/api/"
        try:
            answer = decoded("GET", await self.raw("GET", prefix + group_version))
        except ApiError as error:
            if error.status == 404:
                return set()
            raise
        return {res["name"] for res in answer.get("resources") or () if "/" not in res["name"]}

    async def watch(
        self,
        res: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
        inactivity: float = INACTIVITY,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, bookmarks included, until the server ends the stream.

        Close it when leaving early (`contextlib.aclosing`).  Raises Gone (as an answer or in the stream) when the
        version is too old, Unreachable when nothing arrives for `inactivity` seconds or the stream is cut, and
        JSONDecodeError for a line that cannot be read: that event is lost.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        await self._turn()
        async with aclosing(self._lines(res.path(namespace), query, inactivity)) as lines:
            async for line in lines:
                event = decoding.decoded(line)
                if event["type"] == "ERROR":
                    raise error_from_status(event["object"], method="GET")
                yield WatchEvent(event["type"], event["object"])

    async def raw(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "",
        timeout: float = CALL_TIMEOUT,
        most: float = inf,
    ) -> bytes:
        """One exchange: the bytes of a good answer, an ApiError otherwise.  Empty query values are left out.

        `path` is absolute and already percent-encoded; `accept` asks for another form than plain JSON, such as a Table;
        `timeout` is in seconds from sending to the last byte.  Raises TooLong once there are more than `most` bytes of
        the answer.
        """
        seconds = timeout if self._request_timeout is None else self._request_timeout
        if self._may_write is not None and body is not None:
            query = {**(query or {}), "timeout": f"{seconds:g}s"}
        async with self._slots:
            await self._turn()
            sent = self._clock.monotonic()
            try:
                headers = self._headers_of(body, content_type, accept)
                answer = await self._exchange(method, _target(path, query), headers, body, seconds, most)
            except NotLeading as error:
                raise NotLeading(method=method) from error
            except TooLongError as error:
                self._count(method, 200)
                raise TooLong(method=method) from error
            except _FAILURES as error:
                if isinstance(error.__cause__, NotLeading):
                    raise NotLeading(method=method) from error
                unreachable = self._unreachable(method, error, sent)
                unreachable.final = self._request_timeout is not None and isinstance(error, TimeoutError)
                raise unreachable from error
        self._count(method, answer.status)
        if answer.status >= 300:
            raise self._refusal(method, answer, sent)
        return answer.body

    async def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, timeout: float, most: float
    ) -> Answer:
        """Raises one of _FAILURES, TooLongError among them, and NotLeading if the body must not be sent."""
        connections = self._access.connections
        if connections is not None:
            request = request_of(method, f"{self._base_path}{target}", self._host, headers, body)
            before = self._check_leading if body is not None else None
            return await connections.exchange(
                request, timeout=timeout, is_read=method == "GET", most=most, before=before
            )
        async with asyncio.timeout(timeout), await self._send(method, target, headers, body) as response:
            return _answer(response, await _read(response, most))

    def _check_leading(self) -> None:
        """A call may have waited for its turn, for a connection, or with the whole process."""
        if self._may_write is not None and not self._may_write():
            raise NotLeading

    async def _turn(self) -> None:
        """Wait for the end of a 429's pause and for the rate limit, and refresh credentials older than a minute."""
        await self._pause.wait()
        if self._bucket is not None:
            await self._bucket.take()
        await self._access.refresh()

    def _headers_of(self, body: bytes | None, content_type: str, accept: str) -> dict[str, str]:
        headers = self._headers | self._access.headers()
        if accept:
            headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = content_type
        return headers

    async def _send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Over the session, as it takes a proxy."""
        data = _Body(body, self._check_leading) if body is not None else None
        url = URL(f"{self._access.host}{target}", encoded=True)
        return await self._access.session().request(
            method, url, data=data, headers=headers, allow_redirects=False, **self._access.options
        )

    async def _lines(self, path: str, query: dict[str, str], inactivity: float) -> AsyncGenerator[bytes, None]:
        """The lines of a stream without an upper bound on their length."""
        stream: _Streamed | None = None
        sent = heard = self._clock.monotonic()
        try:
            stream = await self._stream(_target(path, query), inactivity)
            self._count("GET", stream.answer.status)
            if stream.answer.status != 200:
                raise self._refusal("GET", await _whole(stream), sent)
            tail = b""
            while part := await stream.next():
                heard = self._clock.monotonic()
                *lines, tail = (tail + part).split(b"\n")
                for line in lines:
                    yield line
            if tail:
                raise Unreachable("the watch was cut within an event", method="GET")
        except _FAILURES as error:
            silent = stream is None or isinstance(error, TimeoutError)
            raise self._unreachable("GET", error, heard if silent else None, counted=stream is not None) from error
        finally:
            if stream is not None:
                stream.close()

    async def _stream(self, target: str, inactivity: float) -> "_Streamed":
        headers, connections = self._headers_of(None, "", ""), self._access.connections
        if connections is not None:
            request = request_of("GET", f"{self._base_path}{target}", self._host, headers, None)
            return await Stream.open(connections, request, inactivity)
        async with asyncio.timeout(inactivity):
            return _SessionStream(await self._send("GET", target, headers), inactivity)

    def _count(self, method: str, status: int) -> None:
        self._counted(str(status), method)()
        if self._outage is not None and status < 500:
            self._outage.answered()

    def _unreachable(
        self, method: str, error: BaseException, since: float | None, *, counted: bool = False
    ) -> Unreachable:
        if not counted:
            self._counted("<error>", method)()
        sent = not isinstance(error, _UNSENT)
        why = str(error) if isinstance(error, ExchangeError) else f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError):
            why = "no answer in time"
        unreachable = Unreachable(why, method=method, sent=sent)
        unreachable.in_outage = self._outage is not None and self._outage.failed(why, since)
        return unreachable

    def _refusal(self, method: str, answer: Answer, sent: float) -> ApiError:
        asked = _seconds(answer.retry_after)
        error = error_from_answer(answer.status, answer.body, method=method, retry_after=asked)
        if isinstance(error, TooManyRequests) and asked is not None and not error.by_disruption_budget:
            self._pause.extend(min(asked, LONGEST_PAUSE))
            self._slots.refused()
        if isinstance(error, Unauthorized):
            self._access.refused(sent)
            if self._access.problem:
                error.message += f" (the credentials cannot be read again: {self._access.problem})"
        if answer.status >= 500 and self._outage is not None:
            error.in_outage = self._outage.failed(str(error), None)
        return error


class _Body(aiohttp.BytesPayload):
    """A body that asks once more before it is written: headers without their body have no effect.

    It is written once.  Of PUT and DELETE aiohttp would repeat what a reset connection had taken, and the answer would
    be about the second request alone.
    """

    def __init__(self, body: bytes, before: Callable[[], None]) -> None:
        super().__init__(body)
        self._before = before

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._before()
        self._consumed = True
        await super().write_with_length(writer, content_length)


class _Streamed(Protocol):
    """An answer that is read while it comes: `next` returns its body in parts, and nothing at the end."""

    answer: Answer

    async def next(self) -> bytes: ...

    def close(self) -> None: ...


class _SessionStream:
    """The same over the session."""

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        self.answer = _answer(response, b"")
        self._response = response
        self._seconds = seconds

    async def next(self) -> bytes:
        async with asyncio.timeout(self._seconds):
            return await self._response.content.readany()

    def close(self) -> None:
        self._response.close()


def _access() -> "type[Access]":
    """Imported when somebody connects: the library takes as long as all else that a process imports."""
    from tollbar.runtime.access import Access

    return Access


async def _whole(stream: _Streamed) -> Answer:
    body = b""
    while part := await stream.next():
        body += part
    return stream.answer._replace(body=body)


async def _read(response: aiohttp.ClientResponse, most: float) -> bytes:
    """Raises TooLongError for a body of more than so many bytes."""
    parts, length = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        length += len(part)
        if length > most:
            response.close()
            raise TooLongError(f"the answer has more than {most} bytes")
    return b"".join(parts)


def _answer(response: aiohttp.ClientResponse, body: bytes) -> Answer:
    return Answer(response.status, response.headers.get("Retry-After"), body)


def as_text(obj: Object) -> Object:
    """The object as it is to be created, its spec, labels and annotations as JSON text.

    That is as long as it is written, and takes up to twenty times less memory than values.  Raises Unwritable.
    """

    def text(value: Object) -> orjson.Fragment:
        return orjson.Fragment(_encode("POST", value))

    meta = {name: text(value) if isinstance(value, dict) else value for name, value in metadata(obj).items()}
    return {**obj, "metadata": meta, "spec": text(obj["spec"])}


def _encode(method: str, body: Object | Sequence[Object]) -> bytes:
    """Raises Unwritable for what is nested more deeply than orjson writes."""
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise Unwritable(str(error), method=method) from error


def decoded(method: str, body: bytes) -> Object:
    """The JSON object that a call of this method was answered with.

    Raises Unreachable for anything else: a proxy or load balancer has answered.
    """
    try:
        answer: Object = decoding.decoded(body)
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"the answer is not JSON: {error}", method=method) from error
    if not isinstance(answer, dict):
        raise Unreachable("the answer is not a JSON object", method=method)
    return answer


def _target(path: str, query: Mapping[str, str] | None) -> str:
    text = urlencode([pair for pair in query.items() if pair[1]]) if query else ""
    return f"{path}?{text}" if text else path


def _seconds(header: str | None) -> float | None:
    """A Retry-After in seconds; the API server never sends the date form."""
    return float(header) if header is not None and header.isdigit() else None
