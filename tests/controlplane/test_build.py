"""Finding, building and caching the control plane's binary, with a stand-in for Go."""

import os
import runpy
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tollbar.devplane import binaries
from tollbar.devplane.real import build, go

FAKE_GO = """#!/bin/sh
case $1 in
version) echo "go version go{version} linux/amd64" ;;
build)
  echo ran >> "{calls}"
  echo "go: downloading example.com/a v1.0.0" >&2
  echo "example.com/a/b" >&2
  {action}
  while [ "$1" != -o ]; do shift; done
  echo binary > "$2" ;;
esac
"""


@dataclass
class Machine:
    """A PATH with one stand-in for Go, and a cache of its own."""

    root: Path

    def install_go(self, version: str, action: str = ":") -> None:
        script = self.root / "bin" / "go"
        script.write_text(FAKE_GO.format(version=version, calls=self.root / "calls", action=action))
        script.chmod(0o755)

    @property
    def builds(self) -> int:
        calls = self.root / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(binaries.ASSETS, raising=False)
    return Machine(tmp_path)


def test_the_binary_is_built_once_and_then_taken_from_the_cache(machine: Machine) -> None:
    machine.install_go("99.0.1")
    lines: list[str] = []

    first = build.binary(report=lines.append)
    second = build.binary(report=lines.append)

    assert (first, first.read_text(), machine.builds) == (second, "binary\n", 1)
    assert first.is_relative_to(machine.root / "cache" / "tollbar")
    assert [line.partition(" ")[0] for line in lines] == ["building", "this", "built"]


def test_a_failed_build_says_why_and_leaves_nothing_in_the_cache(machine: Machine) -> None:
    machine.install_go("99.0.1", action='echo "main.go:7: no such thing" >&2; exit 3')

    with pytest.raises(binaries.BuildError, match=r"exit code 3;(.|\n)*main.go:7: no such thing"):
        build.binary(report=lambda _line: None)

    assert list(machine.root.glob("cache/tollbar/controlplane/*/controlplane*")) == []


def test_a_cached_binary_needs_no_go(machine: Machine) -> None:
    machine.install_go("99.0.1")
    built = build.binary(report=lambda _line: None)
    (machine.root / "bin" / "go").unlink()

    assert build.locate(report=lambda _line: None) == binaries.Binaries(built)


def test_another_kubernetes_version_is_refused(machine: Machine) -> None:
    with pytest.raises(
        binaries.BuildError, match=r"1\.12 cannot be built here: available are 1\.37, 1\.36, 1\.35, 1\.34$"
    ):
        build.binary("1.12")


OLDER = ["-modfile={module}/older/1.35.mod", "-overlay=older/overlay.json"]


@pytest.mark.parametrize(("version", "more"), [("1.37", []), ("1.35", OLDER)])
def test_each_version_is_built_from_its_own_module_file(machine: Machine, version: str, more: list[str]) -> None:
    machine.install_go("99.0.1", action=f'echo "$@" > {machine.root}/arguments')

    built = build.binary(version, report=lambda _line: None)

    given = (machine.root / "arguments").read_text().split()
    chosen = [word for word in given if word.startswith(("-modfile", "-overlay"))]
    stamp = f"k8s.io/component-base/version.gitMinor={version.partition('.')[2]}"
    assert (built.parent.name.partition("-")[0], chosen, stamp in given) == (
        version,
        [word.format(module=build.MODULE) for word in more],
        True,
    )


def test_an_old_go_on_the_path_is_passed_over_for_a_private_one(machine: Machine) -> None:
    machine.install_go("1.20")
    private = machine.root / "cache" / "go-1.26" / "go" / "bin" / "go"
    private.parent.mkdir(parents=True)
    private.write_text("#!/bin/sh\necho go version go1.26.6 linux/amd64\n")
    private.chmod(0o755)
    lines: list[str] = []

    found = go.find((1, 26, 0), machine.root / "cache", lines.append)

    assert (found, lines) == (private, ["the Go on PATH is 1.20.0, 1.26.0 is needed"])


