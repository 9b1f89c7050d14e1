"""The devices of a cluster as tiles: free, taken, tainted, and what excludes each from a request.

Nodes whose devices are in the same states share a card.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from tollbar.cli.page.values import Card, Devices, Mark, Pool, Tile, left_out
from tollbar.dra import inventory
from tollbar.dra.allocator import Allocator
from tollbar.dra.exclusions import Exclusion, in_pool, taint_text
from tollbar.dra.inventory import PoolState
from tollbar.dra.requests import Request
from tollbar.dra.slices import Device
from tollbar.explain import devices
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.resources import NODES, RESOURCE_CLAIMS
from tollbar.model.texts import some
from tollbar.offline import Cluster

CARDS: Final = 60
TILES: Final = 64
"""Of one pool."""
VIEWS: Final = 8
"""Requests whose view of the devices is shown."""
_EVERYBODY: Final = "by everybody"
_FREE: Final = Mark("F", "free", "free")
_TAKEN: Final = Mark("T", "taken", "taken by a claim")
_SHARED: Final = Mark("P", "shared", "partly taken: claims share it")
_TAINTED: Final = Mark("!", "tainted", "tainted")
_LETTERS: Final = {
    Exclusion.FREE: _FREE,
    Exclusion.TAKEN: _TAKEN,
    Exclusion.TAINT: _TAINTED,
    Exclusion.SELECTOR: Mark("S", "excluded", "not selected"),
    Exclusion.SELECTOR_FAILED: Mark("E", "excluded", "its selector fails"),
    Exclusion.CAPACITY: Mark("C", "excluded", "without the capacity"),
    Exclusion.OTHER_NODE: Mark("N", "excluded", "for other Nodes"),
    Exclusion.COUNTERS: Mark("#", "excluded", "without counters left"),
    Exclusion.CAPACITY_TAKEN: Mark("L", "excluded", "too little capacity left"),
    Exclusion.NOT_SUPPORTED: Mark("U", "excluded", "not supported"),
}
_OUTSIDE: Final = Mark("-", "excluded", "in no pool that gives devices")
_MARKS: Final = {each.letter: each for each in (*_LETTERS.values(), _SHARED, _OUTSIDE)}
_UNUSABLE: Final = {
    PoolState.INCOMPLETE: "some of its ResourceSlices are missing, so that it gives no devices",
    PoolState.INVALID: "its ResourceSlices contradict each other, so that it gives no devices",
}


@dataclass(frozen=True, slots=True)
class View:
    """The devices as a request sees them, which a Pod has that waits."""

    title: str
    request: Request


def views(cluster: Cluster, waiting: Iterable[Object]) -> list[View]:
    """The requests of these Pods, so many as there may be."""
    found = [
        View(f"by {key_of(pod)}: {request.label}", request)
        for pod in waiting
        for request in devices.requests(cluster, pod)
    ]
    return found[:VIEWS]


def totals(cluster: Cluster) -> Counter[str]:
    """How many devices there are by state (`free`, `taken`, `shared`, `tainted`); each once."""
    seen: dict[DeviceId, str] = {}
    for node in cluster.objects(NODES):
        for pool in cluster.scheduler.dra.inventory.pools(node):
            for device in pool.devices:
                if device.id not in seen:
                    seen[device.id] = _state(cluster, device)[0].tone
    return Counter(seen.values())


def tiles(cluster: Cluster, asked: Sequence[View], first: Collection[str] = ()) -> Devices | None:
    """Cards of the Nodes with devices, None if there are none; those of `first`, by name, come first.

    Pools that several Nodes can use are on a card of their own, one for each set of devices that Nodes see.
    """
    made = partial(_pool, cluster, cluster.scheduler.allocator(), asked)
    alike = defaultdict[object, list[tuple[Object, list[inventory.Pool]]]](list)
    shared: dict[object, tuple[Object, inventory.Pool]] = {}
    nodes = cluster.objects(NODES)
    for node in sorted(nodes, key=lambda node: key_of(node).name not in first):
        own = []
        for pool in sorted(cluster.scheduler.dra.inventory.pools(node), key=lambda pool: pool.order):
            if pool.is_local or pool.state is not PoolState.USABLE:
                own.append(pool)
            else:
                shared.setdefault((pool.id, tuple(each.id for each in pool.devices)), (node, pool))
        if own:
            looks = tuple((pool.id.driver, pool.state, *_letters(cluster, pool, made(node, pool))) for pool in own)
            alike[_taints(node), looks].append((node, own))
    parts = Counter(pool.id for _, pool in shared.values())
    groups = sorted(alike.values(), key=lambda group: key_of(group[0][0]).name not in first)
    cards = [
        Card(
            f"pool {pool.id}{f', as Node {key_of(node).name} sees it' if parts[pool.id] > 1 else ''}",
            1,
            (),
            (made(node, pool, is_detailed=True),),
        )
        for node, pool in list(shared.values())[:CARDS]
    ] + [
        Card(
            key_of(node).name,
            len(group),
            _taints(node),
            tuple(made(node, pool, is_detailed=len(group) == 1) for pool in pools),
        )
        for group in groups[: max(0, CARDS - len(shared))]
        for node, pools in group[:1]
    ]
    if not cards:
        return None
    hidden = left_out(len(shared) + len(groups) - len(cards), "groups of Nodes or pools")
    titles = (_EVERYBODY, *(each.title for each in asked))
    return Devices(titles, tuple(cards), tuple(_legend(cards)), hidden)


def _letters(cluster: Cluster, pool: inventory.Pool, shown: Pool) -> tuple[str, ...]:
    """How the devices stand: those that are shown in every view, those that are not for everybody."""
    hidden = (_state(cluster, each)[0].letter for each in pool.devices[TILES:])
    return *(tile.letters for tile in shown.tiles), *hidden


def _pool(
    cluster: Cluster,
    allocator: Allocator,
    asked: Sequence[View],
    node: Object,
    pool: inventory.Pool,
    *,
    is_detailed: bool = False,
) -> Pool:
    """The pool as this Node and the requests see it; `is_detailed` also says who or what makes a device so."""
    if (note := _UNUSABLE.get(pool.state)) is not None:
        return Pool(str(pool.id), (), note)
    seen = [
        {each.device: each for each in islice(in_pool(allocator, view.request, pool, node), TILES)} for view in asked
    ]
    made = []
    for device in pool.devices[:TILES]:
        mark, detail = _state(cluster, device)
        letters, texts = mark.letter, [mark.text + (f": {detail}" if detail and is_detailed else "")]
        for by_device in seen:
            found = by_device.get(device.id)
            mark = _LETTERS[found.why] if found is not None else _OUTSIDE
            letters += mark.letter
            texts.append(f"{mark.text}: {found.detail}" if found is not None and found.detail else mark.text)
        made.append(Tile(device.id.device, letters, tuple(texts)))
    more = len(pool.devices) - len(made)
    return Pool(str(pool.id), tuple(made), f"{more} more devices are not shown" if more else "")


def _state(cluster: Cluster, device: Device) -> tuple[Mark, str]:
    """How a device is for everybody, and who or what makes it so."""
    holders = cluster.scheduler.dra.claims.holders(device.id)
    if holders:
        is_shared = device.id in cluster.scheduler.dra.claims.state.shares
        names = [f"ResourceClaim {each.claim}{_users(cluster, each.claim)}" for each in holders[:TILES]]
        return (_SHARED if is_shared else _TAKEN), ", ".join(names)
    if device.taints:
        return _TAINTED, ", ".join(map(taint_text, device.taints))
    return _FREE, ""


def _users(cluster: Cluster, key: tuple[str, str]) -> str:
    namespace, name = key
    claim = cluster.get(RESOURCE_CLAIMS, name, namespace) or {}
    used = [str(each.get("name")) for each in claims.reserved_for(claim)]
    return f" of {some(used)}" if used else ""


def _taints(node: Object) -> tuple[str, ...]:
    return tuple(taint_text(each) for each in spec(node).get("taints") or ())


def _legend(cards: Sequence[Card]) -> Iterator[Mark]:
    used = {letter for card in cards for pool in card.pools for tile in pool.tiles for letter in tile.letters}
    yield from (mark for letter, mark in _MARKS.items() if letter in used)
