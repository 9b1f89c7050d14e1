"""The authority of the webhook's certificates: when it is replaced, and which authorities the API server has to trust.

An authority is replaced in two steps, so that every certificate in use is trusted at any moment (the pre-publication
of RFC 7583).  First the next one is made and added to the webhook configurations, beside the current one.  Once all of
them have it and it has had time to reach every API server, it becomes the current one, which signs certificates.  The
ones before it stay in the configurations, since replicas of the webhook may still serve what those have signed.

A decision depends only on the objects of the API server and on the time, so that a new leader goes on where the last
one ended, and a Secret that was deleted or damaged is treated like one that never existed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tollbar.model.certificates import Certificate, KeyPair

KEPT: Final = 2
"""Certificates of others, or of authorities before the current one, that stay in a configuration."""


class Step(Enum):
    """What is done to the Secret."""

    KEEP = auto()
    PREPARE = auto()
    """A next authority is made and added."""
    PROMOTE = auto()
    """The next authority becomes the current one."""


@dataclass(frozen=True, slots=True)
class AuthorityFacts:
    """`current` and `next` are the usable authorities of the Secret; `bundles` what each webhook that is ours to look
    after trusts; `pre_publication` in seconds."""

    current: KeyPair | None
    next: KeyPair | None
    bundles: Sequence[Sequence[Certificate]]
    pre_publication: float


@dataclass(frozen=True, slots=True)
class AuthorityPlan:
    """`bundles` is what each webhook shall trust, in the order of the facts; `wait` are the seconds after which to
    decide again if nothing changes, None if nothing will."""

    step: Step = Step.KEEP
    bundles: Sequence[Sequence[Certificate]] = ()
    wait: float | None = None


def decide(facts: AuthorityFacts, now: float) -> AuthorityPlan:
    """The plan.  Where no webhook is to be looked after no authority is made: what there is may be of no use.

    One that was to be the next is then used at once if there is no other, since replicas wait for it.
    """
    current = facts.current if facts.current and facts.current.is_valid(now) else None
    successor = facts.next if facts.next and facts.next.is_fresh(now) else None
    if not facts.bundles:
        return AuthorityPlan(Step.PROMOTE if successor is not None and current is None else Step.KEEP)
    trusted = [each for each in (current, successor) if each is not None]
    bundles = tuple(_with(trusted, bundle) for bundle in facts.bundles)
    if successor is None:
        if current is None or not current.is_fresh(now):
            return AuthorityPlan(Step.PREPARE, bundles)
        return AuthorityPlan(Step.KEEP, bundles, current.due - now)
    if not all(_has(bundle, successor) for bundle in facts.bundles):
        return AuthorityPlan(Step.KEEP, bundles, facts.pre_publication)
    remaining = successor.made + facts.pre_publication - now
    if remaining > 0 and _something_is_served(facts, successor, now):
        return AuthorityPlan(Step.KEEP, bundles, remaining)
    return AuthorityPlan(Step.PROMOTE, bundles)


def _with(trusted: Sequence[Certificate], bundle: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """`trusted`, and of the others in the bundle those that end last: even an expired one, since this clock may be
    wrong and the API server's right."""
    others = [each for each in bundle if not _has(trusted, each)]
    return (*map(_public, trusted), *sorted(others, key=lambda each: each.ends, reverse=True)[:KEPT])


def _public(each: Certificate) -> Certificate:
    return Certificate(each.pem, each.begins, each.ends)


def _has(certificates: Sequence[Certificate], one: Certificate) -> bool:
    return any(each.pem == one.pem for each in certificates)


def _something_is_served(facts: AuthorityFacts, successor: KeyPair, now: float) -> bool:
    """Whether the API server may trust a certificate that an earlier authority has signed."""
    return any(each.is_valid(now) and each.pem != successor.pem for bundle in facts.bundles for each in bundle)
