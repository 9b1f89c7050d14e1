"""Reasons of decisions about Pods: the codes of `because` in their plans."""

from tollbar.model.plan import Code


class PodReason(Code):
    """Decisions about Pods.  The controllers log them as `because` when they release a Pod."""

    MATCHED = "Matched", "The named rule is true for the Pod."
    AUDITED = "Audited", "The named rule is true, and adds nothing because its `spec.mode` is Audit."
    UNDECIDED = (
        "Undecided",
        "The named rule cannot be decided before the object or field that the detail names is known.",
    )
    FAILED = "Failed", "The named rule failed for the Pod and counted as false; the detail says why."
    NO_RULE_MATCHED = "NoRuleMatched", "No rule in scope is true for the Pod."
    TOO_MANY_ALTERNATIVES = (
        "TooManyAlternatives",
        """The Pod has more alternatives (`firstAvailable`) than are looked at for the named rule. At admission, the Pod
        is left to the controllers; in the controllers, the rule is false. `whenAlternatives: First` still works.""",
    )
    PACKAGE_TOO_LARGE = (
        "PackageTooLarge",
        """The Pod has more claims, requests or resources than are looked at, or one of its claims or templates is not
        kept in memory, because it takes more than 1 MiB or there are too many. At admission, the Pod is left to the
        controllers; in the controllers, the named rule is false.""",
    )
    COST_LIMIT_EXCEEDED = (
        "CostLimitExceeded",
        """The rules exceed the cost limit for this Pod. At admission, the Pod is left to the controllers; in the
        controllers, the named rule is false.""",
    )
    WAITING_FOR = (
        "WaitingFor",
        "The Pod is held until the object or field that the detail names is known, or until `maxHold`.",
    )
    HELD_TOO_LONG = "HeldTooLong", "The Pod was released because it had been held for `maxHold`."
    RELEASE_REFUSED = (
        "ReleaseRefused",
        "Another webhook or an admission policy refused the patch; the Pod's Event has its text.",
    )
    ALREADY_GATED = "AlreadyGated", "The Pod was created with Tollbar's gate already: the controllers decide."
    GATE_MODE = (
        "GateMode",
        "With `admission: Gate` the webhook gates every Pod that a rule may be about: the controllers decide.",
    )
    NEVER_MODE = (
        "NeverMode",
        "With `admission: Never` the webhook changes no Pod: the controllers add its tolerations late.",
    )
    CACHES_NOT_SYNCED = "CachesNotSynced", "The webhook has just started and knows too little to decide."
    RULES_NOT_READY = "RulesNotReady", "The controllers have just started and know too little to decide."
    NOT_MINE = "NotMine", "The gate is not for this Pod."
    ENDING = "Ending", "The Pod has finished or is being deleted."
    BOUND = "Bound", "The Pod has a node already."
    MIRROR_POD = "MirrorPod", "The Pod is the mirror Pod of a static Pod, which is never scheduled."
    DAEMON_SET_POD = "DaemonSetPod", "The Pod belongs to a DaemonSet, whose controller sets its tolerations."
    SKIP_LABEL = "SkipLabel", "The Pod has the label `tollbar.dev/skip`."
    NAMESPACE_NOT_MANAGED = (
        "NamespaceNotManaged",
        """The Pod's namespace is Tollbar's own, has the label `tollbar.dev/skip`, or `managedNamespaceSelector` leaves
        it out.""",
    )
