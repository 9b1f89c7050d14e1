"""The process commands: flags become the configuration, mistakes a message and exit code 2."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tollbar.runtime.config import Configuration, load
from tollbar.runtime.options import COMMON, LIMITS, SERVING, command


def invoke(
    arguments: Sequence[str], *, in_namespace: str | None = None
) -> tuple[Result, list[tuple[Configuration, str | None]]]:
    calls: list[tuple[Configuration, str | None]] = []

    def run(config: Configuration, kubeconfig: str | None) -> int:
        calls.append((config, kubeconfig))
        return 7

    process = command("process", run, load=load, help="Runs.", flags=(*COMMON, *SERVING, *LIMITS))
    return CliRunner().invoke(process, list(arguments), env={"POD_NAMESPACE": in_namespace}), calls


GIVEN = {
    "nothing leaves the defaults": ([], {}),
    "admission": (["--admission", "Gate"], {"admission": "Gate"}),
    "certificate files": (
        ["--tls-cert-file", "/a.crt", "--tls-private-key-file", "/a.key"],
        {"webhook": {"cert_file": "/a.crt", "key_file": "/a.key"}},
    ),
    "the CA of clients": (["--client-ca-file", "/ca.crt"], {"webhook": {"client_ca_file": "/ca.crt"}}),
    "addresses": (
        ["--health-probe-bind-address", "127.0.0.1:1", "--metrics-bind-address", ":2"],
        {"health": {"bind_address": "127.0.0.1:1"}, "metrics": {"bind_address": ":2"}},
    ),
    "verbosity as kubectl takes it": (["--v=4"], {"log": {"format": "text", "verbosity": 4}}),
    "the opposite of a switch": (["--no-leader-elect"], {"leader_election": {"enabled": False}}),
    "limits": (["--kube-api-qps", "50", "--kube-api-burst", "80"], {"client_connection": {"qps": 50.0, "burst": 80}}),
}


@pytest.mark.parametrize(("arguments", "changed"), GIVEN.values(), ids=GIVEN)
def test_a_flag_replaces_one_field(arguments: list[str], changed: dict[str, object]) -> None:
    defaults = load(None, {}).model_dump()
    result, calls = invoke(arguments)
    want = {**defaults}
    for field, value in changed.items():
        want[field] = {**defaults[field], **value} if isinstance(value, dict) else value
    assert (result.exit_code, [(config.model_dump(), kubeconfig) for config, kubeconfig in calls]) == (
        7,
        [(want, None)],
    )


FILE = "apiVersion: config.tollbar.dev/v1alpha1\nkind: Configuration\nsystemNamespace: from-file\n"
NAMESPACES = {
    "nobody says": (None, [], "tollbar-system"),
    "the Pod": ("from-pod", [], "from-pod"),
    "an empty variable, which is nobody": ("", [], "tollbar-system"),
    "the file": (None, ["--config=FILE"], "from-file"),
    "the Pod before the file": ("from-pod", ["--config=FILE"], "from-pod"),
    "the flag before both": ("from-pod", ["--config=FILE", "--system-namespace=from-flag"], "from-flag"),
}


@pytest.mark.parametrize(("pod", "arguments", "want"), NAMESPACES.values(), ids=NAMESPACES)
def test_who_says_which_namespace_is_ours(pod: str | None, arguments: list[str], want: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    given = [argument.replace("FILE", str(file)) for argument in arguments]
    ((found, _),) = invoke(given, in_namespace=pod)[1]
    (unmanaged,) = found.managed_namespace_selector["matchExpressions"]
    assert (found.system_namespace, unmanaged["values"]) == (want, sorted(["kube-system", want]))


def test_the_kubeconfig_is_passed_on() -> None:
    assert [kubeconfig for _, kubeconfig in invoke(["--kubeconfig", "/k"])[1]] == ["/k"]


WRONG = {
    "a value outside the field's range": (["--port", "0"], "Error: webhook.port: must be greater than or equal to 1\n"),
    "a value that is none of the choices": (["--admission", "auto"], "'auto' is not one of 'Auto', 'Gate', 'Never'.\n"),
    "a configuration file that is not there": (
        ["--config", "/no/such/file"],
        "Error: cannot read /no/such/file: No such file or directory\n",
    ),
}


@pytest.mark.parametrize(("arguments", "want"), WRONG.values(), ids=WRONG)
def test_a_mistake_ends_with_code_2_before_anything_runs(arguments: list[str], want: str) -> None:
    result, calls = invoke(arguments)
    assert (result.exit_code, result.output.endswith(want), calls) == (2, True, [])
