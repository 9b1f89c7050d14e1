"""How PodQuotas stand, for `tollbar status`: what of each is used, as the controllers have counted it last."""

from dataclasses import dataclass
from typing import Final

from tollbar import wellknown
from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.api.reasons import QuotaReason
from tollbar.decide.quotas.quotastatus import text
from tollbar.model import conditions
from tollbar.model.objects import Object, key_of

_UNSEEN: Final = "not looked at yet: no controller leads with the gate class quota"


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """Quantities by resource; how many Pods run and wait; `problem` is empty for a quota that is in force and kept."""

    name: str
    hard: dict[str, str]
    used: dict[str, str]
    running: int
    waiting: int
    problem: str

    def __str__(self) -> str:
        amounts = ", ".join(f"{name} {self.used.get(name, '?')}/{limit}" for name, limit in self.hard.items())
        return f"{amounts or 'no limits'}; {self.running} run, {self.waiting} wait"


def status_of(quota: Object) -> QuotaStatus:
    parsed, said = parse_quota(quota), quota.get("status") or {}
    limits = parsed.spec.amounts if isinstance(parsed, PodQuota) else {}
    return QuotaStatus(
        name=key_of(quota).name,
        hard={name: text(amount) for name, amount in sorted(limits.items())},
        used={str(name): str(amount) for name, amount in (said.get("used") or {}).items()},
        running=int(said.get("running") or 0),
        waiting=int(said.get("waiting") or 0),
        problem=_problem(quota),
    )


def _problem(quota: Object) -> str:
    ready = conditions.of(quota, wellknown.CONDITION_READY)
    if not ready:
        return _UNSEEN
    if ready.get("status") == "True" and ready.get("reason") != QuotaReason.EXCEEDED:
        return ""
    return ": ".join(str(each) for each in (ready.get("reason"), ready.get("message")) if each)
