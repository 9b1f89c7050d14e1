"""One call of an admission webhook over TLS, and the checks of its response.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/request and .../webhook/errors.
"""

import base64
import binascii
import ssl
from functools import lru_cache
from typing import Any, Final

import aiohttp
import orjson

from tollbar.devplane.embedded.errors import Refused
from tollbar.model.objects import Object
from tollbar.runtime.connector import Connector

_API: Final = "admission.k8s.io/v1"
_TYPES: Final = {"allowed": bool, "patch": str, "patchType": str, "status": dict, "warnings": list}


class NotCalled(Exception):
    """There is no valid response; failurePolicy decides what follows."""


def internal(message: str) -> Refused:
    details = {"causes": [{"message": message}]}
    return Refused(500, "InternalError", f"Internal error occurred: {message}", details=details)


def denial(webhook: Object, result: Object) -> Refused:
    """The refusal of a webhook that denied the request, with its code, reason and details."""
    said = result.get("message") or result.get("reason")
    why = f": {said}" if said else " without explanation"
    return Refused(
        max(result.get("code") or 0, 400),
        result.get("reason") or "",
        f'admission webhook "{webhook["name"]}" denied the request{why}',
        details=result.get("details"),
    )


class Caller:
    """Calls webhooks; connections are kept open."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, webhook: Object, request: Object) -> Object:
        """The `response` of an AdmissionReview.  Raises NotCalled."""
        review = {"kind": "AdmissionReview", "apiVersion": _API, "request": request}
        try:
            answer = await self._post(webhook, orjson.dumps(review))
        except TimeoutError as error:
            raise NotCalled("failed to call webhook: context deadline exceeded") from error
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise NotCalled(f"failed to call webhook: {error}") from error
        return _response(answer, request["uid"])

    async def _post(self, webhook: Object, body: bytes) -> Any:
        client, seconds = webhook["clientConfig"], webhook.get("timeoutSeconds", 10)
        if "url" not in client:
            service = client["service"]
            raise ValueError(f'service "{service["name"]}" not found: there are no Services here')
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=Connector(), headers={"User-Agent": "kube-apiserver-admission"}
            )
        async with self._session.post(
            client["url"],
            params={"timeout": f"{seconds}s"},
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=_ssl_context(client.get("caBundle") or ""),
            timeout=aiohttp.ClientTimeout(total=seconds),
        ) as answer:
            content = await answer.read()
            if answer.status != 200:
                raise ValueError(f"the server answered {answer.status}")
            return orjson.loads(content)


@lru_cache(maxsize=64)
def _ssl_context(bundle: str) -> ssl.SSLContext:
    """A context that trusts this CA bundle, or the system's CAs if it is empty.  ValueError for a malformed bundle."""
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() or None)
    except (binascii.Error, ssl.SSLError) as error:
        raise ValueError("unable to load root certificates: unable to parse bytes as PEM block") from error


def _response(answer: Any, uid: str) -> Object:
    """The response in an answer to the request of this uid.  Raises NotCalled."""
    response = answer.get("response") if isinstance(answer, dict) else None
    if not isinstance(response, dict):
        raise NotCalled("received invalid webhook response: webhook response was absent")
    if mistyped := [name for name, type_ in _TYPES.items() if not isinstance(response.get(name) or type_(), type_)]:
        raise NotCalled(f"failed to call webhook: json: cannot unmarshal field response.{mistyped[0]}")
    if response.get("uid") != uid:
        got = f'got "{response.get("uid") or ""}"'
        raise NotCalled(f'received invalid webhook response: expected response.uid="{uid}", {got}')
    if response.get("patch") and not response.get("patchType"):
        raise NotCalled("received invalid webhook response: webhook returned response.patch but not response.patchType")
    return response
