"""Read sets of expressions, partial evaluation, and projections of inputs."""

from typing import Any

import pytest

from tollbar.cel import DEVICE_ENV, RULE_ENV, UNKNOWN, CelEngine, CelError, Env, project

READS: dict[str, tuple[str, set[str]]] = {
    "nothing": ("1 == 1", set()),
    "a field": ('pod.metadata.name == "x"', {"pod.metadata.name"}),
    "a field that may be absent": ("has(pod.spec.nodeName)", {"pod.spec.nodeName"}),
    "an object": ("pod.spec == null", {"pod.spec"}),
    "a whole variable": ("pod == null", {"pod"}),
    "the longer of two paths is covered": ('pod.spec == null || pod.spec.nodeName == ""', {"pod.spec"}),
    "a label by name": ('pod.metadata.labels["app"] == "x"', {"pod.metadata.labels.app"}),
    "a label whose name has a dot is all labels": (
        'pod.metadata.labels["a.b/c"] == "x"',
        {"pod.metadata.labels"},
    ),
    "a label in backticks with a dot is all labels": (
        'pod.metadata.labels.`a.b/c` == "x"',
        {"pod.metadata.labels"},
    ),
    "a label without name is all labels": ('pod.metadata.labels[""] == "x"', {"pod.metadata.labels"}),
    "a label by a computed name is all labels": (
        'pod.metadata.labels[pod.metadata.name] == "x"',
        {"pod.metadata.labels", "pod.metadata.name"},
    ),
    "a key": ('"app" in pod.metadata.labels', {"pod.metadata.labels"}),
    "the number of elements": ("size(claims) == 1", {"claims"}),
    "an element": ('claims[0].metadata.name == "x"', {"claims.metadata.name"}),
    "an element by a computed index": (
        'claims[size(pod.metadata.name)].metadata.name == "x"',
        {"claims.metadata.name", "pod.metadata.name"},
    ),
    "a whole element": ("claims[0] == null", {"claims"}),
    "a field of a variable": ('claims.exists(c, c.metadata.name == "x")', {"claims.metadata.name"}),
    "a field of the variable that a macro hides": (
        "claims.exists(pod, pod.metadata.name == .pod.spec.nodeName)",
        {"claims.metadata.name", "pod.spec.nodeName"},
    ),
    "fields of nested variables": (
        'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "x"))',
        {"claims.spec.devices.requests.exactly.deviceClassName"},
    ),
    "a variable that is not used": ("claims.exists(c, true)", {"claims"}),
    "a variable that is used in part": (
        'claims.exists(c, true) && claims.exists(c, c.metadata.name == "x")',
        {"claims"},
    ),
    "a variable that is used whole": ("claims.exists(c, c == null)", {"claims"}),
    "a variable over labels": (
        'pod.metadata.labels.exists(k, k == "app")',
        {"pod.metadata.labels"},
    ),
    "a class by name": ('deviceClasses["gpu"].metadata.labels.x == "y"', {"deviceClasses.metadata.labels.x"}),
    "a class by field": ("deviceClasses.gpu.spec == null", {"deviceClasses.spec"}),
    "a class by a computed name": (
        "claims.all(c, deviceClasses[c.metadata.name].spec.selectors.size() == 0)",
        {"claims.metadata.name", "deviceClasses.spec.selectors"},
    ),
    "whether a class exists": ("has(deviceClasses.gpu)", {"deviceClasses"}),
    "the names of the classes": ("deviceClasses.exists(n, deviceClasses[n].spec == null)", {"deviceClasses"}),
    "filtered elements": (
        'claims.filter(c, c.metadata.name == "x").exists(c, has(c.spec.devices))',
        {"claims.metadata.name", "claims.spec.devices"},
    ),
    "mapped elements": (
        "claims.map(c, c.spec.devices.requests).exists(r, r.size() > 1)",
        {"claims.spec.devices.requests"},
    ),
    "mapped and filtered elements": (
        "claims.map(c, has(c.metadata.labels), c.spec) == []",
        {"claims.metadata.labels", "claims.spec"},
    ),
    "a bound value is read where it is used": ('cel.bind(m, pod.metadata, m.name == "x")', {"pod.metadata.name"}),
    "a bound value that is used whole": ("cel.bind(m, pod.metadata, m == m)", {"pod.metadata"}),
    "a bound value that is not used": ("cel.bind(m, pod.metadata, true)", set()),
    "a bound element": ("claims.exists(c, cel.bind(s, c.spec, s.devices == null))", {"claims.spec.devices"}),
    "both branches of a conditional": (
        '(pod.spec.hostNetwork ? pod.spec : pod.metadata).name == "x"',
        {"pod.spec", "pod.metadata"},
    ),
    "every term, evaluated or not": (
        'true || pod.metadata.name == "x" || namespaceObject.metadata.name == "y"',
        {"pod.metadata.name", "namespaceObject.metadata.name"},
    ),
    "literals that contain reads": (
        '[pod.metadata.name] == [] || {"a": pod.metadata.uid} == {}',
        {"pod.metadata.name", "pod.metadata.uid"},
    ),
    "keys of literals": ("{pod.metadata.name: 1} == {}", {"pod.metadata.name"}),
    "a hidden variable": ("[1].exists(pod, pod == 1)", set()),
    "an optional field": ('pod.?metadata.labels["app"].hasValue()', {"pod.metadata.labels.app"}),
    "an optional element": ("claims[?0].metadata.hasValue()", {"claims.metadata"}),
    "two variables over a list": ('claims.all(i, c, c.metadata.name == "x")', {"claims.metadata.name"}),
    "an index without its element": ("claims.exists(i, c, i == 3)", {"claims"}),
    "two variables over labels": ('pod.metadata.labels.exists(k, v, v == "x")', {"pod.metadata.labels"}),
    "a transformed list": ("claims.transformList(i, c, c.metadata.name) == []", {"claims.metadata.name"}),
    "a sorted list": ("claims.sortBy(c, c.metadata.name).size() == 1", {"claims"}),
    "a bound value, used late": (
        "cel.bind(n, pod.metadata.name, claims == [] || n == '')",
        {"claims", "pod.metadata.name"},
    ),
    "optMap": ("pod.?spec.optMap(s, s.hostNetwork).orValue(false)", {"pod.spec"}),
    "arguments of functions": ('"x".startsWith(pod.metadata.name)', {"pod.metadata.name"}),
    "an element of an unknown shape": (
        "claims[0].spec.devices.config[0].opaque.parameters.a[0].b == 1",
        {"claims.spec.devices.config.opaque.parameters.a"},
    ),
    "a macro over an unknown shape": (
        "claims[0].spec.devices.config[0].opaque.parameters.a.exists(x, x.b == 1)",
        {"claims.spec.devices.config.opaque.parameters.a"},
    ),
}


