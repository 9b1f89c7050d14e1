"""What the status of a PodQuota says."""

from decimal import Decimal

import pytest

from tollbar.api.reasons import QuotaReason
from tollbar.decide.quotas.quotastatus import Usage, decide
from tollbar.model.objects import Object

LIMITS = {"cpu": Decimal(2), "memory": Decimal(4096)}
SAYS: dict[str, tuple[Usage, str, str, dict[str, str]]] = {
    "nothing is used": (Usage(LIMITS, {}, 0, 3), "True", QuotaReason.IN_FORCE, {"cpu": "0", "memory": "0"}),
    "all is used": (
        Usage(LIMITS, {"cpu": Decimal(2), "memory": Decimal(4096)}, 2, 0),
        "True",
        QuotaReason.IN_FORCE,
        {"cpu": "2", "memory": "4096"},
    ),
    "more is used": (
        Usage(LIMITS, {"cpu": Decimal("2.0001")}, 2, 0),
        "True",
        QuotaReason.EXCEEDED,
        {"cpu": "2001m", "memory": "0"},
    ),
    "it is not valid": (Usage({}, {}, 0, 0, ("spec.limits: Required value",)), "False", QuotaReason.INVALID_SPEC, {}),
}


@pytest.mark.parametrize(("usage", "status", "reason", "used"), SAYS.values(), ids=SAYS)
def test_status(usage: Usage, status: str, reason: str, used: dict[str, str]) -> None:
    plan = decide({"metadata": {"generation": 3}}, usage, None, 0.0)
    assert plan.status is not None
    (condition,) = plan.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", status, reason)
    assert (plan.status["used"], plan.status["observedGeneration"]) == (used, 3)


def test_a_resource_that_has_no_limit_any_more_is_taken_away() -> None:
    before = decide({"metadata": {}}, Usage(LIMITS, {}, 0, 0), None, 0.0).status
    quota: Object = {"metadata": {}, "status": before}
    plan = decide(quota, Usage({"cpu": Decimal(2)}, {}, 0, 0), None, 100.0)
    assert plan.status is not None
    assert plan.status["used"] == {"cpu": "0", "memory": None}


def test_the_same_again_is_not_written() -> None:
    usage = Usage(LIMITS, {"cpu": Decimal(1)}, 1, 0)
    quota: Object = {"metadata": {}, "status": decide({"metadata": {}}, usage, None, 0.0).status}
    assert decide(quota, usage, None, 100.0).status is None
