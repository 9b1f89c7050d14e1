"""What a page has, and that nothing of a tenant's gets into it but as text.

That a browser shows it is tried in tests/integration/test_page.py.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from clusters.scheduler import node
from objects.builders import claim, device_class, namespace, pod, template, toleration, toleration_rule
from objects.devices import allocation, device, exactly, published, selecting, share, shared
from unit.cli.simulating import NOW, configuration, in_file, new, planned, written

from tollbar.cli import main
from tollbar.cli.page import explained, matrix, rendering, simulated, tiles
from tollbar.cli.page.matrix import Row
from tollbar.cli.page.values import Card, Column, Devices, Given, Page, Timeline
from tollbar.cli.simulate import page_of
from tollbar.cli.simulation.playing import play
from tollbar.cli.simulation.verdicts import Rejected
from tollbar.explain import pods as explanations
from tollbar.model.objects import Object
from tollbar.model.resources import PRIORITY_CLASSES
from tollbar.offline import Cluster

TAINTED: Final = Rejected("TaintToleration", "node(s) had untolerated taint(s)")
FULL: Final = Rejected("NodeResourcesFit", "Insufficient cpu")
TAINT: Final = {"key": "example.com/gpu", "effect": "NoSchedule"}
GPUS: Final = [
    namespace(),
    device_class(),
    template().request("gpu"),
    toleration_rule().cel("size(claims) > 0").giving({**TAINT, "operator": "Exists"}),
]
HOSTILE: Final = '</script><script>alert(1)</script>"\u202e\n<img src=x onerror=alert(1)>'


def simulation(objects: list[Any], *pods: Object, **how: Any) -> Page:
    wanted = planned(objects, *pods)
    return page_of(play(wanted, configuration(), for_page=True, **how), wanted, configuration())


def matrix_letters(found: Page) -> list[list[str]]:
    """Of the cells of the matrix, by row."""
    assert found.matrix is not None
    return [[cell.letter for cell in row.cells] for row in found.matrix.rows]


def timeline(found: Page) -> Timeline:
    assert found.timeline is not None
    return found.timeline


# The matrix.


def test_nodes_of_which_all_pods_hear_the_same_are_one_column() -> None:
    rows = [Row("0", "a", verdicts={"n1": TAINTED, "n2": TAINTED, "n3": None}), Row("1", "b", on={"n3": 2})]
    found = matrix.matrix(rows, ["n1", "n2", "n3", "n4"])
    assert found is not None
    assert [row.row for row in found.rows] == ["0", "1"]
    assert found.columns == (Column("n3", 1), Column("n1", 2), Column("n4", 1))
    assert [[cell.letter for cell in row.cells] for row in found.rows] == [["○", "T", "–"], ["●", "–", "–"]]
    assert found.rows[0].cells[1].text == "TaintToleration: node(s) had untolerated taint(s)"
    assert [(mark.letter, mark.text) for mark in found.legend] == [
        ("–", "not looked at"),
        ("○", "fits"),
        ("T", "TaintToleration"),
        ("●", "Pods got this Node"),
    ]


def test_a_matrix_is_bounded_and_says_what_is_left_out() -> None:
    names = [f"n{number}" for number in range(1000)]
    rows = [Row(f"{number}", f"p{number}", verdicts={names[number]: FULL}) for number in range(100)]
    found = matrix.matrix(rows, names)
    assert found is not None
    assert (len(found.rows), len(found.columns)) == (matrix.ROWS, matrix.COLUMNS)
    shown = sum(column.count for column in found.columns)
    assert found.left_out == f"Not shown: 40 more rows of Pods and {1000 - shown} more Nodes, which are in 13 groups."


# The devices.

LETTERS: dict[str, tuple[list[Any], str]] = {
    "are free": ([published("s", "d1", "d2")], "FF"),
    "are taken": ([published("s", "d1", "d2"), claim("c").but("status.allocation", allocation("d2"))], "FT"),
    "are shared": (
        [
            published("s", shared("d1", memory="10")),
            claim("c").but("status.allocation", allocation(share("d1", memory="4"))),
        ],
        "P",
    ),
    "are tainted": ([published("s", {"name": "d1", "taints": [TAINT]})], "!"),
}


@pytest.mark.parametrize(("objects", "letters"), LETTERS.values(), ids=LETTERS)
def test_devices_that(objects: list[Any], letters: str) -> None:
    ((card,), texts) = cards(objects)
    assert "".join(tile.letters for tile in card.pools[0].tiles) == letters
    assert all(texts)


def cards(objects: list[Any]) -> tuple[tuple[Card, ...], list[str]]:
    cluster = Cluster([node("n1"), *objects], now=NOW)
    found = shown(cluster)
    return found.cards, [tile.texts[0] for card in found.cards for pool in card.pools for tile in pool.tiles]


def shown(cluster: Cluster, waiting: Sequence[Object] = (), first: Sequence[str] = ()) -> Devices:
    found = tiles.tiles(cluster, tiles.views(cluster, waiting), first)
    assert found is not None
    return found


def test_a_cluster_without_devices_has_no_cards() -> None:
    assert tiles.tiles(Cluster([node("n1")], now=NOW), []) is None


def test_a_tile_says_who_holds_the_device() -> None:
    held = claim("c").but("status.allocation", allocation("d1"))
    _, texts = cards([published("s", "d1"), held.reserved({"resource": "pods", "name": "train", "uid": "u"})])
    assert texts == ["taken by a claim: ResourceClaim ml/c of train"]


def test_a_pool_that_gives_no_devices_says_why() -> None:
    ((card,), texts) = cards([published("s", "d1").but("spec.pool.resourceSliceCount", 2)])
    assert texts == []
    assert card.pools[0].note == "some of its ResourceSlices are missing, so that it gives no devices"


def test_nodes_whose_devices_stand_alike_are_one_card_and_shared_pools_another() -> None:
    cluster = Cluster(
        [
            *(node(f"n{number}") for number in range(3)),
            *(published(f"s{number}", "d1", node=f"n{number}") for number in range(3)),
            published("net", "nic", node="", pool="net", allNodes=True).but("spec.nodeName", None),
            claim("c").but(
                "status.allocation",
                allocation({"request": "r0", "driver": "gpu.example.com", "pool": "n2", "device": "d1"}),
            ),
        ],
        now=NOW,
    )
    found = shown(cluster, first=["n2"])
    assert [(card.label, card.count) for card in found.cards] == [
        ("pool gpu.example.com/net", 1),
        ("n2", 1),
        ("n0", 2),
    ]
    assert tiles.totals(cluster) == {"free": 3, "taken": 1}


def test_nodes_with_devices_of_unlike_drivers_are_two_cards() -> None:
    nic = published("s2", "nic0", node="n2").but("spec.driver", "nic.example.com")
    found = shown(Cluster([node("n1"), node("n2"), published("s1", "gpu0"), nic], now=NOW))
    assert [(card.label, card.count, card.pools[0].name) for card in found.cards] == [
        ("n1", 1, "gpu.example.com/n1"),
        ("n2", 1, "nic.example.com/n2"),
    ]


def test_nodes_whose_devices_a_request_sees_unlike_are_two_cards() -> None:
    waiting, asked = asking_for("h100")
    nodes = [(f"n{number}", model) for number, model in enumerate(("a100", "h100", "a100"))]
    given = [
        obj
        for name, model in nodes
        for obj in (node(name), published(f"s-{name}", device("d1", model=model), node=name))
    ]
    cluster = Cluster([device_class(), *asked, *given], now=NOW)
    found = shown(cluster, [waiting])
    assert [(card.label, card.count, card.pools[0].tiles[0].letters) for card in found.cards] == [
        ("n0", 2, "FS"),
        ("n1", 1, "FF"),
    ]


def test_a_shared_pool_is_a_card_for_each_set_of_devices_that_nodes_see() -> None:
    racks = [("n1", "a"), ("n2", "b"), ("n3", "b")]
    given = [
        published(f"net-{rack}", f"port-{rack}", node="", pool="net", nodeSelector=in_rack(rack))
        .but("spec.nodeName", None)
        .but("spec.pool.resourceSliceCount", 2)
        for rack in ("a", "b")
    ]
    nodes = [node(name).but("metadata.labels", {"rack": rack}) for name, rack in racks]
    found = shown(Cluster([*nodes, *given], now=NOW))
    assert [(card.label, [tile.name for tile in card.pools[0].tiles]) for card in found.cards] == [
        ("pool gpu.example.com/net, as Node n1 sees it", ["port-a"]),
        ("pool gpu.example.com/net, as Node n2 sees it", ["port-b"]),
    ]


def in_rack(rack: str) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]}


def asking_for(model: str) -> tuple[Object, list[Object]]:
    """A Pod that waits for a device of this model, and it with its claim."""
    selector = selecting(f'device.attributes["gpu.example.com"].model == "{model}"')
    waiting = pod().claims("c")
    return waiting, [
        claim("c").but("spec.devices", {"requests": [exactly("r0", selectors=selector)]}),
        waiting,
    ]


def test_devices_are_shown_as_a_request_sees_them() -> None:
    waiting, asked = asking_for("h100")
    given = published("s", device("d1", model="a100"), device("d2", model="h100"))
    cluster = Cluster([node("n1"), device_class(), given, *asked], now=NOW)
    found = shown(cluster, [waiting])
    assert found.views == ("by everybody", "by ml/web: claim ml/c, request r0")
    assert [tile.letters for tile in found.cards[0].pools[0].tiles] == ["FS", "FF"]
    assert {mark.letter for mark in found.legend} == {"F", "S"}


def test_devices_are_bounded() -> None:
    objects: list[Any] = []
    for number in range(200):
        names = [f"d{place}" for place in range(number % 100 + 1)]
        objects += [node(f"m{number}"), published(f"s{number}", *names, node=f"m{number}")]
    found = shown(Cluster(objects, now=NOW))
    assert (len(found.cards), found.left_out) == (tiles.CARDS, "Not shown: 40 more groups of Nodes or pools.")
    assert max(len(pool.tiles) for card in found.cards for pool in card.pools) <= tiles.TILES


# A simulation.


def test_the_page_of_a_simulation_has_all_of_it() -> None:
    objects = [*GPUS, node("gpu-1", taints=[TAINT]), published("s", "d1", node="gpu-1")]
    found = simulation(objects, new("first").templates("gpu"), new("second").templates("gpu"), new("plain"))
    assert found.headline == "1 of 3 Pods get a Node"
    assert {(each.label, each.value) for each in found.figures} >= {
        ("Pods", "3"),
        ("devices", "1"),
        ("of them free", "0"),
    }
    assert [(row.label, row.state, row.answer) for row in found.pods.rows] == [
        ("ml/second", "pending", "why-0"),
        ("ml/plain", "pending", "why-1"),
        ("ml/first", "placed", ""),
    ]
    assert [(each.id, each.label, str(each.findings[0].cause)) for each in found.answers] == [
        ("why-0", "ml/second", "DeviceTaken"),
        ("why-1", "ml/plain", "UntoleratedTaint"),
    ]
    assert matrix_letters(found) == [["D"], ["T"], ["●"]]
    assert found.devices is not None
    assert [tile.letters for tile in found.devices.cards[0].pools[0].tiles] == ["TT"]
    (given,) = found.tolerations.rows
    assert (given.rule, given.toleration, given.via, given.count) == (
        "gpu",
        "example.com/gpu:NoSchedule op=Exists",
        "gate",
        2,
    )


def test_a_bar_has_the_time_that_a_pod_was_held_and_waited() -> None:
    objects = [namespace(), template().request("gpu"), GPUS[-1], node("n1")]
    bars = timeline(simulation(objects, new().templates("gpu"))).bars
    ((held, *others),) = [bar.segments for bar in bars]
    assert (held.kind, held.begin, held.end) == ("held", 0.0, 60.0)
    assert others == []
    assert bars[0].text == "held for 60 s, has no Node"


def test_a_pod_that_waits_has_a_bar_however_soon_the_simulation_ends() -> None:
    found = simulation([namespace(), node("n1")], new().but("spec.schedulerName", "other"))
    (bar,) = timeline(found).bars
    assert (timeline(found).seconds, [each.kind for each in bar.segments]) == (0.0, ["waiting"])


def test_a_pod_that_was_refused_waits_for_nothing() -> None:
    found = simulation([namespace(), node("n1")], new().but("spec.priorityClassName", "high"))
    assert [(row.label, row.state) for row in found.pods.rows] == [("ml/web", "refused")]
    assert (found.timeline, found.answers, found.notes) == (None, (), ())


def test_many_pods_of_one_outcome_are_one_row_and_one_explanation() -> None:
    count = simulated.ROWS + 20
    found = simulation([namespace(), node("n1", cpu="100")], new().wants({"cpu": "1"}), replicas=count)
    assert [(row.count, row.state) for row in found.pods.rows] == [(count - 10, "pending"), (10, "placed")]
    assert [answer.count for answer in found.answers] == [count - 10]
    assert [row.count("●") for row in matrix_letters(found)] == [0, 1]


def test_an_explanation_says_how_many_wait_alike_where_each_has_a_row() -> None:
    found = simulation([namespace(), node("n1", cpu="1")], new().wants({"cpu": "1"}), replicas=4)
    assert [row.state for row in found.pods.rows] == ["pending", "pending", "pending", "placed"]
    assert [answer.count for answer in found.answers] == [3]


def test_the_page_of_a_large_simulation_is_bounded() -> None:
    pods = [new(f"{'p' * 200}-{number}").wants({"cpu": f"{number + 100}"}) for number in range(simulated.ROWS + 20)]
    found = simulation([namespace(), *(node(f"n{number}") for number in range(20))], *pods)
    assert len(found.answers) == simulated.ANSWERS
    assert found.pods.left_out == "Not shown: 20 more Pods."
    assert found.notes == ("Not shown: 300 more groups of waiting Pods, which are not explained.",)
    assert len(rendering.html(found)) < 3_000_000


def test_a_thousand_rules_are_bounded_in_every_section() -> None:
    """Each gives a toleration to a Pod that none of them helps, and another thousand wait for a claim."""
    count = 1000
    held = [
        toleration_rule(f"held-{number}").cel("size(claims) > 0").giving(toleration(f"example.com/held-{number}"))
        for number in range(count)
    ]
    true = [
        toleration_rule(f"true-{number}").cel("true").giving(toleration(f"example.com/true-{number}"))
        for number in range(count)
    ]
    found = simulation([namespace(), node("n1", taints=[TAINT]), *true, *held], new("a"), new("b").claims("gone"))
    assert len(found.tolerations.rows) == 100
    assert found.tolerations.left_out == "Not shown: 1900 more tolerations."
    assert [row.rules.rpartition(" and ")[2] for row in found.pods.rows] == ["992 more"] * 2
    assert {
        (table.title, len(table.rows), table.count, table.left_out)
        for each in found.answers
        for table in each.tables
        if table.title in ("Rules", "Tolerations")
    } >= {("Rules", 50, 2 * count, "Not shown: 1950 more rows.")}
    assert len(rendering.html(found)) < 300_000


def test_a_pod_that_was_preempted_says_so() -> None:
    """Two fit; the next two of high priority take the place of the one of low priority."""
    important = {**PRIORITY_CLASSES.type_meta, "metadata": {"name": "high"}, "value": 1000}
    low = new("low").wants({"cpu": "4"})
    high = new("high").wants({"cpu": "4"}).but("spec.priorityClassName", "high")
    found = simulation([namespace(), node("n1", cpu="8"), important], low, high, replicas=0)
    rows = {row.label: row for row in found.pods.rows}
    assert {name: (row.state, row.state_text, row.answer) for name, row in rows.items() if row.state != "pending"} == {
        "ml/low-1": ("gone", "preempted", ""),
        "ml/high-1": ("placed", "has a Node", ""),
        "ml/high-2": ("placed", "has a Node", ""),
    }
    assert found.pods.states == (("pending", "waits"), ("placed", "has a Node"), ("gone", "preempted"))
    (bar,) = (each for each in timeline(found).bars if each.row == rows["ml/low-1"].id)
    assert [each.kind for each in bar.segments] == ["running"]
    assert bar.text == "has a Node after 0 s, preempted after 30 s"


def test_how_many_fit_is_the_headline() -> None:
    assert simulation([namespace(), node("n1")], new().wants({"cpu": "1"}), replicas=0).headline == "4 fit"


# One Pod.


def test_the_page_of_a_pod_that_waits() -> None:
    waiting = pod().wants({"cpu": "8"})
    cluster = Cluster([node("n1"), node("n2", taints=[TAINT]), waiting], now=NOW)
    event = {"reason": "FailedScheduling", "note": "no", "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    found = explained.page(cluster, waiting, explanations.explain(cluster, waiting), [event])
    assert (found.headline, found.title) == ("Why this Pod waits", "Pod ml/web")
    assert matrix_letters(found) == [["R", "T"]]
    assert "FailedScheduling: no" in [each.what for each in timeline(found).moments]
    assert found.subtitle.startswith("NodeTooSmall: ")


def test_the_page_of_a_pod_that_runs() -> None:
    running = pod().but("spec.nodeName", "n1")
    cluster = Cluster([node("n1"), running], now=NOW)
    found = explained.page(cluster, running, explanations.explain(cluster, running))
    assert (found.headline, found.pods.rows[0].state) == ("This Pod has a Node", "placed")
    assert matrix_letters(found) == [["●"]]


def test_the_page_of_a_pod_has_the_tolerations_that_rules_gave_it() -> None:
    added = toleration("example.com/gpu")
    record = json.dumps([{"rule": "rule a, b", "generation": 1, "added": [added], "via": "late"}])
    waiting = pod().tolerating(toleration("example.com/own"), added).annotated({"tollbar.dev/tolerations": record})
    cluster = Cluster([node("n1"), waiting], now=NOW)
    found = explained.page(cluster, waiting, explanations.explain(cluster, waiting))
    assert found.tolerations.rows == (
        Given("rule a, b", "example.com/gpu:NoSchedule op=Exists", "late", 1, ("ml/web",)),
    )
    assert found.pods.rows[0].rules == "rule a, b"


def test_the_moments_of_a_pod_are_bounded_and_the_last_ones_are_kept() -> None:
    waiting = pod()
    cluster = Cluster([node("n1"), waiting], now=NOW)
    events = (
        [
            {"reason": "Again", "note": str(day), "metadata": {"creationTimestamp": f"2027-01-{day:02}T00:00:00Z"}}
            for day in range(1, 32)
            for _ in range(2)
        ]
        + [
            {"reason": "Other", "note": str(day), "metadata": {"creationTimestamp": f"2027-02-{day:02}T00:00:00Z"}}
            for day in range(1, 29)
        ]
        + [{"reason": "Last", "note": "x", "metadata": {"creationTimestamp": "2027-03-01T00:00:00Z"}}]
    )
    found = timeline(explained.page(cluster, waiting, explanations.explain(cluster, waiting), events))
    assert (len(found.moments), found.moments[-1].what) == (explained.MOMENTS, "Last: x")
    assert found.left_out.endswith(" more moments before these.")


# HTML.


class Read(HTMLParser):
    """The elements of a page, and the addresses that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "action", "data")]
        self.ids += [str(value) for name, value in attrs if name == "id"]


