"""A small synchronous client of any control plane, which hides nothing: status codes, warnings, headers.

Tollbar's own client raises errors and drops what Tollbar does not need; the contract is what went over the wire, so a
row of the contract suite talks HTTP.  One `Api` is one identity in one namespace.
"""

import http.client
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml
from contract.objects import resource_of
from planes.access import Access
from planes.parameters import is_before

from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.model.objects import Object
from tollbar.model.resources import PODS, Resource
from tollbar.runtime.client import PatchType

PATIENCE = 45.0
"""Seconds for what happens by itself; generous, because the machine may be busy with other things."""
IDLE = 30.0
"""Seconds after which a connection is not used again: servers close it after a while, an API server after 90."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a client is told that asked for something wrong.

    `causes` are (reason, field, message).  In every text the test's namespace is written NAMESPACE and a uid UID.
    """

    code: int
    reason: str
    message: str
    causes: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the server."""

    code: int
    object: Any
    warnings: tuple[str, ...] = ()
    retry_after: str = ""

    def __getitem__(self, path: str) -> Any:
        """What is at a dotted path; None where there is nothing.  An empty path is the whole object."""
        return at(self.object, path)

    @property
    def version(self) -> str:
        """The object's resourceVersion."""
        return str(self["metadata.resourceVersion"])

    def accepted(self) -> "Answer":
        """This, for rows that build on it.  Fails when it is a refusal."""
        assert self.code < 300, self
        return self

    def refusal(self) -> Refusal:
        status: Object = self.object if isinstance(self.object, dict) else {"message": str(self.object)}
        listed = (status.get("details") or {}).get("causes") or ()
        causes = [(each.get("reason", ""), each.get("field", ""), each["message"]) for each in listed]
        if is_before("1.37"):
            causes = list(dict.fromkeys(causes))  # what is wrong with metadata was said for every look at it
        return Refusal(self.code, status.get("reason", ""), status.get("message", ""), tuple(causes))


@dataclass
class Watch:
    """An open watch; iterating gives (type, object) until the server ends it."""

    answer: http.client.HTTPResponse

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for line in self.answer:
            event = json.loads(line)
            yield event["type"], event["object"]

    def take(self, count: int) -> list[tuple[str, Any]]:
        return [event for _, event in zip(range(count), self, strict=False)]

    def names(self, count: int) -> list[tuple[str, str]]:
        """The next so many events as (type, name)."""
        return [(kind, obj["metadata"]["name"]) for kind, obj in self.take(count)]


