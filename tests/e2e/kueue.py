"""Kueue's plain-Pod integration, played by its rules: webhook, Workloads, flavors, groups, and how a Pod is started.

The rules are those of Kueue's documentation ("Run Plain Pods", "Resource Flavor") and of its packages
pkg/controller/jobs/pod, pkg/controller/jobframework, pkg/podset, pkg/util/equality and pkg/scheduler/flavorassigner
(v1beta2).  Its kinds are CustomResourceDefinitions with the fields used here.  The controller looks when it is told to
(`look`), and admits when it is told to: so a test chooses what happens before and after it.
"""

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from contract.api import Answer, Api, settings, until
from contract.hooks import CREATE_PODS, PROBE, Hooks, configuration, installed, patching, webhook
from objects.builders import Pod
from planes.access import Access

from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model import conditions, nodeaffinity, pods, tolerations
from tollbar.model.objects import Object, annotations_of, key_of, labels_of, metadata, spec, uid_of
from tollbar.model.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from tollbar.runtime.client import PatchType

GROUP: Final = "kueue.x-k8s.io"
GATE: Final = f"{GROUP}/admission"
QUEUE: Final = f"{GROUP}/queue-name"
MANAGED: Final = f"{GROUP}/managed"
"""Label and finalizer."""
GROUP_NAME: Final = f"{GROUP}/pod-group-name"
TOTAL: Final = f"{GROUP}/pod-group-total-count"
ROLE_HASH: Final = f"{GROUP}/role-hash"
RETRIABLE: Final = f"{GROUP}/retriable-in-group"
POD_SET: Final = f"{GROUP}/podset"
MAIN: Final = "main"
MOST_ROLES: Final = 8

WORKLOADS: Final = Resource(GROUP, "v1beta2", "workloads", "Workload", namespaced=True)
FLAVORS: Final = Resource(GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
CLUSTER_QUEUES: Final = Resource(GROUP, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES: Final = Resource(GROUP, "v1beta2", "localqueues", "LocalQueue", namespaced=True)
KINDS: Final = (WORKLOADS, FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES)

CONFIGURATION: Final = "kueue-mutating-webhook-configuration"
"""As Kueue names it, so that its webhook is called before Tollbar's."""


def definition(kind: Resource) -> Object:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    return {
        **CUSTOM_RESOURCE_DEFINITIONS.type_meta,
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "kind": kind.kind, "singular": kind.kind.lower()},
            "versions": [version],
        },
    }


POOL: Final[Object] = {"nodeLabels": {"kubernetes.io/hostname": "gpu-1"}}
"""The spec of a flavor: the node `gpu-1`."""
HARMFUL: Final = frozenset({"Stopped", "DeletedWorkload", "ExcessPodDeleted", "PodSetNotFound", "FailedToStart"})
"""Events of Kueue when something is lost."""


def define(kubectl: Kubectl) -> None:
    """Serve Kueue's kinds."""
    definitions = [definition(each) for each in KINDS]
    kubectl.apply(*definitions)
    names = [each["metadata"]["name"] for each in definitions]
    kubectl("wait", "--for=condition=Established", "crd", *names, "--timeout=60s")


