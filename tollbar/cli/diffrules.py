"""`tollbar diff-rules`: which Pods, and which requests of claims, would get other tolerations by other rules.

Every object is evaluated as if it were created again: without what Tollbar has added to it, and a Pod without its Node.
The verdicts about Pods are those of the controllers (`tollbar.decide.pods.matching`); about claims and templates those
of the webhook (`tollbar.decide.claims.devicetolerations`).
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from tollbar import cel
from tollbar.cli import console, copies, dump, inputs
from tollbar.cli.expansion import expand
from tollbar.cli.manifests import Unreadable
from tollbar.decide.claims import devicetolerations
from tollbar.decide.claims.devicetolerations import DeviceTolerationPlan
from tollbar.decide.pods import justification, matching, scope, tolerations
from tollbar.decide.pods.matching import Results
from tollbar.decide.pods.package import Package
from tollbar.decide.rules.rule import Rule, compile_rule
from tollbar.model import pods
from tollbar.model import tolerations as texts
from tollbar.model.objects import Key, Object, controller_of, key_of, spec
from tollbar.model.resources import (
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    TOLERATION_RULES,
)
from tollbar.model.tolerations import Identity, identity
from tollbar.offline import Cluster

DIFFERENT: Final = 1
"""The exit code when there are differences, as of `kubectl diff`."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one Pod would get instead: (toleration, rule) pairs.  `undecided` are rules that are not decided for it."""

    pod: Object
    owner: str
    gains: tuple[tuple[str, str], ...]
    loses: tuple[tuple[str, str], ...]
    undecided: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """The same of a ResourceClaim or a ResourceClaimTemplate; the text of a toleration begins with its request."""

    obj: Object
    gains: tuple[tuple[str, str], ...]
    loses: tuple[tuple[str, str], ...]
    undecided: tuple[str, ...]


def changes(cluster: Cluster, old: Sequence[Object], new: Sequence[Object]) -> Iterator[Change]:
    """The Pods of the copy that the new rules give other tolerations than the old ones, in the order of their keys."""
    before, after = _compiled(old), _compiled(new)
    same = {name for name in before.keys() & after.keys() if before[name][0] == after[name][0]}
    kept = [rule for name, (_, rule) in before.items() if name in same and rule.tolerations]
    olds = [rule for name, (_, rule) in before.items() if name not in same and rule.tolerations]
    news = [rule for name, (_, rule) in after.items() if name not in same and rule.tolerations]
    for pod in cluster.objects(PODS) if olds or news else ():
        package = _package(cluster, pod)
        if package is None:
            continue
        was, becomes = _evaluated(cluster, olds, package), _evaluated(cluster, news, package)
        if _given(was.true).keys() == _given(becomes.true).keys() and not (was.undecided or becomes.undecided):
            continue
        common = _given(_evaluated(cluster, kept, package).true) if kept else {}
        gains, loses = (_others(package.pod, one, other, common) for one, other in ((becomes, was), (was, becomes)))
        undecided = tuple(dict.fromkeys(rule.name for rule, _ in (*was.undecided, *becomes.undecided)))
        if gains or loses or undecided:
            yield Change(pod, copies.owner_of(pod, cluster), gains, loses, undecided)


def claim_changes(cluster: Cluster, old: Sequence[Object], new: Sequence[Object]) -> Iterator[ClaimChange]:
    """The claims and templates of the copy of which requests would get other tolerations of devices.

    Templates stand for the claims that are made from them.
    """
    before, after = _compiled(old), _compiled(new)
    olds, news = ([rule for _, rule in each.values() if rule.device_tolerations] for each in (before, after))
    same = {name for name in before.keys() & after.keys() if before[name][0] == after[name][0]}
    for obj in _claims(cluster) if olds or news else ():
        facts = cluster.gatherer.device_toleration_facts(devicetolerations.without_recorded(obj))
        was, becomes = (devicetolerations.decide(replace(facts, rules=tuple(each))) for each in (olds, news))
        gives, gave = _of_requests(becomes), _of_requests(was)
        open_ = (name for name, _, _ in (*was.undecided, *becomes.undecided) if name not in same)
        undecided = tuple(dict.fromkeys(open_))
        gains = tuple(given for each, given in gives.items() if each not in gave)
        loses = tuple(given for each, given in gave.items() if each not in gives)
        if gains or loses or undecided:
            yield ClaimChange(obj, gains, loses, undecided)


