from zone import MAPS, ZONE, Zone

from tollbar.gates import Facts, Hold, Mutation, NotMine, Release

POD = {"metadata": {"name": "job", "namespace": "ml", "labels": {"example.com/batch": ""}}}
MAP = {"metadata": {"name": "zone", "namespace": "ml"}, "data": {"zone": "a"}}


def decided(pod: dict, *maps: dict) -> object:
    return Zone().decide(Facts(pod, {"metadata": {"name": "ml"}}, at_admission=False, objects={MAPS.name: maps}))


def test_it_waits_for_the_zone() -> None:
    waits = Hold("ZoneMissing", "key zone of ConfigMap ml/zone")
    assert (decided(POD), decided(POD, {**MAP, "data": {"other": "a"}})) == (waits, waits)


def test_it_goes_where_the_config_map_says() -> None:
    assert decided(POD, MAP) == Release(Mutation(node_selector={ZONE: "a"}), gives="zone a")


def test_other_pods_are_left_alone() -> None:
    chosen = {**POD, "spec": {"nodeSelector": {ZONE: "b"}}}
    assert (decided({"metadata": {"name": "web", "namespace": "ml"}}), decided(chosen, MAP)) == (NotMine(), NotMine())
