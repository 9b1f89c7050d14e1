"""How a claim, a rule or a Node stands: who waits for it, or because of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tollbar.api.reasons import RuleReason
from tollbar.decide.pods.matching import Truth
from tollbar.decide.rules.rule import DROPPED, Problem, Rule
from tollbar.dra.exclusions import taint_text
from tollbar.explain import devicerules
from tollbar.explain import pods as pod_explanations
from tollbar.explain.changes import named
from tollbar.explain.devices import nodes_of, wanted
from tollbar.explain.taints import tolerations_of
from tollbar.explain.values import Explanation
from tollbar.gates import Section
from tollbar.model import claims, conditions, pods, workloads
from tollbar.model.objects import Object, annotations_of, key_of, metadata, spec
from tollbar.model.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, TOLERATION_RULES
from tollbar.model.texts import counted
from tollbar.model.tolerations import text as toleration_text
from tollbar.model.tolerations import tolerates
from tollbar.offline import Cluster
from tollbar.wellknown import ANNOTATION_RESERVED_FOR, CONDITION_READY

_CAUSES: Final = 5
"""Of so many waiting Pods the causes are worked out: each costs some attempts to schedule."""


def claim(cluster: Cluster, obj: Object) -> Explanation:
    """How this ResourceClaim stands: its devices, its consumers, and why its Pods wait."""
    key, allocation = key_of(obj), claims.allocation(obj)
    users = [
        each
        for each in cluster.objects(PODS)
        if key_of(each).namespace == key.namespace and key.name in claims.names_of(each) and not pods.is_terminal(each)
    ]
    waiting = [each for each in users if not pods.is_bound(each)]
    return Explanation(
        "ResourceClaim",
        str(key),
        tuple(_claim_summary(cluster, obj, waiting)),
        (
            Section("Requests", ("REQUEST", "WANTS"), tuple(_wants(cluster, obj))),
            Section(
                "Devices",
                ("REQUEST", "DRIVER", "POOL", "DEVICE"),
                tuple(
                    (str(each["request"]), str(each["driver"]), str(each["pool"]), str(each["device"]))
                    for each in claims.results(allocation)
                ),
            ),
            Section(
                "Reserved for",
                ("RESOURCE", "NAME", "STATE"),
                tuple(_entry(cluster, key.namespace, each) for each in claims.reserved_for(obj)),
            ),
            Section(
                "Pods that use it",
                ("POD", "NODE", "WHY IT WAITS", "WHAT WOULD CHANGE IT"),
                tuple(_users(cluster, users)),
            ),
        ),
        cluster.not_read,
    )


def _claim_summary(cluster: Cluster, obj: Object, waiting: Sequence[Object]) -> Iterator[str]:
    allocation, reserved = claims.allocation(obj), claims.reserved_for(obj)
    selector = (allocation or {}).get("nodeSelector")
    if since := metadata(obj).get("deletionTimestamp"):
        holders = named("consumer", [str(each.get("name")) for each in reserved]) if reserved else "its finalizers"
        yield f"being deleted since {since}: it waits for {holders}"
    elif allocation is not None:
        where = f"for {nodes_of(cluster, selector)}" if selector is not None else "for every Node"
        use = (
            "nobody uses it"
            if not reserved
            else f"reserved for {named('consumer', [str(e.get('name')) for e in reserved])}"
        )
        yield f"allocated {where}; {use}"
    else:
        missing = [name for name in claims.device_classes(obj) if cluster.get(DEVICE_CLASSES, name) is None]
        if missing and cluster.knows(DEVICE_CLASSES):
            yield f"pending: {named('DeviceClass', missing)} does not exist"
        elif waiting:
            yield "pending: it is allocated with the first Pod that gets a Node"
        else:
            yield "pending: no Pod that waits for a Node uses it"
    if len(reserved) >= claims.RESERVED_FOR_MAX:
        yield f"reserved for {len(reserved)} consumers, and there may be no more"
    if owner := annotations_of(obj).get(ANNOTATION_RESERVED_FOR):
        reference = workloads.parse_reference(str(owner))
        yield (
            f"kept for {reference}"
            if isinstance(reference, workloads.Reference)
            else f"kept for nobody: {reference.why}"
        )


def _wants(cluster: Cluster, obj: Object) -> Iterator[tuple[str, ...]]:
    for request in claims.requests_of(obj):
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each:
                name = f"{request.get('name')}/{each['name']}" if "name" in each else str(request.get("name"))
                yield name, wanted(cluster, each)


def _entry(cluster: Cluster, namespace: str, entry: Object) -> tuple[str, ...]:
    resource, name = str(entry.get("resource")), str(entry.get("name"))
    full = f"{resource}.{entry.get('apiGroup')}" if entry.get("apiGroup") else resource
    if claims.is_pod_group_entry(entry):
        return full, name, _members(cluster, namespace, name)
    if not claims.is_pod_entry(entry):
        return full, name, "a workload keeps it"
    found = cluster.get(PODS, name, namespace)
    if found is None or metadata(found).get("uid") != entry.get("uid"):
        return resource, name, "gone" if cluster.knows(PODS) else "unknown"
    return resource, name, str((found.get("status") or {}).get("phase") or "Pending")


def _members(cluster: Cluster, namespace: str, group: str) -> str:
    """For how many Pods the entry of a PodGroup stands."""
    members = sum(
        pods.scheduling_group(each) == group and key_of(each).namespace == namespace and not pods.is_terminal(each)
        for each in cluster.objects(PODS)
    )
    return f"for {members} Pods of the group" if cluster.knows(PODS) else "for the Pods of the group"


def _users(cluster: Cluster, users: Sequence[Object]) -> Iterator[tuple[str, ...]]:
    asked = 0
    for each in users:
        node, why, helps = str(spec(each).get("nodeName") or "-"), "-", "-"
        if node == "-" and asked < _CAUSES:
            asked += 1
            found = pod_explanations.explain(cluster, each)
            why = f"{found.findings[0].cause}: {found.findings[0].what}"
            helps = next((f"if {one.change}: {one.result}" for one in found.remedies if one.helps), "-")
        yield str(key_of(each)), node, why, helps


def rule(cluster: Cluster, obj: Object) -> Explanation:
    """How this TolerationRule stands: whether it is in force, for which Pods it is true, and which taints it opens."""
    name = key_of(obj).name
    given = tolerations_of(obj)
    found = cluster.gatherer.ruleset.get(name)
    mode = str(spec(obj).get("mode") or "Enforce")
    lines, tables = _of_pods(cluster, name, given) if given else ([], ())
    if isinstance(found, Rule) and found.device_tolerations:
        of_claims, more = devicerules.sections(cluster, found)
        lines, tables = [*lines, *of_claims], (*tables, *more)
    return Explanation("TolerationRule", name, (*_rule_state(obj, found, mode), *lines), tables, cluster.not_read)


def _of_pods(cluster: Cluster, name: str, given: Sequence[Object]) -> tuple[list[str], tuple[Section, ...]]:
    """What the rule that gives these tolerations says of Pods: lines of the summary, and tables."""
    truths: dict[str, list[tuple[str, str]]] = {}
    waiting = [each for each in cluster.objects(PODS) if not pods.is_bound(each) and not pods.is_terminal(each)]
    for pod in waiting if name in cluster.rules else ():
        verdict = cluster.verdicts(pod).get(name)
        if verdict is None:
            truths.setdefault("out of scope", []).append((str(key_of(pod)), ""))
        else:
            truths.setdefault(verdict.truth.value, []).append((str(key_of(pod)), str(verdict.why)))
    shown = (*(truth.value for truth in (Truth.TRUE, Truth.UNKNOWN, Truth.ERROR)), "out of scope")
    rows = [(truth, pod, why or "-") for truth in shown for pod, why in truths.get(truth, ())]
    tainted = [
        (key_of(node).name, taint_text(taint))
        for node in cluster.objects(NODES)
        for taint in spec(node).get("taints") or ()
        if any(tolerates(each, taint) for each in given)
    ]
    lines = [
        f"of {len(waiting)} Pods that wait for a Node: "
        + (", ".join(f"{len(each)} {truth}" for truth, each in sorted(truths.items())) or "none is looked at"),
        f"it opens {named('node', sorted({name for name, _ in tainted}))}" if tainted else _opens_nothing(cluster),
    ]
    return lines, (
        Section("Tolerations", ("TOLERATION",), tuple((toleration_text(each),) for each in given)),
        Section("Pods that wait", ("VERDICT", "POD", "WHY"), tuple(rows)),
        Section("Taints that it tolerates", ("NODE", "TAINT"), tuple(tainted)),
    )


def _opens_nothing(cluster: Cluster) -> str:
    return "no Node has a taint that it tolerates" if cluster.knows(NODES) else "Nodes may not be read"


def _rule_state(obj: Object, found: object, mode: str) -> Iterator[str]:
    if conditions.of(obj, CONDITION_READY).get("reason") == RuleReason.TOLERATIONS_DROPPED:
        yield DROPPED
    if isinstance(found, Problem):
        yield f"not in force: {found.reason}: {found.message}"
    elif mode == "Disabled":
        yield "not in force: spec.mode is Disabled"
    elif mode == "Audit":
        yield "in Audit: it is looked at, and adds nothing"
    else:
        yield "in force"


def node(cluster: Cluster, obj: Object) -> Explanation:
    """How this Node stands: its taints and devices, and what rejects the Pods that wait."""
    name, taints = key_of(obj).name, spec(obj).get("taints") or ()
    rejected: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], list[str]] = {}
    waiting = [
        each
        for each in cluster.objects(PODS)
        if not pods.is_bound(each) and not pods.is_terminal(each) and not pods.is_deleting(each)
    ]
    for pod in waiting:
        status = cluster.scheduler.survey(pod, {name})[name]
        key = ("-", "it fits") if status is None else (status.plugin, status.message)
        rejected[key] += 1
        examples.setdefault(key, []).append(str(key_of(pod)))
    info = cluster.scheduler.snapshot.get(name)
    return Explanation(
        "Node",
        name,
        tuple(_node_summary(obj, len(info.pods) if info is not None else 0)),
        (
            Section(
                "Taints",
                ("TAINT", "RULES THAT TOLERATE IT"),
                tuple((taint_text(each), ", ".join(_tolerating(cluster, each)) or "none") for each in taints),
            ),
            Section("Devices", ("POOL", "DEVICES", "TAKEN", "TAINTED", "STATE"), tuple(_pools(cluster, obj))),
            Section(
                "Pods that wait, and what rejects them here",
                ("PODS", "PLUGIN", "REASON", "SUCH AS"),
                tuple(
                    (str(count), plugin, reason, ", ".join(examples[plugin, reason][:3]))
                    for (plugin, reason), count in rejected.most_common()
                ),
            ),
        ),
        cluster.not_read,
    )


def _node_summary(obj: Object, there: int) -> Iterator[str]:
    ready = conditions.of(obj, CONDITION_READY)
    if ready and ready.get("status") != "True":
        yield f"not ready since {ready.get('lastTransitionTime')}: {ready.get('message') or ready.get('reason')}"
    if spec(obj).get("unschedulable"):
        yield "unschedulable: it is cordoned"
    taints = spec(obj).get("taints") or ()
    tainted = f", {named('taint', [taint_text(each) for each in taints])}" if taints else ""
    yield f"{counted(there, 'Pod')} on it{tainted}"


def _tolerating(cluster: Cluster, taint: Object) -> Iterator[str]:
    for each in cluster.objects(TOLERATION_RULES):
        if any(tolerates(one, taint) for one in tolerations_of(each)):
            yield key_of(each).name


def _pools(cluster: Cluster, obj: Object) -> Iterator[tuple[str, ...]]:
    dra = cluster.scheduler.dra
    for pool in sorted(dra.inventory.pools(obj), key=lambda each: each.id):
        taken = sum(each.id in dra.claims.state for each in pool.devices)
        tainted = sum(bool(each.taints) for each in pool.devices)
        yield str(pool.id), str(len(pool.devices)), str(taken), str(tainted), pool.state.value


BY_COMMAND: Final = {
    "claim": (RESOURCE_CLAIMS, claim),
    "rule": (TOLERATION_RULES, rule),
    "node": (NODES, node),
}
"""The resource of each subcommand of `tollbar explain`, and the function that explains an object of it."""
