"""HTTP in front of the registry: authentication, authorization, routing, encoding, lists and watches.

One handler for every path: what is served changes with CustomResourceDefinitions.  Every refusal is a Status; what
Kubernetes has and this server has not is 501 with its name.

Invariants: nothing about an object is told before RBAC has allowed the request; no list or watch holds the event loop
for longer than it takes to put stored bytes together.
"""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from aiohttp import web

from tollbar.devplane.embedded import (
    decoding,
    deletion,
    discovery,
    errors,
    openapi,
    options,
    paths,
    protobuf,
    selectors,
    storage,
    tables,
    versions,
    watches,
)
from tollbar.devplane.embedded.access import Access
from tollbar.devplane.embedded.bindings import bind
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.paths import Target
from tollbar.devplane.embedded.registry import Outcome, Registry
from tollbar.devplane.embedded.requests import User
from tollbar.devplane.embedded.storage import Clash, Compacted
from tollbar.devplane.embedded.watches import Watch
from tollbar.model.objects import Key, Object
from tollbar.runtime.client import PatchType

_log: Final = logging.getLogger(__name__)

BODY_MAX: Final = 3 * 1024 * 1024
_WATCH_SECONDS: Final = (1800.0, 3600.0)
_JSON: Final = "application/json"
_TABLE: Final = ";as=Table"
_STREAM: Final = "application/json;stream=watch"
_NEVER: Final = (
    "log",
    "exec",
    "attach",
    "portforward",
    "proxy",
    "eviction",
    "ephemeralcontainers",
    "scale",
    "approval",
)
"""Subresources that Kubernetes has and this server has not."""


