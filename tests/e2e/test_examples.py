"""The examples as their READMEs tell them: every command is run, and every output shown is what comes out."""

from pathlib import Path

import pytest
from planes.objects import Cluster
from planes.parameters import since
from plugins import samples
from processes.transcripts import play, steps

pytestmark = pytest.mark.timeout(400)

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
RESERVING = since("1.36", "reservations need claims: Replace")
ELSEWHERE = {"pod-group", "pod-quota", "device-quota", "placement", "ordered-migration", "kueue"}
"""Played in tests/e2e/test_many_consumers.py, on a plane that serves PodGroups, in tests/e2e/test_gate_stories.py, and
beside a Kueue in tests/e2e/test_kueue.py."""
NEWER = {
    "device-tolerations": since("1.36", "it drops tolerations of requests"),
    "notebook": RESERVING,
    "reserved-device-keys": since("1.36", "it serves no MutatingAdmissionPolicy"),
    "reserved-keys": since("1.36", "it serves no MutatingAdmissionPolicy"),
    "workload-claim": RESERVING,
}
NAMES = [
    pytest.param(name, marks=NEWER.get(name, ()))
    for name in sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
    if name not in ELSEWHERE
]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_readme_says_is_what_happens(
    cluster: Cluster, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    if name == samples.EXAMPLE.name:
        request.getfixturevalue("sample_scheduler")
    play(EXAMPLES / name, cluster.kubectl, cluster.namespace, tmp_path)


def test_every_example_shows_an_output() -> None:
    silent = [
        readme.parent.name
        for readme in EXAMPLES.glob("*/README.md")
        if not any(step.output for step in steps(readme.read_text()))
    ]
    assert silent == []
