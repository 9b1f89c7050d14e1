"""The demonstration plays the quickstart, all of it, wherever the package is."""

import inspect
from pathlib import Path

from tollbar.cli import locations, story
from tollbar.cli.locations import QUICKSTART

MANIFESTS = Path(__file__).parents[3] / "manifests" / "examples" / "quickstart"


def test_there_is_one_copy_of_the_quickstart() -> None:
    assert QUICKSTART.resolve() == MANIFESTS


def test_every_file_is_played() -> None:
    text = inspect.getsource(story)

    assert [path.name for path in QUICKSTART.glob("*.yaml") if f'"{path.name}"' not in text] == []


def test_the_story_knows_the_quickstart() -> None:
    [rule] = story.documents("rule.yaml")
    tolerated = {toleration["key"] for toleration in rule["spec"]["tolerations"]}
    [early] = story.documents("device-class.yaml")
    drivers = early["spec"]["selectors"][0]["cel"]["expression"]

    assert (tolerated, drivers) == ({story.TAINT["key"]}, f'device.driver == "{story.DRIVER}"')


def test_hints_name_files_that_are_there(monkeypatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])

    assert (locations.quickstart(), locations.folder("docs"), locations.folder("nowhere")) == (
        "manifests/examples/quickstart",
        "docs",
        None,
    )
