"""Answers reviews of ResourceClaims and ResourceClaimTemplates at their creation: adds tolerations of devices.

The decision is `tollbar.decide.claims.devicetolerations`; the answer comes from the caches alone.  What a rule in Audit
would add, and what a rule could not decide, is returned as warnings.  A dry run gets the same answer and is not
counted.

Hazard: while this process is down, or its caches are behind, claims and templates are created without these
tolerations, and none are added later, because their specs are immutable.
"""

from tollbar.model.objects import Object
from tollbar.model.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tollbar.views.devicetolerations import DeviceTolerations
from webhooks.review import ALLOWED, Answer

_KINDS = (RESOURCE_CLAIMS.kind, RESOURCE_CLAIM_TEMPLATES.kind)


class ClaimHandler:
    def __init__(self, tolerations: DeviceTolerations) -> None:
        self._tolerations = tolerations

    def __call__(self, request: Object) -> Answer:
        obj = created_claim(request)
        if obj is None:
            return ALLOWED
        plan = self._tolerations.decide(obj)
        if not request.get("dryRun"):
            self._tolerations.admitted(plan)
        return Answer(patch=plan.patch, warnings=plan.warnings)


def created_claim(request: Object) -> Object | None:
    """The claim or template, in its namespace; None when the request is something else than the creation of one."""
    kind, obj = request.get("kind") or {}, request.get("object")
    if request.get("operation") != "CREATE" or request.get("subResource"):
        return None
    if kind.get("group") != RESOURCE_CLAIMS.group or kind.get("kind") not in _KINDS:
        return None
    if kind.get("version") != RESOURCE_CLAIMS.version:
        return None  # older versions have the fields of `exactly` in the request itself
    if not isinstance(obj, dict) or not isinstance(obj.get("spec"), dict) or not isinstance(obj.get("metadata"), dict):
        return None
    namespace = obj["metadata"].get("namespace") or request.get("namespace") or ""
    return {**obj, "kind": kind["kind"], "metadata": {**obj["metadata"], "namespace": namespace}}
