"""Since when the Pods of a history could have been let go by a PodQuota."""

from history.quotareleases import Sized, State, releases

from tollbar.model.objects import Key


def state(name: str, seen: float, what: str = "held", *, cores: int = 1) -> State:
    return State(name, Sized(Key("ns", name), cores, 0), what != "held", what == "gone", seen, 0)


def went(*states: State, limits: tuple[tuple[float, int], ...]) -> list[tuple[float, float]]:
    """When each could have gone, and when it went."""
    return [(each.fitted, each.seen) for each in releases(states, limits)]


def test_a_pod_fits_from_when_others_have_ended_or_more_is_allowed() -> None:
    held = [state(name, 0.0) for name in "abc"]
    ended = [state("a", 1.5, "out"), state("a", 4.0, "gone"), state("b", 4.5, "out")]
    assert went(*held, *ended, state("c", 9.5, "out"), limits=((1.0, 1), (9.0, 2))) == [
        (1.0, 1.5),
        (4.0, 4.5),
        (9.0, 9.5),
    ]


def test_a_large_pod_fits_when_there_is_room_for_all_of_it() -> None:
    begin = [*(state(name, 0.0) for name in "ab"), state("c", 0.0, cores=2)]
    out = [state(name, 1.0, "out") for name in "ab"]
    ends = [state("a", 2.0, "gone"), state("b", 3.0, "gone")]
    assert went(*begin, *out, *ends, state("c", 3.5, "out", cores=2), limits=((1.0, 2),))[-1] == (3.0, 3.5)


def test_room_that_others_have_got_is_none_though_their_release_is_yet_to_be_seen() -> None:
    begin = [state(name, 0.0) for name in "xyab"]
    out = [state(name, 1.0, "out") for name in "xy"]
    then = [state("x", 5.0, "gone"), state("y", 5.5, "gone"), state("a", 5.6, "out"), state("b", 5.7, "out")]
    assert went(*begin, *out, *then, limits=((1.0, 2),))[2:] == [(5.0, 5.6), (5.5, 5.7)]


def test_a_pod_that_is_created_into_room_fits_from_then_on() -> None:
    assert went(state("a", 3.0), state("a", 3.5, "out"), limits=((1.0, 2),)) == [(3.0, 3.5)]
