"""What the status of a PodQuota says, and when it is written."""

from decimal import Decimal

import pytest
from objects.builders import ready_status

from tollbar.api.reasons import QuotaReason
from tollbar.decide.quotas.quotastatus import Usage, decide
from tollbar.decide.status import StatusPlan
from tollbar.model.objects import Object
from tollbar.model.plan import RetryAfter

LIMITS = {"cpu": Decimal(2), "memory": Decimal(4096)}


def saying(ready: str, reason: str, message: str, used: dict[str, str | None], running: int, waiting: int) -> Object:
    numbers = ready_status(ready, reason, message, since=0.0, generation=3, running=running, waiting=waiting)
    return {**numbers, "used": used}


SAYS: dict[str, tuple[Usage, Object]] = {
    "nothing is used": (
        Usage(LIMITS, {}, 0, 3),
        saying("True", QuotaReason.IN_FORCE, "", {"cpu": "0", "memory": "0"}, 0, 3),
    ),
    "all is used": (
        Usage(LIMITS, {"cpu": Decimal(2), "memory": Decimal(4096)}, 2, 0),
        saying("True", QuotaReason.IN_FORCE, "", {"cpu": "2", "memory": "4096"}, 2, 0),
    ),
    "a part is used": (
        Usage(LIMITS, {"cpu": Decimal("0.5"), "memory": Decimal("0.0001")}, 1, 0),
        saying("True", QuotaReason.IN_FORCE, "", {"cpu": "500m", "memory": "1m"}, 1, 0),
    ),
    "more is used": (
        Usage(LIMITS, {"memory": Decimal(5000), "cpu": Decimal("2.0001")}, 2, 0),
        saying(
            "True",
            QuotaReason.EXCEEDED,
            "more is used than the limit of cpu, memory",
            {"cpu": "2001m", "memory": "5000"},
            2,
            0,
        ),
    ),
    "nothing is allowed and nothing is used": (
        Usage({"cpu": Decimal(0)}, {}, 0, 1),
        saying("True", QuotaReason.IN_FORCE, "", {"cpu": "0"}, 0, 1),
    ),
    "it is not valid": (
        Usage({}, {}, 0, 0, ("spec.limits: Required value", "spec.patience: Invalid value")),
        saying(
            "False", QuotaReason.INVALID_SPEC, "spec.limits: Required value; spec.patience: Invalid value", {}, 0, 0
        ),
    ),
}


@pytest.mark.parametrize(("usage", "status"), SAYS.values(), ids=SAYS)
def test_status(usage: Usage, status: Object) -> None:
    assert decide({"metadata": {"generation": 3}}, usage, None, 0.0) == StatusPlan(status)


WITHIN = saying("True", QuotaReason.IN_FORCE, "", {"cpu": "0", "memory": "0"}, 0, 0)
LESS = Usage({"cpu": Decimal(2)}, {}, 0, 0)
WRITES: dict[str, tuple[Usage, float | None, StatusPlan]] = {
    "the same again": (Usage(LIMITS, {}, 0, 0), None, StatusPlan()),
    "a resource that has no limit any more is taken away": (
        LESS,
        None,
        StatusPlan({**WITHIN, "used": {"cpu": "0", "memory": None}}),
    ),
    "but not soon after a write": (LESS, 90.0, StatusPlan(outcome=RetryAfter(20.0))),
}


@pytest.mark.parametrize(("usage", "written", "want"), WRITES.values(), ids=WRITES)
def test_what_is_written_over_a_status(usage: Usage, written: float | None, want: StatusPlan) -> None:
    assert decide({"metadata": {"generation": 3}, "status": WITHIN}, usage, written, 100.0) == want
