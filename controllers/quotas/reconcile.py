"""Reconciles one PodQuota: writes in its status what is used and what waits, numbers once in a period."""

from dataclasses import dataclass

from controllers.status import StatusWriter
from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.decide.quotas import quotastatus
from tollbar.gates.quota import QuotaLedger
from tollbar.model.objects import Key
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Deps:
    ledger: QuotaLedger
    status: StatusWriter
    clock: Clock


async def reconcile(key: Key, deps: Deps) -> Outcome:
    ledger = deps.ledger
    obj = ledger.counts.quotas.get(key)
    if obj is None:
        deps.status.forget(key)
        return DONE
    parsed, account = parse_quota(obj), ledger.accounts.get(key.name)
    used = account.used if account is not None else {}
    if isinstance(parsed, PodQuota):
        found = quotastatus.Usage(parsed.spec.amounts, used, ledger.running[key.name], ledger.waiting[key.name])
    else:
        found = quotastatus.Usage({}, {}, 0, 0, tuple(map(str, parsed)))
    plan = quotastatus.decide(obj, found, deps.status.written(key), deps.clock.now())
    return await deps.status.write(obj, plan)
