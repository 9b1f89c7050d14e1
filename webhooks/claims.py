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
from webhooks.review import ALLOWED, Answer, created


class ClaimHandler:
    """Objects of other versions are left alone: v1beta1 has the fields of `exactly` in the request itself."""

    def __init__(self, tolerations: DeviceTolerations) -> None:
        self._tolerations = tolerations

    def __call__(self, request: Object) -> Answer:
        obj = created(request, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
        if obj is None:
            return ALLOWED
        plan = self._tolerations.decide(obj)
        if not request.get("dryRun"):
            self._tolerations.admitted(plan)
        return Answer(patch=plan.patch, warnings=plan.warnings)
