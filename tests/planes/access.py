"""Requests to the API server of any plane over HTTP: a process of kubectl takes longer than most that is asked."""

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tollbar.devplane.kubectl import Kubectl
from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource

KINDS: Final = {(each.api_version, each.kind): each for each in vars(resources).values() if isinstance(each, Resource)}
"""What Tollbar knows, by `apiVersion` and `kind`."""
SECONDS: Final = 90.0
"""For one exchange: an API server works on a request for one minute."""


class RefusedError(Exception):
    """The API server answered with a status code of at least 300, and this message."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how to be admitted."""

    server: str
    tls: ssl.SSLContext
    token: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Access":
        """From what `kubectl config view --minify --raw --flatten` prints."""
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        if "client-certificate-data" in user:
            with tempfile.TemporaryDirectory() as directory:
                pair = Path(directory, "pair.pem")
                both = (user["client-certificate-data"], user["client-key-data"])
                pair.write_bytes(b"\n".join(base64.b64decode(each) for each in both))
                tls.load_cert_chain(pair)
        return cls(cluster["server"], tls, user.get("token", ""))

    def connect(self, seconds: float = SECONDS) -> http.client.HTTPSConnection:
        url = urlsplit(self.server)
        assert url.hostname is not None
        return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=seconds, context=self.tls)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def answer(self, method: str, path: str, body: Object | None = None, **query: str) -> tuple[int, Any]:
        """Status code and decoded body, over a connection of its own: the server may have been started again."""
        content = None if body is None else json.dumps(body)
        headers = {**self.headers(), "Content-Type": "application/json", "Accept": "application/json"}
        with closing(self.connect()) as connection:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path, content, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else {"message": text}

    def request(self, method: str, path: str, body: Object | None = None, **query: str) -> Any:
        """The decoded body.  Raises RefusedError."""
        code, answer = self.answer(method, path, body, **query)
        if code >= http.client.MULTIPLE_CHOICES:
            raise RefusedError(f"{method} {path}: {code} {answer.get('message', '')}")
        return answer

    def read(self, res: Resource, name: str = "", namespace: str = "", **query: str) -> Object:
        """An object, or the list of those in a namespace or everywhere, as `kubectl get -o json` prints it.

        Raises RefusedError.
        """
        found: Object = self.request("GET", res.path(namespace, name), **query)
        items = [found] if name else found["items"]
        for each in items:
            each.update(res.type_meta)
            each["metadata"].pop("managedFields", None)
        return found

    def creates(self, obj: Object, **query: str) -> Object:
        """What the server answers to a creation.  Raises RefusedError."""
        path = KINDS[obj["apiVersion"], obj["kind"]].path(obj["metadata"].get("namespace", "default"))
        created: Object = self.request("POST", path, obj, fieldValidation="Strict", fieldManager="tests", **query)
        return created


@cache
def access(kubectl: Kubectl) -> Access:
    """That of the identity which this kubectl acts as."""
    return Access.of(kubectl.json("config", "view", "--minify", "--raw", "--flatten"))
