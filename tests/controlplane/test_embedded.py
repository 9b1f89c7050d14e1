"""The embedded control plane as a process: its life, what it does not have, and watchers that are slow."""

import json
import runpy
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Plane
from contract.api import Api, Refusal, told, until
from contract.objects import SERVICE_ACCOUNTS, lease, made, pod
from controlplane.starting import left_by_a_killed_owner, tollbar
from planes.access import Access
from planes.parameters import needs_kubectl, since

from tollbar.devplane import process, state
from tollbar.devplane.binaries import DEFAULT_VERSION
from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.layout import EMBEDDED, Layout
from tollbar.devplane.plane import PlaneError
from tollbar.devplane.ports import HOST, free_ports
from tollbar.model.resources import LEASES, NAMESPACES, NODES, PODS
from tollbar.runtime.client import PatchType

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def api(embedded: EmbeddedPlane) -> Iterator[Api]:
    """An administrator, in a namespace of this module's own."""
    access = Access.of(yaml.safe_load(embedded.kubeconfig.read_text()))
    with closing(Api(access, f"process-{uuid.uuid4().hex[:10]}")) as opened:
        opened.request("POST", NAMESPACES.path(), made(NAMESPACES, opened.namespace)).accepted()
        account = opened.path(SERVICE_ACCOUNTS, "default")
        until(lambda: opened.request("GET", account).code == 200, "the namespace has its ServiceAccount")
        yield opened


def test_up_runs_it_in_the_background_and_down_leaves_no_process(tmp_path: Path) -> None:
    directory = tmp_path.resolve() / "plane"
    up = tollbar("plane", "up", "--dir", str(directory))
    try:
        pids = state.running(Layout(directory))
        assert (up.returncode, up.stdout, list(pids)) == (0, f"{directory / 'kubeconfig'}\n", [EMBEDDED])
        config = yaml.safe_load((directory / "kubeconfig").read_text())
        with closing(Api(Access.of(config), "default")) as api:
            assert api.request("GET", "/readyz").object == "ok"
        again = tollbar("plane", "up", "--dir", str(directory))
        assert (again.returncode, again.stdout) == (1, "")
        assert "a plane is running in" in again.stderr
    finally:
        down = tollbar("plane", "down", "--dir", str(directory))

    assert (down.returncode, down.stderr) == (0, "ended embedded\n")
    assert [name for name, pid in pids.items() if process.alive(pid, directory)] == []
    assert sorted(path.name for path in directory.iterdir()) == ["logs", "state.json"]
    assert (directory / "logs" / "embedded.log").read_text() == ""


def test_it_ends_with_the_process_that_started_it_even_when_that_is_killed(tmp_path: Path) -> None:
    directory = tmp_path.resolve() / "plane"
    script = (
        "import sys; from pathlib import Path\n"
        "from tollbar.devplane.embedded.launcher import EmbeddedPlane\n"
        "plane = EmbeddedPlane(Path(sys.argv[1]))"
    )
    assert left_by_a_killed_owner(script, directory) == ([EMBEDDED], {})


def test_a_directory_that_is_not_a_planes_is_left_alone(tmp_path: Path) -> None:
    tmp_path.joinpath("letter").write_text("dear")

    with pytest.raises(PlaneError, match="was not made by a plane"):
        EmbeddedPlane(tmp_path).start()

    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    tmp_path.joinpath("path", "yaml").mkdir(parents=True)
    tmp_path.joinpath("path", "yaml", "__init__.py").write_text("raise SystemExit('no yaml today')")

    with pytest.raises(PlaneError, match=r"(?s)ended with exit code 1.*no yaml today"):
        EmbeddedPlane(tmp_path / "plane").start()

    assert state.running(Layout(tmp_path / "plane")) == {}


LACKS = "the embedded control plane does not have"


def absent(what: str) -> Refusal:
    return Refusal(501, "NotImplemented", f"{LACKS} {what}")


def not_served(what: str) -> Refusal:
    """As clients expect of a cluster that does not serve a kind."""
    return Refusal(404, "NotFound", f"{LACKS} {what}")