def a_queue(kubectl: Kubectl, namespace: str, flavor: Object = POOL) -> None:
    """The LocalQueue `team`, with one flavor."""
    name = f"team.{namespace}"
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": []}]}]
    kubectl.apply(
        {**FLAVORS.type_meta, "metadata": {"name": name}, "spec": flavor},
        {**CLUSTER_QUEUES.type_meta, "metadata": {"name": name}, "spec": {"resourceGroups": groups}},
        {
            **LOCAL_QUEUES.type_meta,
            "metadata": {"name": "team", "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    )


def queued(pod: Pod, group: str = "", total: int = 2, **annotations: str) -> Pod:
    pod = pod.labelled({QUEUE: "team", **({GROUP_NAME: group} if group else {})})
    notes = {**({TOTAL: str(total)} if group else {}), **annotations}
    return pod.annotated(notes) if notes else pod


# The webhook.


def shape(body: Object) -> Object:
    """What of a Pod's spec makes its role in a group (SpecShape)."""

    def of(containers: Iterable[Object]) -> list[Object]:
        return [
            {"resources": {"requests": (each.get("resources") or {}).get("requests")}, "ports": each.get("ports")}
            for each in containers
        ]

    alike = (
        *("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority"),
        *("topologySpreadConstraints", "overhead", "resourceClaims"),
    )
    return {
        "initContainers": of(body.get("initContainers") or ()),
        "containers": of(body["containers"]),
        **{name: body.get(name) for name in alike},
    }


def role_of(pod: Object) -> str:
    """The role hash: as annotated, by the webhook or by the Pod's author."""
    given = annotations_of(pod).get(ROLE_HASH)
    return given or hashlib.sha256(json.dumps(shape(spec(pod)), sort_keys=True).encode()).hexdigest()[:8]


def group_of(pod: Object) -> str:
    return labels_of(pod).get(GROUP_NAME, "")


def default(request: Object) -> Object:
    """What the mutating webhook answers.  It may be asked again."""
    pod = request["object"]
    if not labels_of(pod).get(QUEUE):
        return {"allowed": True}
    meta, gates = metadata(pod), pods.gate_names(pod)
    changed = {
        **meta,
        "labels": {**labels_of(pod), MANAGED: "true"},
        "annotations": {**annotations_of(pod), ROLE_HASH: role_of(pod)},
        "finalizers": sorted({*(meta.get("finalizers") or ()), MANAGED}),
    }
    held = [{"name": each} for each in (*gates, *(() if GATE in gates else (GATE,)))]
    operations = [
        {"op": "replace", "path": "/metadata", "value": changed},
        {"op": "add", "path": "/spec/schedulingGates", "value": held},
    ]
    return dict(patching(*operations)(request))


def validate(request: Object) -> Object:
    """What the validating webhook answers, of creations and of updates."""
    pod, before = request["object"], request.get("oldObject") or {}
    wrong = {
        "the managed label can only be true": labels_of(pod).get(MANAGED, "true") != "true",
        "a group has both label and annotation": bool(group_of(pod)) != (TOTAL in annotations_of(pod)),
        "the group is immutable": bool(group_of(before)) and group_of(before) != group_of(pod),
        "an unretriable group cannot become retriable": bool(group_of(pod))
        and annotations_of(before).get(RETRIABLE) == "false" != annotations_of(pod).get(RETRIABLE),
    }
    why = next((text for text, holds in wrong.items() if holds), "")
    return {"allowed": not why, **({"status": {"message": why}} if why else {})}


@contextmanager
def webhooks(hooks: Hooks, api: Api, name: str = CONFIGURATION, again: str = "Never") -> Iterator[None]:
    """Kueue's webhooks, in force for one namespace.  Kueue's chart leaves `reinvocationPolicy` to who installs it."""
    hooks.replies |= {"/mutate--v1-pod": default, "/validate--v1-pod": validate}
    every = {"matchExpressions": [{"key": "case", "operator": "NotIn", "values": [PROBE]}]}
    common: Object = {"objectSelector": every, "failurePolicy": "Fail"}
    mutating = webhook(hooks.client("/mutate--v1-pod"), "kueue", **common, name="mpod.kb.io", reinvocationPolicy=again)
    both = {**CREATE_PODS, "operations": ["CREATE", "UPDATE"]}
    validating = webhook(hooks.client("/validate--v1-pod"), "kueue", **common, name="vpod.kb.io", rules=[both])
    checks = configuration(hooks, api, "kueue-validating", validating, res=VALIDATING_WEBHOOK_CONFIGURATIONS)
    with installed(hooks, api, configuration(hooks, api, name, mutating), checks):
        yield


# What is decided about a Workload.


def is_started(pod: Object) -> bool:
    """Without Kueue's gate, whoever else holds it."""
    return not pods.is_terminal(pod) and GATE not in pods.gate_names(pod)


def is_runnable(pod: Object) -> bool:
    """Running, succeeded, or to be run."""
    is_lost = pods.is_deleting(pod) and not pods.is_bound(pod)
    return not is_lost and (pod.get("status") or {}).get("phase") != "Failed"


def pod_set(name: str, pod: Object) -> Object:
    return {"name": name, "count": 1, "template": {"spec": spec(pod)}}


def pod_sets(group: Iterable[Object]) -> list[Object]:
    """One a role; the first Pod of a role is the template of it."""
    found: dict[str, Object] = {}
    for pod in filter(is_runnable, group):
        role = role_of(pod)
        found[role] = {**found[role], "count": found[role]["count"] + 1} if role in found else pod_set(role, pod)
    return [found[role] for role in sorted(found)]


def is_reserved(workload: Object) -> bool:
    return conditions.is_true(workload, "QuotaReserved")


def is_admitted(workload: Object) -> bool:
    return conditions.is_true(workload, "Admitted")


def resembles(one: Object, other: Object, *, with_tolerations: bool) -> bool:
    """Whether two Pod sets are the same to Kueue (ComparePodSets)."""
    first, second = one["template"]["spec"], other["template"]["spec"]
    compared = ("containers", "initContainers", "resourceClaims", *(("tolerations",) if with_tolerations else ()))
    return one["count"] == other["count"] and all(first.get(name) == second.get(name) for name in compared)


def is_of_pod(workload: Object, pod: Object, flavor: Object | None) -> bool:
    """Whether a Workload is that of this single Pod (EquivalentToWorkload): tolerations count until it is admitted."""
    (stored,) = spec(workload)["podSets"]
    own, strict = pod_set(MAIN, pod), not is_admitted(workload)
    if flavor is None:
        return resembles(own, stored, with_tolerations=strict)
    running = {**stored, "template": {"spec": started(stored["template"]["spec"], flavor)}}
    if resembles(own, running, with_tolerations=strict):
        return True
    return not is_started(pod) and resembles(own, stored, with_tolerations=strict)


def is_of_group(workload: Object, own: Sequence[Object]) -> bool:
    """Whether a Workload is that of these roles (equivalentToWorkload): by their hashes and counts alone."""
    stored = {each["name"]: each["count"] for each in spec(workload)["podSets"]}
    return all(each["count"] <= stored.get(each["name"], 0) for each in own)


def unfit(flavor: Object, template: Object) -> str:
    """Why a flavor is none for these Pods, as the scheduler writes it; empty when it is one."""
    given, own = spec(flavor), metadata(flavor)["name"]
    every = [*(template.get("tolerations") or ()), *(given.get("tolerations") or ())]
    taint = tolerations.untolerated(given.get("nodeTaints") or (), every)
    if taint:
        return f"untolerated taint {taint['key']} in flavor {own}"
    labels = given.get("nodeLabels") or {}
    node = {"metadata": {"name": own, "labels": labels}}
    selector = {key: value for key, value in (template.get("nodeSelector") or {}).items() if key in labels}
    affinity = ((template.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {"nodeSelectorTerms": []}
    terms = [
        {"matchExpressions": [each for each in term.get("matchExpressions") or () if each["key"] in labels]}
        for term in affinity["nodeSelectorTerms"]
    ]
    fits = not terms or any(not term["matchExpressions"] or nodeaffinity.term_selects(term, node) for term in terms)
    if fits and all(labels[key] == value for key, value in selector.items()):
        return ""
    return f"flavor {own} doesn't match node affinity"


def started(body: Object, flavor: Object) -> Object:
    """The spec of a Pod that is let go to this flavor, but for the gate (podset.Merge)."""
    had = body.get("tolerations") or []
    given = spec(flavor)
    more = [each for each in given.get("tolerations") or () if each not in had]
    selector = {**(given.get("nodeLabels") or {}), **(body.get("nodeSelector") or {})}
    return {**body, "nodeSelector": selector, "tolerations": [*had, *more]}


def conflict(body: Object, flavor: Object) -> bool:
    """Whether the Pod's node selector says otherwise than the flavor: the Workload is finished then, as failed."""
    labels = spec(flavor).get("nodeLabels") or {}
    return any(labels.get(key, value) != value for key, value in (body.get("nodeSelector") or {}).items())


# The controller.


@dataclass
class Kueue:
    """Kueue in one namespace.  `told` are its Events as (reason, name of the Pod or Workload), in order."""

    api: Api
    told: list[tuple[str, str]] = field(default_factory=list)
    conflicts: int = 0
    """How many of its patches came too late."""

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.told]

    def look(self) -> None:
        """Reconcile everything once."""
        groups: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in self.pods():
            if group_of(pod):
                groups[group_of(pod)].append(pod)
            else:
                self._single(pod)
        for name, members in groups.items():
            self._group(name, members)

    def pods(self) -> list[Object]:
        """Those that it manages."""
        found: list[Object] = self.api.page(PODS, labelSelector=f"{MANAGED}=true").accepted()["items"]
        return found

    def workload(self, name: str) -> Object | None:
        answer = self.api.get(WORKLOADS, name)
        return None if answer.code == 404 else answer.accepted().object

    def flavors(self, workload: Object) -> list[Object]:
        """Those of its queue, in the order in which they are tried; none while the queue is stopped."""
        local = self.api.get(LOCAL_QUEUES, spec(workload)["queueName"]).accepted()
        queue = self.api.get(CLUSTER_QUEUES, local["spec.clusterQueue"]).accepted()
        if (queue["spec.stopPolicy"] or "None") != "None":
            return []
        names = [each["name"] for group in queue["spec.resourceGroups"] for each in group["flavors"]]
        return [self.api.get(FLAVORS, name).accepted().object for name in names]

    # The scheduler.

    def reserve(self, name: str) -> str:
        """Reserve quota for a Workload: the first flavor that is one for all of its Pods.  Why there is none.

        There is always enough of it: quota is not counted here.
        """
        workload = self.workload(name)
        assert workload is not None
        why: list[str] = []
        for flavor in self.flavors(workload):
            problems = [unfit(flavor, each["template"]["spec"]) for each in spec(workload)["podSets"]]
            if not any(problems):
                assigned = [
                    {"name": each["name"], "flavors": {"cpu": metadata(flavor)["name"]}, "count": each["count"]}
                    for each in spec(workload)["podSets"]
                ]
                self._say_of(workload, "QuotaReserved", admission={"podSetAssignments": assigned})
                return ""
            why += filter(None, problems)
        return "; ".join(why) or "the queue is stopped"

    def admit(self, name: str) -> None:
        """What has its quota, and passed the admission checks."""
        workload = self.workload(name)
        assert workload is not None
        assert is_reserved(workload)
        self._say_of(workload, "Admitted")

    def evict(self, name: str) -> None:
        """As for preemption, or when Pods are not ready in time (`waitForPodsReady`): what was started is deleted."""
        members = [each for each in self.pods() if name in (group_of(each), workload_of(each))]
        self._stop(members)

    def run(self, name: str) -> None:
        """Let a Workload's Pods go, as soon as it is there."""

        def admitted() -> bool:
            self.look()
            found = self.workload(name)
            if found is None or not (is_reserved(found) or not self.reserve(name)):
                return False
            self.admit(name)
            return True

        until(admitted, f"{name} is admitted")
        self.look()

    def leave(self) -> None:
        """Take its finalizer off all Pods."""
        for pod in self.pods():
            self._finalize(pod)

    # A Pod by itself.

    def _single(self, pod: Object) -> None:
        workload = self.workload(workload_of(pod))
        if pods.is_deleting(pod):
            self._finalize(pod)
        elif workload is not None and not is_of_pod(workload, pod, self._flavor(workload, MAIN)):
            self._mismatch(workload, [pod], [pod_set(MAIN, pod)])
        elif pods.is_terminal(pod):
            self._finalize(pod)
        elif workload is None:
            self._create(workload_of(pod), [pod], [pod_set(MAIN, pod)])
        elif not is_started(pod) and is_admitted(workload):
            self.start(pod, workload)
        elif is_started(pod) and not is_admitted(workload):
            self._stop([pod])

    # A group.

    def _group(self, name: str, members: list[Object]) -> None:
        workload = self.workload(name)
        active = [each for each in members if is_runnable(each)]
        if workload is None:
            total = int(annotations_of(members[0])[TOTAL])
            for each in members:
                if not is_runnable(each):
                    self._finalize(each)
            if len(active) < total:
                self._tell("ErrWorkloadCompose", name)
                return
            active.sort(key=_to_be_kept)
            self._remove(active[total:])
            found = pod_sets(active[:total])
            if len(found) > MOST_ROLES:
                self._tell("ErrWorkloadCompose", name)
                return
            self._create(name, active[:total], found)
            return
        kept: list[Object] = []
        excess: list[Object] = []
        replaced: list[Object] = []
        for each in spec(workload)["podSets"]:
            role, count = each["name"], each["count"]
            ours = sorted((pod for pod in active if role_of(pod) == role), key=_to_be_kept)
            lost = [pod for pod in members if not is_runnable(pod) and role_of(pod) == role]
            gone = max(0, min(len(lost), len(lost) + len(ours) - count))
            kept += [*ours[:count], *lost[: len(lost) - gone]]
            excess += ours[count:]
            replaced += lost[len(lost) - gone :]
        if not kept or not is_of_group(workload, pod_sets(kept)):
            self._mismatch(workload, members, pod_sets(active))
            return
        self._remove(excess)
        for pod in replaced:
            self._finalize(pod)
        succeeded = [pod for pod in kept if pod["status"].get("phase") == "Succeeded"]
        if len(succeeded) == int(annotations_of(members[0])[TOTAL]):
            for pod in kept:
                self._finalize(pod)
        elif is_admitted(workload):
            for pod in kept:
                if GATE in pods.gate_names(pod):
                    self.start(pod, workload)
        else:
            self._stop([pod for pod in kept if is_started(pod)])

    # Writes.

    def start(self, pod: Object, workload: Object) -> None:
        """Take the gate off, by a merge patch of the Pod as it was seen, resourceVersion included."""
        name = role_of(pod) if group_of(pod) else MAIN
        flavor = self._flavor(workload, name)
        if flavor is None:
            self._tell("PodSetNotFound", metadata(pod)["name"])
            return
        if conflict(spec(pod), flavor):
            self._say_of(workload, "Finished")
            self._tell("FailedToStart", metadata(pod)["name"])
            return
        before, after = spec(pod), started(spec(pod), flavor)
        gates = [each for each in before["schedulingGates"] if each["name"] != GATE]
        changed = {key: after[key] for key in ("nodeSelector", "tolerations") if after[key] != before.get(key)}
        body = {
            "metadata": {"resourceVersion": metadata(pod)["resourceVersion"], "labels": {POD_SET: name}},
            "spec": {**changed, "schedulingGates": gates or None},
        }
        if self._written(self.api.patch(PODS, metadata(pod)["name"], body, PatchType.MERGE)):
            self._tell("Started", metadata(pod)["name"])

    def _flavor(self, workload: Object, name: str) -> Object | None:
        """That of one Pod set."""
        assignments = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
        chosen = next((each["flavors"]["cpu"] for each in assignments if each["name"] == name), None)
        return None if chosen is None else self.api.get(FLAVORS, chosen).accepted().object

    def _create(self, name: str, owners: Sequence[Object], found: list[Object]) -> None:
        references = [
            {"apiVersion": "v1", "kind": "Pod", "name": metadata(each)["name"], "uid": uid_of(each)} for each in owners
        ]
        meta = {"name": name, "ownerReferences": references}
        queue = labels_of(owners[0])[QUEUE]
        body = {**WORKLOADS.type_meta, "metadata": meta, "spec": {"queueName": queue, "podSets": found}}
        self.api.request("POST", self.api.path(WORKLOADS), body).accepted()
        self._tell("CreatedWorkload", name)

    def _mismatch(self, workload: Object, members: Sequence[Object], found: list[Object]) -> None:
        """A Workload that is not that of its Pods (any more): updated while it waits, or else deleted."""
        name = metadata(workload)["name"]
        is_suspended = any(not is_started(each) for each in members)
        if is_suspended and not is_reserved(workload):
            self.api.patch(WORKLOADS, name, {"spec": {"podSets": found}}, PatchType.MERGE).accepted()
            self._tell("UpdatedWorkload", name)
            return
        if not is_suspended:
            self._stop(members)
        self.api.delete(WORKLOADS, name).accepted()
        self._tell("DeletedWorkload", name)

    def _stop(self, members: Iterable[Object]) -> None:
        """Those that were started are deleted; for a Pod there is no other way to be suspended."""
        for pod in members:
            if is_started(pod) and not pods.is_deleting(pod):
                self.api.delete(PODS, metadata(pod)["name"]).accepted()
                self._tell("Stopped", metadata(pod)["name"])

    def _remove(self, excess: Iterable[Object]) -> None:
        for pod in excess:
            self._finalize(pod)
            if not pods.is_deleting(pod):
                self.api.delete(PODS, metadata(pod)["name"]).accepted()
                self._tell("ExcessPodDeleted", metadata(pod)["name"])

    def _finalize(self, pod: Object) -> None:
        left = [each for each in metadata(pod).get("finalizers") or () if each != MANAGED]
        body = {"metadata": {"finalizers": left or None}}
        self._written(self.api.patch(PODS, metadata(pod)["name"], body, PatchType.MERGE))

    def _say_of(self, workload: Object, condition: str, **status: Any) -> None:
        before = workload.get("status") or {}
        said = [*(before.get("conditions") or ()), {"type": condition, "status": "True", "reason": condition}]
        body = {"status": {**before, **status, "conditions": said}}
        self.api.patch(WORKLOADS, metadata(workload)["name"], body, PatchType.MERGE, "status").accepted()

    def _written(self, answer: Answer) -> bool:
        if answer.code in (404, 409):
            self.conflicts += answer.code == 409
            return False
        answer.accepted()
        return True

    def _tell(self, reason: str, name: str) -> None:
        if self.told[-1:] != [(reason, name)]:
            self.told.append((reason, name))


def workload_of(pod: Object) -> str:
    """The name of a single Pod's Workload."""
    return f"pod-{metadata(pod)['name']}-{uid_of(pod)[:5]}"


def _to_be_kept(pod: Object) -> tuple[bool, bool, str, str]:
    """The order in which Pods of a role are kept: with finalizer, started, older (sortActivePods)."""
    unfinalized = MANAGED not in (metadata(pod).get("finalizers") or ())
    is_gated = GATE in pods.gate_names(pod)
    return unfinalized, is_gated, metadata(pod)["creationTimestamp"], key_of(pod).name


@contextmanager
def beside(plane: RealPlane, namespace: str) -> Iterator[Kueue]:
    """Kueue, which leaves none of its finalizers behind."""
    api = Api(Access.of(settings(plane)), namespace)
    found = Kueue(api)
    try:
        yield found
    finally:
        found.leave()
        api.close()


@contextmanager
def at_work(kueue: Kueue) -> Iterator[None]:
    """Kueue goes on by itself, and admits whatever it has a flavor for."""
    ended = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        try:
            while not ended.wait(0.05):
                kueue.look()
                for each in kueue.api.page(WORKLOADS).accepted()["items"]:
                    name = metadata(each)["name"]
                    if not is_reserved(each) and not kueue.reserve(name):
                        kueue.admit(name)
        except Exception as error:  # told where it can be seen
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures, failures
