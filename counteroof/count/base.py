"""What every counter delivers: numbers that know how they were got.

A counter takes one kernel case and returns a :class:`Measurement`. A number that could not be had is a
:class:`Count` whose value is ``None`` and whose ``reason`` says why; it is never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["counted", "scaled", "instrumented", "modelled", "imported", "unavailable"]


@dataclass(frozen=True)
class Count:
    """One quantity and its source.

    Attributes
    ----------
    value
        In base units (bytes, FLOP, instructions), or ``None`` if it could not be had.
    status
        How it was got.
    source
        The counter, event or model that delivered it, in a few words.
    reason
        Why there is no value, or what a reader must know about it.
    """

    value: float | int | None
    status: Status
    source: str
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.status == "unavailable"):
            raise ValueError(f"a Count has a value or the status 'unavailable', not {self!r}")
        if self.value is None and not self.reason:
            raise ValueError("an unavailable Count needs a reason")


def unavailable(source: str, reason: str) -> Count:
    """Return the Count of a quantity that could not be had."""
    return Count(None, "unavailable", source, reason)


@dataclass(frozen=True)
class FlopClass:
    """FLOPs of one kind: precision (f16, bf16, f32, f64, x87), width in bits (0: scalar), operation.

    Hardware counters tell some of these apart: an unknown width is ``None``, an unknown operation ``any``.
    """

    precision: str
    width: int | None
    op: str
    flops: int
    counted: bool = True
    """False for classes outside the total (min, max, compare, convert, round, estimates ...)."""


OTHER = "(other)"
"""Name of the traffic that belongs to no argument."""

WALKS = "(page walks)"
"""Name of the traffic of page tables: data that no argument holds, but caused by walks through them."""


@dataclass(frozen=True)
class ReuseDistances:
    """How many other lines a program asked for between two accesses of the same line.

    ``counts[0]`` are the accesses of the line that was asked for just before, ``counts[k]`` those with
    2^(k-1) to 2^k - 1 other lines in between; ``cold`` those of lines that were never asked for before, in
    this call or the one before it.
    """

    cold: int
    counts: tuple[int, ...]

    def misses(self, lines: int) -> int:
        """Return the misses of a fully associative LRU cache of so many lines, a power of two."""
        if lines < 1 or lines & (lines - 1):
            raise ValueError(f"misses follow for a power of two of lines, not {lines}")
        return self.cold + sum(self.counts[lines.bit_length() :])


@dataclass(frozen=True)
class ArrayTraffic:
    """What one array moved in one call, in bytes between the last cache and memory.

    ``name`` is the argument's name, ``(other)`` for stack, tables and data that belong to no argument, or
    ``(page walks)`` for page tables.
    """

    name: str
    bytes: int | None
    """Size of the array; ``None`` for what is no argument."""
    dram_read_bytes: int
    """Lines read from memory, write-allocate included."""
    dram_write_bytes: int
    write_allocate_bytes: int
    """The part of ``dram_read_bytes`` whose first access after the fetch was a store."""
    unique_read_bytes: int
    """Distinct lines among those read, but for prefetched ones that were not used."""
    unique_write_bytes: int
    first_write_allocate_bytes: int | None = None
    """The part of ``unique_read_bytes`` whose first fetch in the call was for a store; ``None``: unknown."""
    touched_read_bytes: int | None = None
    """Distinct lines whose first access in the call was a load, wherever served; ``None``: unknown."""
    touched_write_bytes: int | None = None
    """Distinct lines stored to in the call, whether or not they reached memory; ``None``: unknown."""
    touched_bytes: int | None = None
    """Distinct bytes loaded or stored in the call, of whole lines or not; ``None``: unknown."""
    unused_bytes: int | None = None
    """Of ``touched_read_bytes`` and ``touched_write_bytes``: what the program did not touch; of lines
    that are in both, twice. ``None``: unknown."""
    again_capacity_bytes: int | None = None
    """Lines read again in the call that a fully associative cache of the same size would have lost too;
    ``None``: unknown."""
    again_conflict_bytes: int | None = None
    """Lines read again in the call that it would have kept; ``None``: unknown."""
    evaded_bytes: int | None = None
    """Lines that stores wrote whole and that were not read for it, each time; ``None``: unknown."""
    prefetched_bytes: int | None = None
    """The part of ``dram_read_bytes`` that hardware prefetchers caused; ``None``: unknown."""
    prefetched_unused_bytes: int | None = None
    """The part of ``prefetched_bytes`` that the core did not ask for before it was read again, or in the
    call; it is in none of the other parts of ``dram_read_bytes``. ``None``: unknown."""
    huge_pages: bool | None = None
    """Whether it lies on pages of 2 MiB, as far as these go; ``None``: unknown."""
    tlb_misses: int | None = None
    """Translations of its addresses that the TLB of level 1 did not have; ``None``: unknown."""
    page_walks: int | None = None
    """Those of them that no TLB had; ``None``: unknown."""
    reuse: ReuseDistances | None = None
    """``None``: nobody asked."""

    @property
    def used_read_bytes(self) -> int:
        """Return what was read but for lines that were prefetched and not used."""
        return self.dram_read_bytes - (self.prefetched_unused_bytes or 0)

    @property
    def read_again_bytes(self) -> int:
        """Return what was read more than once, for use."""
        return self.used_read_bytes - self.unique_read_bytes


@dataclass(frozen=True)
class Frames:
    """Where the arrays lie in physical memory, as the cache model took it; see ``ModelOptions.frames``.

    All pages of other data, and those of arrays whose frames are not known, lie at random.
    """

    source: Literal["random", "pagemap"]
    """What was used: ``random`` also where real frames were asked for and could not be had."""
    pages: int
    """Of 4 KiB, of all arrays."""
    real: int
    """Those among them whose frame the system told."""
    reason: str | None = None
    """Why real frames that were asked for were not used."""


@dataclass(frozen=True)
class SharedLine:
    """A cache line that cores took from each other in one call.

    ``array`` is the argument it lies in, ``offset`` the distance from that argument's start, or for
    ``(other)`` the address. ``moves`` is at least how often it was taken from a core that held it: threads
    take turns more coarsely than on the machine. It is falsely shared if no byte of it was touched by two.
    """

    array: str
    offset: int
    cores: int
    moves: int
    false_sharing: bool


@dataclass(frozen=True)
class FalseSharing:
    """All falsely shared lines of one array: how many, how often they moved together, and the most cores
    that touched one of them."""

    array: str
    lines: int
    moves: int
    cores: int


@dataclass(frozen=True, kw_only=True)
class InstructionTraffic:
    """What one machine instruction did in one call.

    ``library`` is the file its code lies in, ``address`` the distance from where that was loaded; the entry
    of what cannot be attributed has none.
    """

    library: str
    address: int | None
    symbol: str | None = None
    file: str | None = None
    line: int | None = None
    text: str = ""
    """Disassembled, in Intel's syntax."""
    times: int = 0
    flops: int = 0
    lanes: int | None = None
    """Elements that one execution can compute; ``None`` if it computes nothing that is counted."""
    active_lanes: int | None = None
    """Elements that all executions together computed: ``times * lanes`` unless a mask switched some off."""
    dram_read_bytes: int = 0
    """Lines read from memory because it missed."""
    dram_write_bytes: int = 0
    """Lines written to memory that it had made dirty."""


