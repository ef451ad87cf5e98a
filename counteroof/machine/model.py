"""Types that describe a machine; they hold facts and where each came from, and measure nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NOT_MEASURED = "not measured"
"""In a ceiling's note: it is a peak by another tool."""

Fill = Literal["inclusive", "non-inclusive", "victim"]
PolicyKind = Literal["lru", "plru", "random", "rrip", "adaptive"]
Aging = Literal["when needed", "at once", "of others", "by one"]
Evasion = Literal["none", "under load", "always"]
Partial = Literal["read", "masked"]


@dataclass(frozen=True)
class Policy:
    """Which line of a full set has to leave; :mod:`.replacement` has those with a name.

    Attributes
    ----------
    kind
        ``lru``; ``plru``, a tree of bits; ``random``; ``rrip``, ages of 0 to 3, a line of age 3 leaves;
        ``adaptive``, the order of recency of LRU, but lines may come in at its far end.
    near
        Of ``rrip`` and ``adaptive``: the share of lines, 0 to 1, that come in near (with ``near_age``, or as
        the most recent); the others come in far (with ``far_age``, or as the least recent).
    rival, leaders
        With leaders, so many sets take in by ``near``, as many by the share ``rival``, and all others by the
        one whose sets missed less.
    near_age, far_age, hit_age
        Of ``rrip``; ``hit_age`` is the age of a line that is found at age 2 or 3, younger ones get 0.
    aging
        Of ``rrip``, where no line of a full set has age 3. All grow older by the same until one has: when a
        line must leave (``when needed``), ``at once``, or at once but for the line just used (``of others``).
        Or all grow older ``by one`` at once, and if none has age 3 when one must leave, the first goes.
    """

    kind: PolicyKind = "lru"
    near: float = 1.0
    rival: float = 1.0
    leaders: int = 0
    near_age: int = 2
    far_age: int = 3
    hit_age: int = 0
    aging: Aging = "when needed"

    def __post_init__(self) -> None:
        if not (0 <= self.near <= 1 and 0 <= self.rival <= 1):
            raise ValueError(f"near {self.near:g} and rival {self.rival:g} are shares of 0 to 1")
        if self.leaders < 0:
            raise ValueError(f"{self.leaders} leaders; there can be none, or some for each side")
        for name in ("near_age", "far_age", "hit_age"):
            if not 0 <= getattr(self, name) <= 3:
                raise ValueError(f"{name} {getattr(self, name)}; ages are 0 to 3")


@dataclass(frozen=True)
class CacheLevel:
    """One data or unified cache.

    Attributes
    ----------
    name
        ``L1``, ``L2``, ``L3``.
    bytes, ways, line_bytes
        Geometry; sets follow.
    shared_by
        Number of logical processors that share it.
    fill
        How lines get in: with the level below (inclusive, non-inclusive) or from the level above's evictions.
    hashed
        True if the set is chosen by a hash of the physical address (large shared caches).
    policy
        Which line of a full set has to leave.
    slices
        Equal parts of a hashed level, one of which a hash of all address bits picks, where that is known.
    source
        Where the geometry comes from: ``sysfs``, ``cpuid``, a file's name; and what is assumed.
    """

    name: str
    bytes: int
    ways: int
    line_bytes: int
    shared_by: int
    fill: Fill
    hashed: bool
    source: str
    policy: Policy = Policy()
    slices: int = 1


def special(mix: str) -> bool:
    """Return whether a mix of arithmetic is of few independent operations, divisions or square roots."""
    return "chain" in mix or mix in ("DIV", "SQRT")


@dataclass(frozen=True)
class Stores:
    """What stores cost beyond the lines that they write.

    Attributes
    ----------
    evasion
        Whether a line that stores write whole is spared the read before (write-allocate): ``none``,
        ``always``, or ``under load``, only while memory is busy.
    evaded
        The share of such lines, 0 to 1, of which the cache model spares the read: 0 of ``none``.
    partial
        What a write-combining buffer costs that non-temporal stores leave partly filled: the line is ``read``
        to fill in the rest, or memory takes a ``masked`` write.
    source
        Where this comes from, and what is assumed.
    """

    evasion: Evasion = "none"
    evaded: float = 0.0
    partial: Partial = "read"
    source: str = "assumed"

    def __post_init__(self) -> None:
        if not 0 <= self.evaded <= 1:
            raise ValueError(f"evaded {self.evaded:g} is a share of 0 to 1")
        if self.evaded and self.evasion == "none":
            raise ValueError(f"evaded {self.evaded:g}, but with evasion 'none' no read is spared")


PageSize = Literal["4 KiB", "2 MiB"]


@dataclass(frozen=True)
class Tlb:
    """One buffer of address translations, for data.

    Attributes
    ----------
    level
        1, or 2: asked for what level 1 does not have.
    entries, ways
        Geometry; as many ways as entries is fully associative.
    pages
        Sizes of the pages it takes.
    hashed
        True if the set is the low bits of a page's number mixed with as many above them, else its remainder.
    source
        Where this comes from.
    """

    level: int
    entries: int
    ways: int
    pages: tuple[PageSize, ...]
    hashed: bool = False
    source: str = ""


@dataclass(frozen=True)
class Prefetch:
    """Hardware prefetchers into level 2, as the cache model has them; none unless asked for.

    Attributes
    ----------
    adjacent
        A line that level 2 misses brings along the other one of its aligned pair.
    stream
        Once the same step from line to line comes twice in a row in a page, forwards or backwards, the lines
        that follow by that step are brought in.
    distance, degree, streams
        Of ``stream``: how many steps ahead at most, how many lines at a time, and how many pages each core
        watches.
    """

    adjacent: bool = False
    stream: bool = False
    # Intel's streamer from Sandy Bridge on, by its optimization manual: up to 20 lines ahead, two lines for
    # each request, 32 streams of a page each
    distance: int = 20
    degree: int = 2
    streams: int = 32

    def __post_init__(self) -> None:
        for name in ("distance", "degree", "streams"):
            if not 1 <= getattr(self, name) <= 4096:
                raise ValueError(f"{name} {getattr(self, name)} is not a number of 1 to 4096")

    @property
    def on(self) -> bool:
        """Whether anything is prefetched."""
        return self.adjacent or self.stream


