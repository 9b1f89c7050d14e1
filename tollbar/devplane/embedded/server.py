"""HTTP in front of the registry: authentication, authorization, routing, encoding, lists and watches.

One handler serves every path: what is served changes with CustomResourceDefinitions.  Every refusal is a Status; what
Kubernetes has and this server lacks is 501 with its name, or 404 when it is a kind that is read.  Nothing of an object
is revealed before RBAC has allowed the request.
"""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from tollbar.devplane.embedded import (
    conversion,
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
    watches,
)
from tollbar.devplane.embedded.access import Access
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.paths import Target
from tollbar.devplane.embedded.registry import Outcome, Registry
from tollbar.devplane.embedded.requests import User, Write, WriteOptions
from tollbar.devplane.embedded.storage import Compacted
from tollbar.devplane.embedded.watches import Watch
from tollbar.model.objects import Key, Object
from tollbar.runtime.client import PatchType

_log: Final = logging.getLogger(__name__)

BODY_MAX: Final = 3 * 1024 * 1024
_WATCH_SECONDS: Final = (1800.0, 3600.0)
_JSON: Final = "application/json"
_TABLE: Final = ";as=Table"
_STREAM: Final = "application/json;stream=watch"


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
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:
            _log.exception("request failed", extra={"method": request.method, "path": request.path})
            return _json(errors.internal(f"{type(error).__name__}: {error}").status(), 500)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, target = request.path, paths.parse(request.rel_url.raw_path)
        if path in ("/readyz", "/livez", "/healthz"):
            return web.Response(text="ok")
        user = self._access.user(request.headers.get("Authorization", ""))
        action = paths.action(request.method, path, request.query, target)
        self._access.check(user, action)
        if target is None or not target.plural:
            if action.verb != "get":
                raise errors.method_not_allowed()
            return self._discover(path.rstrip("/"), target)
        if review := discovery.REVIEWS.get((target.group, target.version, target.plural)):
            return await self._review(request, user, review)
        kind = self._kind(target, reads=request.method in ("GET", "HEAD"))
        if kind is None:
            return _not_found()
        check_path(kind, target, action.verb)
        if request.method in ("GET", "HEAD"):
            return await self._read(request, kind, target)
        try:
            async with asyncio.timeout(options.seconds(request.query)):
                outcome = await self._write(request, user, kind, target)
        except TimeoutError:
            raise errors.timeout("request did not complete within the allotted timeout") from None
        return _json(outcome.object, 201 if outcome.created else 200, warnings=outcome.warnings)

    def _kind(self, target: Target, *, reads: bool) -> Kind | None:
        """The kind of a path; None for an unknown group version, which is a plain 404.  Raises Refused (404, 501)."""
        kind = self._kinds.find(target.group, target.version, target.plural)
        if kind is not None:
            return kind
        absent = errors.not_served if reads else errors.not_implemented
        if target.version not in discovery.groups(self._kinds).get(target.group, ()):
            by_default = "alpha" not in target.version and "beta" not in target.version
            if by_default and ("." not in target.group or target.group.endswith(".k8s.io")):
                raise absent(f"{errors.qualified(target.group, target.plural)} ({target.version})")
            return None
        if not target.group or target.group.endswith(".k8s.io"):
            raise absent(errors.qualified(target.group, target.plural))
        raise _no_such_resource()

    def _discover(self, path: str, target: Target | None) -> web.Response:
        """Discovery, OpenAPI and the version."""
        if target is not None:
            found = discovery.resource_list(self._kinds, target.group, target.version)
        elif path == "/openapi/v2":
            return web.Response(content_type=openapi.V2_TYPE)
        elif path.startswith("/openapi/"):
            found = openapi.answer(self._kinds, path)
        else:
            found = discovery.answer(self._kinds, path)
        return _not_found() if found is None else _json(found)

    async def _review(self, request: web.Request, user: User, kind: str) -> web.Response:
        """Answer a review, which stores nothing."""
        if request.method != "POST":
            raise errors.method_not_allowed()
        review, _ = _decode_body(request, await request.read())
        decoding.check_body(kind, review)
        wanted = review.get("spec") or {}
        if kind == "SubjectAccessReview":
            user = User(wanted.get("user") or "", tuple(wanted.get("groups") or ()))
        status = {"userInfo": user.info()} if kind == "SelfSubjectReview" else self._access.review(user, wanted)
        return _json({**review, "metadata": review.get("metadata") or {}, "status": status}, 201)

    async def _read(self, request: web.Request, kind: Kind, target: Target) -> web.StreamResponse:
        as_table = _TABLE in request.headers.get("Accept", "").split(",")[0]
        if target.name:
            entry = self._registry.entry(kind, Key(target.namespace, target.name))
            if as_table:
                meta: Object = {"resourceVersion": str(entry.revision)}
                return self._table(request, kind, [conversion.decoded(kind, entry)], meta)
            return web.Response(body=conversion.encoded(kind, entry), content_type=_JSON)
        matches = _selector(request, kind)
        if paths.watches(request.query):
            return await self._watch(request, kind, target.namespace, matches, as_table=as_table)
        page = self._page(request.query, kind, target.namespace, matches)
        meta = {"resourceVersion": str(page.revision)}
        if page.following is not None:
            meta["continue"] = storage.token(page.revision, page.following)
            if matches is selectors.everything:
                meta["remainingItemCount"] = page.remaining
        if as_table:
            return self._table(request, kind, [conversion.decoded(kind, each) for each in page.entries], meta)
        list_ = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.resource.api_version}","metadata":'.encode()
        items = b",".join([conversion.encoded(kind, each, headless=True) for each in page.entries])
        body = b"".join((list_, orjson.dumps(meta), b',"items":[', items, b"]}\n"))
        return web.Response(body=body, content_type=_JSON)

    def _page(self, query: Mapping[str, str], kind: Kind, namespace: str, matches: selectors.Predicate) -> storage.Page:
        wanted = options.listing(query, self._storage.revision)
        try:
            return self._storage.list(kind.stored, namespace, matches, *wanted)
        except Compacted as error:
            if wanted.start is None:
                raise errors.expired("The resourceVersion for the provided list is too old.") from error
            raise errors.expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new"
                " list without the continue parameter, or use the continue token in this response to retrieve the"
                " remainder of the results. Continuing with the provided token results in an inconsistent list -"
                " objects that were created, modified, or deleted between the time the first chunk was returned and"
                " now may show up in the list.",
                storage.token(storage.NEWEST, wanted.start),
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

    async def _write(self, request: web.Request, user: User, kind: Kind, target: Target) -> Outcome:
        body, creation = await request.read(), paths.action("POST", request.path, request.query, target)
        write = Write(
            kind,
            Key(target.namespace, target.name),
            user,
            subresource=target.subresource,
            may_create=lambda: self._access.check(user, creation),
        )
        match request.method:
            case "POST" if target.subresource:
                return self._post_subresource(request, write, body)
            case "POST" if not target.name:
                obj, duplicates = _decode_body(request, body)
                wanted = _options("CreateOptions", request)
                return await self._registry.create(replace(write, options=wanted, duplicates=duplicates), obj)
            case "PUT" if target.name:
                obj, duplicates = _decode_body(request, body)
                wanted = _options("UpdateOptions", request)
                return await self._registry.update(replace(write, options=wanted, duplicates=duplicates), obj)
            case "PATCH" if target.name:
                return await self._patch(request, write, body)
            case "DELETE" if not target.subresource:
                return await self._delete(request, write, body)
        raise errors.method_not_allowed()

    def _post_subresource(self, request: web.Request, write: Write, body: bytes) -> Outcome:
        """POST to a subresource: a Binding of a Pod, a token of a ServiceAccount."""
        kind, key, (sent, _) = write.kind, write.key, _decode_body(request, body)
        dry_run = _options("CreateOptions", request).dry_run
        if write.subresource == "binding":
            decoding.check_body("Binding", sent)
            return Outcome(self._registry.bind(kind, key, sent, dry_run=dry_run), created=True)
        decoding.check_body("TokenRequest", sent)
        account = conversion.decoded(kind, self._registry.entry(kind, key))
        return Outcome(self._access.token_request(account, sent), created=True)

    async def _patch(self, request: web.Request, write: Write, body: bytes) -> Outcome:
        accepted = openapi.media_types(write.kind)
        if request.content_type not in accepted:
            raise errors.unsupported_media_type(*accepted)
        media = PatchType(request.content_type)
        write = replace(write, options=_options("PatchOptions", request, media))
        return await self._registry.patch(write, media, _decode_patch(body, media))

    async def _delete(self, request: web.Request, write: Write, body: bytes) -> Outcome:
        sent = decoding.parse_object(body)[0] if body else {}
        decoding.check_body("DeleteOptions", sent)
        wanted = options.delete(request.query, sent)
        write = replace(write, options=_options("DeleteOptions", request, dry_runs=sent.get("dryRun") or ()))
        if write.key.name:
            return await deletion.delete(self._registry, write, wanted)
        matches = _selector(request, write.kind)
        items = list(self._storage.items(write.kind.stored, write.key.namespace))
        return await deletion.delete_all(
            self._registry, [replace(write, key=key) for key, entry in items if matches(key, entry)], wanted
        )


