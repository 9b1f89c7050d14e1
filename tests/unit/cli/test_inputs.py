"""Objects in files: which are read, what workloads stand for, and what is said of files that are wrong."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tollbar.cli import inputs
from tollbar.cli.expansion import expand
from tollbar.cli.manifests import Unreadable
from tollbar.model.objects import Object, labels_of, spec

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: none
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: none
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notebooks.example.com}
spec: {group: example.com, names: {kind: Notebook, plural: notebooks}}
---
apiVersion: example.com/v1
kind: Notebook
metadata: {name: n}
"""


def read(text: str) -> list[Object]:
    return [located.obj for located in inputs.read(["-"], io.StringIO(text))]


READ: dict[str, tuple[str, list[str]]] = {
    "a Pod": (POD, ["Pod"]),
    "a Node with a status that is newer": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {fashion: new}\n",
        ["Node"],
    ),
    "several documents": (f"{POD}---\n{DEPLOYMENT}", ["Pod", "Deployment"]),
    "what nobody asks for": (f"{POD}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\n", ["Pod"]),
    "a custom resource with its definition": (f"{DEFINITION}---\n{POD}", ["Pod"]),
    "a PodGroup of a newer version": (
        "apiVersion: scheduling.k8s.io/v1\nkind: PodGroup\nmetadata: {name: x}\n",
        ["PodGroup"],
    ),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "kinds"), READ.values(), ids=READ)
def test_the_kinds_that_are_read(text: str, kinds: list[str]) -> None:
    assert [obj["kind"] for obj in read(text)] == kinds


def test_objects_have_the_defaults_of_the_api_server() -> None:
    (pod,) = read(POD)
    assert (pod["metadata"]["namespace"], spec(pod)["schedulerName"]) == ("default", "default-scheduler")


