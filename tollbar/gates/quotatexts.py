"""What `tollbar explain` shows of the PodQuotas that cover a Pod: what is used, and which Pods are before it."""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Final

from tollbar.decide.quotas.admission import Account, Admission, Held
from tollbar.decide.quotas.lines import Charge
from tollbar.decide.quotas.quotastatus import text
from tollbar.gates.explanation import Section
from tollbar.model.objects import Key

_NAMED: Final = 100
"""Pods before it that are listed."""


def sections(charge: Charge, found: Admission, charges: Mapping[Key, Charge]) -> Iterator[Section]:
    """Of the Pod with this charge; `charges` are those of all Pods that `found` is about."""
    rows = [
        (name, resource, text(account.used[resource]), text(limit), text(amount), _share(account, charge))
        for name in charge.quotas
        if (account := found.accounts.get(name)) is not None
        for resource, amount, limit in account.taken(charge)
    ]
    yield Section("PodQuotas", ("QUOTA", "RESOURCE", "USED", "LIMIT", "THE POD", "ITS NAMESPACE"), tuple(rows))
    earlier = takewhile(lambda key: key != charge.pod, found.held if charge.pod in found.held else ())
    before = [each for key in earlier if not set((each := charges[key]).quotas).isdisjoint(charge.quotas)]
    title = "Pods before it" if len(before) <= _NAMED else f"Pods before it, the first {_NAMED} of {len(before)}"
    yield Section(
        title,
        ("POD", "PRIORITY", "WAITS FOR"),
        tuple((str(each.pod), str(each.priority), _why(found.held[each.pod])) for each in before[:_NAMED]),
    )


def _why(held: Held) -> str:
    return f"{held.reason}: {held.subject}"


def _share(account: Account, charge: Charge) -> str:
    """The share of the Pod's namespace, if the quota shares fairly."""
    share = account.share(charge.pod.namespace)
    return f"{share:.0%}" if account.quota.fair and share.is_finite() else "-"
