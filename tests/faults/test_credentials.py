"""Processes whose exec credential plugin hangs: they go on, end when they are told to, and leave no process behind."""

import asyncio
import base64
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml
from fakes.execplugin import ExecPlugin
from faultproxy import FaultProxy, Refuse, Rule
from planes.objects import Cluster, a_ready_rule, gpu_rule
from processes.stack import CONTROLLERS, Stack, eventually

from tollbar.devplane import kubeconfig
from tollbar.devplane.audit import Record
from tollbar.wellknown import SYSTEM_NAMESPACE

REFUSED = Rule("refused", Refuse(401, "Unauthorized"), {"patch"}, {"pods"}, nth={1})


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[ExecPlugin]:
    made = ExecPlugin(tmp_path / "plugin")
    yield made
    made.end()


@pytest.mark.timeout(300)
def test_every_pod_is_released_while_the_plugin_of_the_controllers_hangs_and_after_it_has_answered(
    cluster: Cluster, stack: Stack, plugin: ExecPlugin, tmp_path: Path
) -> None:
    """The API server refuses a call, so that the plugin is run again; the token that it gave before stays valid."""
    stack.webhook()
    stack.register()
    one, two = (a_token(stack) for _ in range(2))
    plugin.answers(one)
    numbers = count()

    def one_more_is_held(until: str) -> bool:
        name = f"{until}-{next(numbers)}"
        cluster.create(cluster.pod(name).templates(until))
        return cluster.is_held(name)

    with FaultProxy(stack.plane.kubeconfig, tmp_path / "proxy") as proxy:
        content = yaml.safe_load(proxy.kubeconfig().read_text())
        content["users"][0]["user"] = plugin.user
        file = kubeconfig.write(tmp_path / "kubeconfig", content)
        process = stack.start("controllers", "controllers", kubeconfig=file)
        classes = ("early", "late", "later")
        a_ready_rule(cluster, *(gpu_rule(cluster.unique(name)) for name in classes))
        cluster.create(*(cluster.template(name, cluster.unique(name)) for name in classes))
        since = stack.plane.audit_fence()

        assert one_more_is_held("early")
        plugin.hangs()
        with proxy.faults(REFUSED):
            cluster.class_("early")
            eventually(lambda: not cluster.held(), what="released, after one refusal")
        eventually(lambda: one_more_is_held("late") and plugin.running(), what="the plugin is run again")
        cluster.class_("late")
        eventually(lambda: not cluster.held(), what="released while it hangs")
        assert plugin.running()
        assert used(stack, since) == {credential(one)}

        plugin.answers(two)
        plugin.goes_on()
        then = stack.plane.audit_fence()
        eventually(lambda: one_more_is_held("later") and credential(two) in used(stack, then), what="the new token")
        cluster.class_("later")
        eventually(lambda: not cluster.held(), what="released with the new token")
    assert proxy.hits["refused"] == 1
    assert process.said("cannot read the credentials again") == 0
    patched = Counter(each.name for each in accepted(stack, since) if each.resource == "pods")
    assert patched == Counter(pod["metadata"]["name"] for pod in cluster.pods())


def a_token(stack: Stack) -> str:
    """One more of the controllers' ServiceAccount."""
    return stack.plane.kubectl("create", "token", "tollbar-controllers", "-n", SYSTEM_NAMESPACE).strip()


def credential(token: str) -> str:
    """Its id in the audit log."""
    claims = token.split(".")[1]
    return "JTI=" + json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["jti"]


def accepted(stack: Stack, since: int) -> list[Record]:
    """The controllers' writes since then."""
    stack.plane.audit_fence()
    return [each for each in stack.plane.audit.writes(since, user=CONTROLLERS) if 200 <= each.code < 300]


def used(stack: Stack, since: int) -> set[str]:
    """With which credentials they were made."""
    return {each.credential for each in accepted(stack, since)}


async def test_a_command_that_is_interrupted_leaves_no_plugin(plugin: ExecPlugin, tmp_path: Path) -> None:
    file = tmp_path / "config"
    content = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": plugin.user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    await asyncio.to_thread(file.write_text, json.dumps(content))
    plugin.hangs()
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tollbar.cli", "explain", "node", "n", "--kubeconfig", str(file)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await plugin.hanging()
    command.terminate()
    said = await command.communicate()
    assert (command.returncode, said) == (130, (b"", b""))
    await plugin.ended()