def _claims(cluster: Cluster) -> list[Object]:
    """Templates, and claims that nobody makes."""
    by_hand = [each for each in cluster.objects(RESOURCE_CLAIMS) if controller_of(each) is None]
    return [*by_hand, *cluster.objects(RESOURCE_CLAIM_TEMPLATES)]


def _of_requests(plan: DeviceTolerationPlan) -> dict[tuple[str, Identity], tuple[str, str]]:
    """What is added, by request and toleration: as text, and by which rule."""
    return {
        (each.request, identity(toleration)): (f"{each.request}: {texts.text(toleration)}", each.rule)
        for each in plan.additions
        for toleration in each.tolerations
    }


def _compiled(rules: Iterable[Object]) -> Mapping[str, tuple[Object, Rule]]:
    """Rules that are in force, with their specs, by name."""
    engine = cel.engine()
    compiled = ((each, compile_rule(each, engine)) for each in rules)
    return {rule.name: (spec(obj), rule) for obj, rule in compiled if isinstance(rule, Rule) and rule.mode == "Enforce"}


def _package(cluster: Cluster, pod: Object) -> Package | None:
    """The Pod as it would be created again, with its claims and classes; None for one that Tollbar leaves alone."""
    body = {name: value for name, value in spec(pod).items() if name != "nodeName"}
    unbound = {**pod, "spec": body}
    managed = cluster.gatherer.is_managed(key_of(pod).namespace)
    if pods.is_terminal(pod) or scope.exclusion_reason(unbound, managed=managed) is not None:
        return None
    bare = tolerations.without_recorded(unbound, [each.toleration for each in justification.given(pod)])
    return replace(cluster.package(pod), pod=bare)


def _evaluated(cluster: Cluster, rules: Sequence[Rule], package: Package) -> Results:
    ruleset = cluster.gatherer.ruleset
    return matching.evaluate(rules, package, ruleset.engine, ruleset.selector, matching.IN_THE_CONTROLLER)


def _given(rules: Iterable[Rule]) -> dict[Identity, tuple[str, str]]:
    """What true rules give, each for the first rule by name: (toleration, rule)."""
    found: dict[Identity, tuple[str, str]] = {}
    for rule in sorted(rules, key=lambda rule: rule.name):
        for toleration in rule.tolerations:
            found.setdefault(identity(toleration), (texts.text(toleration), rule.name))
    return found


def _others(
    pod: Object, one: Results, other: Results, common: Mapping[Identity, object]
) -> tuple[tuple[str, str], ...]:
    """What one gives and the other does not, nor rules that are the same in both, nor the Pod's author."""
    own = {identity(each) for each in pods.tolerations(pod)}
    without = {*own, *common, *_given(other.true)}
    return tuple(text for each, text in _given(one.true).items() if each not in without)


@click.command("diff-rules")
@click.argument("rules", nargs=-1, required=True, metavar="[OLD] NEW")
@click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    metavar="FILE|DIRECTORY",
    help="Manifests with Pods and claims.  Repeatable.",
)
@inputs.namespace_option
@click.option("--cluster", "base", type=click.Path(path_type=Path), metavar="DUMP", help="A copy from `tollbar dump`.")
@click.option("--live", is_flag=True, help="The cluster of the kubeconfig, as it is now.")
@console.cluster_options
@console.output_option
def command(
    rules: tuple[str, ...],
    names: tuple[str, ...],
    namespace: str,
    base: Path | None,
    live: bool,
    cluster: console.Cluster,
    output: console.Output,
) -> None:
    """Show which Pods would get other tolerations if the rules in NEW took the place of those in OLD.

    OLD and NEW are files or directories with TolerationRules. Without OLD, those in NEW are applied to the rules of the
    cluster: rules of other names stay. The Pods are those of the cluster (--live, or a dump in
    --cluster), those that the manifests in -f bring, or both. Every Pod is evaluated as if it were created again: the
    result for a running Pod is about the Pods that will replace it, because an existing Pod keeps its tolerations.

    ResourceClaims and ResourceClaimTemplates are evaluated in the same way, for tolerations of devices in their
    requests. A template stands for the claims that are made from it.

    Exit code 0: no differences, 1: differences, 2: something cannot be read.
    """
    if len(rules) > 2:
        raise click.UsageError("rules are given once (NEW) or twice (OLD NEW)")
    if base is not None and live:
        raise click.UsageError("--cluster and --live are two clusters: give one")
    if not (base or live or names):
        raise click.UsageError("no Pods to compare the rules by: give --live, --cluster or -f")
    if len(rules) == 1 and not (base or live):
        raise click.UsageError("without OLD, the rules of a cluster are compared: give --live or --cluster")
    *olds, new = ([each.obj for each in inputs.read([name], sys.stdin, needed=False)] for name in rules)
    files = [each.obj for each in inputs.read(list(names), sys.stdin, namespace)]
    if live:
        found = console.run(copies.of_live(cluster, "diff-rules"), Unreadable)
    else:
        found = copies.of_dump(base) if base is not None else Cluster()
    copies.say_unknown(found)
    _add(found, files)
    if base is not None:
        dump.warn(new)
    new_rules, there = _rules(new), found.objects(TOLERATION_RULES)
    replaced = {key_of(each) for each in new_rules}
    old_rules = _rules(olds[0]) if olds else there
    after = new_rules if olds else [*(each for each in there if key_of(each) not in replaced), *new_rules]
    different, claims = list(changes(found, old_rules, after)), list(claim_changes(found, old_rules, after))
    data = {"pods": [_data(each) for each in different], "claims": [_claim_data(each) for each in claims]}
    console.emit([*_rows(different, "object"), *_claim_rows(claims)] if claims else _rows(different), data, output)
    console.say(f"{_counted(different, len(found.objects(PODS)), 'Pods')} would get other tolerations")
    if claims:
        console.say(f"{_counted(claims, len(_claims(found)), 'claims and templates')} would get others of devices")
    if different or claims:
        raise click.exceptions.Exit(DIFFERENT)


