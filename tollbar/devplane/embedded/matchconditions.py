"""`matchConditions` of admission webhooks: CEL expressions that are all true of the requests that a webhook is sent.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions.
"""

from functools import lru_cache

from tollbar import cel
from tollbar.devplane.embedded.validation.others import CONDITION_ENV
from tollbar.model.objects import Object


def outcome(webhook: Object, request: Object) -> bool | str:
    """Whether every condition is true of this AdmissionRequest (admission.k8s.io/v1).

    Where one fails and none is false, the API server's words about the failure.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": request,
    }
    failure = ""
    for condition in webhook.get("matchConditions") or ():
        answer = _compiled(condition["expression"]).evaluate(variables)
        if answer is False:
            return False
        if isinstance(answer, cel.CelError):
            failure = f"expression '{condition['expression']}' resulted in error: {answer.message}"
    return failure or True


@lru_cache(maxsize=256)
def _compiled(expression: str) -> cel.Program:
    return cel.engine().compile(expression, CONDITION_ENV)
