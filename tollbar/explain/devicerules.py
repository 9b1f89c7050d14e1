"""Rules that give requests of claims tolerations of devices: which requests have some, and which would, made anew."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tollbar.decide.claims import devicetolerations
from tollbar.decide.pods import tolerations
from tollbar.decide.rules.rule import Rule
from tollbar.dra.exclusions import taint_text
from tollbar.explain.devicechanges import pool_of
from tollbar.gates import Section
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.resources import DEVICE_TAINT_RULES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from tollbar.model.tolerations import text, tolerates
from tollbar.offline import Cluster


def _given(obj: Object, rule: str) -> list[str]:
    """The requests of a claim or template that have tolerations of this rule, by the record."""
    found = (str(each.get("request")) for each in tolerations.provenance_of(obj) if each["rule"] == rule)
    return list(dict.fromkeys(found))


def _due(cluster: Cluster, obj: Object, rule: Rule) -> list[str]:
    """The requests that would get some, if the rule was in force and alone, and the object was created again."""
    facts = cluster.gatherer.device_toleration_facts(devicetolerations.without_recorded(obj))
    plan = devicetolerations.decide(replace(facts, rules=(replace(rule, mode="Enforce"),)))
    return [each.request for each in plan.additions]


def said(cluster: Cluster, claim: Object, rule: Rule) -> str:
    """How the claim of a Pod stands to the rule; empty if that is not about any of its requests."""
    has, would = _standing(cluster, claim, rule)
    name = f"ResourceClaim {key_of(claim).name}"
    gave = f"gave {', '.join(has)} of {name}" if has else ""
    return "; ".join(filter(None, (gave, f"{name} made anew: {', '.join(would)}" if would else "")))


def _standing(cluster: Cluster, obj: Object, rule: Rule) -> tuple[list[str], list[str]]:
    """The requests of a claim or template that have tolerations of this rule, and those that would get some besides."""
    has = _given(obj, rule.name)
    return has, [each for each in _due(cluster, obj, rule) if each not in has]


def sections(cluster: Cluster, rule: Rule) -> tuple[list[str], tuple[Section, ...]]:
    """What the explanation of a rule says about claims: lines of the summary, and tables."""
    objects = [*cluster.objects(RESOURCE_CLAIMS), *cluster.objects(RESOURCE_CLAIM_TEMPLATES)]
    found = [(f"{each['kind']} {key_of(each)}", *_standing(cluster, each, rule)) for each in objects]
    have, get = sum(bool(has) for _, has, _ in found), sum(bool(would) for _, _, would in found)
    line = f"of {len(found)} claims and templates {have} have tolerations by it, {get} would get some if made anew"
    rows = tuple((name, ", ".join(has) or "-", ", ".join(would) or "-") for name, has, would in found if has or would)
    return [line], (
        Section("Tolerations of devices", ("TOLERATION",), tuple((text(each),) for each in rule.device_tolerations)),
        Section("Claims and templates", ("OBJECT", "REQUESTS THAT HAVE THEM", "WOULD IF MADE ANEW"), rows),
        Section("Taints of devices that it tolerates", ("BY", "TAINT", "DEVICES"), tuple(_taints(cluster, rule))),
    )


def _taints(cluster: Cluster, rule: Rule) -> Iterator[tuple[str, str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for obj in cluster.objects(RESOURCE_SLICES):
        pool = str(pool_of(obj))
        for device in spec(obj).get("devices") or ():
            found = {taint_text(each) for each in device.get("taints") or () if _opens(rule, each)}
            counted.update((pool, taint) for taint in found)
    yield from ((pool, taint, str(count)) for (pool, taint), count in sorted(counted.items()))
    for obj in cluster.objects(DEVICE_TAINT_RULES):
        taint = spec(obj).get("taint") or {}
        if _opens(rule, taint):
            yield f"DeviceTaintRule {key_of(obj).name}", taint_text(taint), "-"


def _opens(rule: Rule, taint: Object) -> bool:
    return any(tolerates(each, taint) for each in rule.device_tolerations)
