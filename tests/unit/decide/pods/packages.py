"""Packages, a program whose answers are names of classes, and what verdicts on them are."""

from collections.abc import Mapping
from typing import Any

from fakes.engine import FakeEngine, no_selector
from objects.builders import claim, device_class, namespace, pod

from tollbar.cel import UNKNOWN, CelError, CostBudget
from tollbar.decide.pods.matching import CostLimits, Evaluator, Truth, Verdict
from tollbar.decide.pods.package import Missing, Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.rules.rule import Expression, ExtendedResources, Rule
from tollbar.model import claims
from tollbar.model.objects import Object

PLENTY = CostLimits(alternatives=256, steps=20_000_000, beyond=Truth.FALSE)
YES, NO = Verdict(Truth.TRUE), Verdict(Truth.FALSE)
FAILED = Verdict(Truth.ERROR, "1:1: no such key")
UNDECIDED = Verdict(Truth.UNKNOWN, "what the Pod gets only after its admission")
TOO_MANY = PodReason.TOO_MANY_ALTERNATIVES
EXCEEDED = PodReason.COST_LIMIT_EXCEEDED
TOO_LARGE = PodReason.PACKAGE_TOO_LARGE


def package(*claims_: Object, **more: Any) -> Package:
    names = {name for each in claims_ for name in claims.device_classes(each)}
    given = {"pod": pod(), "namespace": namespace(), "classes": {name: device_class(name) for name in names}, **more}
    return Package(claims=tuple(claims_), **given)


def verdict(given: Rule, of: Package, limits: CostLimits = PLENTY) -> Verdict:
    return Evaluator(of, FakeEngine(), no_selector, limits).verdict(given)


class SaysTheClass:
    """A program whose answer is what the first request's class is called: yes, no, error or unknown."""

    source = ""
    reads = frozenset({"claims.spec.devices.requests.exactly.deviceClassName"})

    def evaluate_partial(self, inputs: Mapping[str, Any], _unknown: frozenset[str], budget: CostBudget) -> Any:
        budget.steps -= 1
        name = inputs["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"]
        answers = {"yes": True, "no": False, "unknown": UNKNOWN, "error": CelError("no such key", 1, 1, "RUNTIME")}
        return answers[name]


SAYS_THE_CLASS = Expression(SaysTheClass())  # type: ignore[arg-type]
MANY = ("yes",) * 256
GPU_RESOURCE = ExtendedResources(frozenset({"example.com/gpu"}))
BUILDING = 150  # steps for a request that an alternative is made of, before the two that each evaluation here takes
CLAIM_MISSING = package(missing=(Missing("ResourceClaim", "gpu"),))
CLASS_MISSING = package(claim().request("gpu"), missing=(Missing("DeviceClass", "gpu"),))
ONLY_NAMESPACE_MISSING = package(namespace=None, missing=(Missing("Namespace", "ml"),))