@pytest.mark.parametrize(("source", "want"), READS.values(), ids=READS)
def test_the_read_set(cel: CelEngine, source: str, want: set[str]) -> None:
    assert cel.compile(source, RULE_ENV).reads == want


def test_the_read_set_of_a_device_selector(cel: CelEngine) -> None:
    source = 'device.driver == "x" && device.attributes["x"].model == "y" && device.capacity["a.b"].mem.isInteger()'
    assert cel.compile(source, DEVICE_ENV).reads == {"device.driver", "device.attributes.x.model", "device.capacity"}


PARTIAL: dict[str, tuple[str, set[str], Any]] = {
    "nothing is unknown": ('pod.metadata.name == "web"', set(), True),
    "what is unknown is not read": ('pod.metadata.name == "web"', {"pod.metadata.uid", "pod.status"}, True),
    "what is read is unknown": ('pod.metadata.name == "web"', {"pod.metadata.name"}, UNKNOWN),
    "what is read is in the unknown": ('pod.metadata.name == "web"', {"pod.metadata"}, UNKNOWN),
    "the unknown is in what is read": ("pod.metadata == null", {"pod.metadata.name"}, UNKNOWN),
    "a name that only begins the same": ('pod.metadata.name == "web"', {"pod.metadata.na"}, True),
    "an unknown behind what decides": ('true || pod.metadata.name == "web"', {"pod.metadata.name"}, True),
    "an unknown before what decides": ('pod.metadata.name == "web" || true', {"pod.metadata.name"}, True),
    "an unknown beside what does not decide": ('pod.metadata.name == "x" || false', {"pod.metadata.name"}, UNKNOWN),
    "an unknown in a conjunction with false": ('false && pod.metadata.name == "web"', {"pod.metadata"}, False),
    "an unknown comes before an error": (
        "pod.metadata.uid == '' || pod.metadata.name == ''",
        {"pod.metadata.name"},
        UNKNOWN,
    ),
    "an unknown comes after an error that stands": (
        "pod.metadata.uid == pod.metadata.name",
        {"pod.metadata.name"},
        CelError("no such key: uid", 1, 14, "RUNTIME"),
    ),
    "an unknown in the branch that is not taken": ("true ? true : pod.metadata == null", {"pod.metadata"}, True),
    "an unknown condition": ("has(pod.metadata.name) ? true : true", {"pod.metadata.name"}, UNKNOWN),
    "an unknown list": ("claims.all(c, true)", {"claims"}, UNKNOWN),
    "an unknown list whose elements do not matter": ("claims.all(c, true) || true", {"claims"}, True),
    "unknown elements of a known list": ("claims.all(c, c.spec == null)", {"claims.spec"}, UNKNOWN),
    "the number of elements that are unknown": ("claims.exists(c, true)", {"claims.spec"}, True),
    "an element that decides": (
        'claims.exists(c, c.metadata.name == "b" || c.spec == null)',
        {"claims.spec"},
        True,
    ),
    "known fields of elements": ('claims.exists(c, c.metadata.name == "b")', {"claims.spec"}, True),
    "an unknown value that is bound and not used": ("cel.bind(m, pod.metadata.name, true)", {"pod.metadata"}, True),
    "an unknown value that is bound and used": ("cel.bind(m, pod.metadata.name, m == '')", {"pod.metadata"}, UNKNOWN),
    "an unknown optional": ("pod.?metadata.name.orValue('') == ''", {"pod.metadata.name"}, UNKNOWN),
    "an error that does not depend on it": (
        'pod.metadata.namespace == "web"',
        {"pod.metadata.name"},
        CelError("no such key: namespace", 1, 14, "RUNTIME"),
    ),
}


