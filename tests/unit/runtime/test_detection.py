"""Which Kubernetes this is: read from what API servers say, and read again after an upgrade."""

import asyncio
import json
import sys
from typing import Any

import pytest

from tollbar.runtime.clock import SystemClock
from tollbar.runtime.detection import KeptTolerations, ServerVersion, device_taint_rules, minor_of
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

    async def raw(self, *_: Any, **__: Any) -> bytes:
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


def answers(*tolerations: object) -> bytes:
    """A claim that was tried, with what the API server has kept of it."""
    exactly = {"deviceClassName": "a", **({"tolerations": tolerations} if tolerations else {})}
    return json.dumps({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}).encode()


KEPT, DROPPED = answers({"key": "tollbar.dev/tried", "operator": "Exists"}), answers()
TRIED: dict[str, tuple[tuple[bytes | ApiError, ...], list[bool], list[bool]]] = {
    "they are kept": ((KEPT, KEPT), [True, True], [True]),
    "they are dropped": ((DROPPED, DROPPED), [False, False], [False]),
    "the feature gate is switched on": ((DROPPED, KEPT), [False, True], [False, True]),
    "never answered": ((REFUSED, REFUSED), [True, True], []),
    "no answer to a later question": ((DROPPED, REFUSED, KEPT), [False, False, True], [False, True]),
    "no JSON": ((b"<html>", DROPPED), [True, False], [False]),
    "another JSON": ((b"[]", DROPPED), [True, False], [False]),
    "a request of a form that is not known": (
        (b'{"spec": {"devices": {"requests": [{"name": "r"}]}}}',),
        [False],
        [False],
    ),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("answers", "kept", "told"), TRIED.values(), ids=TRIED)
async def test_whether_tolerations_of_devices_are_kept_is_asked_again_and_told_once(
    answers: tuple[bytes | ApiError, ...], kept: list[bool], told: list[bool]
) -> None:
    clock = SystemClock()
    server: Any = Server(*answers)
    tolerations = KeptTolerations(server, clock, "tollbar-system")
    seen: list[bool] = []
    said: list[bool] = []
    tolerations.changes.subscribe(said.append)
    asking = asyncio.create_task(tolerations.run())
    for answer in answers:
        await clock.sleep(1)
        seen.append(tolerations.kept())
        failed = isinstance(answer, ApiError) or not answer.startswith(b'{"spec')
        await clock.sleep((KeptTolerations.RETRY if failed else KeptTolerations.AGE) - 1)
    asking.cancel()
    await asyncio.wait({asking})
    assert (seen, said) == (kept, told)


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
