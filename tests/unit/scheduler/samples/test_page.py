"""The page "Write a scheduler plugin": its code works as it stands there, and the scheduler says what it shows."""

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from plugins.tables import handle
from plugins.toys import done, framework

from tollbar.scheduler.algorithm import schedule_pod
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.plugins import registry

PAGE = (Path(__file__).parents[4] / "docs" / "contributing" / "write-a-scheduler-plugin.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
MODULE, HINTS, HINT_IMPORTS, TESTS, MASK, MASK_IMPORTS, MASK_TEST = PYTHON
NODE = {"metadata": {"name": "closed", "labels": {"example.com/maintenance": "tonight"}}}


def shown(text: str) -> bool:
    return any(language == "" and text in block for language, block in BLOCKS)


@pytest.fixture
def maintenance(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with everything that the page adds to it; methods go to the end of the class, imports to the top."""
    found = ModuleType("maintenance")
    exec(HINT_IMPORTS + MASK_IMPORTS + MODULE + "\n" + MASK + "\n" + HINTS, found.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "maintenance", found)
    return found


@pytest.mark.behaviour(35)
@pytest.mark.usefixtures("maintenance")
def test_the_tests_of_the_page_pass() -> None:
    page: dict[str, Any] = {}
    exec(TESTS + MASK_TEST, page)  # noqa: S102
    tests = [value for name, value in page.items() if name.startswith("test_")]
    for each in tests:
        each()
    assert len(tests) == 4


def test_the_profile_has_the_plugin_under_the_name_of_its_entry_point(maintenance: Any) -> None:
    ((name, value),) = tomllib.loads(code("toml"))["project"]["entry-points"][registry.GROUP].items()
    (profile,) = registry.configuration(code("yaml")).profiles
    found = registry.plugins(profile, {**registry.IN_TREE, name: maintenance.Maintenance}, handle())

    assert (value, found.filter[-1].name) == ("maintenance:Maintenance", name)


def code(language: str) -> str:
    (text,) = (text for found, text in BLOCKS if found == language)
    return text


def test_the_messages_of_the_page(maintenance: Any) -> None:
    class Broken(maintenance.Maintenance):  # type: ignore[misc]
        def filter(self, state: Any, pod: PodInfo, node: Any) -> Any:
            raise KeyError(maintenance.LABEL)

    def said(plugin: type) -> str:
        pod = Shapes().pod_info({"metadata": {"name": "web", "namespace": "default"}})
        steps = schedule_pod(framework(plugin({}, handle())), CycleState(), pod, Snapshot.of([NODE]), 0)
        result = done(steps).result
        return str(getattr(result, "message", result))

    assert (said(maintenance.Maintenance), said(Broken)) == (
        "0/1 nodes are available: 1 node(s) were under maintenance.",
        "running \"Maintenance\" filter plugin: KeyError: 'example.com/maintenance'",
    )
    assert shown(said(maintenance.Maintenance))
    assert shown(said(Broken))