@pytest.mark.parametrize(("source", "unknown", "want"), PARTIAL.values(), ids=PARTIAL)
def test_the_answer_while_inputs_are_unknown(cel: CelEngine, source: str, unknown: set[str], want: Any) -> None:
    program = cel.compile(source, RULE_ENV)
    inputs = {
        "pod": {"metadata": {"name": "web"}},
        "claims": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    }
    assert program.evaluate_partial(inputs, frozenset(unknown)) == want


INPUTS: dict[str, Any] = {
    "pod": {
        "metadata": {"name": "web", "labels": {"app": "x", "tier": "y"}},
        "spec": {"containers": [{"name": "a"}, {}]},
    },
    "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {}}}, {"status": {}}],
    "deviceClasses": {"gpu": {"metadata": {"name": "gpu"}, "spec": {}}, "nic": {}},
    "namespaceObject": None,
}
PROJECTIONS: dict[str, tuple[set[str], Any]] = {
    "nothing": (set(), {}),
    "a field": ({"pod.metadata.labels.app"}, {"pod": {"metadata": {"labels": {"app": "x"}}}}),
    "a whole variable": ({"claims"}, {"claims": INPUTS["claims"]}),
    "fields of elements keep the number of elements": (
        {"claims.metadata.name", "pod.spec.containers.name"},
        {"claims": [{"metadata": {"name": "c"}}, {}], "pod": {"spec": {"containers": [{"name": "a"}, {}]}}},
    ),
    "fields of classes keep the names of the classes": (
        {"deviceClasses.metadata.name"},
        {"deviceClasses": {"gpu": {"metadata": {"name": "gpu"}}, "nic": {}}},
    ),
    "a path and one below it": (
        {"pod.metadata", "pod.metadata.name"},
        {"pod": {"metadata": INPUTS["pod"]["metadata"]}},
    ),
    "a field of what has none": (
        {"namespaceObject.metadata", "pod.metadata.name.x"},
        {"pod": {"metadata": {"name": "web"}}, "namespaceObject": None},
    ),
}


@pytest.mark.parametrize(("reads", "want"), PROJECTIONS.values(), ids=PROJECTIONS)
def test_the_projection_keeps_what_is_read(reads: set[str], want: Any) -> None:
    assert project(INPUTS, reads, RULE_ENV) == want


def test_projection_of_inputs_that_are_missing() -> None:
    assert project({}, {"x.a"}, Env(variables=(("x", "dyn"),))) == {}