def _selector(request: web.Request, kind: Kind) -> selectors.Predicate:
    return selectors.parse(kind, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def _options(
    name: str, request: web.Request, media: PatchType | None = None, *, dry_runs: Sequence[str] = ()
) -> WriteOptions:
    given = dry_runs or request.query.getall("dryRun", [])
    return options.write(name, request.query, given, request.headers.get("User-Agent", ""), media)


def _decode_body(request: web.Request, body: bytes) -> tuple[Object, list[str]]:
    """The object of a body, and warnings about duplicate keys.  Raises Refused (400, 415)."""
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(body), []
    if request.content_type not in (_JSON, "application/octet-stream"):
        raise errors.unsupported_media_type(_JSON)
    return decoding.parse_object(body)


def _decode_patch(body: bytes, media: PatchType) -> Any:
    """A decoded patch.  Raises Refused: 400, and 501 for YAML."""
    try:
        return orjson.loads(body)
    except ValueError as error:
        if media is PatchType.APPLY:
            raise errors.not_implemented("YAML bodies: send JSON") from error
        raise errors.bad_request(f"error decoding patch: {error}") from error


def check_path(kind: Kind, target: Target, verb: str) -> None:
    """Check that the kind has such a path and that it supports the verb.  Raises Refused."""
    if target.subresource and target.subresource not in kind.subresources:
        if not kind.custom and target.subresource != "status":
            raise errors.not_implemented(f"{kind.resource.plural}/{target.subresource}")
        raise _no_such_resource()
    if target.namespace and not kind.resource.namespaced:
        raise _no_such_resource()
    if kind.resource.namespaced and not target.namespace:
        if target.name:
            raise _no_such_resource()
        if verb not in ("list", "watch"):
            raise errors.method_not_allowed()
    if target.subresource and verb not in discovery.SUBRESOURCES[target.subresource]["verbs"]:
        raise errors.method_not_allowed()


def _no_such_resource() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", details={})


def _not_found() -> web.Response:
    return web.Response(text="404 page not found\n", status=404)


def _json(obj: Object, code: int = 200, *, warnings: Sequence[str] = (), retry_after: int = 0) -> web.Response:
    response = web.Response(body=orjson.dumps(obj) + b"\n", status=code, content_type=_JSON)
    if retry_after:
        response.headers["Retry-After"] = str(retry_after)
    for text in dict.fromkeys(warnings):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response
