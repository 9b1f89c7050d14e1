"""Which Nodes a NodeSelector selects, and where a Pod may go by its nodeSelector and required node affinity."""

import pytest

from tollbar.model.nodeaffinity import allows, selects
from tollbar.model.objects import Object

NODE: Object = {"metadata": {"name": "n1", "labels": {"zone": "a", "gpus": "8", "model": "x1"}}}


def requirement(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*terms: Object) -> Object:
    return {"nodeSelectorTerms": list(terms)}


def labels(*requirements: Object) -> Object:
    return {"matchExpressions": list(requirements)}


def fields(*requirements: Object) -> Object:
    return {"matchFields": list(requirements)}


SELECTS: dict[str, tuple[Object, bool]] = {
    "no terms select no Node": ({}, False),
    "a term without requirements selects no Node": (selector({}), False),
    "a term whose lists are empty selects no Node": (selector({**labels(), **fields()}), False),
    "In lists the label's value": (selector(labels(requirement("zone", "In", "b", "a"))), True),
    "In needs the label": (selector(labels(requirement("rack", "In", "a"))), False),
    "In without values is malformed": (selector(labels(requirement("zone", "In"))), False),
    "NotIn lists the label's value": (selector(labels(requirement("zone", "NotIn", "a"))), False),
    "NotIn holds without the label": (selector(labels(requirement("rack", "NotIn", "a"))), True),
    "NotIn without values is malformed": (selector(labels(requirement("zone", "NotIn"))), False),
    "Exists": (selector(labels(requirement("zone", "Exists"))), True),
    "Exists without the label": (selector(labels(requirement("rack", "Exists"))), False),
    "Exists with values is malformed": (selector(labels(requirement("zone", "Exists", "a"))), False),
    "DoesNotExist": (selector(labels(requirement("rack", "DoesNotExist"))), True),
    "DoesNotExist with the label": (selector(labels(requirement("zone", "DoesNotExist"))), False),
    "Gt compares numbers, not texts": (selector(labels(requirement("gpus", "Gt", "10"))), False),
    "Gt is strict": (selector(labels(requirement("gpus", "Gt", "8"))), False),
    "Gt holds of a greater label": (selector(labels(requirement("gpus", "Gt", "7"))), True),
    "Lt holds of a smaller label": (selector(labels(requirement("gpus", "Lt", "10"))), True),
    "Lt is strict": (selector(labels(requirement("gpus", "Lt", "8"))), False),
    "leading zeros do not count": (selector(labels(requirement("gpus", "Lt", "0009"))), True),
    "Gt needs the label": (selector(labels(requirement("rack", "Gt", "1"))), False),
    "Gt needs a label that is a number": (selector(labels(requirement("model", "Gt", "1"))), False),
    "Gt needs a number": (selector(labels(requirement("gpus", "Gt", "x1"))), False),
    "Gt needs a number of 64 bits": (selector(labels(requirement("gpus", "Lt", "9223372036854775808"))), False),
    "the greatest number of 64 bits": (selector(labels(requirement("gpus", "Lt", "9223372036854775807"))), True),
    "Gt with two values is malformed": (selector(labels(requirement("gpus", "Gt", "1", "2"))), False),
    "Gt without values is malformed": (selector(labels(requirement("gpus", "Gt"))), False),
    "an unknown operator": (selector(labels(requirement("zone", "Like", "a"))), False),
    "all requirements of a term must hold": (
        selector(labels(requirement("zone", "Exists"), requirement("rack", "Exists"))),
        False,
    ),
    "one term of two is enough": (
        selector(labels(requirement("rack", "Exists")), labels(requirement("zone", "Exists"))),
        True,
    ),
    "a malformed term does not spoil the next one": (
        selector(labels(requirement("zone", "Like", "a")), labels(requirement("zone", "Exists"))),
        True,
    ),
    "the Node's name": (selector(fields(requirement("metadata.name", "In", "n1"))), True),
    "another Node's name": (selector(fields(requirement("metadata.name", "In", "n2"))), False),
    "not the Node's name": (selector(fields(requirement("metadata.name", "NotIn", "n1"))), False),
    "not another Node's name": (selector(fields(requirement("metadata.name", "NotIn", "n2"))), True),
    "two names are malformed": (selector(fields(requirement("metadata.name", "In", "n1", "n2"))), False),
    "fields have no Exists": (selector(fields(requirement("metadata.name", "Exists"))), False),
    "a label is no field": (selector(fields(requirement("zone", "In", "a"))), False),
    "labels and fields must both hold": (
        selector({**labels(requirement("zone", "In", "b")), **fields(requirement("metadata.name", "In", "n1"))}),
        False,
    ),
}


@pytest.mark.parametrize(("given", "want"), SELECTS.values(), ids=SELECTS)
def test_selects(given: Object, want: bool) -> None:
    assert selects(given, NODE) is want


def required(*terms: Object) -> Object:
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector(*terms)}}}


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
IN_ZONE = {zone: labels(requirement("zone", "In", zone)) for zone in "ab"}
ALLOWS: dict[str, tuple[Object, bool]] = {
    "a Pod that asks for nothing may go anywhere": ({}, True),
    "an empty nodeSelector allows every Node": ({"nodeSelector": {}}, True),
    "every label of nodeSelector is on the Node": ({"nodeSelector": {"zone": "a", "gpus": "8"}}, True),
    "one label of nodeSelector is another": ({"nodeSelector": {"zone": "a", "gpus": "4"}}, False),
    "an absent label is not an empty one": ({"nodeSelector": {"rack": ""}}, False),
    "a required term holds": (required(IN_ZONE["a"]), True),
    "no required term holds": (required(IN_ZONE["b"]), False),
    "required terms that are none allow no Node": (required(), False),
    "nodeSelector and required terms must both hold": (
        {"nodeSelector": {"zone": "b"}, **required(IN_ZONE["a"])},
        False,
    ),
    "a preference keeps away from no Node": ({"affinity": {"nodeAffinity": PREFERRED}}, True),
}


@pytest.mark.parametrize(("spec", "want"), ALLOWS.values(), ids=ALLOWS)
def test_allows(spec: Object, want: bool) -> None:
    assert allows({"spec": spec}, NODE) is want
