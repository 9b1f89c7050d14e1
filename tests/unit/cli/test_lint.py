"""`tollbar lint`: what is found in files, where, and with which exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from objects.builders import scheduling_gate, toleration_rule

from tollbar.api.gates import shipped_gate
from tollbar.cli import main
from tollbar.model import names

ROOT = Path(__file__).parents[3]
GOOD = toleration_rule("gpu").cel("claims.size() > 0")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"spec": "anything"}}


def lint(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], input=stdin)


def written(*objects: Any) -> str:
    return yaml.safe_dump_all([json.loads(json.dumps(obj)) for obj in objects], sort_keys=False)


def findings(stdin: str) -> list[tuple[Any, ...]]:
    """(line, object, field, message)"""
    found = json.loads(lint("-", "-o", "json", stdin=stdin).stdout)["findings"]
    return [(each["line"], each["object"], each["field"], each["message"]) for each in found]


RULE = """\
apiVersion: tollbar.dev/v1alpha1
kind: TolerationRule
metadata:
  name: gpu
spec:
  MODE
  match:
    type: CEL
    cel:
      expression: EXPRESSION
  tolerations:
  - {key: example.com/gpu, operator: Exists, effect: NoSchedule}
"""


def rule(expression: str = "claims.size() > 0", mode: str = "mode: Enforce") -> str:
    return RULE.replace("EXPRESSION", expression).replace("MODE", mode)


CLEAN: dict[str, str] = {
    "nothing": "",
    "only empty documents": "---\n---\n",
    "objects of other groups": written(CONFIG_MAP),
    "a rule among others": written(CONFIG_MAP, GOOD, CONFIG_MAP),
    "two gates of different names": written(scheduling_gate("a", "x/a"), scheduling_gate("b", "x/b")),
    "a date, which is text to kubectl": rule().replace("  name: gpu\n", "  name: gpu\n  labels: {date: 2024-02-30}\n"),
    "a value used twice": rule(mode="mode: &mode Enforce").replace(
        "  name: gpu\n", "  name: gpu\n  labels: {mode: gpu}\n"
    ),
    "JSON": json.dumps(GOOD),
    "a List": json.dumps({"apiVersion": "v1", "kind": "List", "items": [GOOD, CONFIG_MAP]}),
    "a WorkloadClaim": written(
        {
            "apiVersion": "tollbar.dev/v1alpha1",
            "kind": "WorkloadClaim",
            "metadata": {"name": "web-gpu", "namespace": "ml"},
            "spec": {
                "workloadRef": {"apiGroup": "apps", "resource": "deployments", "name": "web"},
                "resourceClaimTemplateName": "one-gpu",
            },
        }
    ),
}


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN)
def test_what_is_right_is_passed(text: str) -> None:
    done = lint("-", stdin=text)
    assert (done.exit_code, done.stdout) == (0, ""), done.output


FOUND: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "an expression, with its line in the file and its place in itself": (
        rule("pod.metdata.name == 'x'"),
        [
            (
                10,
                "TolerationRule/gpu",
                "spec.match.cel.expression",
                (
                    "Invalid value: \"pod.metdata.name == 'x'\": 1:5: undefined field 'metdata' in Pod; did you mean"
                    " 'metadata'?"
                ),
            )
        ],
    ),
    "a field, on its line": (
        rule(mode="mode: Enforc"),
        [
            (
                6,
                "TolerationRule/gpu",
                "spec.mode",
                'Unsupported value: "Enforc": supported values: "Enforce", "Audit", "Disabled"',
            )
        ],
    ),
    "the second document": (
        rule() + "---\n" + rule(mode="modus: Audit"),
        [(19, "TolerationRule/gpu", "spec.modus", 'Forbidden: unknown field; did you mean "mode"?')],
    ),
    "what is missing, where it should be": (
        rule().replace("  match:", "  matches:"),
        [
            (5, "TolerationRule/gpu", "spec.match", "Required value"),
            (7, "TolerationRule/gpu", "spec.matches", 'Forbidden: unknown field; did you mean "match"?'),
        ],
    ),
    "a name": (
        rule().replace("  name: gpu\n", "  labels: {}\n"),
        [(3, "TolerationRule", "metadata.name", "Required value: name is required")],
    ),
    "a version": (
        rule().replace("v1alpha1", "v1"),
        [
            (
                1,
                "TolerationRule/gpu",
                "apiVersion",
                'Unsupported value: "tollbar.dev/v1": supported values: "tollbar.dev/v1alpha1"',
            )
        ],
    ),
    "a group": (
        rule().replace("tollbar.dev", "tolbar.dev"),
        [
            (
                1,
                "TolerationRule/gpu",
                "apiVersion",
                'Unsupported value: "tolbar.dev/v1alpha1": supported values: "tollbar.dev/v1alpha1"',
            )
        ],
    ),
    "a name that the API server refuses": (
        rule().replace("name: gpu", "name: GPU_nodes"),
        [
            (
                4,
                "TolerationRule/GPU_nodes",
                "metadata.name",
                f'Invalid value: "GPU_nodes": {names.dns_subdomain("GPU_nodes")[0]}',
            )
        ],
    ),
    "a label without a value, which the API server drops without a word": (
        rule(mode="namespaceSelector: {matchLabels: {team: }}"),
        [
            (
                6,
                "TolerationRule/gpu",
                "spec.namespaceSelector.matchLabels[team]",
                "Invalid value: null: must be a string",
            )
        ],
    ),
    "a kind": (
        rule().replace("kind: TolerationRule", "kind: TolerationRules"),
        [
            (
                2,
                "TolerationRules/gpu",
                "kind",
                (
                    'Unsupported value: "TolerationRules": supported values: "TolerationRule", "PlacementRule",'
                    ' "SchedulingGate", "WorkloadClaim", "PodQuota"'
                ),
            )
        ],
    ),
    "a gate beside one that is none": (
        written(scheduling_gate("a", "x/y"), {**scheduling_gate("b", "x/y"), "metadata": "b", "spec": "x/y"}),
        [
            (12, "SchedulingGate", "metadata.name", "Required value: name is required"),
            (12, "SchedulingGate", "metadata", 'Invalid value: "b": must be an object'),
            (13, "SchedulingGate", "spec", 'Invalid value: "x/y": must be an object'),
        ],
    ),
    "the same gate twice": (
        written(scheduling_gate("a", "x/y"), scheduling_gate("b", "x/y")),
        [
            (
                line,
                f"SchedulingGate/{name}",
                "spec.gateName",
                f'Duplicate value: "x/y": SchedulingGate "{other}" declares it',
            )
            for line, name, other in ((8, "a", "b"), (17, "b", "a"))
        ],
    ),
}


@pytest.mark.parametrize(("text", "want"), FOUND.values(), ids=FOUND)
def test_what_is_wrong_is_found(text: str, want: list[tuple[Any, ...]]) -> None:
    assert (findings(text), lint("-", stdin=text).exit_code) == (want, 1)


ADVICE = "reads pod.spec.tolerations: what other rules add there, it sees only after admission, or never"


def test_a_warning_is_shown_and_is_no_finding() -> None:
    text = rule("has(pod.spec.tolerations)")
    done, data = lint("-", stdin=text), json.loads(lint("-", "-o", "json", stdin=text).stdout)
    assert (done.exit_code, done.stdout.splitlines()[1].split(maxsplit=2), done.stderr, data["findings"]) == (
        0,
        ["stdin:10", "TolerationRule/gpu", f"warning: spec.match.cel.expression: {ADVICE}"],
        "1 object checked, 0 findings, 1 warning\n",
        [],
    )
    assert [(each["line"], each["message"]) for each in data["warnings"]] == [(10, ADVICE)]


def warnings(expression: str) -> list[tuple[int, str]]:
    """(line, message)"""
    said = lint("-", "-o", "json", stdin=rule(expression))
    found = json.loads(said.stdout)
    assert (said.exit_code, found["findings"]) == (0, [])
    return [(each["line"], each["message"]) for each in found["warnings"]]


WARNED: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "text that is turned around": (
        "\"pod.metadata.name == 'a\\u202eb\\u200b'\"",
        [(10, "contains characters that do not show (U+200B, U+202E): it may not be what it looks like")],
    ),
    "several lines are no secret": ('"claims.size() > 0\\n\\t&& true"', []),
    "a part that always fails": (
        "pod.metadata.name == 'x' || 1 / 0 == 1",
        [(10, "1:29: always fails: division by zero")],
    ),
    "several of them, also in a macro": (
        "claims.exists(c, [1][3] == 1) || 1 % 0 == 2",
        [(10, "1:21: always fails: index out of bounds"), (10, "1:34: always fails: modulus by zero")],
    ),
    "a failure that another term absorbs": ("1 / 0 == 1 || true", []),
    "a variable of the expression's own": ("'[1, 2].all(x, x / 1 > 0)'", []),
    "a failure for each value of a variable of its own": (
        "'[1, 2].all(x, x / 0 > 0)'",
        [(10, "1:15: always fails: division by zero")],
    ),
}


@pytest.mark.parametrize(("expression", "want"), WARNED.values(), ids=WARNED)
def test_what_a_valid_rule_is_warned_of(expression: str, want: list[tuple[int, str]]) -> None:
    assert warnings(expression) == want


def test_errors_of_the_expression_are_found_beside_those_of_other_fields() -> None:
    found = findings(rule("pod.metdata.name == ''", mode="mode: Sometimes\n  unknown: 1"))
    assert [field for _, _, field, _ in found] == ["spec.mode", "spec.unknown", "spec.match.cel.expression"]


def test_nothing_in_a_file_moves_the_cursor_of_who_reads_the_findings() -> None:
    said = lint("-", stdin=rule().replace("name: gpu", 'name: "gpu\\e[2K\\u202ex"'))
    assert ("\x1b" in said.output, "\u202e" in said.output, said.exit_code) == (False, False, 1)
    assert "TolerationRule/gpu\\u001b[2K\\u202ex" in said.output


def test_a_rule_that_is_not_valid_has_findings_and_no_warnings() -> None:
    data = json.loads(lint("-", "-o", "json", stdin=rule("has(pod.spec.tolerations)", "mode: Enforc")).stdout)
    assert (len(data["findings"]), data["warnings"]) == (1, [])


def test_a_table_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "rule.yaml"
    path.write_text(rule("1"))
    done = lint(str(path))
    assert (done.exit_code, [line.split()[:2] for line in done.stdout.splitlines()], done.stderr) == (
        1,
        [["PLACE", "OBJECT"], [f"{path}:10", "TolerationRule/gpu"]],
        "1 object checked, 1 finding\n",
    )


UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "no YAML": ("a: [1", ":1:6: expected ',' or ']'"),
    "a tab": ("a:\n\t- b", ":2:1: found character '\\t' that cannot start any token"),
    "a tag that would run something": ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "no text": (b"\xff\xfe\x00a", "not text in UTF-8"),
    "an alias to nothing": ("a: *b", "found undefined alias"),
    "a number longer than any": ("a: " + "1" * 5000, ":1:4: not a valid int"),
    "a tag that does not fit": ("a:\n- !!int b", ":2:3: not a valid int"),
    "a tag for nothing": ('a: !!int ""', ":1:4: not a valid int"),
    "a date that is none": ("a: !!timestamp b", ":1:4: not a valid timestamp"),
    "a boolean that is none": ("a: !!bool b", ":1:4: not a valid bool"),
    "an alias to what it is in": ("a: &a [*a]", ":1:4: an alias to what contains it"),
    "more aliases than memory": (
        "\n".join(f"x{n}: &x{n} [{', '.join(['a' if n == 0 else f'*x{n - 1}'] * 9)}]" for n in range(12)),
        ":1: more than 1,000,000 values",
    ),
    "deep nesting": ("[" * 5000, "nested too deeply"),
}


@pytest.mark.parametrize(("content", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_exit_code_2(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    good = tmp_path / "good.yaml"
    good.write_text(rule())
    done = lint(str(path), str(good))
    assert (done.exit_code, said in done.stderr, done.stderr.splitlines()[-1], "Traceback" in done.output) == (
        2,
        True,
        "1 object checked, 0 findings",
        False,
    ), done.stderr


def test_what_is_no_unicode_is_shown_as_it_is_written() -> None:
    done = lint("-", stdin=rule().replace("key: example.com", r'"\ud800": x, key: example.com'))
    assert (done.exit_code, r'spec.tolerations[0]: Invalid value: "\ud800"' in done.stdout) == (1, True), done.output


def test_a_file_that_is_not_there_is_exit_code_2(tmp_path: Path) -> None:
    done = lint(str(tmp_path / "nowhere.yaml"), str(tmp_path))
    assert (done.exit_code, done.stderr.splitlines()[:2]) == (
        2,
        [f"Error: {tmp_path / 'nowhere.yaml'}: No such file or directory", f"Error: {tmp_path}: Is a directory"],
    )


def test_the_shipped_examples(examples: list[Path]) -> None:
    done = lint(*map(str, examples), "-o", "json")
    broken = {Path(each["file"]).name for each in json.loads(done.stdout)["findings"]}
    assert broken == {"broken-rule.yaml"}


@pytest.fixture
def examples() -> list[Path]:
    return sorted((ROOT / "manifests" / "examples").rglob("*.yaml"))


def test_the_shipped_gate() -> None:
    assert lint("-", stdin=written(shipped_gate())).exit_code == 0


def test_the_page_shows_what_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "tasks" / "check-rules.md").read_text()
    done = lint("manifests/examples/quickstart/broken-rule.yaml")
    assert f"```console\n$ tollbar lint manifests/examples/quickstart/broken-rule.yaml\n{done.output}```" in page