def _rules(objects: Iterable[Object]) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == TOLERATION_RULES.kind]


def _add(cluster: Cluster, objects: Iterable[Object]) -> None:
    """Put what files bring into the copy: of workloads their Pods."""
    for obj in objects:
        made = expand(obj) if obj["kind"] in inputs.WORKLOADS else None
        for each in (obj,) if made is None else (*made.pods, *made.objects):
            cluster.put(each)
    known = {key_of(each).name for each in cluster.objects(NAMESPACES)}
    for name in {key_of(each).namespace for each in (*cluster.objects(PODS), *_claims(cluster))} - known:
        cluster.put(inputs.new_namespace(name))


def _counted(different: Sequence[Change] | Sequence[ClaimChange], all_: int, what: str) -> str:
    decided = sum(1 for each in different if each.gains or each.loses)
    undecided = f" ({len(different) - decided} are not decided)" if decided < len(different) else ""
    return f"{decided} of {all_} {what}{undecided}"


def _claim_rows(different: Sequence[ClaimChange]) -> list[dict[str, str]]:
    return [
        {
            "object": f"{each.obj['kind']} {key_of(each.obj)}",
            "gains": _shown(each.gains),
            "loses": _shown(each.loses),
            "undecided": ", ".join(each.undecided) or "-",
        }
        for each in different
    ]


def _rows(different: Sequence[Change], head: str = "pods") -> list[dict[str, str]]:
    """A row for the Pods of one owner to which the same happens."""
    alike = defaultdict[tuple[Any, ...], list[Key]](list)
    for each in different:
        alone = "" if each.owner else str(key_of(each.pod))
        alike[key_of(each.pod).namespace, each.owner, alone, each.gains, each.loses, each.undecided].append(
            key_of(each.pod)
        )
    return [
        {
            head: str(keys[0]) if len(keys) == 1 else f"{namespace}: {len(keys)} of {owner}",
            "gains": _shown(gains),
            "loses": _shown(loses),
            "undecided": ", ".join(undecided) or "-",
        }
        for (namespace, owner, _, gains, loses, undecided), keys in alike.items()
    ]


def _shown(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{toleration} by {rule}" for toleration, rule in pairs) or "-"


def _data(change: Change) -> dict[str, Any]:
    return {**key_of(change.pod)._asdict(), "owner": change.owner or None, **_differences(change)}


def _claim_data(change: ClaimChange) -> dict[str, Any]:
    return {"kind": change.obj["kind"], **key_of(change.obj)._asdict(), **_differences(change)}


def _differences(change: Change | ClaimChange) -> dict[str, Any]:
    return {
        "gains": [{"toleration": toleration, "rule": rule} for toleration, rule in change.gains],
        "loses": [{"toleration": toleration, "rule": rule} for toleration, rule in change.loses],
        "undecided": list(change.undecided),
    }