class Server:
    """The handler of every request."""

    def __init__(self, registry: Registry, access: Access) -> None:
        self._registry = registry
        self._storage = registry.storage
        self._kinds = registry.kinds
        self._access = access

    def application(self) -> web.Application:
        app = web.Application(client_max_size=BODY_MAX)
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except Refused as refused:
            return _json(refused.status(), refused.code, retry_after=refused.retry_after)
        except web.HTTPRequestEntityTooLarge:
            said = f"Request entity too large: limit is {BODY_MAX}"
            return _json(Refused(413, "RequestEntityTooLarge", said).status(), 413)
        except RecursionError:
            return _json(errors.bad_request("exceeded max depth").status(), 400)
        except Clash:
            # Only a definition that went while admission was asked.
            return _json(_no_such_resource().status(), 404)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:
            _log.exception("request failed", extra={"method": request.method, "path": request.path})
            return _json(errors.internal(f"{type(error).__name__}: {error}").status(), 500)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, about = request.path, paths.target(request.rel_url.raw_path)
        if path in ("/readyz", "/livez", "/healthz"):
            return web.Response(text="ok")
        user = self._access.user(request.headers.get("Authorization", ""))
        action = paths.action(request.method, path, request.query, about)
        self._access.check(user, action)
        if about is None or not about.plural:
            if action.verb != "get":
                raise errors.method_not_allowed()
            return self._described(request, about)
        review = next((each for each in discovery.REVIEWS if (each.group, each.plural) == about[0:4:3]), None)
        if review is not None:
            return await self._reviewed(request, user, review.plural)
        kind = self._kind(about)
        if kind is None:
            return web.Response(text="404 page not found\n", status=404)
        check_path(kind, about, action.verb)
        if request.method in ("GET", "HEAD"):
            return await self._read(request, kind, about)
        outcome = await self._write(request, user, kind, about)
        return _json(outcome.object, 201 if outcome.created else 200, warnings=outcome.warnings)

    def _kind(self, about: Target) -> Kind | None:
        """What a path is of; None where there is not even such a group.  Raises Refused (404, 501)."""
        kind = self._kinds.find(about.group, about.version, about.plural)
        if kind is not None:
            return kind
        if about.version not in discovery.groups(self._kinds).get(about.group, ["v1"] if not about.group else ()):
            if "." not in about.group or about.group.endswith(".k8s.io"):
                raise errors.not_implemented(f"{errors.qualified(about.group, about.plural)} ({about.version})")
            return None
        if not about.group or about.group.endswith(".k8s.io"):
            raise errors.not_implemented(errors.qualified(about.group, about.plural))
        raise _no_such_resource()

    def _described(self, request: web.Request, about: Target | None) -> web.Response:
        """What is no resource: discovery, OpenAPI, the version."""
        path, media = request.path.rstrip("/"), _JSON
        if about is not None:
            found = discovery.resource_list(self._kinds, about.group, about.version)
        elif path in ("/api", "/apis") and "as=APIGroupDiscoveryList" in request.headers.get("Accept", ""):
            found, media = discovery.aggregated(self._kinds, core=path == "/api"), discovery.AGGREGATED
        elif path.startswith("/openapi/"):
            found = openapi.answer(self._kinds, path)
        else:
            found = discovery.answer(self._kinds, path)
        if found is None:
            return web.Response(text="404 page not found\n", status=404)
        return _json(found, media=media)

    async def _reviewed(self, request: web.Request, user: User, plural: str) -> web.Response:
        """Who one is and what somebody may: reviews store nothing."""
        if request.method != "POST":
            raise errors.method_not_allowed()
        review, _ = _sent(request, await request.read())
        decoding.check_body("AccessReview", review)
        wanted = review.get("spec") or {}
        if plural == "selfsubjectreviews":
            status: Object = {"userInfo": user.info()}
        elif plural == "selfsubjectaccessreviews":
            status = self._access.review(user, wanted)
        else:
            other = User(wanted.get("user") or "", tuple(wanted.get("groups") or ()))
            status = self._access.review(other, wanted)
        return _json({**review, "metadata": review.get("metadata") or {}, "status": status}, 201)

    async def _read(self, request: web.Request, kind: Kind, about: Target) -> web.StreamResponse:
        as_table = _TABLE in request.headers.get("Accept", "").split(",")[0]
        if about.name:
            entry = self._registry.entry(kind, Key(about.namespace, about.name))
            if as_table:
                meta: Object = {"resourceVersion": str(entry.revision)}
                return self._table(request, kind, [versions.decoded(kind, entry)], meta)
            return web.Response(body=versions.encoded(kind, entry), content_type=_JSON)
        matches = selectors.parse(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        if paths.watches(request.query):
            return await self._watch(request, kind, about.namespace, matches, as_table=as_table)
        page = self._page(request.query, kind, about.namespace, matches)
        meta = {"resourceVersion": str(page.revision)}
        if page.following is not None:
            meta["continue"] = storage.token(page.revision, page.following)
            if matches is selectors.everything:
                meta["remainingItemCount"] = page.remaining
        if as_table:
            return self._table(request, kind, [versions.decoded(kind, each) for each in page.entries], meta)
        list_ = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.resource.api_version}","metadata":'.encode()
        items = b",".join([versions.encoded(kind, each, headless=True) for each in page.entries])
        body = b"".join((list_, orjson.dumps(meta), b',"items":[', items, b"]}\n"))
        return web.Response(body=body, content_type=_JSON)

    def _page(self, query: Mapping[str, str], kind: Kind, namespace: str, matches: selectors.Predicate) -> storage.Page:
        wanted = options.listing(query, self._storage.revision)
        try:
            return self._storage.list(
                kind.stored, namespace, matches, limit=wanted.limit, revision=wanted.revision, start=wanted.start
            )
        except Compacted as error:
            if wanted.start is None:
                raise errors.expired("The resourceVersion for the provided list is too old.") from error
            raise errors.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new"
                " list without the continue parameter."
            ) from error

    def _table(self, request: web.Request, kind: Kind, objects: list[Object], meta: Object) -> web.Response:
        include = request.query.get("includeObject") or "Metadata"
        return _json(tables.table(kind, objects, meta, self._registry.clock.now(), include))

    async def _watch(
        self, request: web.Request, kind: Kind, namespace: str, matches: selectors.Predicate, *, as_table: bool
    ) -> web.StreamResponse:
        query = request.query
        start = options.watching(query, self._storage.revision)
        seconds = start.seconds or random.uniform(*_WATCH_SECONDS)
        bookmarks = query.get("allowWatchBookmarks", "").lower() in ("1", "true")
        watch = Watch(
            kind, namespace, matches, start.revision, seconds, bookmarks, start.initial_end and bookmarks, as_table
        )
        response = web.StreamResponse(headers={"Content-Type": _STREAM if not as_table else _JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for lines in watches.stream(self._storage, self._registry.clock, watch):
            await response.write(lines)
        await response.write_eof()
        return response

    async def _write(self, request: web.Request, user: User, kind: Kind, about: Target) -> Outcome:
        key, body = Key(about.namespace, about.name), await request.read()
        match request.method:
            case "POST" if about.subresource:
                return self._posted(request, kind, about, body)
            case "POST" if not about.name:
                obj, doubled = _sent(request, body)
                wanted = _options("CreateOptions", request)
                return await self._registry.create(kind, about.namespace, obj, user, wanted, doubled)
            case "PUT" if about.name:
                obj, doubled = _sent(request, body)
                wanted = _options("UpdateOptions", request)
                may_create = self._creation(request, user, about)
                return await self._registry.update(kind, key, obj, user, wanted, about.subresource, doubled, may_create)
            case "PATCH" if about.name:
                return await self._patched(request, user, kind, about, body)
            case "DELETE" if not about.subresource:
                return await self._deleted(request, user, kind, about, body)
        raise errors.method_not_allowed()

    def _posted(self, request: web.Request, kind: Kind, about: Target, body: bytes) -> Outcome:
        """What is created below an object: a Binding of a Pod, a token of a ServiceAccount."""
        key, (sent, _) = Key(about.namespace, about.name), _sent(request, body)
        dry_run = _options("CreateOptions", request).dry_run
        if about.subresource == "binding":
            decoding.check_body("Binding", sent)
            return Outcome(bind(self._registry, kind, key, sent, dry_run=dry_run), created=True)
        decoding.check_body("TokenRequest", sent)
        account = versions.decoded(kind, self._registry.entry(kind, key))
        return Outcome(self._access.token_request(account, sent), created=True)

    async def _patched(self, request: web.Request, user: User, kind: Kind, about: Target, body: bytes) -> Outcome:
        accepted = openapi.media_types(kind)
        if request.content_type not in accepted:
            raise errors.unsupported_media_type(*accepted)
        media = PatchType(request.content_type)
        wanted = _options("PatchOptions", request, media)
        return await self._registry.patch(
            kind,
            Key(about.namespace, about.name),
            media,
            _patch(body, media),
            user,
            wanted,
            about.subresource,
            self._creation(request, user, about),
        )

    def _creation(self, request: web.Request, user: User, about: Target) -> Callable[[], None]:
        """What raises Refused (403) when the user may not create what a PUT or an application would."""
        creation = paths.action("POST", request.path, request.query, about)
        return lambda: self._access.check(user, creation)

    async def _deleted(self, request: web.Request, user: User, kind: Kind, about: Target, body: bytes) -> Outcome:
        sent = decoding.parse_object(body)[0] if body else {}
        decoding.check_body("DeleteOptions", sent)
        wanted = options.delete(request.query, sent)
        dry_runs: Any = sent.get("dryRun") or request.query.getall("dryRun", [])
        asked = options.write("DeleteOptions", request.query, dry_runs, request.headers.get("User-Agent", ""))
        if about.name:
            return await deletion.delete(self._registry, kind, Key(about.namespace, about.name), wanted, user, asked)
        matches = selectors.parse(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        keys = [key for key, entry in self._storage.items(kind.stored, about.namespace) if matches(key, entry)]
        return await deletion.delete_all(self._registry, kind, keys, wanted, user, asked)


def _options(name: str, request: web.Request, media: PatchType | None = None) -> Any:
    dry_runs = request.query.getall("dryRun", [])
    return options.write(name, request.query, dry_runs, request.headers.get("User-Agent", ""), media)


def _sent(request: web.Request, body: bytes) -> tuple[Object, list[str]]:
    """The object of a body, and what is said of keys that came twice.  Raises Refused (400, 415)."""
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(body), []
    if request.content_type not in (_JSON, "application/octet-stream"):
        raise errors.unsupported_media_type(_JSON)
    return decoding.parse_object(body)


def _patch(body: bytes, media: PatchType) -> Any:
    """A decoded patch.  Raises Refused (400; 501 for what is YAML and not JSON)."""
    try:
        return orjson.loads(body)
    except ValueError as error:
        if media is PatchType.APPLY:
            raise errors.not_implemented("YAML bodies: send JSON") from error
        raise errors.bad_request(f"error decoding patch: {error}") from error


def check_path(kind: Kind, about: Target, verb: str) -> None:
    """Whether there is such a path of the kind, and what is wanted can be done there.  Raises Refused."""
    if about.subresource and about.subresource not in kind.subresources:
        if not kind.custom and about.subresource in _NEVER:
            raise errors.not_implemented(f"{kind.resource.plural}/{about.subresource}")
        raise _no_such_resource()
    if about.namespace and not kind.resource.namespaced:
        raise _no_such_resource()
    if kind.resource.namespaced and not about.namespace:
        if about.name:
            raise _no_such_resource()
        if verb not in ("list", "watch"):
            raise errors.method_not_allowed()
    if about.subresource and verb not in discovery.SUBRESOURCES[about.subresource].verbs:
        raise errors.method_not_allowed()


def _no_such_resource() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", details={})


def _json(
    obj: Object, code: int = 200, *, warnings: Sequence[str] = (), media: str = _JSON, retry_after: int = 0
) -> web.Response:
    response = web.Response(body=orjson.dumps(obj) + b"\n", status=code, headers={"Content-Type": media})
    if retry_after:
        response.headers["Retry-After"] = str(retry_after)
    for text in dict.fromkeys(warnings):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response
