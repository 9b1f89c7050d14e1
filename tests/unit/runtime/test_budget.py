"""What a process keeps of what tenants make: who has to give way, and what comes back."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tollbar.model.objects import Key
from tollbar.runtime.budget import Budget, memory_limit


class Shelf:
    def leave_out(self, key: Key) -> None:
        raise AssertionError("whoever asks does this")


SHELF, OTHER = Shelf(), Shelf()


def put(budget: Budget, name: str, size: int, namespace: str = "ml", shelf: Shelf = SHELF) -> str:
    """Keep an object; the names of those that had to go."""
    return " ".join(key.name for _, key in budget.keep((shelf, Key(namespace, name)), size))


def drop(budget: Budget, name: str, namespace: str = "ml") -> str:
    budget.forget((SHELF, Key(namespace, name)))
    return ""


@dataclass
class Case:
    """Of a budget of 100: what each step leaves out, and the bytes that are kept at the end."""

    steps: list[tuple[Callable[[Budget], str], str]]
    used: int


CASES = {
    "what fits is kept": Case([(lambda b: put(b, "a", 60), ""), (lambda b: put(b, "b", 40), "")], 100),
    "the largest goes, whichever came last": Case(
        [(lambda b: put(b, "a", 70), ""), (lambda b: put(b, "b", 20), ""), (lambda b: put(b, "c", 20), "a")], 40
    ),
    "of those that are as large the one that came last goes": Case(
        [(lambda b: put(b, "a", 40), ""), (lambda b: put(b, "b", 40), ""), (lambda b: put(b, "c", 40), "c")], 80
    ),
    "what is larger than all that there is goes": Case([(lambda b: put(b, "a", 101), "a")], 0),
    "as many go as have to": Case(
        [
            (lambda b: put(b, "a", 30), ""),
            (lambda b: put(b, "b", 30), ""),
            (lambda b: put(b, "c", 30), ""),
            (lambda b: put(b, "d", 15), "c"),
            (lambda b: put(b, "e", 15, "web"), ""),
            (lambda b: put(b, "f", 44, "dev"), "b a"),
        ],
        74,
    ),
    "the namespace that takes the most gives way": Case(
        [
            (lambda b: put(b, "a", 30), ""),
            (lambda b: put(b, "b", 30), ""),
            (lambda b: put(b, "c", 35, "web"), ""),
            (lambda b: put(b, "d", 10, "web"), "b"),
        ],
        75,
    ),
    "what another store keeps counts, too": Case(
        [(lambda b: put(b, "a", 60), ""), (lambda b: put(b, "a", 60, shelf=OTHER), "a")], 60
    ),
    "what has grown counts as it is now": Case(
        [(lambda b: put(b, "a", 20), ""), (lambda b: put(b, "b", 60), ""), (lambda b: put(b, "a", 45), "a")], 60
    ),
    "what is gone makes room": Case(
        [
            (lambda b: put(b, "a", 60), ""),
            (lambda b: put(b, "b", 60), "b"),
            (lambda b: drop(b, "a"), ""),
            (lambda b: put(b, "b", 60), ""),
        ],
        60,
    ),
    "what is gone although it was left out makes none": Case(
        [(lambda b: put(b, "a", 60), ""), (lambda b: put(b, "b", 60), "b"), (lambda b: drop(b, "b"), "")], 60
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_gives_way(case: Case) -> None:
    budget = Budget(100)
    assert [step(budget) for step, _ in case.steps] == [gone for _, gone in case.steps]
    assert budget.used == case.used


def test_without_a_limit_everything_is_kept() -> None:
    budget = Budget()
    assert [put(budget, str(number), 1 << 40) for number in range(9)] == [""] * 9


def test_what_was_left_out_would_be_kept_once_there_is_room_for_it() -> None:
    budget = Budget(100)
    put(budget, "a", 60)
    put(budget, "b", 60)
    put(budget, "c", 20)
    before = budget.would_keep_more(SHELF)
    drop(budget, "c")
    drop(budget, "a")
    assert (before, budget.would_keep_more(SHELF), budget.would_keep_more(OTHER)) == (False, True, False)
    put(budget, "b", 60)
    assert not budget.would_keep_more(SHELF)


def test_what_was_left_out_would_be_kept_once_another_namespace_takes_more() -> None:
    budget = Budget(100)
    put(budget, "a", 30)
    put(budget, "b", 40, "web")
    put(budget, "c", 40)
    before = budget.would_keep_more(SHELF)
    drop(budget, "a")
    put(budget, "d", 50, "web")
    assert (before, budget.would_keep_more(SHELF), put(budget, "c", 40), budget.would_keep_more(SHELF)) == (
        False,
        True,
        "d",
        False,
    )


def test_a_namespace_that_loses_something_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    budget = Budget(100)
    for name in "abcb":
        put(budget, name, 60)
    put(budget, "a", 50, "web")
    drop(budget, "a")
    put(budget, "b", 10)
    said = [(record.levelname, vars(record)["namespace"]) for record in caplog.records]
    for name in "ca":
        drop(budget, name)
    assert (said, vars(caplog.records[-1])["namespace"]) == ([("WARNING", "ml")], "ml")
    assert caplog.messages[-1] == "memory is no longer short: rules see all claims and templates of the namespace"


def test_nothing_stays_of_a_namespace_without_objects() -> None:
    budget = Budget(100)
    for name in ("a", "b"):
        put(budget, name, 60, f"tenant-{name}")
    for name in ("a", "b"):
        drop(budget, name, f"tenant-{name}")
    assert (budget.used, vars(budget)["_shares"], vars(budget)["_out"], vars(budget)["_kept"]) == (0, {}, {}, {})


def test_stubs_count_and_stay() -> None:
    budget = Budget(100)
    entries = [(SHELF, Key("ml", name)) for name in "abcd"]
    gone = [budget.keep(entry, 30, 10) for entry in entries]
    assert (gone, budget.used) == ([[], [], [entries[2]], [entries[3]]], 2 * 40 + 2 * 10)
    budget.forget(entries[0])
    assert (budget.used, budget.would_keep_more(SHELF)) == (60, True)
    assert (budget.keep(entries[2], 30, 10), budget.used) == ([], 90)


def test_a_stub_that_was_always_one_counts_too() -> None:
    budget = Budget(100)
    put(budget, "a", 60)
    assert budget.keep((SHELF, Key("ml", "b")), 0, 50) == [(SHELF, Key("ml", "a"))]
    assert (budget.used, budget.would_keep_more(SHELF)) == (50, False)
    drop(budget, "b")
    assert (budget.used, budget.would_keep_more(SHELF)) == (0, True)


def test_what_grows_as_a_stub_counts_as_it_is_now_and_comes_back_when_there_is_room() -> None:
    budget = Budget(100)
    entry = (SHELF, Key("ml", "a"))
    assert (budget.keep(entry, 101, 10), budget.used) == ([entry], 10)
    assert (budget.keep(entry, 101, 30), budget.used) == ([entry], 30)
    assert (budget.keep(entry, 70, 30), budget.used) == ([], 100)


def test_stubs_of_one_namespace_take_nothing_from_another_that_takes_no_more_than_an_equal_part() -> None:
    budget = Budget(100)
    put(budget, "a", 40, "web")
    for number in range(9):
        assert not budget.keep((SHELF, Key("ml", str(number))), 0, 30)
    assert put(budget, "b", 20, "web") == "a"
    assert budget.used == 20 + 9 * 30


def test_nothing_stays_of_stubs_that_are_gone() -> None:
    budget = Budget(100)
    for size in (0, 90, 200):
        budget.keep((SHELF, Key("ml", str(size))), size, 5)
    for size in (0, 90, 200):
        drop(budget, str(size))
    assert (budget.used, vars(budget)["_shares"], vars(budget)["_out"], vars(budget)["_stubs"]) == (0, {}, {}, {})


@dataclass
class Machine:
    """`files` below the root, with the limits that they have; `own` is /proc/self/cgroup, `want` the limit."""

    files: dict[str, str]
    own: str | None
    want: int | None


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory/memory.limit_in_bytes"
NESTED = "0::/kubepods.slice/pod1.slice/one.scope\n"
MACHINES = {
    "no cgroups": Machine({}, None, None),
    "a container that sees its own cgroup alone": Machine({f"{V2}/memory.max": "536870912\n"}, "0::/\n", 1 << 29),
    "one without a limit": Machine({f"{V2}/memory.max": "max\n"}, "0::/\n", None),
    "a limit that is more than the machine has": Machine({f"{V2}/memory.max": str(1 << 62)}, "0::/\n", None),
    "cgroup v1": Machine({V1: "1048576\n"}, "9:memory:/docker/a\n0::/system.slice\n", 1 << 20),
    "a limit of the process's own cgroup, below the mount": Machine(
        {
            f"{V2}/kubepods.slice/pod1.slice/one.scope/memory.max": "1048576\n",
            f"{V2}/kubepods.slice/pod1.slice/memory.max": "max\n",
        },
        NESTED,
        1 << 20,
    ),
    "a smaller one of a cgroup around it": Machine(
        {
            f"{V2}/kubepods.slice/pod1.slice/one.scope/memory.max": "4194304\n",
            f"{V2}/kubepods.slice/pod1.slice/memory.max": "1048576\n",
            f"{V2}/kubepods.slice/memory.max": "2097152\n",
        },
        NESTED,
        1 << 20,
    ),
    "not one of another cgroup": Machine({f"{V2}/kubepods.slice/pod2.slice/memory.max": "1048576\n"}, NESTED, None),
    "a cgroup that is outside of what is mounted": Machine({f"{V2}/memory.max": "1048576"}, "0::/../other\n", 1 << 20),
    "what is no list of cgroups": Machine({f"{V2}/memory.max": "1048576"}, "none\n", 1 << 20),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_limit_is_the_smallest_around_the_process_or_the_memory_of_the_machine(
    tmp_path: Path, machine: Machine
) -> None:
    whole = memory_limit(tmp_path)
    texts = {**machine.files, **({"proc/self/cgroup": machine.own} if machine.own is not None else {})}
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert (memory_limit(tmp_path), whole > 1 << 20) == (machine.want or whole, True)
