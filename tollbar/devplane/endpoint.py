"""Single HTTPS requests to the components of a plane: readiness probes, tokens, audit fences.

The API client proper is `tollbar.runtime.client`; this one is synchronous, and the proxy settings of the environment do
not apply to it.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tollbar.devplane.ports import HOST


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One component's HTTP port; `authority` is the CA certificate's file, None for plain HTTP."""

    port: int
    authority: Path | None = None
    token: str = ""

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, user_agent: str = "tollbar-plane"
    ) -> tuple[int, bytes]:
        """Status code and body.  Raises OSError when there is no answer, or no certificate, yet."""
        connection = self._connection()
        try:
            headers = {"User-Agent": user_agent, "Content-Type": "application/json"}
            if self.token:
                headers["Authorization"] = f"Bearer {self.token}"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def ok(self, path: str) -> bool:
        """Whether a GET answers 200; False while nothing listens."""
        try:
            return self.request("GET", path)[0] == http.client.OK
        except OSError:
            return False

    def _connection(self) -> http.client.HTTPConnection:
        if self.authority is None:
            return http.client.HTTPConnection(HOST, self.port, timeout=10)
        context = ssl.create_default_context(cafile=str(self.authority))
        return http.client.HTTPSConnection(HOST, self.port, timeout=10, context=context)
