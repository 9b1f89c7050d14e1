"""The pages of the pictures in the docs (docs/pictures/report): of a simulation, and of a Pod that waits at its end."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from tollbar.cli import inputs, main
from tollbar.cli.page import explained, rendering
from tollbar.cli.simulate import copy_of
from tollbar.cli.simulation.plan import plan
from tollbar.cli.simulation.playing import play
from tollbar.explain import pods
from tollbar.model import conditions, timestamps
from tollbar.model.objects import key_of
from tollbar.model.resources import EVENTS, PODS
from tollbar.scheduler.plugins import registry

FILES: Final = tuple(sorted((Path(__file__).parents[2] / "docs" / "pictures" / "report").glob("*.yaml")))
_START: Final = "2026-01-01T12:00:00Z"


def simulation(target: Path, more: Iterable[Path] = ()) -> None:
    """The page of `tollbar simulate`, also of the Pods in these files."""
    files = [argument for file in (*FILES, *more) for argument in ("-f", str(file))]
    done = CliRunner().invoke(main, ["simulate", *files, "--html", str(target)])
    assert (done.exit_code, target.exists()) == (1, True), done.output


def explanation(target: Path, name: str = "large-model-") -> None:
    """The page of `tollbar explain pod` about the Pod whose name begins so."""
    scheduler = registry.configuration(registry.ONLY_SCHEDULER)
    wanted = plan(inputs.read(list(map(str, FILES)), None, "default"), None, [], timestamps.parse(_START))
    copy = copy_of(play(wanted, scheduler, for_page=True), wanted, scheduler)
    pod = next(each for each in copy.objects(PODS) if key_of(each).name.startswith(name))
    note = conditions.of(pod, "PodScheduled")["message"]
    event = {**EVENTS.type_meta, "metadata": {"creationTimestamp": _START}, "reason": "FailedScheduling", "note": note}
    rendering.write(target, explained.page(copy, pod, pods.explain(copy, pod, [event]), [event]))
