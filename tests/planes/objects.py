"""Objects on a plane, as users write them: classes, claims, rules and Pods in one namespace."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import OK
from typing import Any, Final

from objects.builders import Claim, Pod, Template, TolerationRule, claim, device_class, pod, template, toleration_rule
from processes.stack import eventually

from planes.access import KINDS, Access, RefusedError, access
from tollbar import wellknown
from tollbar.devplane.kubectl import Kubectl
from tollbar.model import conditions
from tollbar.model.objects import Object, annotations_of, metadata
from tollbar.model.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    SUBJECT_ACCESS_REVIEWS,
    TOLERATION_RULES,
)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
RESERVED = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def as_written(obj: Object, **metadata: Any) -> Object:
    """Without what only the API server fills in."""
    kept = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "creationTimestamp", "generation")}
    return {**obj, "metadata": {**kept, **metadata}}


def a_pod(name: str, namespace: str) -> Pod:
    built = pod(name, namespace).but("spec.containers", [{"name": "main", "image": "example.com/app"}])
    return built.but("spec.terminationGracePeriodSeconds", 0)


def gpu_rule(name: str, **match: Any) -> TolerationRule:
    """Gives the reserved nodes' toleration to claims of this class (`name`)."""
    expression = f'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "{name}"))'
    return toleration_rule(name).cel(expression).giving(RESERVED)


@dataclass(frozen=True)
class Cluster:
    """One namespace of a plane; cluster-scoped names carry the namespace's so that tests do not meet."""

    kubectl: Kubectl
    namespace: str

    def unique(self, name: str) -> str:
        return f"{name}.{self.namespace}"

    @property
    def access(self) -> Access:
        return access(self.kubectl)

    def create(self, *objects: Object) -> None:
        """As `kubectl apply` does: what is there already is changed.  Raises KubectlError for what is refused."""
        left = [obj for obj in map(as_written, objects) if not self._creates(obj)]
        if left:
            self.kubectl.apply(*left)

    def _creates(self, obj: Object) -> bool:
        """Whether it was not there, and is now."""
        if (obj["apiVersion"], obj["kind"]) not in KINDS or not metadata(obj).get("name"):
            return False
        applied = {**annotations_of(obj), LAST_APPLIED: json.dumps(obj)}
        try:
            self.access.creates({**obj, "metadata": {**metadata(obj), "annotations": applied}})
        except RefusedError:
            return False
        return True

    def class_(self, name: str = "gpu", *, extended: str = "") -> str:
        wanted = device_class(self.unique(name)).selecting('device.driver == "gpu.example.com"')
        self.create(wanted.backing(extended) if extended else wanted)
        return self.unique(name)

    def claim(self, name: str, *classes: str) -> Claim:
        return claim(name, self.namespace).request(*classes)

    def template(self, name: str, *classes: str) -> Template:
        return template(name, self.namespace).request(*classes)

    def pod(self, name: str = "web") -> Pod:
        return a_pod(name, self.namespace)

    def warned(self, obj: Object, *options: str) -> str:
        """What the author of the object is warned of when it is created."""
        command = [*self.kubectl.command, "create", "-f", "-", *options]
        text, environment = json.dumps(as_written(obj)), self.kubectl.environment()
        done = subprocess.run(command, input=text, env=environment, text=True, capture_output=True, check=True)
        return done.stderr

    def get(self, name: str = "web") -> Object:
        return self.access.read(PODS, name, self.namespace)

    def patch(self, name: str, patch: list[Object]) -> None:
        """A JSON patch of a Pod."""
        self.kubectl("patch", "pod", name, "-n", self.namespace, "--type=json", "-p", json.dumps(patch))

    def pods(self) -> list[Object]:
        found: list[Object] = self.access.read(PODS, namespace=self.namespace)["items"]
        return found

    def claims(self) -> list[Object]:
        """The ResourceClaims."""
        found: list[Object] = self.access.read(RESOURCE_CLAIMS, namespace=self.namespace)["items"]
        return found

    def generated(self, name: str = "web") -> dict[str, str]:
        """Names of the claims that were made for a Pod, by the Pod's own names for them, as its status has them."""
        statuses = self.get(name).get("status", {}).get("resourceClaimStatuses", [])
        return {each["name"]: each["resourceClaimName"] for each in statuses}

    def held(self) -> set[str]:
        """Names of the Pods in our gate."""
        gate = {"name": wellknown.GATE}
        return {each["metadata"]["name"] for each in self.pods() if gate in each["spec"].get("schedulingGates", [])}

    def tolerations(self, name: str = "web") -> list[Object]:
        """Those that Tollbar or the author wrote: the API server's own two are left out."""
        listed = self.get(name)["spec"].get("tolerations", [])
        return [each for each in listed if not each["key"].startswith("node.kubernetes.io/")]

    def decided(self, name: str = "web") -> list[Object]:
        """The Pod's tolerations, once our gate is off: at admission, or soon after it where the webhook was behind."""
        eventually(lambda: not self.is_held(name), what=f"{name} decided")
        return self.tolerations(name)

    def create_known(self, *pods: Object) -> None:
        """Create Pods that get tolerations at admission: all name the same, and the webhook has caught up with that."""
        eventually(lambda: self.rules_at_admission(pods[0]), what="known to the webhook")
        self.create(*pods)

    def until_younger_than(self, kind: str, name: str) -> None:
        """Wait until what the API server creates is younger than this object: its times are whole seconds."""
        probe = claim(f"after-{name}", self.namespace)
        created = self.kubectl.json("get", kind, name, "-n", self.namespace)["metadata"]["creationTimestamp"]
        eventually(
            lambda: metadata(self.tried(probe))["creationTimestamp"] > created, what=f"younger than {kind} {name}"
        )

    def tried(self, obj: Object) -> Object:
        """What the API server would store of a creation: a dry run.  Raises RefusedError."""
        return self.access.creates(as_written(obj), dryRun="All")

    def rules_at_admission(self, pod: Object) -> set[str]:
        """Names of the rules by which the webhook adds tolerations to such a Pod; asked without effect."""
        return {entry["rule"] for entry in provenance(self.tried(pod))}

    def is_held(self, name: str = "web") -> bool:
        gates = self.get(name)["spec"].get("schedulingGates", [])
        return {"name": wellknown.GATE} in gates

    def bound_to(self, name: str = "web") -> str:
        return str(eventually(lambda: self.get(name)["spec"].get("nodeName"), what=f"{name} bound"))

    def runs(self, name: str = "web") -> None:
        """Wait until it does: a Pod that ends before the kubelet has said that it runs may be said to run then."""
        eventually(lambda: self.get(name)["status"].get("phase") == "Running", what=f"{name} runs")

    def may(self, user: str, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Whether the API server permits it, which learns of roles from a watch of its own."""
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        about = {"user": user, "resourceAttributes": {**asked, "namespace": self.namespace}}
        review = {**SUBJECT_ACCESS_REVIEWS.type_meta, "metadata": {}, "spec": about}
        return bool(self.access.creates(review)["status"]["allowed"])

    def clear(self) -> None:
        """Delete the namespace's Pods, and every rule and class."""
        eventually(self._deletes_pods, seconds=600, what="no Pod is left")
        for each in (TOLERATION_RULES, DEVICE_CLASSES):
            self.access.request("DELETE", each.path())

    def _deletes_pods(self) -> bool:
        """Thousands may take longer than the API server works on one request."""
        try:
            self.access.request("DELETE", PODS.path(self.namespace), gracePeriodSeconds="0")
        except RefusedError:
            return False
        return True

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, note) of the events about an object of this namespace, or of none."""
        found = self.access.read(EVENTS, fieldSelector=f"regarding.name={name}")
        here = (self.namespace, "default")  # where events on cluster-scoped objects are
        return [(e["reason"], e.get("note", "")) for e in found["items"] if e["metadata"]["namespace"] in here]


def make_namespace(kubectl: Kubectl, name: str) -> None:
    """Pods can be created in it at once."""
    reached = access(kubectl)
    reached.creates({**NAMESPACES.type_meta, "metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually(lambda: reached.answer("GET", account)[0] == OK, what=f"{name} has its ServiceAccount")


@contextmanager
def fresh_namespace(kubectl: Kubectl) -> Iterator[str]:
    """Its name."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    make_namespace(kubectl, name)
    yield name
    access(kubectl).request("DELETE", NAMESPACES.path(name=name))


