"""Why a Pod waits: the codes of the findings of `tollbar explain pod`."""

from tollbar.model.plan import Code


class Cause(Code):
    """Causes that `tollbar explain pod` names.

    What keeps a Pod from running.  The answer gives for each cause since when it is so, who can act, and what to do;
    the cause that has to be solved first comes first.  If several changes would help, each by itself, their causes are
    in the order of this table: those that may end by themselves come before those that somebody intended.
    """

    NOT_CREATED = (
        "NotCreated",
        "There is no such Pod: the API server refused it to its controller, for a quota for example.",
    )
    RUNNING = "Running", "The Pod has a Node: it does not wait for Tollbar or for a scheduler."
    ENDED = "Ended", "The Pod has finished or is being deleted."
    CLAIM_MISSING = "ClaimMissing", "A ResourceClaim that the Pod names does not exist. Create it."
    TEMPLATE_MISSING = "TemplateMissing", "A ResourceClaimTemplate that the Pod names does not exist. Create it."
    POD_GROUP_MISSING = (
        "PodGroupMissing",
        """The PodGroup that the Pod names does not exist: its Pods wait for it. Create it, or see why the WorkloadClaim
        of that name has none (`PodGroupReady`).""",
    )
    CLASS_MISSING = (
        "ClassMissing",
        "A DeviceClass that a claim of the Pod names does not exist. Create it, or correct the claim.",
    )
    NAMESPACE_UNKNOWN = "NamespaceUnknown", "The Pod's Namespace is not there, or could not be read."
    CLAIM_NOT_GENERATED = (
        "ClaimNotGenerated",
        """The template is there, but no controller has made the Pod's claim from it: kube-controller-manager, or
        Tollbar with `claims: Replace`, has to.""",
    )
    OWNER_MISMATCH = (
        "OwnerMismatch",
        """The claim that the Pod's status records was not made for this Pod. kube-controller-manager, or Tollbar with
        `claims: Replace`, makes another one from the template, which has to be there.""",
    )
    CLAIM_DELETING = "ClaimDeleting", "A claim of the Pod is being deleted, and waits for those that use it."
    WAITING_FOR_RULE = "WaitingForRule", "A rule cannot be decided yet; Tollbar's gate holds the Pod meanwhile."
    RELEASE_DUE = "ReleaseDue", "Nothing holds the Pod any more: the controllers release it within moments."
    NO_CONTROLLER = (
        "NoController",
        """The controllers have something to do for this Pod, and none of them renews the Lease. Start them; without
        them, `tollbar drain --keep-reservations` releases the Pods.""",
    )
    RELEASE_REFUSED = (
        "ReleaseRefused",
        "Other admission refuses what the controllers would write to the Pod. Fix that policy.",
    )
    FOREIGN_GATE = (
        "ForeignGate",
        "Another controller's scheduling gate holds the Pod, and only that controller removes it.",
    )
    GATE_CLASS = (
        "HeldByGateClass",
        """The gate of a gate class holds the Pod; the text says what for. Provide that, or ask the
        maintainer of the class.""",
    )
    RESERVATION_FULL = (
        "ReservationFull",
        """A claim of the Pod is reserved for 256 consumers, as many as Kubernetes allows: share it less, or
        [by a PodGroup](../tasks/share-a-claim-among-many-pods.md).""",
    )
    RULE_NOT_APPLIED = (
        "RuleNotApplied",
        """A rule is true for the Pod, and its tolerations are not there: the webhook did not decide the Pod, and the
        controllers have not added them late yet.""",
    )
    RULE_IN_AUDIT = (
        "RuleInAudit",
        "A rule is true for the Pod and would give the toleration that it lacks, but its `spec.mode` is Audit.",
    )
    RULE_FAILED = "RuleFailed", "A rule that gives the toleration fails for this Pod, and counts as false."
    RULE_NOT_IN_FORCE = (
        "RuleNotInForce",
        "A rule that gives the toleration is disabled or not valid.",
    )
    RULE_OUT_OF_SCOPE = (
        "RuleOutOfScope",
        "A rule would be true for the Pod, but its `namespaceSelector` leaves the Pod's namespace out.",
    )
    POOL_INCOMPLETE = (
        "PoolIncomplete",
        "The driver has published some of the ResourceSlices of a pool: its devices are not used before all are there.",
    )
    POOL_INVALID = (
        "PoolInvalid",
        "The ResourceSlices of a pool contradict each other: the driver has to publish others.",
    )
    SELECTOR_FAILED = "SelectorFailed", "A device selector fails for a device, which aborts the allocation."
    DEVICE_TAINTED = "DeviceTainted", "The devices that match have a taint that the request does not tolerate."
    DEVICE_TAKEN = "DeviceTaken", "The devices that match are held by other claims."
    COUNTERS_EXHAUSTED = "CountersExhausted", "Shared counters of the devices that match are used up by other devices."
    CAPACITY_EXHAUSTED = "CapacityExhausted", "Too little of a shared device's capacity is left."
    CONSTRAINT = (
        "Constraint",
        "Enough devices are free for each request by itself, but not together, for a constraint or for each other.",
    )
    TOPOLOGY_SPREAD = "TopologySpread", "On these Nodes the Pod would violate its topology spread constraints."
    POD_AFFINITY = (
        "PodAffinity",
        "Pod affinity or anti-affinity, the Pod's own or that of Pods on the Node, forbids it.",
    )
    HOST_PORTS = "HostPorts", "Another Pod has the host port on the Node."
    VOLUMES = "Volumes", "A volume of the Pod is missing, or cannot be used on these Nodes."
    NODE_FULL = "NodeFull", "What the Pod requests is taken by other Pods."
    CLAIM_ON_OTHER_NODE = "ClaimOnOtherNode", "A claim of the Pod is allocated already, for other Nodes than these."
    RESERVATION_PINNED = (
        "ReservationPinned",
        """A claim of the Pod is allocated for other Nodes than these, and a workload keeps it: it stays there until the
        workload is done with it.""",
    )
    UNTOLERATED_TAINT = (
        "UntoleratedTaint",
        "A taint of Nodes keeps the Pod away, and no rule gives it the toleration.",
    )
    NODE_TOO_SMALL = "NodeTooSmall", "Even an empty Node has less than the Pod requests."
    TOO_FEW_DEVICES = (
        "TooFewDevices",
        "The claims ask for more devices that match than any of these Nodes has, free or in use.",
    )
    NO_DEVICE_MATCHES = "NoDeviceMatches", "No device meets the selectors, or the capacity, that are asked for."
    NO_DEVICES = "NoDevices", "The Nodes have no devices for the claim: no ResourceSlice offers any there."
    NODE_CORDONED = "NodeCordoned", "Nodes are unschedulable (cordoned)."
    NODE_AFFINITY = "NodeAffinity", "Labels of Nodes do not match the Pod's nodeSelector or node affinity."
    NODE_NAME = "NodeName", "The Pod names a Node that is not one of these."
    OTHER_PLUGIN = "OtherPlugin", "Another plugin of the scheduler rejects the Nodes; its text says why."
    NO_NODES = "NoNodes", "There is no Node."
    NO_SCHEDULER = (
        "NoScheduler",
        "A Node fits, and no scheduler has tried the Pod: none serves its `schedulerName`, or it is down.",
    )
    SCHEDULER_BEHIND = (
        "SchedulerBehind",
        "A Node fits now: the scheduler tries the Pod again soon, at the latest after five minutes.",
    )
    UNKNOWN = "Unknown", "You may not read enough to find the cause."