def test_assets_are_one_file_per_component_and_a_missing_one_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = machine.root / "assets" / "etcd"
    etcd.parent.mkdir()
    etcd.touch(mode=0o755)
    monkeypatch.setenv(binaries.ASSETS, str(etcd.parent))

    assets = build.locate()

    assert assets.command("etcd") == [str(etcd)]
    with pytest.raises(binaries.BuildError, match="KUBEBUILDER_ASSETS has no kube-scheduler"):
        assets.command("kube-scheduler")


def test_assets_that_are_no_directory_are_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binaries.ASSETS, str(machine.root / "nothing"))

    with pytest.raises(binaries.BuildError, match="KUBEBUILDER_ASSETS is not a directory"):
        build.locate()


VERSIONS = {
    "a patch release": ("go version go1.26.8 linux/amd64", (1, 26, 8)),
    "a first release": ("go version go1.27 darwin/arm64", (1, 27, 0)),
    "a release candidate counts as its release": ("go version go1.27rc1 linux/amd64", (1, 27, 0)),
    "something else": ("gccgo (GCC) 13", None),
}


@pytest.mark.parametrize(("given", "want"), VERSIONS.values(), ids=VERSIONS)
def test_version_of(given: str, want: go.Version | None) -> None:
    assert go.version_of(given) == want


@pytest.mark.parametrize("version", build.versions())
def test_each_module_asks_for_a_known_go_and_its_kubernetes(version: str) -> None:
    text = build.module_file(version).read_text()

    assert go.required(text) >= (1, 24, 0)
    assert build.kubernetes_version(text).rpartition(".")[0] == version


DRAFT = """\
module tollbar.dev/controlplane
go 1.24.0
require (
\tgo.etcd.io/etcd/server/v3 v3.6.4
\tk8s.io/kubernetes v1.34.8
)
replace (
\tk8s.io/api => k8s.io/api v0.34.8
\tk8s.io/kms => k8s.io/kms v0.34.8
)
"""


def test_an_older_module_is_pinned_to_what_that_kubernetes_asks_for() -> None:
    pin = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "pin_kubernetes.py"))
    theirs = {
        "Go": "1.24.0",
        "Require": [
            {"Path": "github.com/spf13/cobra", "Version": "v1.9.1"},
            {"Path": "go.etcd.io/etcd/server/v3", "Version": "v3.6.4", "Indirect": True},
        ],
        "Replace": [{"Old": {"Path": "k8s.io/api"}}, {"Old": {"Path": "k8s.io/kms"}}],
    }

    assert pin["first_draft"]("1.34.8", theirs) == DRAFT


def test_the_binary_is_stamped_with_the_kubernetes_version_in_both_version_packages() -> None:
    stamps = [word for word in build.ld_flags("1.37.0").split() if word.endswith("gitVersion=v1.37.0")]

    assert stamps == [
        "k8s.io/component-base/version.gitVersion=v1.37.0",
        "k8s.io/client-go/pkg/version.gitVersion=v1.37.0",
    ]


def test_progress_tells_downloads_from_compiled_packages() -> None:
    log = "go: downloading a.example/x v1.0.0\ninternal/abi\nk8s.io/api/core/v1\n"

    assert build.progress(log) == "1 modules downloaded, 2 packages compiled"


def test_every_source_file_of_the_module_decides_which_binary_is_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = machine.root / "module"
    shutil.copytree(build.MODULE, module)
    monkeypatch.setattr(build, "MODULE", module)
    machine.install_go("99.0.1")
    found = [build.binary(report=lambda _line: None)]
    (module / "README").write_text("not a source file")
    found.append(build.binary(report=lambda _line: None))
    (module / "older" / "1.12.mod").write_text("go 1.99.0\n")
    (module / "older" / "more.go").write_text("package main\n")
    found.append(build.binary(report=lambda _line: None))
    (module / "more.go").write_text("package main\n")
    found.append(build.binary(report=lambda _line: None))

    assert [path == found[0] for path in found[1:]] == [True, True, False]


def test_a_kubectl_is_not_looked_for_in_a_directory_that_is_not_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(binaries.ASSETS, str(machine.root / "nowhere"))
    kubectl = machine.root / "bin" / "kubectl"
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o755)

    assert binaries.kubectl() == [str(kubectl)]