ABSENT: dict[str, tuple[str, str, Refusal]] = {
    "a kind of a group that is not there": (
        "POST",
        "/apis/apps/v1/namespaces/process/deployments",
        absent("deployments.apps (v1)"),
    ),
    "a kind of a group that is not there, read": (
        "GET",
        "/apis/apps/v1/namespaces/process/deployments",
        not_served("deployments.apps (v1)"),
    ),
    "a kind of the core group": ("POST", "/api/v1/namespaces/process/services", absent("services")),
    "a kind of the core group, read": ("GET", "/api/v1/services", not_served("services")),
    "a kind of a group that is there": (
        "GET",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        not_served("validatingadmissionpolicies.admissionregistration.k8s.io"),
    ),
    "a version": ("GET", "/apis/events.k8s.io/v2/events", not_served("events.events.k8s.io (v2)")),
    "a subresource": ("GET", "/api/v1/namespaces/process/pods/web/log", absent("pods/log")),
}


@pytest.mark.parametrize(("method", "path", "want"), ABSENT.values(), ids=ABSENT)
def test_what_it_does_not_have_it_names(api: Api, method: str, path: str, want: Refusal) -> None:
    assert told(api.request(method, path, {} if method == "POST" else None)) == want


@since(DEFAULT_VERSION, "its structures are those of the newest")
def test_its_structures_are_those_of_the_real_api_server(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    capture = runpy.run_path(str(ROOT / "scripts" / "capture_openapi.py"))

    assert capture["generate"](plane.kubectl) == (ROOT / "tollbar/devplane/embedded/openapi.json").read_text()


def test_kubectl_knows_its_kinds_and_their_fields(embedded: EmbeddedPlane) -> None:
    needs_kubectl(embedded)

    explained = embedded.kubectl("explain", "pods.spec.schedulingGates")

    assert ("FIELD: schedulingGates <[]PodSchedulingGate>" in explained, "name\t<string>" in explained) == (True, True)


def first_answer(api: Api, seconds: int) -> int:
    """What the first request with a token of so many seconds is answered.  Fails when the token does not end."""
    path = api.path(SERVICE_ACCOUNTS, "default", "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    token = api.request("POST", path, body).accepted()["status.token"]
    with closing(Api(Access(api.access.server, api.access.tls, token), api.namespace)) as other:
        first = other.page(PODS).code
        until(lambda: other.page(PODS).code == 401, "the token has ended")
    return first


def test_a_token_ends(api: Api) -> None:
    """One that has ended before it is used says nothing: then a longer one is asked for."""
    codes = (first_answer(api, seconds) for seconds in (1, 5, 20))

    assert next((code for code in codes if code != 401), 401) == 403


def test_a_watcher_that_reads_nothing_holds_up_nobody_and_misses_nothing(api: Api) -> None:
    """It has no queue: what it was not sent is still in the history when it reads at last."""
    start = api.page(LEASES).version
    big = "x" * 50_000
    api.create(lease(annotations={"big": big})).accepted()
    with api.watch(LEASES, resourceVersion=start) as watch:
        for number in range(200):
            api.patch(LEASES, "turn", {"spec": {"holderIdentity": str(number)}}, PatchType.MERGE).accepted()
        seen: list[Any] = [obj["spec"]["holderIdentity"] for _, obj in watch.take(201)]
    api.clear()

    assert seen == ["1", *map(str, range(200))]


def test_a_whole_list_is_what_its_pages_are(api: Api) -> None:
    for number in range(30):
        api.create(pod("example.com/a", name=f"pod-{number:02}")).accepted()
    whole = api.page(PODS)["items"]
    pages: list[Any] = []
    token = ""
    while page := api.page(PODS, limit="7", **({"continue": token} if token else {})):
        pages += page["items"]
        token = page["metadata.continue"]
        if not token:
            break
    api.clear()

    assert json.dumps(pages) == json.dumps(whole)


def test_a_scheduler_beside_its_own_schedules_the_pods_that_name_it(api: Api, embedded: EmbeddedPlane) -> None:
    """Most of the kinds that it watches are not served here."""
    name = f"process-{uuid.uuid4().hex[:10]}"
    addresses = [f"{HOST}:{port}" for port in free_ports(2)]
    argv = [sys.executable, "-m", "controllers.scheduler", "--kubeconfig", str(embedded.kubeconfig)]
    argv += ["--no-leader-elect", "--health-probe-bind-address", addresses[0], "--metrics-bind-address", addresses[1]]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as scheduler:
        try:
            api.create(made(NODES, name, status={"allocatable": {"pods": "1"}})).accepted()
            api.create(pod(name="beside", schedulerName="tollbar-scheduler")).accepted()
            node = until(lambda: api.get(PODS, "beside")["spec.nodeName"], "the Pod is bound")
        finally:
            scheduler.terminate()
        _, log = scheduler.communicate()
    api.clear()
    assert (node, scheduler.returncode, "Traceback" in log) == (name, 0, False), log
