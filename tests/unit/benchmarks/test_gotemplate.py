"""The part of text/template that scheduler_perf's files use; what each must render to is what Go renders."""

from typing import Any

import pytest

from benchmarks.schedulerperf.gotemplate import TemplateError, render

DEVICES = """\
{{$count := or .numDevices 2}}
devices:{{range $index := ($count | Int)}}
- name: gpu-{{$index}}{{if ge $index 1}} # not the first{{end}}{{end}}"""

RENDERED: dict[str, tuple[str, dict[str, Any], str]] = {
    "text alone": ("kind: Pod\n", {}, "kind: Pod\n"),
    "a field, with spaces or without": ("{{.Index}}-{{ .Count }}", {"Index": 3, "Count": 9}, "3-9"),
    "the dot of a range is the number": ("{{range 3}}{{.}},{{end}}", {}, "0,1,2,"),
    "a range over a pipeline": ("{{range ($n | Int)}}x{{end}}".replace("$n", ".n"), {"n": "2"}, "xx"),
    "a range sees variables from outside": ("{{$r := or .roots 2}}{{range 3}}{{Mod . $r}}{{end}}", {}, "010"),
    "a variable of a range, and a condition": (DEVICES, {}, "\ndevices:\n- name: gpu-0\n- name: gpu-1 # not the first"),
    "a parameter instead of the default": ("{{or .n 10}}", {"n": 4}, "4"),
    "zero is false": ("{{or .n 10}}", {"n": 0}, "10"),
    "a parameter that is not given is false": ("{{if .p}}yes{{else}}no{{end}}", {}, "no"),
    "both branches": ('{{if eq .m "all"}}all: {}{{else}}single: {}{{end}}', {"m": "all"}, "all: {}"),
    "a branch within a branch": ("{{if .a}}{{if .b}}1{{else}}2{{end}}{{end}}", {"a": 1}, "2"),
    "division rounds towards zero": ("{{DivideInt .Index 5}}", {"Index": 9}, "1"),
    "calls within calls": (
        "{{AddInt 8000 (Mod .Index (DivideInt .pods .nodes))}}",
        {"Index": 7, "pods": 9, "nodes": 3},
        "8001",
    ),
    "JSON of nothing": ("{{(or .selectors nil) | JSON}}", {}, "null"),
    "JSON of an object, with sorted keys": (
        "{{.c | JSON}}",
        {"c": [{"b": "<1>", "a": True}]},
        '[{"a":true,"b":"<1>"}]',
    ),
    "a text with a default": ('{{or .v "shared value"}}', {}, "shared value"),
}


@pytest.mark.parametrize(("template", "values", "want"), RENDERED.values(), ids=RENDERED)
def test_rendered(template: str, values: dict[str, Any], want: str) -> None:
    assert render(template, values) == want


REFUSED: dict[str, tuple[str, str]] = {
    "a function that they do not use": ("{{printf .a}}", "the function printf is not supported"),
    "trimmed white space": ("{{- .a}}", "is not supported"),
    "a comment": ("{{/* no */}}", "is not supported"),
    "else with a condition": ("{{if .a}}{{else if .b}}{{end}}", "is not supported"),
    "a member of a member": ("{{.a.b}}", "can neither have arguments"),
    "an end that is missing": ("{{if .a}}x", "{{if}} without {{end}}"),
    "an end too many": ("x{{end}}", "{{end}} without a beginning"),
    "a variable that is not set": ("{{$a}}", "undefined variable $a"),
    "a parameter that is printed, but not given": ("{{.a}}", "cannot be printed"),
    "a range over a list": ("{{range .list}}{{end}}", "range over list"),
    "a text that is no number": ('{{Int "many"}}', "cannot be rendered"),
    "a division by nothing": ("{{DivideInt 1 0}}", "cannot be rendered"),
}


@pytest.mark.parametrize(("template", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(template: str, why: str) -> None:
    with pytest.raises(TemplateError) as refused:
        render(template, {"list": [1]})
    assert why in str(refused.value)
