"""`tollbar dump` of a cluster: it is read again, has what was applied, and nothing that may be secret."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tollbar.cli import clusterdump, main
from tollbar.devplane.kubectl import Kubectl
from tollbar.model.objects import key_of

pytestmark = pytest.mark.usefixtures("definitions")

SECRET = "hunter2"


def test_a_dump_has_what_was_applied_and_no_secret(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    container = {"name": "main", "image": "none", "env": [{"name": "PASSWORD", "value": SECRET}]}
    meta = {"namespace": namespace}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": "s"}, "stringData": {"p": SECRET}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": "web"}, "spec": {"containers": [container]}},
        {
            "apiVersion": "tollbar.dev/v1alpha1",
            "kind": "TolerationRule",
            "metadata": {"name": f"reads-{namespace}"},
            "spec": {
                "match": {"type": "CEL", "cel": {"expression": "pod.spec.containers.exists(c, size(c.command) > 0)"}},
                "tolerations": [{"key": "a", "operator": "Exists"}],
            },
        },
    )
    target = tmp_path / "dump.json"

    done = CliRunner().invoke(main, ["dump", "-o", str(target), "--kubeconfig", str(kubectl.kubeconfig)])

    kubectl("delete", "tolerationrule", f"reads-{namespace}")
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"warning: rule reads-{namespace} reads pod.spec.containers.command" in done.stderr
    dump = clusterdump.read(target)
    assert {("Namespace", namespace), ("Pod", "web"), ("TolerationRule", f"reads-{namespace}")} <= {
        (obj["kind"], key_of(obj).name) for obj in dump.items
    }
    assert SECRET not in target.read_text()
    assert dump.unread == {}