WRONG: dict[str, tuple[str, str]] = {
    "broken YAML": ("a: [1\nb: 2", "stdin:2:2: expected ',' or ']', but got ':'"),
    "a text": ("hello", 'stdin:1: not an object of the API, but "hello"'),
    "no kind": ("apiVersion: v1\n", "stdin:1: an object of the API has apiVersion and kind"),
    "an unknown kind": ("apiVersion: v1\nkind: Podd\n", 'stdin:1: no kind "Podd" of v1 is known'),
    "a custom resource without its definition": (
        "apiVersion: example.com/v1\nkind: Notebook\nmetadata: {name: n}\n",
        'stdin:1: no kind "Notebook" of example.com/v1 is known',
    ),
    "a rule of another group": (
        "apiVersion: tollbar.io/v1\nkind: TolerationRule\n",
        'stdin:1: no kind "TolerationRule" of tollbar.io/v1 is known',
    ),
    "a claim of an old version": (
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\n",
        "stdin:1: ResourceClaim of resource.k8s.io/v1beta1: only resource.k8s.io/v1 is read",
    ),
    "a dump": (
        "apiVersion: dump.tollbar.dev/v1\nkind: ClusterDump\n",
        "stdin:1: a dump of a cluster, which goes to --cluster",
    ),
    "nothing that is read": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
        "stdin:1: ConfigMap x: nothing here is a Pod, or decides about one",
    ),
    "no name": ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "stdin:3: Pod: a Pod has metadata.name"),
    "metadata that is a list": ("apiVersion: v1\nkind: Node\nmetadata: []\n", "stdin:3: Node: a Node has metadata"),
    "an unknown field": (
        POD + "  tolerationz: []\n",
        'stdin:8: Pod web: unknown field "spec.tolerationz"',
    ),
    "a value of another type": (
        POD + "  tolerations: x\n",
        "stdin:8: Pod web: cannot unmarshal string into field spec.tolerations of type array",
    ),
    "a Pod without containers": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {}\n",
        "stdin:4: Pod web: spec.containers: Required value",
    ),
    "a quantity that is none": (
        POD + "    resources: {requests: {cpu: much}}\n",
        'stdin:8: Pod web: spec.containers[0].resources.requests[cpu]: Invalid value: "much": must be a quantity',
    ),
    "the status of a Node": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus:\n  allocatable: []\n",
        "stdin:5: Node n: cannot unmarshal array into field status.allocatable of type object",
    ),
    "the template of a workload": (
        DEPLOYMENT + "        ports: 80\n",
        "stdin:13: Deployment web: cannot unmarshal number into field spec.containers[0].ports of type array",
    ),
    "replicas that are no number": (
        DEPLOYMENT.replace("replicas: 3", "replicas: many"),
        "stdin:5: Deployment web: spec.replicas is a number from 0 to 100,000",
    ),
    "more replicas than anybody has": (
        DEPLOYMENT.replace("replicas: 3", "replicas: 1000000000"),
        "stdin:5: Deployment web: spec.replicas is a number from 0 to 100,000",
    ),
    "a template that is a list": (
        DEPLOYMENT.partition("  template:")[0] + "  template: [1]\n",
        "stdin:4: Deployment web: not a valid Deployment: 'list' object has no attribute 'get'",
    ),
    "a second document": (f"{POD}---\nkind: x\n", "stdin:9: an object of the API has apiVersion and kind"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(text)
    assert str(refused.value) == said


def test_the_manifests_of_a_directory_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(POD)
    (tmp_path / "a.json").write_text(json.dumps(yaml.safe_load(DEPLOYMENT)))
    (tmp_path / "README.md").write_text("# no manifest")
    assert [each.obj["kind"] for each in inputs.read([str(tmp_path)], None)] == ["Deployment", "Pod"]


def test_a_directory_without_manifests_and_a_missing_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no manifest"):
        inputs.read([str(tmp_path)], None)
    with pytest.raises(Unreadable, match=r"nowhere.yaml: No such file or directory"):
        inputs.read([str(tmp_path / "nowhere.yaml")], None)
    with pytest.raises(Unreadable, match=r"File name too long"):
        inputs.read(["x" * 300], None)


def workload(kind: str, name: str = "web", **body: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
    meta = {"name": name, "namespace": "ml"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"template": template, **body}}


CRON = {"jobTemplate": {"spec": workload("Job")["spec"]}}
COUNTS: dict[str, tuple[Object, int]] = {
    "a Deployment": (workload("Deployment", replicas=3), 3),
    "a Deployment that does not say": (workload("Deployment"), 1),
    "a Deployment that is scaled to zero": (workload("Deployment", replicas=0), 0),
    "a ReplicaSet": (workload("ReplicaSet", replicas=2), 2),
    "a StatefulSet": (workload("StatefulSet", replicas=2), 2),
    "a Job": (workload("Job"), 1),
    "a Job with fewer completions than workers": (workload("Job", parallelism=5, completions=2), 2),
    "a Job that is suspended": (workload("Job", suspend=True), 0),
    "a run of a CronJob": (workload("CronJob", **CRON), 1),
    "a DaemonSet, whose Pods nobody schedules": (workload("DaemonSet"), 0),
}


@pytest.mark.parametrize(("obj", "count"), COUNTS.values(), ids=COUNTS)
def test_a_workload_stands_for_its_pods(obj: Object, count: int) -> None:
    pods = expand(obj).pods
    assert len(pods) == len({each["metadata"]["name"] for each in pods}) == count
    assert all(labels_of(each)["app"] == "web" for each in pods)
    if count and obj["kind"] != "DaemonSet":
        assert len(expand(obj, 7).pods) == 7


def test_no_two_pods_of_many_have_one_name() -> None:
    names = [each["metadata"]["name"] for each in expand(workload("ReplicaSet", replicas=20_000)).pods]
    assert len(set(names)) == 20_000
    assert names[:10] == [each["metadata"]["name"] for each in expand(workload("ReplicaSet", replicas=10)).pods]


def test_the_pods_of_a_deployment_are_those_of_its_replica_set() -> None:
    expansion = expand(workload("Deployment", replicas=1, selector={"matchLabels": {"app": "web"}}))
    _, replica_set = expansion.objects
    (pod,) = expansion.pods
    assert pod["metadata"]["ownerReferences"][0]["name"] == replica_set["metadata"]["name"]
    assert spec(replica_set)["selector"]["matchLabels"] == labels_of(pod)
    assert pod["metadata"]["name"].startswith(f"{replica_set['metadata']['name']}-")


def test_the_pods_of_a_stateful_set_have_ordinals_and_volumes() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    expansion = expand(workload("StatefulSet", replicas=2, ordinals={"start": 3}, volumeClaimTemplates=claims))
    assert [each["metadata"]["name"] for each in expansion.pods] == ["web-3", "web-4"]
    assert labels_of(expansion.pods[0])["apps.kubernetes.io/pod-index"] == "3"
    assert [v["persistentVolumeClaim"]["claimName"] for v in spec(expansion.pods[1])["volumes"]] == ["data-web-4"]
    assert [obj["metadata"]["name"] for obj in expansion.objects[1:]] == ["data-web-3", "data-web-4"]


def test_the_pods_of_an_indexed_job_know_their_index() -> None:
    pods = expand(workload("Job", parallelism=2, completions=2, completionMode="Indexed")).pods
    assert [each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for each in pods] == ["0", "1"]
    assert [each["metadata"]["name"][:6] for each in pods] == ["web-0-", "web-1-"]


def test_copies_of_a_pod_are_numbered() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}
    assert [each["metadata"]["name"] for each in expand(pod, 2).pods] == ["web-1", "web-2"]
    assert expand(pod).pods == (pod,)
