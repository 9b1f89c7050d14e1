"""Explanations as lines of text: one screen, the cause first."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tollbar.api import durations
from tollbar.explain.changes import NODES_LOOKED_AT
from tollbar.explain.values import Explanation, Finding, PodExplanation, Remedy, Scheduling
from tollbar.gates import Section
from tollbar.model.texts import columns
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import NAME as DYNAMIC_RESOURCES

_HELPFUL: Final = 6
"""Remedies that help and are shown."""
_OTHERS: Final = 3
"""Those that do not help, shown if none does."""
_LISTED: Final = 8
"""Lines of one section, unless all are asked for."""


def data(value: Any) -> Any:
    """An explanation as JSON has it, with camelCase names."""
    if is_dataclass(value):
        return {_camel(each.name): data(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [data(each) for each in value]
    return str(value) if isinstance(value, str) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def of_pod(found: PodExplanation, *, wide: bool = False) -> list[str]:
    """`wide` leaves nothing out."""
    where = f" on node {found.node}" if found.node else ""
    old = f", {age(found.age)} old" if found.age else ""
    lines = [f"Pod {found.namespace}/{found.name}: {found.phase}{where}{old}"]
    lines += findings(found.findings)
    lines += remedies(found.remedies, wide=wide)
    for each in tables(found):
        lines += section(each.title, each.heads, each.rows, wide=wide)
    lines += _scheduling(found, wide=wide)
    lines += _notes(found.notes)
    return lines + not_read(found.unknown)


def of_object(found: Explanation, *, wide: bool = False) -> list[str]:
    lines = [f"{found.kind} {found.name}: {found.summary[0]}", *(f"  {each}" for each in found.summary[1:])]
    for each in found.sections:
        lines += section(each.title, each.heads, each.rows, wide=wide)
    return lines + not_read(found.unknown)


def _notes(found: Sequence[str]) -> list[str]:
    return ["", "Besides", *(f"  {each}" for each in found)] if found else []


def not_read(unknown: Sequence[str]) -> list[str]:
    return (
        ["", "Not read, so that what depends on it is not known:", *(f"  {each}" for each in unknown)]
        if unknown
        else []
    )


def findings(found: Sequence[Finding]) -> Iterator[str]:
    for number, each in enumerate(found):
        yield from ("", "Why") if number == 0 else ("", "Then") if number == 1 else ()
        yield f"  {each.cause}: {each.what}"
        yield from (f"    since: {each.since}",) if each.since else ()
        yield from (f"    who:   {each.who}",) if each.who else ()
        yield from (f"    do:    {each.action}",) if each.action else ()


def remedies(found: Sequence[Remedy], *, wide: bool) -> Iterator[str]:
    helpful = [each for each in found if each.helps]
    shown = list(found) if wide else helpful[:_HELPFUL] or list(found[:_OTHERS])
    if shown:
        yield from ("", "What would change it, each tried on a copy of the cluster")
    for each in shown:
        yield f"  {'+' if each.helps else '-'} if {each.change}: {each.result}"


def section(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, wide: bool) -> Iterator[str]:
    """A table below its title; nothing if it has no rows."""
    if not rows:
        return
    kept = rows if wide else rows[:_LISTED]
    yield from ("", title)
    for line in columns([heads, *kept]):
        yield f"  {line}"
    if len(kept) < len(rows):
        yield f"  and {len(rows) - len(kept)} more: -o wide"


def _scheduling(found: PodExplanation, *, wide: bool) -> Iterator[str]:
    seen = found.scheduling
    if seen is None:
        return
    yield from ("", "Scheduling")
    if seen.said:
        yield f"  {seen.scheduler} said at {seen.said_at}: {seen.said}"
    if seen.node:
        fits = "it fits" if seen.fits == 1 else f"the first of {seen.fits} that fit"
        yield f"  on the copy: node {seen.node} of {seen.nodes}; {fits}"
    else:
        yield f"  on the copy: {seen.message}"
    if seen.preemption:
        yield f"  preemption: {seen.preemption}"
    for each in scheduling_tables(seen):
        yield from section(each.title, each.heads, each.rows, wide=wide)


def tables(found: PodExplanation) -> Iterator[Section]:
    """Gates with what their classes tell, claims, rules and tolerations."""
    yield Section(
        "Gates",
        ("GATE", "DECLARED BY", "OWNERS", "MAX HOLD", "WAITS FOR"),
        tuple(
            (
                each.name,
                each.declared_by or "nobody",
                ", ".join(each.owners) or "-",
                each.max_hold or "-",
                ": ".join(filter(None, (each.reason, each.waits_for))) or "-",
            )
            for each in found.gates
        ),
    )
    yield from found.told
    yield Section(
        "Claims",
        ("CLAIM", "FROM", "STATE", "REQUESTS", "DEVICES", "RESERVED FOR"),
        tuple(
            (
                each.name or each.reference,
                each.source,
                f"{each.state}{f' for {each.node}' if each.node else ''}",
                "; ".join(f"{request.name}: {request.wants}" for request in each.requests) or "-",
                ", ".join(device for request in each.requests for device in request.devices) or "-",
                ", ".join(each.reserved_for) or "-",
            )
            for each in found.claims
        ),
    )
    yield Section(
        "Rules",
        ("RULE", "MODE", "VERDICT", "STEPS", "GIVES", "WHY"),
        tuple(
            (
                each.name,
                each.mode,
                f"{each.verdict}{f' ({each.alternatives} alternatives)' if each.alternatives else ''}",
                str(each.steps),
                ", ".join(each.gives),
                each.why or "-",
            )
            for each in sorted(found.rules, key=lambda each: each.verdict == "false")
        ),
    )
    yield Section("Tolerations", ("TOLERATION", "FROM"), tuple((each.text, each.origin) for each in found.tolerations))


def scheduling_tables(seen: Scheduling) -> Iterator[Section]:
    """Nodes by what rejects them, and devices by what excludes them."""
    yield Section(
        "Nodes by the plugin that rejects them first",
        ("NODES", "PLUGIN", "REASON", "SUCH AS"),
        tuple((str(each.count), each.plugin, each.reason, ", ".join(each.nodes)) for each in seen.rejected),
    )
    rejected = sum(each.count for each in seen.rejected if each.plugin == DYNAMIC_RESOURCES)
    some = f"{NODES_LOOKED_AT} of the {rejected:,} " if rejected > NODES_LOOKED_AT else ""
    yield Section(
        f"Devices of {some}Nodes that {DYNAMIC_RESOURCES} rejects",
        ("DEVICES", "REQUEST", "WHY", "DETAIL", "SUCH AS", "HELD BY"),
        tuple(
            (
                str(each.count),
                each.request,
                each.why,
                each.detail or "-",
                ", ".join(each.devices),
                ", ".join(each.holders) or "-",
            )
            for each in seen.devices
        ),
    )


def age(seconds: float) -> str:
    """As durations are written in the API: `3s`, `2m0s`."""
    return durations.text(float(round(seconds)))