def provenance(pod: Object) -> list[Object]:
    """What Tollbar recorded in a Pod: by which rule and how it got its tolerations."""
    found: list[Object] = json.loads(annotations_of(pod).get(wellknown.ANNOTATION_PROVENANCE, "[]"))
    return found


def a_ready_rule(cluster: Cluster, *rules: Any) -> None:
    """Rules in force, with the controllers, who say so, and with the webhook, which has a watch of its own.

    The webhook is known to have seen them when it acts by a rule that was created after them.
    """
    last = cluster.unique(f"last-{uuid.uuid4().hex[:8]}")
    labelled = toleration_rule(last).cel(f'has(pod.metadata.labels) && "{last}" in pod.metadata.labels')
    cluster.create(*rules, labelled.giving(RESERVED))
    is_compiled(cluster, *rules)
    asks = {"requests": {"example.com/any": "1"}, "limits": {"example.com/any": "1"}}
    pod = cluster.pod(last).labelled({last: ""})
    pod = pod.but("spec.containers", [{**pod["spec"]["containers"][0], "resources": asks}])
    eventually(lambda: last in cluster.rules_at_admission(pod), what="known to the webhook")
    cluster.kubectl("delete", "tolerationrule", last)


def is_compiled(cluster: Cluster, *rules: Any) -> None:
    """Wait until the controllers say that these rules are in force."""

    def is_ready(name: str) -> bool:
        found = cluster.access.read(TOLERATION_RULES, name)
        said = conditions.of(found, "Ready")
        return said.get("status") == "True" and said["observedGeneration"] == metadata(found)["generation"]

    eventually(lambda: all(is_ready(metadata(rule)["name"]) for rule in rules), what="the rules are in force")