@dataclass(frozen=True)
class Denormals:
    """Whether a call came across numbers too small for full precision, by the flags of MXCSR.

    The flags are those of the thread that made the call, and each says "at least once".
    """

    operand: bool
    """An operand was denormal."""
    underflow: bool
    """A result was, and was rounded."""
    operands_flushed: bool
    """Such operands count as zero (DAZ)."""
    results_flushed: bool
    """Such results become zero (FTZ)."""
    seconds: float | None = None
    """Of a native call as it is, and below with both flushed, the shortest of some taken in turns; ``None``:
    not tried, as there was nothing to flush."""
    flushed_seconds: float | None = None


@dataclass(frozen=True)
class FunctionFlops:
    """Executed FLOPs of one function."""

    library: str
    symbol: str | None
    """``None`` for code of no function that is known."""
    flops: int
    narrower_flops: int | None = None
    """Those in instructions narrower than the widest of the same source line: remainders of vectorised loops;
    ``None`` without debug information."""


@dataclass(frozen=True)
class StrideShare:
    """A distance from one access of an array to the next, in bytes, and its share of the array's accesses."""

    array: str
    stride: int | None
    """0: the same place again; ``None``: all others, most of which did not come again."""
    bytes: int | None
    """Of one access."""
    contiguous: bool
    """Whether accesses at this stride leave no bytes out, alone or together with others of the same loop."""
    share: float
    accesses: int | None = None
    """How many these are, rounded; ``None``: unknown."""


@dataclass(frozen=True)
class AccessMix:
    """Loads and stores of one call, element by element; those through an index vector apart.

    Of gathers and scatters all lanes count, also where a mask may have switched some off.
    """

    accesses: int
    bytes: int
    gathered: int
    gathered_bytes: int
    scattered: int
    scattered_bytes: int


@dataclass(frozen=True)
class ChainLink:
    """One operation of a chain: its instruction, and the cycles from what it waits for to its result."""

    text: str
    cycles: int


