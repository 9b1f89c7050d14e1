"""The demonstration plays the quickstart, all of it, wherever the package is."""

import inspect
from pathlib import Path

from tollbar.cli import locations
from tollbar.cli.demo import claims, stage, tolerations
from tollbar.cli.locations import EXAMPLES, QUICKSTART
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS

MANIFESTS = Path(__file__).parents[4] / "manifests" / "examples"
NOT_PLAYED = {"notebook/rights.yaml"}
"""The demonstration is an administrator."""


def test_there_is_one_copy_of_the_files() -> None:
    assert [(EXAMPLES / name).resolve() for name in ("quickstart", "notebook")] == [
        MANIFESTS / "quickstart",
        MANIFESTS / "notebook",
    ]


def test_every_file_is_played() -> None:
    text = inspect.getsource(tolerations) + inspect.getsource(claims)
    files = {path.name for path in QUICKSTART.glob("*.yaml")}
    files |= {f"notebook/{path.name}" for path in (EXAMPLES / "notebook").glob("*.yaml")}

    assert {file for file in files if f'"{file}"' not in text} == NOT_PLAYED


def test_the_chapters_know_the_quickstart() -> None:
    [rule] = stage.documents("rule.yaml")
    tolerated = {toleration["key"] for toleration in rule["spec"]["tolerations"]}
    [early] = stage.documents("device-class.yaml")
    drivers = early["spec"]["selectors"][0]["cel"]["expression"]

    [agent] = stage.documents("pod-d.yaml")
    [late] = stage.documents("late-rule.yaml")

    assert (tolerated, drivers) == ({stage.TAINT["key"]}, f'device.driver == "{stage.DRIVER}"')
    assert (agent["spec"]["nodeSelector"], late["spec"]["tolerations"]) == (
        {stage.LABEL: "true"},
        rule["spec"]["tolerations"],
    )


def test_the_chapters_know_the_notebooks() -> None:
    [definition] = stage.documents("notebook/definition.yaml")
    [notebook, workload_claim] = stage.documents("notebook/notebook.yaml")
    reference = {"apiGroup": stage.NOTEBOOKS.group, "resource": stage.NOTEBOOKS.plural, "name": "analysis"}

    assert (
        definition["apiVersion"],
        definition["metadata"]["name"],
        notebook["apiVersion"],
        workload_claim["spec"]["workloadRef"],
    ) == (
        CUSTOM_RESOURCE_DEFINITIONS.api_version,
        f"{stage.NOTEBOOKS.plural}.{stage.NOTEBOOKS.group}",
        stage.NOTEBOOKS.api_version,
        reference,
    )


def test_hints_name_files_that_are_there(monkeypatch) -> None:
    root = Path(__file__).parents[4]
    monkeypatch.chdir(root)

    assert (locations.quickstart(), locations.folder("docs"), locations.folder("nowhere")) == (
        root / "manifests" / "examples" / "quickstart",
        "docs",
        None,
    )
