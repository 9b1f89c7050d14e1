"""`tollbar lint FILE...`: validates rules, gates, WorkloadClaims and PodQuotas in files, as the webhook does.

Needs no cluster.  Objects of other groups and kinds are skipped, so that whole manifests can be given.  What only a
cluster can tell, such as a gate that another SchedulingGate there declares, is not found.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import click

from tollbar import wellknown
from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.quotas import parse_quota
from tollbar.api.workloads import parse_workload_claim
from tollbar.cel import CelEngine, engine
from tollbar.cli import console, manifests
from tollbar.cli.manifests import Located, Unreadable
from tollbar.decide.rules.validation import (
    gate_errors,
    placement_errors,
    placement_warnings,
    rule_errors,
    rule_warnings,
)
from tollbar.model import names
from tollbar.model.fields import FieldError, invalid, required, unsupported
from tollbar.model.objects import Object
from tollbar.model.texts import counted

_KINDS: Final = ("TolerationRule", "PlacementRule", "SchedulingGate", "WorkloadClaim", "PodQuota")
_WARNINGS: Final = {"TolerationRule": rule_warnings, "PlacementRule": placement_warnings}


@dataclass(frozen=True, slots=True)
class Finding:
    """One error or warning.  `line` is that of the field, from 1."""

    file: str
    line: int
    object: str
    field: str
    message: str


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@console.output_option
def command(files: tuple[str, ...], output: console.Output) -> None:
    """Check rules and gates in manifest files, as the admission webhook checks them.

    YAML or JSON, any number of documents; `-` reads standard input. Objects of other API groups are skipped, unless
    their kind is one of Tollbar's: then the group is misspelt. Exit code 0: nothing found, or warnings only, 1:
    findings, 2: a file cannot be read.
    """
    found: list[Located] = []
    unreadable = 0
    for name in files:
        try:
            found += manifests.read(name, sys.stdin)
        except Unreadable as error:
            console.say(f"Error: {error}")
            unreadable += 1
    ours = [located for located in found if _is_ours(located.obj)]
    findings, warnings = list(check(ours, engine())), list(advise(ours, engine()))
    data = {"findings": [asdict(each) for each in findings], "warnings": [asdict(each) for each in warnings]}
    console.emit([*_rows(findings), *_rows(warnings, "warning: ")], data, output)
    advised = f", {counted(len(warnings), 'warning')}" if warnings else ""
    console.say(f"{counted(len(ours), 'object')} checked, {counted(len(findings), 'finding')}{advised}")
    if unreadable or findings:
        raise click.exceptions.Exit(2 if unreadable else 1)


def check(objects: Sequence[Located], cel: CelEngine) -> Iterator[Finding]:
    """The errors of these objects, which are of Tollbar's kinds, in their order."""
    gates = [located.obj for located in objects if isinstance(parse_gate(located.obj), SchedulingGate)]
    for located in objects:
        obj = located.obj
        meta = obj.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        for error in _errors(obj, name, cel, gates):
            yield _finding(located, name, error)


def advise(objects: Sequence[Located], cel: CelEngine) -> Iterator[Finding]:
    """The warnings about those of these objects that are valid."""
    for located in objects:
        kind = located.obj.get("kind")
        if kind in _WARNINGS:
            for warning in _WARNINGS[kind](located.obj, cel):
                yield _finding(located, located.obj["metadata"].get("name"), warning)


def _finding(located: Located, name: object, found: FieldError) -> Finding:
    kind = located.obj.get("kind")
    title = f"{kind}/{name}" if name else str(kind)
    return Finding(located.file, located.line(found.field), title, found.field, found.message)


def _errors(obj: Object, name: object, cel: CelEngine, gates: Iterable[Object]) -> Iterator[FieldError]:
    if not name:
        yield required("metadata.name", "name is required")
    for problem in names.dns_subdomain(name) if name and isinstance(name, str) else ():
        yield invalid("metadata.name", name, problem)
    match obj.get("kind"):
        case "TolerationRule":
            yield from rule_errors(obj, cel)
        case "PlacementRule":
            yield from placement_errors(obj, cel)
        case "SchedulingGate":
            yield from gate_errors(obj, gates)
        case "WorkloadClaim":
            parsed = parse_workload_claim(obj)
            yield from parsed if isinstance(parsed, list) else ()
        case "PodQuota":
            quota = parse_quota(obj)
            yield from quota if isinstance(quota, list) else ()
        case kind:
            yield unsupported("kind", kind, _KINDS)


def _is_ours(obj: object) -> bool:
    """Whether it has Tollbar's group or one of its kinds: one of these kinds in another group is misspelt."""
    if not isinstance(obj, dict):
        return False
    return str(obj.get("apiVersion", "")).partition("/")[0] == wellknown.GROUP or obj.get("kind") in _KINDS


def _rows(findings: Iterable[Finding], severity: str = "") -> list[dict[str, str]]:
    return [
        {
            "place": f"{finding.file}:{finding.line}",
            "object": finding.object,
            "problem": f"{severity}{finding.field}: {finding.message}" if finding.field else finding.message,
        }
        for finding in findings
    ]
