"""Configuration: defaults, overrides, and what a person is told when the file is wrong."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tollbar.model import selectors
from tollbar.runtime import config
from tollbar.runtime.config import Address, ConfigError

GOLDEN = Path(__file__).parent / "golden" / "configuration.yaml"
HEADER = "apiVersion: config.tollbar.dev/v1alpha1\nkind: Configuration\n"

TYPE_MISSING = "must be set; a file starts with apiVersion: config.tollbar.dev/v1alpha1 and kind: Configuration"

WRONG_FIELDS = {
    "probes where tokens are asked for": (
        {"metrics.secure": True, "metrics.bindAddress": ":8081"},
        [("metrics.bindAddress", "must differ from health.bindAddress with metrics.secure: probes show no token")],
    ),
    "an enum in the wrong case": ({"admission": "auto"}, [("admission", "must be 'Auto', 'Gate' or 'Never'")]),
    "a misspelt field near a known one": (
        {"leaderElection.leasName": "x"},
        [("leaderElection.leasName", "unknown field; did you mean leaseName?")],
    ),
    "an unknown field unlike any other": (
        {"health.zzz": 1},
        [("health.zzz", "unknown field; known here are bindAddress")],
    ),
    "a number written as a string": ({"workers": "3"}, [("workers", "must be a valid integer")]),
    "a number out of its range": ({"workers": 0}, [("workers", "must be greater than or equal to 1")]),
    "a duration without a unit": (
        {"leaderElection.leaseDuration": 15},
        [("leaderElection.leaseDuration", "must be a duration such as 15s, 500ms or 1m30s")],
    ),
    "an address without a port": (
        {"metrics.bindAddress": "localhost"},
        [("metrics.bindAddress", "must be an address such as :8080, 127.0.0.1:8080 or [::1]:8080")],
    ),
    "a port that cannot exist": (
        {"health.bindAddress": ":70000"},
        [("health.bindAddress", "must be an address such as :8080, 127.0.0.1:8080 or [::1]:8080")],
    ),
    "a section that is a scalar": ({"webhook": 3}, [("webhook", "must be a mapping of fields")]),
    "an override below a scalar of the file": (
        {"log": 1, "log.format": "json"},
        [("log", "must be a mapping of fields")],
    ),
    "a misspelt selector, which would select everything": (
        {"managedNamespaceSelector": {"matchlabels": {}}},
        [("managedNamespaceSelector.matchlabels", "unknown field")],
    ),
    "a selector requirement without values": (
        {"managedNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        [
            (
                "managedNamespaceSelector.matchExpressions[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            )
        ],
    ),
    "another kind": ({"kind": "Deployment"}, [("kind", "must be 'Configuration'")]),
    "periods that do not protect the lease, all of them": (
        {
            "leaderElection.leaseDuration": "1500ms",
            "leaderElection.renewDeadline": "2s",
            "leaderElection.retryPeriod": "2s",
        },
        [
            ("leaderElection.leaseDuration", "must be whole seconds, at least 1s"),
            ("leaderElection.renewDeadline", "must be less than leaseDuration"),
            ("leaderElection.retryPeriod", "must be more than 0s and less than renewDeadline"),
        ],
    ),
    "a certificate without its key": (
        {"webhook.certFile": "/a.crt"},
        [("webhook.keyFile", "must be set with the other: a certificate and its key go together")],
    ),
    "periods in which no authority could be followed by another": (
        {
            "certificates.authorityLifetime": "30s",
            "certificates.certificateLifetime": "0s",
            "certificates.prePublication": "10s",
        },
        [
            ("certificates.certificateLifetime", "must be more than 0s"),
            ("certificates.prePublication", "must be less than a third of authorityLifetime"),
        ],
    ),
    "several mistakes are reported together": (
        {"admission": "no", "log.format": "xml"},
        [("admission", "must be 'Auto', 'Gate' or 'Never'"), ("log.format", "must be 'text' or 'json'")],
    ),
}

WRONG_FILES = {
    "an empty file": ("", "{path}: must hold one Configuration object"),
    "a list": ("- 1\n", "{path}: must hold one Configuration object"),
    "no type": (
        "workers: 3\n",
        f"apiVersion: {TYPE_MISSING}\nkind: {TYPE_MISSING}",
    ),
    "not YAML": ("a: [\n", "{path}, line 2, column 1: not YAML: expected the node content, but found '<stream end>'"),
}


def test_the_defaults_are_the_documented_ones() -> None:
    assert config.dump(config.load(None, {})) == GOLDEN.read_text()


def test_the_golden_file_loads_as_the_defaults() -> None:
    assert config.load(GOLDEN, {}) == config.load(None, {})


@pytest.mark.parametrize(("given_", "want"), WRONG_FIELDS.values(), ids=WRONG_FIELDS)
def test_a_wrong_field_is_named_with_a_sentence(given_: dict[str, object], want: list[tuple[str, str]]) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(None, given_)
    assert list(caught.value.errors) == want


@pytest.mark.parametrize(("given_", "want"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file_is_named_with_a_sentence(given_: str, want: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(given_)
    with pytest.raises(ConfigError) as caught:
        config.load(path, {})
    assert str(caught.value) == want.format(path=path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "none.yaml", {})
    assert str(caught.value) == f"cannot read {tmp_path / 'none.yaml'}: No such file or directory"


def test_flags_override_the_file_and_absent_flags_do_not(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEADER + "admission: Gate\nworkers: 3\nleaderElection: {retryPeriod: 500ms}\n")
    loaded = config.load(path, {"admission": "Never", "workers": None, "leaderElection.enabled": False})
    assert (loaded.admission, loaded.workers, loaded.leader_election.enabled, loaded.leader_election.retry_period) == (
        "Never",
        3,
        False,
        0.5,
    )


def test_the_default_selector_leaves_out_kube_system_and_the_namespace_we_run_in() -> None:
    selector = config.load(None, {"systemNamespace": "toll"}).managed_namespace_selector
    managed = {
        name: selectors.matches(selector, {"kubernetes.io/metadata.name": name})
        for name in ("default", "kube-system", "toll", "tollbar-system")
    }
    assert managed == {"default": True, "kube-system": False, "toll": False, "tollbar-system": True}


ADDRESSES = {
    "every interface": (":8080", Address("", 8080)),
    "a name": ("localhost:0", Address("localhost", 0)),
    "IPv6 in brackets": ("[::1]:8080", Address("::1", 8080)),
}


@pytest.mark.parametrize(("given_", "want"), ADDRESSES.values(), ids=ADDRESSES)
def test_addresses_are_read_and_written_alike(given_: str, want: Address) -> None:
    address = config.load(None, {"health.bindAddress": given_}).health.bind_address
    assert (address, str(address)) == (want, given_)


@given(st.integers(min_value=1, max_value=10**9))
def test_durations_survive_a_round_trip(milliseconds: int) -> None:
    loaded = config.load(
        None,
        {
            "leaderElection.leaseDuration": "2000000s",
            "leaderElection.retryPeriod": "1ms",
            "leaderElection.renewDeadline": f"{milliseconds + 1}ms",
        },
    )
    again = config.Configuration.model_validate(yaml.safe_load(config.dump(loaded)))
    assert again == loaded