@dataclass(frozen=True, kw_only=True)
class LoopChain:
    """A loop of which every pass waits for the one before, and how long that takes at least.

    Follows from the flow of data in the loop's most frequent path and from a table of latencies; what the
    processor runs side by side has been taken off.
    """

    library: str
    address: int
    """Of its first instruction; the distance from where the library was loaded."""
    symbol: str | None = None
    file: str | None = None
    line: int | None = None
    passes: int = 0
    """How often the path was gone through, on the busiest thread."""
    entries: int = 1
    """How often, at most, the loop was come to from elsewhere; each time a new chain begins."""
    blocks: int = 1
    instructions: int = 0
    """Of one pass."""
    flops: int = 0
    """Of one pass, all lanes active."""
    cycles: float = 0
    """Of one pass, along the chain."""
    demanded_cycles: float = 0
    """Of all passes: those of the chain, less what chains that begin anew can overlap."""
    through_memory: bool = False
    """Whether part of the chain is a number that is stored and loaded again."""
    links: tuple[ChainLink, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LineTraffic:
    """What one line of source code did in one call; all instructions compiled from it, inlined or not.

    Without debug information ``line`` is ``None`` and ``file`` is the library: then it is all of a function.
    ``symbol`` is the function the code is in, ``None`` if it is in several, or not known.
    """

    file: str
    line: int | None
    symbol: str | None
    instructions: int
    flops: int
    dram_read_bytes: int
    dram_write_bytes: int

    @property
    def dram_bytes(self) -> int:
        """Bytes read from and written to memory."""
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True)
class Measurement:
    """What one counter says of one call of one kernel case, in the steady state."""

    counter: str
    flops: Count
    issued_flops: Count
    instructions: Count
    l1_l2_bytes: Count
    l2_l3_bytes: Count
    dram_read_bytes: Count
    dram_write_bytes: Count
    write_allocate_bytes: Count
    core_l1_bytes: Count = Count(None, "unavailable", "none", "this counter does not count loads and stores")
    """What instructions load and store; of a cache model the other bytes are whole lines."""
    flops_by: tuple[FlopClass, ...] = ()
    arrays: tuple[ArrayTraffic, ...] = ()
    unruled: tuple[tuple[str, int], ...] = ()
    """Floating-point instructions without a FLOP rule: (mnemonic, times executed)."""
    excluded: tuple[str, ...] = ()
    """Functions that ran natively and so are not counted."""
    native_calls: tuple[tuple[str, int], ...] = ()
    """How often each of them was called from code that is counted."""
    flops_by_thread: tuple[int, ...] = ()
    """Executed FLOPs of each thread, in order of appearance; threads of which one began when another had
    ended may share an entry."""
    shared_lines: tuple[SharedLine, ...] = ()
    """Lines that cores took from each other, most moves first; the busiest of them if there are many."""
    false_sharing: tuple[FalseSharing, ...] = ()
    """Of all lines, also where ``shared_lines`` has the busiest alone; one for each array that has some."""
    lines: tuple[LineTraffic, ...] = ()
    instruction_table: tuple[InstructionTraffic, ...] = ()
    """Both add up to the totals."""
    chains: tuple[LoopChain, ...] = ()
    """Loops whose passes wait for each other, those that demand most cycles first."""
    strides: tuple[StrideShare, ...] = ()
    """By array, the most frequent first; each array's shares add up to one. Partly sampled."""
    access_mix: AccessMix | None = None
    pages_touched: int | None = None
    """Distinct pages of 4 KiB, in this call and an identical one before; ``None``: unknown."""
    tlb_misses: int | None = None
    """Translations that the modelled TLB of level 1 did not have; ``None``: none was modelled."""
    page_walks: int | None = None
    """Those of them that no TLB had, so that page tables were walked."""
    frames: Frames | None = None
    """Of the cache model; ``None`` without one."""
    denormals: Denormals | None = None
    flops_by_function: tuple[FunctionFlops, ...] = ()
    """Most first; they add up to ``flops``."""
    latencies: str | None = None
    """Whose latencies the chains were computed with, and how these are known; ``None``: there are none."""
    untimed_locked: int | None = None
    """Locked instructions (atomics) executed whose latency is not known, so that no chain has them; ``None``:
    unknown."""
    slowdown: float | None = None
    """Seconds of the counted call over seconds of the native call."""
    notes: tuple[str, ...] = field(default=())
    """Assumptions a reader must know, such as the cache geometry used."""
    cycles: Count | None = None
    """Clock cycles in which the kernel's threads ran; ``None`` from counters that know no time."""
    dram_bytes: Count | None = None
    """Bytes read and written together, from a counter that does not tell them apart; else ``None``."""
    hardware_flops: int | None = None
    """FLOPs as this processor's own counters would report them, by the engine's rules; ``None``: unknown."""
