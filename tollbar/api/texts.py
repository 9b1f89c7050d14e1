"""Error texts that the CRDs' validation rules and the parsers share.

Where the API server has a text for the same error of a Pod or a device, it is that one.
"""

from typing import Final

MEMBER: Final = "match.{member} must be set exactly when match.type is {type}"
RESERVED: Final = (
    "node.kubernetes.io/*, node-role.kubernetes.io/* and the empty key are reserved: set allowReservedKeys to use them"
)
ONE_VALUE: Final = "exactly one value must be specified"
NO_TOLERATIONS: Final = "at least one of tolerations and deviceTolerations must be set"
NOT_OF_CLAIMS: Final = "match.type ExtendedResource is about containers: for deviceTolerations use CEL or Device"
NOT_QUALIFIED: Final = "must be the name of an extended resource, such as example.com/gpu"
NOT_SEMVER: Final = "must be a string compatible with semver.org spec 2.0.0"
NOT_ATTRIBUTE: Final = "must be a C identifier, optionally after a domain and a slash, such as gpu.example.com/model"
NOT_A_DURATION: Final = "must be a duration longer than 0s, such as 60s or 1m30s"
RELEASE_NEEDS_HOLD: Final = "onExpiry Release needs maxHold"
RELEASE_IS_OURS: Final = "onExpiry Release is for gates of tollbar.dev only: gates of others are reported"
IMMUTABLE: Final = "field is immutable"
NOT_A_BOUND: Final = "must be one integer of at most 18 digits when `operator` is 'Lt' or 'Gt'"
NO_PLACEMENT: Final = "at least one of required and preferred must be set"
ONE_CLAIM: Final = "exactly one of resourceClaimTemplateName and resourceClaimName must be set"
OF_REQUESTS: Final = "limits are on requests: write the resource without requests. or limits. before it"
