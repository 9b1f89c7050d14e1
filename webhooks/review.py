"""Decodes and encodes AdmissionReviews (k8s.io/api/admission/v1).

A body that is not a review raises `BadReview`, whose message is one line that repeats nothing of the body except its
apiVersion.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from tollbar.model.fields import quoted
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.resources import Resource

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"


class BadReview(ValueError):
    """The body is not an AdmissionReview of a supported version."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a handler.  With a `denial`, a metav1.Status, the request is refused and `patch` is not sent."""

    patch: Patch = ()
    warnings: tuple[str, ...] = ()
    denial: Object | None = None


ALLOWED: Final = Answer()

Handler: TypeAlias = Callable[[Object], Answer]
"""From `review.request` to an answer, without awaiting anything."""


def parse(body: bytes | bytearray) -> Object:
    """The request of a review; it has a uid.  Raises BadReview."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from None
    if not isinstance(review, dict) or review.get("kind") != KIND:
        raise BadReview(f"the body is not an {KIND}")
    if review.get("apiVersion") != API_VERSION:
        raise BadReview(f"apiVersion {quoted(review.get('apiVersion'))} is not supported, only {API_VERSION} is")
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview(f"the {KIND} has no request")
    if not isinstance(request.get("uid"), str) or not request["uid"]:
        raise BadReview(f"the {KIND} has no request.uid")
    return request


def created(request: Object, *kinds: Resource) -> Object | None:
    """The object that is created, in its namespace; None when the request is not for the creation of one of these.

    Nor is there an object without metadata or spec: no patch would apply to it.
    """
    kind, obj = request.get("kind") or {}, request.get("object")
    if request.get("operation") != "CREATE" or request.get("subResource"):
        return None
    if not any((kind.get("group") or "", kind.get("version"), kind.get("kind")) == _kind(each) for each in kinds):
        return None
    if not isinstance(obj, dict) or not isinstance(obj.get("spec"), dict) or not isinstance(obj.get("metadata"), dict):
        return None
    namespace = obj["metadata"].get("namespace") or request.get("namespace") or ""
    return {**obj, "kind": kind["kind"], "metadata": {**obj["metadata"], "namespace": namespace}}


def _kind(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.kind


def render(request: Object, answer: Answer) -> bytes:
    """The review that answers this request."""
    response: Object = {"uid": request["uid"], "allowed": answer.denial is None}
    if answer.denial is not None:
        response["status"] = answer.denial
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = answer.warnings
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
