"""The AdmissionReview envelope: what is refused, and what an answer looks like."""

import base64
from typing import Any

import orjson
import pytest

from webhooks.review import Answer, BadReview, parse, render

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "x": 1}}

REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the body is not JSON: "),
    "broken JSON": (b'{"kind": ', "the body is not JSON: "),
    "JSON that is too deep": (b"[" * 5000 + b"]" * 5000, "the body is not JSON: "),
    "bytes that are no text": (b"\xff\xfe{}", "the body is not JSON: "),
    "a list": (b"[]", "the body is not an AdmissionReview"),
    "a number": (b"7", "the body is not an AdmissionReview"),
    "another kind": (orjson.dumps({**REVIEW, "kind": "Pod"}), "the body is not an AdmissionReview"),
    "an older version": (
        orjson.dumps({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}),
        'apiVersion "admission.k8s.io/v1beta1" is not supported, only admission.k8s.io/v1 is',
    ),
    "no version": (
        orjson.dumps({"kind": "AdmissionReview"}),
        "apiVersion null is not supported, only admission.k8s.io/v1 is",
    ),
    "no request": (orjson.dumps({**REVIEW, "request": None}), "the AdmissionReview has no request"),
    "a request that is a text": (orjson.dumps({**REVIEW, "request": "x"}), "the AdmissionReview has no request"),
    "a request without a uid": (orjson.dumps({**REVIEW, "request": {}}), "the AdmissionReview has no request.uid"),
    "a uid that is a number": (
        orjson.dumps({**REVIEW, "request": {"uid": 7}}),
        "the AdmissionReview has no request.uid",
    ),
}


@pytest.mark.parametrize(("body", "want"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_review_is_refused_in_one_line(body: bytes, want: str) -> None:
    with pytest.raises(BadReview) as refusal:
        parse(body)
    text = str(refusal.value)
    assert (text.startswith(want), "\n" in text, len(text) < 200) == (True, False, True)


def test_a_review_is_its_request() -> None:
    assert parse(orjson.dumps(REVIEW)) == {"uid": "u", "x": 1}


PATCH = ({"op": "add", "path": "/spec/x", "value": 1},)
RENDERED: dict[str, tuple[Answer, dict[str, Any]]] = {
    "nothing to say": (Answer(), {"uid": "u", "allowed": True}),
    "a patch": (
        Answer(patch=PATCH),
        {
            "uid": "u",
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(b'[{"op":"add","path":"/spec/x","value":1}]').decode(),
        },
    ),
    "warnings": (Answer(warnings=("a", "b")), {"uid": "u", "allowed": True, "warnings": ["a", "b"]}),
    "a denial": (Answer(denial={"code": 422}), {"uid": "u", "allowed": False, "status": {"code": 422}}),
    "a denial leaves the patch out": (
        Answer(patch=PATCH, denial={"code": 422}),
        {"uid": "u", "allowed": False, "status": {"code": 422}},
    ),
}


@pytest.mark.parametrize(("answer", "want"), RENDERED.values(), ids=RENDERED)
def test_an_answer_is_a_review_of_the_same_uid(answer: Answer, want: dict[str, Any]) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": want}
    assert orjson.loads(render({"uid": "u"}, answer)) == review
