"""What the scripted server says, in the keyword arguments of its `Answer`: pages, streams, refusals."""

import json
from typing import Any

from tollbar.model.objects import Object

END = "end-of-script"
"""The name of the object with which a script ends: when the store has it, all before it was handled."""


def pod(name: str, version: int, uid: str = "", **more: Any) -> Object:
    meta = {"namespace": "shop", "name": name, "uid": uid or f"{name}-1", "resourceVersion": str(version)}
    return {"metadata": meta, **more}


def page(version: int, *objects: Object, token: str = "") -> dict[str, Any]:
    return {
        "body": {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(objects)},
    }


def event(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": {"apiVersion": "v1", "kind": "Pod", **obj}}).encode() + b"\n"


def added(name: str, version: int, **more: Any) -> bytes:
    return event("ADDED", pod(name, version, **more))


def modified(name: str, version: int, **more: Any) -> bytes:
    return event("MODIFIED", pod(name, version, **more))


def deleted(name: str, version: int, **more: Any) -> bytes:
    return event("DELETED", pod(name, version, **more))


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def stream(*events: bytes, then: str = "end", takes: float = 0.0) -> dict[str, Any]:
    return {"chunks": events, "then": then, "takes": takes}


def last(*events: bytes) -> dict[str, Any]:
    return stream(*events, added(END, 1_000_000), then="hang")


def refusal(code: int, reason: str = "", **headers: str) -> dict[str, Any]:
    return {"status": code, "body": {"kind": "Status", "code": code, "reason": reason}, "headers": headers}


def expired(rest: str) -> dict[str, Any]:
    """For a page of a list that has expired, with the token for its rest."""
    body = {"kind": "Status", "metadata": {"continue": rest}, "code": 410, "reason": "Expired"}
    return {"status": 410, "body": body}


EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
BROKEN = b'{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError"}}\n'
DISCOVERED = {"body": {"resources": [{"name": "pods"}]}}
NOT_DISCOVERED = {"body": {"resources": [{"name": "nodes"}]}}


def status(code: int, reason: str = "", **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "m", **more}).encode()
