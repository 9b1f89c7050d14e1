"""What a process does not load: packages of which it needs a part, and what it needs only for some settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from tollbar.runtime.deferred import defer


def said(program: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()


def test_the_scheduler_loads_no_more_than_it_needs() -> None:
    loaded = said("import controllers.scheduler.__main__, tollbar.runtime.access, sys; print(*sys.modules)")
    assert {"kopf", "kubernetes.aio.config.kube_config"} <= set(loaded)
    unwanted = {"cryptography", "kubernetes.config", "kubernetes.dynamic", "requests", "websocket", "tollbar.api.rules"}
    assert unwanted.intersection(loaded) == set()


def test_compiling_an_expression_loads_the_grammar_of_cel_python_and_nothing_else_of_it() -> None:
    program = (
        "from tollbar import cel; cel.engine().compile('1 + 1 == 2', cel.RULE_ENV); import sys; print(*sys.modules)"
    )
    loaded = said(program)
    assert ("lark" in loaded, {"celpy", "pendulum"}.intersection(loaded)) == (True, set())


def test_the_library_is_complete_for_others() -> None:
    program = """
import sys, tollbar.runtime.access, kubernetes
from kubernetes import watch
from kubernetes.aio import dynamic
print(kubernetes.client.V1Pod.__name__, kubernetes.config.load_kube_config.__name__, watch.Watch.__name__)
print(dynamic.__name__, kubernetes.aio.config.kube_config is sys.modules["kubernetes.aio.config.kube_config"])
"""
    assert said(program) == ["V1Pod", "load_kube_config", "Watch", "kubernetes.aio.dynamic", "True"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a part, whose __init__ takes note of being run."""
    name = "deferred_for_a_test"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("from . import other\nruns = [__name__]\nrest = 'rest'\n")
    (tmp_path / name / "part.py").write_text("")
    (tmp_path / name / "other.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("", ".part", ".other"):
        monkeypatch.delitem(sys.modules, f"{name}{module}", raising=False)
        monkeypatch.setitem(sys.modules, f"{name}{module}", None)
        monkeypatch.delitem(sys.modules, f"{name}{module}")
    return name


def test_the_init_runs_once_when_it_is_needed(package: str) -> None:
    defer(package)
    module = __import__(f"{package}.part")
    assert (module.__name__, "runs" in vars(module), "other" in vars(module)) == (package, False, False)
    assert (module.rest, module.runs, module.part.__name__) == ("rest", [package], f"{package}.part")
    with pytest.raises(AttributeError):
        _ = module.missing


def test_an_init_that_fails_fails_for_all_who_ask(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "__init__.py").write_text("rest = 'rest'\nraise ImportError('something is missing')\n")
    defer(package)
    module = __import__(f"{package}.part")
    for _ in range(2):
        with pytest.raises(ImportError, match="something is missing"):
            _ = module.other


def test_what_is_imported_already_or_not_installed_stays_as_it_is(package: str) -> None:
    whole = __import__(package)
    defer(package)
    defer("not_installed_anywhere")
    assert (sys.modules[package], "not_installed_anywhere" in sys.modules) == (whole, False)
