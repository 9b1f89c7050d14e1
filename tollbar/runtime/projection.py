"""Projections: what a cache keeps of each object of a kind, as the TransformFunc of client-go.

Most are a `Keep`, which keeps the metadata and some members.  It may have a limit: of an object that is larger it keeps
a stub (`tollbar.model.objects.is_stub`), by which others know that the object exists.

Invariants: a projection keeps at least the identity and the resourceVersion; it does not change the object that it is
given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tollbar.model import managers
from tollbar.model.flat import Path
from tollbar.model.objects import STUB, Object, is_stub, metadata, picked
from tollbar.runtime.footprint import footprint
from tollbar.runtime.sharing import sharing

_PLACE: Final = 300
"""Bytes for the key of an object, its place in the store and the budget, and its values in indexes."""
_IDENTITY: Final = ("namespace", "name", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")

Projection: TypeAlias = Callable[[Object], Object]


def drop_managed_fields(obj: Object) -> Object:
    """The object without `metadata.managedFields`, which take much memory and which few read (`Keep.managers`)."""
    meta = metadata(obj)
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def _nothing_more(_meta: Object) -> Object:
    return {}


class Weight(NamedTuple):
    """About how many bytes of memory an object takes: its metadata and spec; what its stub saves of them; the stub.

    Of a stub the first two are 0.
    """

    whole: int
    spares: int
    stub: int


UNCOUNTED: Final = Weight(0, 0, 0)
"""The weight of what is kept without a limit."""


@dataclass(frozen=True, slots=True)
class Keep:
    """A projection to the metadata and these members of an object, each an object itself, such as spec and status.

    With `managers`, the part of `metadata.managedFields` is kept that `tollbar.model.managers` reads, else nothing.
    What is at the paths of `shared` is kept in memory once where it is equal.

    With `most`, an object of which metadata and spec take more bytes of memory becomes a stub: nothing is kept of it
    but its identity, what `stub_metadata` returns of the metadata that are kept, and whole what `anyway` names, members
    and "metadata".  So does a smaller one for which the budget of the store has no room (`tollbar.runtime.budget`).
    What `stub_metadata` returns must have a bounded size, whatever it is given.

    `|` makes a projection that keeps what either one keeps.  It raises ValueError for two that differ in
    `stub_metadata`.
    """

    members: frozenset[str] = frozenset()
    managers: bool = False
    shared: frozenset[Path] = frozenset()
    most: int | None = None
    anyway: frozenset[str] = frozenset()
    stub_metadata: Callable[[Object], Object] = _nothing_more

    def __call__(self, obj: Object) -> Object:
        return self.limited(self.kept(obj))[0]

    def __or__(self, other: "Keep") -> "Keep":
        return Keep(
            self.members | other.members,
            self.managers or other.managers,
            self.shared | other.shared,
            *_limits(self, other),
        )

    def kept(self, obj: Object) -> Object:
        """What is kept of an object unless it is too large."""
        meta = metadata(obj)
        if not self.managers:
            meta = metadata(drop_managed_fields(obj))
        elif "managedFields" in meta:
            meta = {**meta, "managedFields": managers.reduced(obj)}
        return {"metadata": meta, **{member: obj.get(member) or {} for member in self.members}}

    def limited(self, kept: Object) -> tuple[Object, Weight]:
        """What `kept` has returned, or the stub of that if it is too large; and the weight of this."""
        weight = self.weigh(kept)
        if self.most is not None and weight.whole > self.most:
            kept, weight = self.stub(kept), Weight(0, 0, weight.stub)
        return (sharing(kept, self.shared) if self.shared else kept), weight

    def weigh(self, kept: Object) -> Weight:
        """The weight of what this projection has kept of an object; `UNCOUNTED` without a limit.

        A stub counts with its place in the store, and beside that with at most `most` bytes: so does one that is nested
        too deeply to be written.
        """
        if self.most is None:
            return UNCOUNTED
        stub = self.stub(kept)
        takes = min(self.most, footprint(stub)) + _PLACE
        if is_stub(kept):
            return Weight(0, 0, takes)
        whole = footprint(metadata(kept), kept.get("spec"))
        return Weight(whole, max(0, whole - footprint(metadata(stub), stub.get("spec"))), takes)

    def stub(self, kept: Object) -> Object:
        """The stub of what this projection has kept of an object."""
        meta = metadata(kept)
        if "metadata" not in self.anyway:
            meta = {**picked(meta, _IDENTITY), **self.stub_metadata(meta)}
        members = {member: kept[member] if member in self.anyway else {} for member in self.members}
        return {"metadata": meta, **members, STUB: True}


def _limits(one: Keep, other: Keep) -> tuple[int | None, frozenset[str], Callable[[Object], Object]]:
    """`most`, `anyway` and `stub_metadata` of the two together.

    What one without a limit keeps, stubs have whole.
    """
    limited = [each.most for each in (one, other) if each.most is not None]
    if not limited:
        return None, frozenset(), _nothing_more
    kept = (each.anyway if each.most is not None else each.members | {"metadata"} for each in (one, other))
    first, *others = {one.stub_metadata, other.stub_metadata} - {_nothing_more} or {_nothing_more}
    if others:
        raise ValueError("two projections of the metadata of stubs")
    return max(limited), frozenset().union(*kept), first