@pytest.fixture(scope="module")
def full() -> Page:
    objects = [*GPUS, node("gpu-1", taints=[TAINT]), published("s", "d1", node="gpu-1")]
    return simulation(objects, new("first").templates("gpu"), new("second").templates("gpu"))


def test_a_page_loads_nothing_and_links_to_itself_alone(full: Page) -> None:
    read = Read(rendering.html(full))
    assert set(read.addresses) <= {f"#{each}" for each in read.ids}
    assert {"link", "img", "iframe", "object"}.isdisjoint(read.tags)
    assert (read.tags.count("script"), read.tags.count("style")) == (1, 1)
    assert len(read.ids) == len(set(read.ids))


def hostile(value: Any) -> Any:
    """The page with this text in the place of every text."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, tuple):
        return tuple(map(hostile, value))
    fields = getattr(value, "__dataclass_fields__", {})
    kept = {"state", "kind", "tone", "letter", "letters", "cause", "answer", "id", "row"}
    return (
        replace(value, **{name: hostile(getattr(value, name)) for name in fields if name not in kept})
        if fields
        else value
    )


def test_whatever_is_written_in_names_is_text(full: Page) -> None:
    text = rendering.html(hostile(full))
    read = Read(text)
    assert (read.tags.count("script"), read.tags.count("img")) == (1, 0)
    assert "\u202e" not in text
    assert "<script>alert" not in text
    assert r"\u202e" in text


def test_the_same_page_is_the_same_file(full: Page) -> None:
    assert rendering.html(full) == rendering.html(full)


def test_no_script_and_no_style_runs_but_those_of_the_page(full: Page) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', rendering.html(full))
    assert re.fullmatch(
        r"default-src &#39;none&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;; "
        r"style-src &#39;sha256-\S+&#39;; script-src &#39;sha256-\S+&#39;",
        policy,
    )


# The command.


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    given = written(node("n1"), in_file())
    target = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["simulate", "-f", "-", "--html", str(target)], input=given)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (0, f"{target}: written")
    assert target.read_text().startswith("<!doctype html>")
    done = CliRunner().invoke(main, ["simulate", "-f", "-", "--html", str(tmp_path / "no" / "x")], input=given)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        f"Error: cannot write {tmp_path}/no/x: No such file or directory",
    )
