"""How each array was walked: the distances from one access to the next, and the share of accesses of each.

The engine knows them by instruction: of loops that advance evenly from their registers, of other code from a
sample. How often an instruction ran is exact. Where several instructions of a loop take turns, as in an
unrolled one, the distance is that from one of them to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from .base import StrideShare

if TYPE_CHECKING:
    from ..instrument.engine import Engine
    from ..instrument.paths import LoopPath

MOST = 4
"""Strides of an array told of; the rest is put together with those that never came again."""


@dataclass(frozen=True)
class AccessStrides:
    """What was seen of one access of a block.

    Attributes
    ----------
    bytes, times
        Of one access, and how many there were.
    store
        Whether it stores (also).
    last
        Address of the last one looked at, along with those of the block's other accesses.
    array
        Number of the array that is in; -1 for none.
    seen
        (stride, array) with how often it was seen.
    other
        How often there were strides that did not come again.
    """

    bytes: int
    times: int
    store: bool
    last: int
    array: int
    seen: Mapping[tuple[int, int], int]
    other: int

    @property
    def main(self) -> int | None:
        """The stride of more than half of what was seen, ``None`` if none is."""
        total = sum(self.seen.values()) + self.other
        best = max(self.seen, key=lambda key: self.seen[key], default=None)
        return best[0] if best is not None and 2 * self.seen[best] > total else None


def histogram(blocks: Iterable[Sequence[AccessStrides]], names: Sequence[str]) -> tuple[StrideShare, ...]:
    """Return, array by array, the strides with most accesses.

    Parameters
    ----------
    blocks
        The accesses of each loop or block.
    names
        Of the arrays, by number.
    """
    found: dict[int, dict[tuple[int | None, int, bool], float]] = defaultdict(lambda: defaultdict(float))
    for accesses in blocks:
        together = _taking_turns(accesses)
        for number, access in enumerate(accesses):
            total = sum(access.seen.values()) + access.other
            if not access.times:
                continue
            if not total:  # nothing before it to be a distance from
                found[access.array][None, access.bytes, False] += access.times
                continue
            for (stride, array), weight in access.seen.items():
                period, whole = together.get((number, stride), (stride, abs(stride) <= access.bytes))
                found[array][period, access.bytes, whole] += access.times * weight / total
            found[access.array][None, access.bytes, False] += access.times * access.other / total
    return tuple(
        share for array in sorted(found) if array >= 0 for share in _most(names[array], found[array])
    )


def accesses(engine: Engine, hot: Iterable[LoopPath]) -> Iterable[list[AccessStrides]]:
    """Return what was seen of the accesses of each loop, and of each block that is in none."""
    from ..instrument.decode import COMPRESSED, GATHERED, LOAD, MASKED, NON_TEMPORAL, STORE, STRING, UPDATE

    def size_and_times(one: Any, times: int) -> tuple[int, int]:
        if one.form in (MASKED, COMPRESSED):
            return one.bytes * one.lanes, times
        if one.form == STRING:  # as often as was looked at: how long the strings were in all is not recorded
            return one.bytes, sum(bucket.weight for bucket in one.stride)
        return one.bytes, times * (one.lanes if one.form == GATHERED else 1)

    loop_of = {address: path.addresses[0] for path in hot for address in path.addresses}
    found: dict[int, list[AccessStrides]] = {}
    for block, times, seen in engine.strides():
        found.setdefault(loop_of.get(block.guest, block.guest), []).extend(
            AccessStrides(
                *size_and_times(one, times),
                one.kind in (STORE, NON_TEMPORAL, UPDATE),
                one.last,
                one.array,
                {(bucket.stride, bucket.array): bucket.weight for bucket in one.stride if bucket.weight},
                one.other,
            )
            for one in seen
            if one.kind in (LOAD, STORE, NON_TEMPORAL, UPDATE)
        )
    return found.values()


def _taking_turns(accesses: Sequence[AccessStrides]) -> dict[tuple[int, int], tuple[int, bool]]:
    """Return, by number of the access and its stride, the distance to the next access of the same kind.

    With it whether the accesses together leave nothing out.
    """
    groups: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for number, access in enumerate(accesses):
        if access.main:
            groups[access.array, access.main, access.store].append(number)
    found = {}
    for (_, stride, _), numbers in groups.items():
        pieces = {(accesses[n].last % abs(stride), accesses[n].bytes) for n in numbers}
        period = _period(pieces, abs(stride))
        whole = _covers({(at % period, size) for at, size in pieces}, period)
        for number in numbers:
            found[number, stride] = (period if stride > 0 else -period), whole
    return found


def _period(pieces: set[tuple[int, int]], stride: int) -> int:
    """Return the shortest distance after which the pieces of a stride are the same again."""
    offsets = sorted(at for at, _ in pieces)
    step = stride
    for at in offsets:
        step = gcd(step, at - offsets[0])
    for period in range(step, stride, step) if step else ():
        if stride % period == 0 and {((at + period) % stride, size) for at, size in pieces} == pieces:
            return period
    return stride


def _covers(pieces: set[tuple[int, int]], period: int) -> bool:
    ordered = sorted(pieces)
    ordered += [(at + period, size) for at, size in ordered]
    end = first = ordered[0][0]
    for at, size in ordered:
        if at > end:
            return False
        end = max(end, at + size)
    return end >= first + period


def _most(name: str, strides: Mapping[tuple[int | None, int, bool], float]) -> list[StrideShare]:
    total = sum(strides.values())
    if not total:
        return []
    known = sorted((key for key in strides if key[0] is not None), key=lambda key: (-strides[key], str(key)))
    shown = [
        StrideShare(name, stride, size, whole, number / total, round(number))
        for stride, size, whole in known[:MOST]
        if (number := strides[stride, size, whole])
    ]
    rest = total - sum(strides[key] for key in known[:MOST])
    if rest > 1e-9 * total:
        shown.append(StrideShare(name, None, None, False, rest / total, round(rest)))
    return shown
