"""Which Kubernetes this is: read from what API servers say, and read again after an upgrade."""

import json
import sys
from typing import Any

import pytest

from tollbar.runtime.clock import SystemClock
from tollbar.runtime.detection import ServerVersion, device_taint_rules, minor_of
from tollbar.runtime.errors import ApiError, Forbidden

VERSIONS = {
    "a release": ("v1.36.3", (1, 36)),
    "a provider's build": ("v1.35.4-gke.100", (1, 35)),
    "a distribution's": ("v1.34.8+k3s1", (1, 34)),
    "without the v": ("1.37.0", (1, 37)),
    "a build that nobody told its version": ("v0.0.0-master+$Format:%H$", (sys.maxsize, 0)),
    "nothing that can be read is taken for new": ("unknown", (sys.maxsize, 0)),
}


@pytest.mark.parametrize(("text", "want"), VERSIONS.values(), ids=VERSIONS)
def test_minor_of(text: str, want: tuple[int, int]) -> None:
    assert minor_of(text) == want


class Server:
    """An API server that is upgraded between the questions."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self._answers = list(answers)

    async def raw(self, *_: Any) -> bytes:
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def says(version: str) -> bytes:
    return json.dumps({"gitVersion": version}).encode()


@pytest.mark.looptime
async def test_an_upgrade_is_seen_after_a_while_and_the_server_asked_no_more_often() -> None:
    clock = SystemClock()
    server: Any = Server(says("v1.35.4"), says("v1.36.0"))
    version = ServerVersion(server, clock)
    seen = [await version.is_before((1, 36)), await version.is_before((1, 36))]
    await clock.sleep(ServerVersion.AGE + 1)
    seen.append(await version.is_before((1, 36)))
    assert seen == [True, True, False]


REFUSED = Forbidden(403, "Forbidden", "no")
UNANSWERED: dict[str, tuple[tuple[bytes | ApiError, ...], list[bool]]] = {
    "never answered": ((REFUSED, REFUSED, says("v1.35.4")), [False, False, True]),
    "no answer to a later question": ((says("v1.35.4"), REFUSED, says("v1.36.0")), [True, True, False]),
    "no JSON": ((says("v1.35.4"), b"<html>", says("v1.36.0")), [True, True, False]),
    "another JSON": ((says("v1.35.4"), b"[]", says("v1.36.0")), [True, True, False]),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("answers", "want"), UNANSWERED.values(), ids=UNANSWERED)
async def test_without_an_answer_what_is_known_holds(answers: tuple[bytes | ApiError, ...], want: list[bool]) -> None:
    clock = SystemClock()
    server: Any = Server(*answers)
    version, seen = ServerVersion(server, clock), []
    for _ in answers:
        seen.append(await version.is_before((1, 36)))
        await clock.sleep(ServerVersion.AGE + 1)
    assert seen == want


class Serving:
    """An API server that serves DeviceTaintRules in these versions."""

    def __init__(self, *versions: str) -> None:
        self._versions = versions

    async def served(self, group_version: str) -> set[str]:
        group, _, version = group_version.partition("/")
        return {"devicetaintrules"} if group == "resource.k8s.io" and version in self._versions else set()


TAINT_RULES: dict[str, tuple[tuple[str, ...], str | None]] = {
    "since 1.37": (("v1", "v1beta2"), "v1"),
    "in 1.36, where the beta API is switched on": (("v1beta2",), "v1beta2"),
    "where it is not": ((), None),
    "an API without a selector that this reads": (("v1alpha3",), None),
}


@pytest.mark.parametrize(("versions", "want"), TAINT_RULES.values(), ids=TAINT_RULES)
async def test_the_version_of_device_taint_rules(versions: tuple[str, ...], want: str | None) -> None:
    found = await device_taint_rules(Serving(*versions))
    assert (found and found.version) == want
