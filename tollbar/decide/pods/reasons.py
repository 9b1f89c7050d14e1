"""Reasons of decisions about Pods: the codes of `because` in their plans."""

from tollbar.model.plan import Code


class PodReason(Code):
    """Decisions about Pods.  The controllers log them as `because` when they release a Pod."""

    MATCHED = "Matched", "The named rule is true for the Pod."
    AUDITED = "Audited", "The named rule is true, and adds nothing because its `spec.mode` is Audit."
    UNDECIDED = "Undecided", "The named rule cannot be decided before what the detail names is known."
    FAILED = "Failed", "The named rule failed for the Pod and counted as false; the detail says why."
    NO_RULE_MATCHED = "NoRuleMatched", "No rule in scope is true for the Pod."
    TOO_MANY_ALTERNATIVES = (
        "TooManyAlternatives",
        """The named rule asks about more alternatives (`firstAvailable`) than are looked at: at admission the
        controllers decide it, there it is false. `whenAlternatives: First` still works.""",
    )
    PACKAGE_TOO_LARGE = (
        "PackageTooLarge",
        """The Pod has more claims, requests or resources than are looked at, or there is no memory for a claim or a
        template of it, which takes more than 1 MiB or is one of too many: at admission the controllers decide the named
        rule, there it is false.""",
    )
    COST_LIMIT_EXCEEDED = (
        "CostLimitExceeded",
        """The rules cost more for this Pod than they may: at admission the controllers decide the named rule, there it
        is false.""",
    )
    WAITING_FOR = "WaitingFor", "The Pod is held until what the detail names is known, or until `maxHold`."
    HELD_TOO_LONG = "HeldTooLong", "The Pod was released because it had been held for `maxHold`."
    RELEASE_REFUSED = "ReleaseRefused", "Other admission refused the patch; the Pod's event has its text."
    ALREADY_GATED = "AlreadyGated", "The Pod came with Tollbar's gate: the controllers decide."
    GATE_MODE = "GateMode", "Admission gates every Pod that a rule may be about: the controllers decide."
    NEVER_MODE = "NeverMode", "Admission leaves Pods alone: the controllers add late what is due."
    CACHES_NOT_SYNCED = "CachesNotSynced", "The webhook has just started and knows too little to decide."
    RULES_NOT_READY = "RulesNotReady", "The controllers have just started and know too little to decide."
    NOT_MINE = "NotMine", "The gate is not for this Pod."
    ENDING = "Ending", "The Pod has finished or is being deleted."
    BOUND = "Bound", "The Pod has a node already."
    MIRROR_POD = "MirrorPod", "The Pod is the mirror Pod of a static Pod, which is never scheduled."
    DAEMON_SET_POD = "DaemonSetPod", "The Pod is a DaemonSet's, whose controller sets its tolerations."
    SKIP_LABEL = "SkipLabel", "The Pod has the label `tollbar.dev/skip`."
    NAMESPACE_NOT_MANAGED = (
        "NamespaceNotManaged",
        """The Pod's namespace is Tollbar's own, has the label `tollbar.dev/skip`, or `managedNamespaceSelector` leaves
        it out.""",
    )
