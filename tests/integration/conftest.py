"""Integration tests run on both control planes; a file or a test that needs the real one says why."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.following import until_kubectl_knows
from planes.parameters import PLANES, needs_kubectl
from processes.stack import ROOT, delete_definitions

from tollbar.api import crds
from tollbar.devplane.kubectl import Kubectl

Render = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="session", params=PLANES)
def plane(request: pytest.FixtureRequest) -> Any:
    found = request.getfixturevalue(request.param)
    needs_kubectl(found)
    return found


@pytest.fixture(scope="module")
def definitions(plane: Any) -> Iterator[None]:
    """Our CRDs as somebody applied them, for one file only unless they were there before."""
    kubectl: Kubectl = plane.kubectl
    names = [f"crd/{crd['metadata']['name']}" for crd in crds.all_crds()]
    there = kubectl("get", "--ignore-not-found", "-o", "name", *names)
    kubectl.apply(*crds.all_crds())
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    until_kubectl_knows(kubectl)
    yield
    if not there:
        delete_definitions(kubectl)


@pytest.fixture
def render(kubectl: Kubectl, tmp_path: Path) -> Render:
    """Objects of an overlay beside ours, given as the text of its kustomization.yaml."""
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    overlay = tmp_path / "manifests" / "overlays" / "tried"
    overlay.mkdir()

    def rendered(kustomization: str) -> list[dict[str, Any]]:
        (overlay / "kustomization.yaml").write_text(kustomization)
        return list(yaml.safe_load_all(kubectl("kustomize", str(overlay))))

    return rendered
