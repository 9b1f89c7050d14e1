from zone import MAPS, Zone

from tollbar.gates import Facts, Hold, Mutation, NotMine, Release

POD = {"metadata": {"name": "job", "namespace": "ml", "labels": {"example.com/batch": ""}}}
MAP = {"metadata": {"name": "zone", "namespace": "ml"}, "data": {"zone": "a"}}


def decided(pod: dict, *maps: dict) -> object:
    return Zone().decide(Facts(pod, {"metadata": {"name": "ml"}}, at_admission=False, objects={MAPS.name: maps}))


def test_it_waits_for_the_zone() -> None:
    assert decided(POD) == Hold("ZoneMissing", "ConfigMap ml/zone")


def test_it_goes_where_the_config_map_says() -> None:
    assert decided(POD, MAP) == Release(Mutation(node_selector={"topology.kubernetes.io/zone": "a"}), gives="zone a")


def test_other_pods_are_left_alone() -> None:
    assert decided({"metadata": {"name": "web", "namespace": "ml"}}) == NotMine()