@dataclass
class Api:
    """Requests in one namespace.  What a row creates is deleted after it (`clear`)."""

    access: Access
    namespace: str
    _created: list[str] = field(default_factory=list)
    _connection: http.client.HTTPSConnection | None = None
    _used: float = 0.0

    def create(self, obj: Object, **query: str) -> Answer:
        return self._kept(self.request("POST", self.path(resource_of(obj)), obj, **query), obj)

    def get(self, res: Resource, name: str, subresource: str = "", **query: str) -> Answer:
        return self.request("GET", self.path(res, name, subresource), **query)

    def page(self, res: Resource, **query: str) -> Answer:
        return self.request("GET", self.path(res), **query)

    def names(self, res: Resource, **query: str) -> list[str]:
        """Sorted names of what the list holds."""
        return sorted(each["metadata"]["name"] for each in self.page(res, **query).accepted()["items"])

    def table(self, res: Resource, name: str = "") -> Answer:
        """As kubectl asks for what it prints."""
        return self.request("GET", self.path(res, name), accept=TABLE)

    def replace(self, obj: Object, subresource: str = "", *, name: str = "", **query: str) -> Answer:
        path = self.path(resource_of(obj), name or obj["metadata"]["name"], subresource)
        return self._kept(self.request("PUT", path, obj, **query), obj)

    def patch(
        self, res: Resource, name: str, body: Any, kind: PatchType = PatchType.JSON, sub: str = "", **query: str
    ) -> Answer:
        answer = self.request("PATCH", self.path(res, name, sub), body, content_type=kind.value, **query)
        return self._kept(answer, {"metadata": {"name": name}})

    def delete(self, res: Resource, name: str, **options: Any) -> Answer:
        return self.request("DELETE", self.path(res, name), options or None)

    def bind(self, name: str = "web", node: str = "") -> Answer:
        """Give a Pod to a Node that does not exist, as a scheduler would; by default to one that nobody else has.

        kube-controller-manager deletes all Pods of a Node that it has missed for 40 s, those of this moment, too.
        """
        target = {"apiVersion": "v1", "kind": "Node", "name": node or str(uuid.uuid4())}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        return self.request("POST", self.path(PODS, name, "binding"), body)

    @contextmanager
    def watch(self, res: Resource, **query: str) -> Iterator[Watch]:
        connection = self.access.connect(PATIENCE)
        try:
            path = f"{self.path(res)}?{urlencode({'watch': '1', **query})}"
            connection.request("GET", path, headers=self.access.headers())
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield Watch(answer)
        finally:
            connection.close()

    def path(self, res: Resource, name: str = "", subresource: str = "") -> str:
        return res.path(self.namespace if res.namespaced else "", name, subresource)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
        **query: str,
    ) -> Answer:
        """One exchange.  A body that is bytes is sent as it is."""
        headers = {**self.access.headers(), "Accept": accept, "Content-Type": content_type}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if self._connection is None:
            self._connection = self.access.connect(PATIENCE)
        elif time.monotonic() - self._used > IDLE:
            self._connection.close()  # the next request opens it again
        self._connection.request(method, f"{path}?{urlencode(query)}" if query else path, content, headers)
        answer = self._connection.getresponse()
        received = answer.read()
        self._used = time.monotonic()
        return self._answer(answer, received)

    def acting_as(self, config: Mapping[str, Any]) -> "Api":
        """The same namespace with other credentials; what it creates, this deletes."""
        return Api(Access.of(config), self.namespace, self._created)

    def clear(self) -> None:
        """Delete what was created, newest first, finalizers or not."""
        for path in reversed(self._created):
            left = self.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            if left.code < 300 and left["metadata.finalizers"]:
                body = {"metadata": {"finalizers": None}}
                self.request("PATCH", path, body, content_type=PatchType.MERGE.value)
        self._created.clear()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _kept(self, answer: Answer, obj: Object) -> Answer:
        """Remembers what the answer created."""
        if answer.code == 201 and "metadata" in answer.object and answer["metadata.name"]:
            res = resource_of({**obj, **answer.object})
            path = self.path(res, answer["metadata.name"])
            if path not in self._created:
                self._created.append(path)
        return answer

    def _answer(self, answer: http.client.HTTPResponse, body: bytes) -> Answer:
        if answer.status >= 400:
            body = _UID.sub("UID", body.decode().replace(self.namespace, "NAMESPACE")).encode()
        try:
            decoded = json.loads(body)
        except ValueError:
            decoded = body.decode()
        warnings = [
            match[1].replace('\\"', '"')
            for match in _WARNING.finditer(", ".join(answer.headers.get_all("Warning", [])))
        ]
        return Answer(answer.status, decoded, tuple(warnings), answer.headers.get("Retry-After", ""))


def settings(plane: Any, kubeconfig: Path | None = None) -> Any:
    """The content of a kubeconfig, by default the administrator's, with one context and nothing in other files."""
    if isinstance(plane, EmbeddedPlane):
        return yaml.safe_load((kubeconfig or plane.kubeconfig).read_text())
    named = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    return plane.kubectl.json("config", "view", "--minify", "--raw", "--flatten", *named)


def at(obj: Any, path: str) -> Any:
    """What is at a dotted path of decoded JSON; list members by index."""
    for step in path.split(".") if path else ():
        if isinstance(obj, list):
            obj = obj[int(step)] if int(step) < len(obj) else None
        elif isinstance(obj, dict):
            obj = obj.get(step)
        else:
            return None
    return obj


def told(outcome: Any) -> Any:
    """An outcome as tables write it: an answer is its refusal or its code, everything else is itself."""
    if not isinstance(outcome, Answer):
        return outcome
    return outcome.refusal() if outcome.code >= 300 else outcome.code


def until(holds: Callable[[], Any], what: str) -> Any:
    """The first truthy answer to a question that has to be asked again and again.  Fails with `what`."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.01)
    return answer
