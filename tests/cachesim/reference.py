"""A slow cache hierarchy that is easy to believe: the yardstick for the C one.

Sets are Python lists, see ``replacement.py``. Where a line goes (its physical number and its set) is asked of
the model under test; everything else is written from the description in ``cachesim.h``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from counteroof.machine.model import Prefetch

LOAD, STORE, NON_TEMPORAL, PREFETCH, FLUSH, UPDATE, FENCE = range(7)
COMBINERS = 10
TRACKERS = 10


@dataclass
class Entry:
    line: int
    dirty: bool


@dataclass
class Level:
    policy: Any
    fill: str
    set_of: Callable[[int], int]
    sets: dict[int, list[Entry | None]] = field(default_factory=lambda: defaultdict(list))
    hits: int = 0
    misses: int = 0
    down: int = 0

    def find(self, line: int) -> Entry | None:
        return next((entry for entry in self.sets[self.set_of(line)] if entry and entry.line == line), None)

    def remove(self, line: int) -> Entry | None:
        entry = self.find(line)
        if entry:
            number = self.set_of(line)
            self.policy.remove(number, self.sets[number], entry)
        return entry

    def used(self, entry: Entry) -> None:
        number = self.set_of(entry.line)
        self.policy.used(number, self.sets[number], entry)

    def missed(self, line: int) -> None:
        self.misses += 1
        self.policy.missed(self.set_of(line))

    def insert(self, line: int, dirty: bool) -> Entry | None:
        """Take a line in; return what had to go."""
        number = self.set_of(line)
        victim: Entry | None = self.policy.take_in(number, self.sets[number], Entry(line, dirty))
        return victim


@dataclass
class PageStream:
    """Of a page: the last line asked for, the step to it, how often that came, how far ahead lines came."""

    last: int
    step: int = 0
    times: int = 0
    ahead: int = 0


@dataclass
class Tracker:
    """A line that a store missed and that was not read yet."""

    written: set[int]
    opened_by: int


class Hierarchy:
    def __init__(
        self,
        levels: list[Level],
        line_bytes: int,
        line_of: Callable[[int], int],
        *,
        evaded: int = 0,
        masked: bool = False,
        draw: Callable[[], int] | None = None,
        prefetch: Prefetch | None = None,
    ) -> None:
        self.prefetch = prefetch or Prefetch()
        self.streams: dict[int, PageStream] = {}  # by page; last asked for last
        self.prefetching = False
        self.prefetches = 0  # lines that level 2 had to get
        self.waiting: set[int] = set()  # prefetched from memory, not asked for yet
        self.prefetched: Counter[int] = Counter()
        self.unused: Counter[int] = Counter()
        self.useful: Counter[int] = Counter()  # reads that were of use
        self.evaded = evaded  # of 65536 lines written whole
        self.masked = masked
        self.draw = draw
        self.trackers: dict[int, Tracker] = {}  # by line; last stored to last
        self.evaded_lines: Counter[int] = Counter()
        self.levels = levels
        self.line_bytes = line_bytes
        self.line_of = line_of  # virtual line number to physical
        self.reads: Counter[int] = Counter()
        self.write_allocates: Counter[int] = Counter()
        self.writes: Counter[int] = Counter()
        self.read_for_store: set[int] = set()  # lines whose first read was for a store
        self.loaded: set[int] = set()  # lines a load touched before any store did
        self.stored: set[int] = set()
        # line: bytes written, rest known, opened by; oldest use first
        self.combiners: dict[int, tuple[set[int], bool, int]] = {}
        self.non_temporal = 0
        self.partial = 0
        self.origin = 0  # number of the access that is made
        self.reads_by: Counter[int] = Counter()
        self.writes_by: Counter[int] = Counter()
        self.dirtied_by: dict[int, int] = {}
        self.unwritten: set[int] = set()  # lines of dirtied_by not written to memory since

    def reset(self) -> None:
        self.drain()
        for level in self.levels:
            level.hits = level.misses = level.down = 0
        for counter in (
            self.reads,
            self.write_allocates,
            self.writes,
            self.reads_by,
            self.writes_by,
            self.evaded_lines,
            self.prefetched,
            self.unused,
            self.useful,
        ):
            counter.clear()
        for lines in (self.read_for_store, self.loaded, self.stored, self.waiting):
            lines.clear()
        self.prefetches = 0
        self.non_temporal = self.partial = 0

    # ---- accesses

    def access(self, address: int, nbytes: int, kind: int) -> None:
        if kind == FENCE:
            self.fence()
            return
        covered: dict[int, set[int]] = defaultdict(set)
        for byte in range(address, address + nbytes):
            covered[byte // self.line_bytes].add(byte % self.line_bytes)
        for virtual in sorted(covered):
            line = self.line_of(virtual)
            if kind in (LOAD, UPDATE) and line not in self.stored:
                self.loaded.add(line)
            if kind in (STORE, UPDATE, NON_TEMPORAL):
                self.stored.add(line)
            if kind in (LOAD, PREFETCH):
                self.demand(line, set())
            elif kind == STORE:
                self.demand(line, covered[virtual])
            elif kind == UPDATE:
                self.demand(line, set())
                self.demand(line, covered[virtual])
            elif kind == FLUSH:
                self.untrack(line)
                self.close(line)
                self.flush(line)
            elif kind == NON_TEMPORAL:
                self.combine(line, covered[virtual])

    def demand(self, line: int, written: set[int]) -> None:
        """Load a line, or store bytes to it."""
        first, store = self.levels[0], bool(written)
        if line in self.trackers:
            first.hits += 1
            if store:
                self.track(line, written)
            else:
                self.untrack(line)
            return
        entry = first.find(line)
        if entry:
            first.hits += 1
            if store and not entry.dirty:
                self.dirtied(line)
            entry.dirty |= store
            first.used(entry)
            return
        first.missed(line)
        self.close(line)
        if store and self.evaded and not any(level.find(line) for level in self.levels):
            for level in self.levels[1:]:
                level.missed(line)
            self.dirtied(line)
            if len(self.trackers) == TRACKERS:
                self.untrack(next(iter(self.trackers)))
            self.trackers[line] = Tracker(set(), self.origin)
            self.track(line, written)
            return
        missed = len(self.levels) > 1 and not self.levels[1].find(line)
        dirty = self.fetch(1, line, store)
        if store and not dirty:
            self.dirtied(line)
        self.take_in(0, line, dirty or store)
        if self.prefetch.adjacent or self.prefetch.stream:
            self.tell_prefetchers(line, store, missed)

    def tell_prefetchers(self, line: int, store: bool, missed: bool) -> None:
        if line in self.waiting:
            self.waiting.discard(line)
            self.of_use(line, store)
        if self.prefetch.adjacent and missed:
            self.bring(line ^ 1)
        if self.prefetch.stream:
            self.follow(line)

    def follow(self, line: int) -> None:
        lines = 4096 // self.line_bytes
        page, at = divmod(line, lines)
        if page not in self.streams:
            if len(self.streams) == self.prefetch.streams:
                del self.streams[next(iter(self.streams))]
            self.streams[page] = PageStream(at)
            return
        stream = self.streams[page] = self.streams.pop(page)
        step, stream.last = at - stream.last, at
        if step == 0:
            return
        if step != stream.step:
            stream.step, stream.times, stream.ahead = step, 1, 0
            return
        stream.times += 1
        stream.ahead = max(stream.ahead - 1, 0)
        for _ in range(self.prefetch.degree):
            following = at + (stream.ahead + 1) * step
            if stream.ahead == self.prefetch.distance or not 0 <= following < lines:
                return
            stream.ahead += 1
            self.bring(page * lines + following)

    def bring(self, line: int) -> None:
        """Take a line into level 2."""
        if (
            any(level.find(line) for level in self.levels[:2])
            or line in self.trackers
            or line in self.combiners
        ):
            return
        self.prefetches += 1
        self.prefetching = True
        dirty = self.fetch(2, line, False)
        self.prefetching = False
        self.take_in(1, line, dirty)

    def track(self, line: int, written: set[int]) -> None:
        tracker = self.trackers.pop(line)
        tracker.written |= written
        self.trackers[line] = tracker
        if len(tracker.written) == self.line_bytes:
            self.untrack(line)

    def untrack(self, line: int) -> None:
        """Read a tracked line, unless it is whole and spared, and take it in."""
        if line not in self.trackers:
            return
        tracker = self.trackers.pop(line)
        whole = len(tracker.written) == self.line_bytes
        if whole and (self.evaded == 1 << 16 or (self.draw is not None and self.draw() >> 16 < self.evaded)):
            self.evaded_lines[line] += 1
        else:
            now, self.origin = self.origin, tracker.opened_by
            self.read(line, store=True)
            self.origin = now
        for number in reversed(range(1, len(self.levels))):
            if self.levels[number].fill != "victim":
                self.take_in(number, line, dirty=False)
        self.take_in(0, line, dirty=True)

    def fetch(self, number: int, line: int, store: bool) -> bool:
        """Level ``number`` is asked for a line; return whether the line comes up dirty."""
        if number == len(self.levels):
            self.read(line, store)
            return False
        level = self.levels[number]
        entry = level.find(line)
        if entry:
            level.hits += 1
            if level.fill == "victim":
                level.remove(line)
                return entry.dirty
            level.used(entry)
            return False
        level.missed(line)
        dirty = self.fetch(number + 1, line, store)
        if level.fill == "victim":
            return dirty
        self.take_in(number, line, dirty)
        return False

    def read(self, line: int, store: bool) -> None:
        self.reads[line] += 1
        self.reads_by[self.origin] += 1
        if line in self.waiting:  # it has left unused
            self.unused[line] += 1
            self.waiting.discard(line)
        if self.prefetching:
            self.prefetched[line] += 1
            self.waiting.add(line)
        else:
            self.of_use(line, store)

    def of_use(self, line: int, store: bool) -> None:
        """The core asked for a line that was read."""
        if store and line not in self.useful:
            self.read_for_store.add(line)
        self.useful[line] += 1
        if store:
            self.write_allocates[line] += 1

    def dirtied(self, line: int) -> None:
        if line not in self.unwritten:
            self.dirtied_by[line] = self.origin
            self.unwritten.add(line)

    def write(self, line: int) -> None:
        self.writes[line] += 1
        self.writes_by[self.dirtied_by.get(line, 0)] += 1
        self.unwritten.discard(line)

    def take_in(self, number: int, line: int, dirty: bool) -> None:
        victim = self.levels[number].insert(line, dirty)
        if victim:
            self.evicted(number, victim)

    def evicted(self, number: int, victim: Entry) -> None:
        dirty = victim.dirty
        if self.levels[number].fill == "inclusive":
            carried = False
            for above in self.levels[:number]:
                copy = above.remove(victim.line)
                carried |= copy is not None and copy.dirty
                above.down += carried
            dirty |= carried
        last = number + 1 == len(self.levels)
        if last and dirty:
            self.levels[number].down += 1
            self.write(victim.line)
        elif not last and (dirty or self.levels[number + 1].fill == "victim"):
            self.levels[number].down += 1
            self.hand_down(number + 1, victim.line, dirty)

    def hand_down(self, number: int, line: int, dirty: bool) -> None:
        level = self.levels[number]
        entry = level.find(line)
        if not entry:
            self.take_in(number, line, dirty)
            return
        entry.dirty |= dirty
        if level.fill == "victim":
            level.used(entry)

    def flush(self, line: int, write_back: bool = True) -> bool:
        dirty = False
        for level in self.levels:
            entry = level.remove(line)
            dirty |= entry is not None and entry.dirty
            level.down += dirty and write_back
        if dirty and write_back:
            self.write(line)
        return dirty

    def flush_all(self, count_writebacks: bool) -> None:
        self.drain()
        lines = {
            entry.line for level in self.levels for of_set in level.sets.values() for entry in of_set if entry
        }
        if count_writebacks:
            for line in lines:
                self.flush(line)
        for level in self.levels:
            level.sets.clear()
            level.policy.begin()
        self.unwritten.clear()

    # ---- write-combining

    def combine(self, line: int, written: set[int]) -> None:
        if line not in self.combiners:
            if len(self.combiners) == COMBINERS:
                self.close(next(iter(self.combiners)))
            self.untrack(line)
            known = self.flush(line, write_back=False)
            self.dirtied(line)
            self.combiners[line] = (set(), known, self.origin)
        so_far, known, opened_by = self.combiners.pop(line)
        self.combiners[line] = (so_far | written, known, opened_by)
        if len(so_far | written) == self.line_bytes:
            self.close(line)

    def close(self, line: int) -> None:
        if line not in self.combiners:
            return
        written, known, opened_by = self.combiners.pop(line)
        if len(written) < self.line_bytes and not known:
            now, self.origin = self.origin, opened_by
            if not self.masked:
                self.read(line, store=True)
            self.origin = now
            self.partial += 1
        self.write(line)
        self.non_temporal += 1

    def drain(self) -> None:
        """Nothing that waits for its line to be whole waits any longer."""
        for line in list(self.trackers):
            self.untrack(line)
        self.fence()

    def fence(self) -> None:
        for line in list(self.combiners):
            self.close(line)
