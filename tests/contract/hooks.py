"""An admission webhook server for rows: HTTPS on loopback, which answers as it is told and remembers who asked.

Hazard: the API server must reach this machine's loopback address; a plane elsewhere cannot run these rows.
"""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme
from contract.api import Api, until
from contract.objects import made, pod, resource_of

from tollbar.model.objects import Object
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, Resource

PROBE = "probe"
CREATE_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
Reply = Callable[[Object], Any]
"""From the request of an AdmissionReview to its response, without the uid; or to (HTTP status, body)."""


def patching(*operations: Object) -> Reply:
    """Allows, and changes the object."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def allowing(**response: Any) -> Reply:
    return lambda _request: {"allowed": True, **response}


def denying(**status: Any) -> Reply:
    return lambda _request: {"allowed": False, **({"status": status} if status else {})}


@dataclass
class Hooks:
    """One running server.  `replies` is by path; what has no reply is allowed."""

    url: str
    authority: bytes
    replies: dict[str, Reply] = field(default_factory=dict)
    calls: list[tuple[str, Object]] = field(default_factory=list)
    """Path and AdmissionReview request of every call, in order."""
    ended: threading.Event = field(default_factory=threading.Event)

    def client(self, path: str, *, url: str = "", authority: bytes = b"") -> Object:
        """A webhook's `clientConfig`."""
        bundle = base64.b64encode(authority or self.authority).decode()
        return {"url": (url or self.url) + path, "caBundle": bundle}

    def hang(self, _request: Object) -> Any:
        """A reply that does not come before the server is stopped."""
        self.ended.wait()
        return 503, b""

    def asked(self, *, but: str = PROBE) -> list[str]:
        """The paths that were called, without the slash, in order."""
        return [path[1:] for path, _ in self.calls if path != f"/{but}"]


def _handler(hooks: Hooks) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.split("?")[0]
            hooks.calls.append((path, review["request"]))
            reply = hooks.replies.get(path, allowing())(review["request"])
            if isinstance(reply, tuple):
                code, body = reply
            else:
                response = {"uid": review["request"]["uid"], **reply}
                code, body = 200, json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json" if code == 200 else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Nothing on stderr."""

    return Handler


class _Server(ThreadingHTTPServer):
    """Each call has a connection and a thread of its own; callers that hang up are no error."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), BaseHTTPRequestHandler)
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, _request: Any, _client: Any) -> None:
        """A caller that did not trust us, or did not wait."""


@contextmanager
def serving() -> Iterator[Hooks]:
    """A server with an authority of its own."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    server = _Server(tls)
    hooks = Hooks(f"https://127.0.0.1:{server.server_address[1]}", authority.cert_pem.bytes())
    server.RequestHandlerClass = _handler(hooks)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hooks
    finally:
        hooks.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> str:
    """A URL at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"https://127.0.0.1:{free.getsockname()[1]}"


def webhook(client: Object, case: str, **fields: Any) -> Object:
    """A webhook for the creation of Pods with the label `case`."""
    return {
        "name": f"{case}.contract.example.com",
        "clientConfig": client,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "rules": [CREATE_PODS],
        "objectSelector": {"matchLabels": {"case": case}},
        **fields,
    }


def configuration(
    hooks: Hooks, api: Api, name: str, *webhooks: Object, res: Resource = MUTATING_WEBHOOK_CONFIGURATIONS
) -> Object:
    """These webhooks, for one namespace, behind one that shows when all are in force."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    every = [webhook(hooks.client(f"/{PROBE}"), PROBE), *webhooks]
    return made(
        res,
        f"{name}-{api.namespace}",
        webhooks=[{"namespaceSelector": selector, **each} for each in every],
    )


@contextmanager
def installed(hooks: Hooks, api: Api, *configurations: Object) -> Iterator[None]:
    """In force inside the block, made one after the other; deleted after it."""
    paths = []
    try:
        for each in configurations:
            res = resource_of(each)
            api.request("POST", res.path(), each).accepted()
            paths.append(res.path("", each["metadata"]["name"]))
            until(lambda: probed(hooks, api) == len(paths), "the configuration is in force")
        hooks.calls.clear()
        yield
    finally:
        for path in paths:
            api.request("DELETE", path)


def probed(hooks: Hooks, api: Api) -> int:
    """How many probes a Pod meets."""
    hooks.calls.clear()
    api.create(labelled(PROBE), dryRun="All").accepted()
    return len(hooks.calls)


def labelled(case: str, *gates: str, **spec: Any) -> Object:
    """A Pod that the webhooks of this case hear of."""
    return pod(*gates, metadata={"labels": {"case": case}}, **spec)
