"""Maps changes to the claims and WorkloadClaims that they affect."""

from collections.abc import Iterable
from dataclasses import dataclass

from tollbar.model.claims import names_of
from tollbar.model.objects import Key, key_of
from tollbar.model.workloads import claim_named_by, is_kept
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


@dataclass(frozen=True, slots=True)
class KeptClaimsOf:
    """Maps changes to claims that are kept for a workload (`is_kept`)."""

    claims: Store

    def claim(self, delta: Delta) -> Iterable[Key]:
        """The claim itself."""
        return {key_of(claim) for claim in delta.objects if is_kept(claim)}

    def pod(self, delta: Delta) -> Iterable[Key]:
        """The claims that the Pod or PodGroup refers to, or referred to before the change."""
        for pod in delta.objects:
            for name in names_of(pod):
                key = Key(key_of(pod).namespace, name)
                claim = self.claims.get(key)
                if claim is not None and is_kept(claim):
                    yield key

    def workload_claim(self, delta: Delta) -> Iterable[Key]:
        """The claim that it names, if it exists, because without its WorkloadClaim it is no longer reserved."""
        for obj in delta.objects:
            if (key := claim_named_by(obj)) in self.claims:
                yield key

    def any_change(self, _event: object) -> Iterable[Key]:
        """Every kept claim, because whether claims may be reserved has changed."""
        return [key_of(claim) for claim in self.claims.values() if is_kept(claim)]


@dataclass(frozen=True, slots=True)
class WorkloadClaimsOf:
    """Maps changes to WorkloadClaims."""

    workload_claims: Store

    def claim(self, delta: Delta) -> Iterable[Key]:
        for claim in delta.objects:
            yield from self.key(key_of(claim))

    def template(self, delta: Delta) -> Iterable[Key]:
        for template in delta.objects:
            yield from map(key_of, self.workload_claims.by_index("template", key_of(template)))

    def pod_group(self, delta: Delta) -> Iterable[Key]:
        """The WorkloadClaim of its name."""
        return {key for obj in delta.objects if (key := key_of(obj)) in self.workload_claims}

    def key(self, claim: Key) -> Iterable[Key]:
        """The WorkloadClaims of a claim whose reservation has another state."""
        return map(key_of, self.workload_claims.by_index("claim", claim))
