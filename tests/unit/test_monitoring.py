"""The component `monitoring`: expressions name what exists, alerts have pages and cannot be fired by tenants."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from tollbar.runtime.metrics import TABLE

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests/components/monitoring"
PAGES = ROOT / "docs/operations/alerts"

RULES = list(yaml.safe_load_all((COMPONENT / "rules.yaml").read_text()))
ALERTS = {rule["alert"]: rule for rules in RULES for group in rules["spec"]["groups"] for rule in group["rules"]}
PANELS = [panel for panel in json.loads((COMPONENT / "tollbar.json").read_text())["panels"] if panel["type"] != "row"]
EXPRESSIONS = {name: alert["expr"] for name, alert in ALERTS.items()} | {
    f"panel {panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
    for panel in PANELS
    for target in panel["targets"]
}

TARGET = {"job", "namespace", "pod", "container", "endpoint", "instance"}
"""The labels that the PodMonitor gives to every series."""
SERIES = {"up": TARGET}
"""Names of series with their labels; `up` is Prometheus' own, one for each target."""
for row in TABLE:
    labels = TARGET | set(row.labels)
    if row.type == "histogram":
        SERIES |= {f"{row.name}_bucket": labels | {"le"}, f"{row.name}_count": labels, f"{row.name}_sum": labels}
    else:
        SERIES[row.name] = labels


def nodes(expression: promql.Expr) -> list[promql.Expr]:
    """The expression with all its parts."""
    found: list[promql.Expr] = []

    def visit(node: promql.Expr) -> bool:
        found.append(node)
        return True

    promql.walk(expression, visit)
    return found


def selectors(expression: promql.Expr) -> list[promql.VectorSelector]:
    return [node for node in nodes(expression) if isinstance(node, promql.VectorSelector)]


def grouped(expression: promql.Expr) -> set[str]:
    """The labels that aggregations and binary operators name."""
    found: set[str] = set()
    for node in nodes(expression):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            found |= set(node.modifier.labels)
        if isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            found |= set(node.modifier.matching.labels)
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_names_only_metrics_and_labels_that_exist(name: str) -> None:
    expression = promql.parse(EXPRESSIONS[name])
    named = [(each.name, {matcher.name for matcher in each.matchers.matchers}) for each in selectors(expression)]
    unknown = [metric for metric, _ in named if metric not in SERIES]
    odd = [(metric, sorted(extra)) for metric, used in named if (extra := used - SERIES.get(metric, set()))]
    had = set().union(*(SERIES.get(metric, set()) for metric, _ in named))
    assert (bool(named), unknown, odd, sorted(grouped(expression) - had)) == (True, [], [], [])


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_selector_is_about_tollbar(name: str) -> None:
    """Most metrics have the names that other controllers use, too."""
    chosen = [
        [matcher.value for matcher in each.matchers.matchers if matcher.name == "job"]
        for each in selectors(promql.parse(EXPRESSIONS[name]))
    ]
    assert [jobs for jobs in chosen if len(jobs) != 1 or not jobs[0].startswith("tollbar-")] == []


def test_no_metric_has_a_label_that_its_target_has() -> None:
    assert [row.name for row in TABLE if TARGET & set(row.labels)] == []


def test_every_metric_has_a_panel() -> None:
    assert sorted(panel["title"] for panel in PANELS) == sorted(row.name for row in TABLE)


SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_a_duration_a_text_and_its_page(name: str) -> None:
    alert = ALERTS[name]
    page = PAGES / f"{name}.md"
    assert {
        "severity": alert["labels"]["severity"] in ("critical", "warning", "info"),
        "for": bool(re.fullmatch(r"\d+m", alert["for"])),
        "annotations": sorted(alert["annotations"]),
        "runbook": ROOT / alert["annotations"]["runbook_url"],
        "heading": page.read_text().splitlines()[0],
        "sections": re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE),
    } == {
        "severity": True,
        "for": True,
        "annotations": ["description", "runbook_url", "summary"],
        "runbook": page,
        "heading": f"# {name}",
        "sections": SECTIONS,
    }


@pytest.mark.parametrize("name", ALERTS)
def test_the_text_of_an_alert_shows_only_labels_that_its_series_have(name: str) -> None:
    text = " ".join(ALERTS[name]["annotations"].values())
    kept: set[str] = set()
    for node in nodes(promql.parse(ALERTS[name]["expr"])):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            kept |= set(node.modifier.labels)
    assert set(re.findall(r"\$labels\.(\w+)", text)) - kept == set()


def test_there_is_no_page_without_an_alert() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(ALERTS)


UNMOVED = {
    "up",
    "leader_election_master_status",
    "tollbar_certificate_authority_expiry_timestamp_seconds",
    "tollbar_certificate_expiry_timestamp_seconds",
    "tollbar_overdue_namespaces",
    "tollbar_watch_age_seconds",
    "workqueue_longest_running_processor_seconds",
}
"""Gauges that do not grow with what a tenant creates in one namespace.  (Pods that wait, depths of queues, and objects
in caches do.)"""


def absolute(node: promql.Expr) -> Iterator[str]:
    """The metrics whose value itself is compared, instead of being divided by another."""
    match node:
        case promql.ParenExpr() | promql.AggregateExpr():
            yield from absolute(node.expr)
        case promql.Call():
            for argument in node.args:
                yield from absolute(argument)
        case promql.BinaryExpr() if str(node.op) == "/":
            return
        case promql.BinaryExpr() if str(node.op) == "unless":
            yield from absolute(node.lhs)
        case promql.BinaryExpr():
            yield from absolute(node.lhs)
            yield from absolute(node.rhs)
        case _:
            yield from (each.name for each in selectors(node))


@pytest.mark.parametrize("name", [name for name, alert in ALERTS.items() if alert["labels"]["severity"] != "info"])
def test_an_alert_about_tollbar_looks_at_shares_or_at_what_a_tenant_does_not_move(name: str) -> None:
    assert set(absolute(promql.parse(ALERTS[name]["expr"]))) <= UNMOVED


def test_what_bounds_each_label_is_written_down() -> None:
    text = (ROOT / "docs/operations/monitoring.md").read_text()
    (table,) = re.findall(r"\| label \| bounded by \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    documented = {label for line in table.splitlines() for label in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert documented == {label for row in TABLE for label in row.labels}


def test_the_pod_monitor_scrapes_every_process_by_the_port_that_it_has() -> None:
    monitor: dict[str, Any] = yaml.safe_load((COMPONENT / "podmonitor.yaml").read_text())
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    folders = ("base/webhooks", "base/controllers", "components/scheduler")
    files = [ROOT / "manifests" / folder / "deployment.yaml" for folder in folders]
    templates = [next(yaml.safe_load_all(path.read_text()))["spec"]["template"] for path in files]
    found = [template["metadata"]["labels"]["app.kubernetes.io/component"] for template in templates]
    ports = [[port["name"] for port in template["spec"]["containers"][0]["ports"]] for template in templates]
    assert (found, [endpoint["port"] in names for names in ports]) == (expression["values"], [True] * 3)
