"""Starting and ending planes: directories, failures, and nothing left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from controlplane.starting import left_by_a_killed_owner, tollbar

from tollbar.devplane import process, state
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.layout import CONTROLLER_MANAGER, START_ORDER, Layout
from tollbar.devplane.plane import PlaneError
from tollbar.devplane.real.components import Options, Ports, arguments
from tollbar.devplane.real.launcher import RealPlane

pytestmark = pytest.mark.timeout(300)

PORTS = Ports(1, 2, 3, 4, 5)


@pytest.fixture
def broken(tmp_path: Path) -> Binaries:
    """Components that say something and die."""
    directory = tmp_path / "assets"
    directory.mkdir()
    for name in (*START_ORDER, "kubectl"):
        script = directory / name
        script.write_text('#!/bin/sh\necho "cannot open the box"\nexit 7\n')
        script.chmod(0o755)
    return Binaries(directory)


def test_a_component_that_dies_is_reported_with_the_end_of_its_log(broken: Binaries, tmp_path: Path) -> None:
    directory = tmp_path / "plane"

    with pytest.raises(PlaneError, match=r"etcd ended with exit code 7;(.|\n)*cannot open the box"):
        RealPlane(broken, directory).start()

    assert sorted(path.name for path in directory.iterdir()) == ["logs", "state.json"]


def test_a_directory_with_other_files_is_left_alone(broken: Binaries, tmp_path: Path) -> None:
    (tmp_path / "plane" / "bin").mkdir(parents=True)

    with pytest.raises(PlaneError, match="is not empty and was not made by a plane"):
        RealPlane(broken, tmp_path / "plane").start()

    assert state.stop(tmp_path / "plane") == []
    assert [path.name for path in (tmp_path / "plane").iterdir()] == ["bin"]


def test_a_process_that_is_not_of_the_plane_is_never_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        layout = Layout(tmp_path.resolve())
        state.save(layout, {"etcd": other.pid})

        assert state.stop(tmp_path) == []
        assert other.poll() is None
        assert other.stdin is not None
        other.stdin.close()


def test_two_processes_may_end_the_same_plane_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path.resolve())
    state.save(layout, {"etcd": 0})
    replace = Path.replace

    def after_another(self: Path, target: Path) -> Path:
        monkeypatch.undo()
        assert state.stop(tmp_path) == []
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", after_another)

    assert state.stop(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


FLAGS = {
    "limits are lifted unless the defaults are what is measured": (
        Options(raised_limits=False),
        {"--kube-api-qps=1000", "--kube-api-burst=2000"},
        set[str](),
    ),
    "nodes may have another grace period": (
        Options(node_grace="1m"),
        {"--node-monitor-grace-period=24h"},
        {"--node-monitor-grace-period=1m"},
    ),
    "more flags come on top": (
        Options(flags={CONTROLLER_MANAGER: ("--controllers=*,-resourceclaim-controller",)}),
        set[str](),
        {"--controllers=*,-resourceclaim-controller"},
    ),
}


@pytest.mark.parametrize(("options", "gone", "added"), FLAGS.values(), ids=FLAGS)
def test_options_change_the_flags_of_the_controller_manager(
    options: Options, gone: set[str], added: set[str], tmp_path: Path
) -> None:
    usual = set(arguments(CONTROLLER_MANAGER, Layout(tmp_path), PORTS, Options()))
    flags = set(arguments(CONTROLLER_MANAGER, Layout(tmp_path), PORTS, options))

    assert (usual - flags, flags - usual) == (gone, added)


def test_up_runs_a_plane_in_the_background_and_down_leaves_no_process(binaries: Binaries, tmp_path: Path) -> None:
    directory = tmp_path.resolve() / "plane"
    manager_flags = "--controllers=*,-resourceclaim-controller"
    up = tollbar(
        *("plane", "up", "--real", "--no-scheduler", "--dir", str(directory)),
        *("--controller-manager-flags", manager_flags),
    )
    try:
        assert (up.returncode, up.stdout) == (0, f"{directory / 'kubeconfig'}\n")
        pids = state.running(Layout(directory))
        assert list(pids) == ["etcd", "kube-apiserver", "kube-controller-manager"]
        manager = Path(f"/proc/{pids['kube-controller-manager']}/cmdline")
        assert not manager.exists() or manager_flags in manager.read_text().split("\0")
        kubectl = Kubectl((str(directory / "bin" / "kubectl"),), Path("/nonexistent"), tmp_path)
        assert kubectl("get", "--raw", "/readyz") == "ok"
        again = tollbar("plane", "up", "--real", "--dir", str(directory))
        assert (again.returncode, again.stdout) == (1, "")
        assert "a plane is running in" in again.stderr
    finally:
        down = tollbar("plane", "down", "--dir", str(directory))

    assert (down.returncode, down.stdout) == (0, "")
    assert [name for name, pid in pids.items() if process.alive(pid, directory)] == []
    assert not (directory / "kubeconfig").exists()


def test_a_plane_ends_with_the_process_that_started_it_even_when_that_is_killed(
    binaries: Binaries, tmp_path: Path
) -> None:
    directory = tmp_path.resolve() / "plane"
    script = (
        "import sys; from pathlib import Path\n"
        "from tollbar.devplane.real.build import locate\n"
        "from tollbar.devplane.real.components import Options\n"
        "from tollbar.devplane.real.launcher import RealPlane\n"
        "options = Options(controller_manager=False, scheduler=False)\n"
        "plane = RealPlane(locate(), Path(sys.argv[1]), options)"
    )
    assert left_by_a_killed_owner(script, directory) == (["etcd", "kube-apiserver"], {})


def test_plane_loads_nothing_that_it_does_not_need() -> None:
    large = {"celpy", "kopf", "kubernetes.client", "kubernetes.aio.client"}
    script = f"import sys, tollbar.cli.plane; print(sorted({large} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