@dataclass(frozen=True)
class Ceiling:
    """One measured roof.

    Attributes
    ----------
    name
        Short, and unique among the ceilings of one thread count: ``DRAM triad``, ``f64 AVX-512 FMA``.
    kind
        ``bandwidth`` (value in byte/s) or ``compute`` (value in FLOP/s).
    value
        The best sample: a ceiling is what the machine can reach.
    median, samples
        All samples, and their median.
    level
        ``dram``, ``l3``, ``l2`` or ``l1`` for bandwidth; ``None`` for compute.
    precision, isa, fma
        For compute; ``isa`` is ``scalar``, ``SSE``, ``AVX`` (without AVX2), ``AVX2``, ``AVX-512``,
        ``NEON``; ``fma`` is ``None`` where it is no question. Of ``int8``, the value counts operations on
        integers. Bandwidth keeps the ISA of its loop.
    threads
        Threads that ran together.
    clock_hz
        Core clock sustained while measured, or ``None`` with ``clock_source`` saying why.
    convention
        What a byte or FLOP means here, e.g. ``write-allocate counted``.
    mix
        What the loop does: ``triad``, ``FMA+ADD 1:1``, ``FMA 1 chain`` (each needs the result before it),
        ``DIV``, ``DOT`` (products of bf16 or int8, added to sums of 32 bits).
    note
        What a reader must know of the measurement: the working set, a disturbance.
    measured
        When, ISO 8601: a memory roof can move by a factor of two within minutes.
    small_pages
        Whether its memory was on the smallest pages; else huge ones were asked for.
    """

    name: str
    kind: Literal["bandwidth", "compute"]
    value: float
    median: float
    samples: tuple[float, ...]
    threads: int
    isa: str
    level: str | None = None
    precision: str | None = None
    fma: bool | None = None
    clock_hz: float | None = None
    clock_source: str = ""
    convention: str = ""
    mix: str = ""
    note: str = ""
    measured: str | None = None
    small_pages: bool = False

    @property
    def special(self) -> bool:
        """Whether it holds for some code alone: of few independent operations, divisions or square roots."""
        return self.kind == "compute" and special(self.mix)

    @property
    def full(self) -> bool:
        """Whether it may keep arithmetic units busy, which with wide vectors slows some processors down."""
        computes = self.kind == "compute" or self.mix.startswith(("triad", "update"))
        return computes and not self.special

    def clocked_as(self, other: Ceiling) -> bool:
        """Whether its clock should be no lower than the other's."""
        return self.isa == other.isa and (other.full or not self.full)

    @property
    def peak(self) -> bool:
        """Whether it is what a tool says the hardware can do, and was not measured."""
        return NOT_MEASURED in self.note


@dataclass(frozen=True)
class SweepPoint:
    """What a working set of a size costs.

    Attributes
    ----------
    bytes
        Of the working set, which lies on huge pages where they are to be had.
    seconds
        Of a load that waits for the one before and goes to a random line of it.
    bytes_per_second
        Loaded one after the other with the widest instructions; ``None`` where it was not measured.
    """

    bytes: int
    seconds: float
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class Capacity:
    """How much of a cache a sweep over sizes found to be there.

    Attributes
    ----------
    level
        ``L1``, ``L2``, ``L3``.
    bytes
        Up to which loads are as fast as on its plateau, or ``None`` with the ``reason``.
    seconds
        Of a load on its plateau.
    """

    level: str
    bytes: int | None
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True)
class Machine:
    """A machine's identity, caches and ceilings."""

    name: str
    """Host name is never in it: model name, cores, hypervisor."""
    architecture: str
    cpu: str
    logical_cpus: int | None
    """``None`` if a file of another tool did not say."""
    isa: tuple[str, ...]
    """Instruction sets usable here, narrowest first: ``SSE``, ``AVX2``, ``AVX-512``."""
    caches: tuple[CacheLevel, ...]
    memory_bytes: int | None
    hypervisor: str | None
    ceilings: tuple[Ceiling, ...] = ()
    measured: str | None = None
    """When the ceilings were measured, ISO 8601; ``None`` if they were not."""
    notes: tuple[str, ...] = ()
    nominal_hz: float | None = None
    maximum_hz: float | None = None
    """What the kernel or the processor states of the core clock; ``None`` if neither does. Nothing is
    computed with these: the clock that counts is the one measured beside each ceiling."""
    sweep: tuple[SweepPoint, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    """What the sweep found, one for each cache; none if it was not made."""
    tlbs: tuple[Tlb, ...] = ()
    """None if they are not known."""
    access: tuple[Ceiling, ...] = ()
    """What other ways to memory reach: random lines, strides, small pages, remote nodes, other numbers of
    threads. No dot is held against these; findings hold arrays on small pages against what those reach."""
    stores: Stores = Stores()
    prefetch: Prefetch = Prefetch()
    """Off, whatever the processor does: so that what prefetchers add can be told by switching them on."""

    def measured_bytes(self, cache: CacheLevel) -> int | None:
        """Return the measured capacity of a cache if it is less than the nominal one, else ``None``."""
        found = next((one.bytes for one in self.capacities if one.level == cache.name), None)
        return found if found is not None and found < cache.bytes else None
