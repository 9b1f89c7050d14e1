"""Every seeded mistake, as a user applies it: refused with its place, and not stored."""

import re

import pytest
from cel.mistakes import MISTAKES, PLACE
from objects.builders import toleration_rule
from planes.objects import Cluster

from tollbar.devplane.kubectl import KubectlError

_REFUSAL = re.compile(r'"mistake-(\d+)\.[^"]*" is invalid:\s(.*?)(?=\nError from server|\Z)', re.DOTALL)


def test_every_mistake_is_refused_with_its_place_before_it_is_stored(cluster: Cluster) -> None:
    rules = [
        toleration_rule(cluster.unique(f"mistake-{number}")).cel(expression)
        for number, (expression, _) in enumerate(MISTAKES.values())
    ]
    with pytest.raises(KubectlError) as refused:
        cluster.create(*rules)
    said = {int(number): text for number, text in _REFUSAL.findall(refused.value.stderr)}
    unclear = [
        (mistake, said.get(number))
        for number, (mistake, (_, words)) in enumerate(MISTAKES.items())
        if not PLACE.search(said.get(number, "")) or words not in said[number]
    ]
    there = [each["metadata"]["name"] for each in cluster.kubectl.json("get", "tolerationrules")["items"]]
    assert (unclear, [name for name in there if name.startswith("mistake-")]) == ([], [])
