"""What perf_event_open is to count on a processor: the events of each quantity, and what a count is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..machine.sysfs import Tree
from ..machine.system import grouped
from .believable import SOCKET_BYTES_PER_SECOND
from .events import EventData, EventFact, EventSet, Processor, ProcessorEvents
from .perf_open import Event
from .pmus import (
    NOT_SHOWN,
    REAL,
    NotEncodable,
    Pmu,
    core_pmus,
    firmware_bytes,
    matching,
    on_core,
    open_on,
    socket_of,
    without_cores,
)

CHANNEL_BYTES_PER_SECOND = 8 * 8.8e9
"""More than any memory channel of 64 bits carries: DDR5-8800, the fastest that servers take (MRDIMM)."""
CONTROLLER_CHANNELS = 2
"""Channels that hang on one controller at most (sub-channels or pseudo-channels, from Sapphire Rapids on)."""
GENERIC = {"instructions": 1, "cycles": 0}
"""The kernel's own codes, which every core's driver translates: PERF_COUNT_HW_INSTRUCTIONS, _CPU_CYCLES."""
NOT_IDENTIFIED = "nothing tells which processor this is: /proc/cpuinfo is not there (is /proc mounted?)"
_HARDWARE = 0  # PERF_TYPE_HARDWARE


@dataclass(frozen=True)
class Term:
    """An event of a sum: each count of it stands for ``factor`` FLOPs, bytes or instructions."""

    event: Event
    factor: float
    fact: EventFact
    socket: int | None = None


@dataclass(frozen=True)
class Source:
    """One way of having a quantity.

    Attributes
    ----------
    name
        Its set in the event data, or a few words.
    terms
        What is added up.
    split
        Whether the terms tell reading from writing; if not, only their sum means anything.
    limit
        Bytes a second that cannot be exceeded; ``None`` if nothing is known.
    notes
        What a reader must know.
    """

    name: str
    terms: tuple[Term, ...]
    split: bool = True
    limit: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events to open."""
        return tuple(term.event for term in self.terms)


@dataclass(frozen=True)
class PerfPlan:
    """Everything that may be counted on a machine; what cannot be is in ``reasons``, by quantity.

    Attributes
    ----------
    title
        Name of the microarchitecture.
    cores
        PMUs of the kinds of core there are.
    instructions, cycles, flops
        Terms on all kinds of core.
    no_flops_on
        Kinds of core whose FLOPs cannot be counted.
    dram, fallback
        Sources in the order of preference; those of ``fallback`` see reads only, and not all of them.
    l1_l2, l2_l3
        Traffic between caches.
    traps
        What is known to go wrong with this processor's counters.
    reasons
        Why there is nothing for a quantity: ``instructions``, ``cycles``, ``flops``, ``dram``, ``fallback``,
        ``l1_l2``, ``l2_l3``.
    """

    title: str
    known: bool
    cores: tuple[str, ...]
    instructions: tuple[Term, ...] = ()
    cycles: tuple[Term, ...] = ()
    flops: tuple[Term, ...] = ()
    flops_notes: tuple[str, ...] = ()
    no_flops_on: tuple[str, ...] = ()
    dram: tuple[Source, ...] = ()
    fallback: tuple[Source, ...] = ()
    l1_l2: Source | None = None
    l2_l3: Source | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    traps: tuple[str, ...] = ()


def plan(data: EventData, cpu: Processor, pmus: Sequence[Pmu], tree: Tree = REAL) -> PerfPlan:
    """Return what may be counted; nothing is opened.

    Parameters
    ----------
    data
        The event data.
    cpu
        What the processor says of itself.
    pmus
        The PMUs of the machine.
    tree
        Where its ``/sys`` lies.
    """
    found = data.find(cpu)
    if found is None:
        cores = core_pmus(pmus)
        reason = f"the event data have no entry for this processor ({cpu}); add one with --events FILE"
        if not cpu.identified:
            reason = NOT_IDENTIFIED
        reasons = dict.fromkeys(("flops", "dram", "fallback", "l1_l2", "l2_l3"), reason)
        if not cores:
            reasons |= dict.fromkeys(("instructions", "cycles"), without_cores(pmus, tree))
        return PerfPlan(
            str(cpu),
            False,
            _names(cores),
            _generic(cores, "instructions"),
            _generic(cores, "cycles"),
            reasons=reasons,
        )
    return _Planner(data, found[0], found[1], tuple(pmus), tree).plan()


def _names(pmus: Iterable[Pmu]) -> tuple[str, ...]:
    return tuple(pmu.name for pmu in pmus)


def _generic(cores: Sequence[Pmu], name: str) -> tuple[Term, ...]:
    """Return one of the kernel's own events on each kind of core.

    With several, the PMU's type goes into the upper half of the code (perf_event_open(2), since Linux 5.13).
    """
    number = GENERIC[name]
    fact = EventFact(name=name)
    codes = [(pmu, number | (pmu.type << 32 if len(cores) > 1 else 0)) for pmu in cores]
    return tuple(Term(Event(name, pmu.name, _HARDWARE, code), 1, fact) for pmu, code in codes)


@dataclass
class _Planner:
    data: EventData
    name: str
    entry: ProcessorEvents
    pmus: tuple[Pmu, ...]
    tree: Tree
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def no_core(self) -> str:
        return without_cores(self.pmus, self.tree)

    def plan(self) -> PerfPlan:
        entry = self.entry
        cores = core_pmus(self.pmus, entry.core_pmus)
        flops, notes, blind = self.flops(cores)
        if not cores:
            for quantity in ("instructions", "cycles", "flops", "fallback", "l1_l2", "l2_l3"):
                self.reasons[quantity] = self.no_core
        return PerfPlan(
            entry.title,
            True,
            _names(cores),
            _generic(cores, "instructions"),
            _generic(cores, "cycles"),
            flops,
            notes,
            blind,
            tuple(self.dram()),
            tuple(self.fallback(cores)),
            self.cache(cores, "l1_l2"),
            self.cache(cores, "l2_l3"),
            self.reasons,
            entry.traps,
        )

    # -- FLOPs

    def flops(self, cores: Sequence[Pmu]) -> tuple[tuple[Term, ...], tuple[str, ...], tuple[str, ...]]:
        entry = self.entry
        terms: list[Term] = []
        notes: list[str] = []
        blind: list[str] = []
        for number, pmu in enumerate(cores):
            names = entry.flops if number == 0 and pmu.name != "cpu_atom" else entry.flops_atom
            if not names:
                blind.append(pmu.name)
                continue
            for set_name in names:
                one = self.data.sets[set_name]
                notes += _remarks(one)
                for fact in self.data.events(set_name, self.name):
                    try:
                        terms.append(Term(on_core(pmu, fact), self.weight(fact), fact))
                    except NotEncodable as error:
                        notes.append(f"{fact.name} is not counted: {error}")
        if not terms and cores:
            self.reasons["flops"] = entry.flops_impossible or (
                f"no FLOP event of {entry.title} goes with the PMU {', '.join(_names(cores))}"
            )
        return tuple(terms), tuple(dict.fromkeys(notes)), tuple(blind) if terms else ()

    def weight(self, fact: EventFact) -> float:
        weight = fact.weight or 0.0
        return weight * (self.entry.vector_bits or 128) / 128 if fact.per_128_bits else weight

    # -- memory

    def dram(self) -> Iterator[Source]:
        missing: list[str] = []
        if not self.pmus and self.no_core == NOT_SHOWN:
            self.reasons["dram"] = NOT_SHOWN
            return
        for set_name in self.entry.dram:
            try:
                source = self.source(set_name)
            except NotEncodable as error:
                missing.append(str(error))
                continue
            if source is None:
                pmu = self.data.sets[set_name].pmu.replace("[0-9]*", "<n>") or "of the cores"
                missing.append(f"the kernel has no PMU {pmu}")
                if any(one.name.startswith("uncore_type_") for one in self.pmus):
                    missing.append("it names this processor's PMUs uncore_type_*: a newer kernel knows them")
            else:
                yield source
        if not self.entry.dram:
            missing.append(f"nothing is known that counts the memory traffic of {self.entry.title}")
        if missing:
            self.reasons["dram"] = "; ".join(missing)

    def source(self, set_name: str) -> Source | None:
        """Return a set on all its PMUs, processors and sockets, or ``None`` if there is no such PMU."""
        one = self.data.sets[set_name]
        facts = self.data.events(set_name, self.name)
        notes = [*_remarks(one), *self.other_memory()]
        if not one.pmu:
            cores = core_pmus(self.pmus, self.entry.core_pmus)
            terms = [Term(on_core(pmu, fact), fact.bytes or 0, fact) for pmu in cores for fact in facts]
            return Source(set_name, tuple(terms), notes=tuple(notes)) if terms else None
        terms = []
        controllers = 0
        for pmu in matching(self.pmus, one.pmu):
            opened = 0
            for fact in facts:
                factor = self.bytes_of(one, pmu, fact)
                events = open_on(pmu, fact, self.tree)
                opened = len(events)
                terms += [Term(event, factor, fact, socket_of(self.tree, event.cpu)) for event in events]
            controllers += opened
        if not terms:
            return None
        split = all(fact.direction in ("read", "write") for fact in facts)
        each = SOCKET_BYTES_PER_SECOND
        if one.scope.startswith("mc"):
            each = CONTROLLER_CHANNELS * CHANNEL_BYTES_PER_SECOND
        return Source(set_name, tuple(terms), split, controllers * each, tuple(notes))

    def other_memory(self) -> Iterator[str]:
        """Say which memory beside the DRAM is there, and not in its bytes."""
        for set_name in self.entry.dram_extra:
            found = matching(self.pmus, self.data.sets[set_name].pmu)
            if found:
                yield f"traffic of other memory ({grouped(_names(found))}) is not in these bytes"

    def bytes_of(self, one: EventSet, pmu: Pmu, fact: EventFact) -> float:
        from_firmware = firmware_bytes(pmu, fact) if one.firmware_scale else None
        return float(fact.bytes or 0) if from_firmware is None else from_firmware

    def fallback(self, cores: Sequence[Pmu]) -> Iterator[Source]:
        """Give the sources of reads that a thread's own events see, the best first."""
        entry = self.entry
        per_core: list[list[Source]] = []
        for number, pmu in enumerate(cores):
            set_name = entry.fallback if number == 0 and pmu.name != "cpu_atom" else entry.fallback_atom
            if not set_name:
                self.reasons["fallback"] = f"no event of {entry.title} sees reads from memory on {pmu.name}"
                return
            one = self.data.sets[set_name]
            notes = (one.blind,) if one.blind else ()
            sources: list[Source] = []
            terms: list[Term] = []
            for fact in self.data.events(set_name, self.name):
                if fact.direction != "read":
                    continue
                try:
                    terms.append(Term(on_core(pmu, fact), fact.bytes or 0, fact))
                except NotEncodable as error:
                    self.reasons["fallback"] = str(error)
                    continue
                if one.combine == "first":
                    sources.append(Source(terms[-1].fact.name, (terms[-1],), False, None, notes))
            if one.combine == "sum" and terms:
                sources = [Source(set_name, tuple(terms), False, None, notes)]
            per_core.append(sources)
        # on a hybrid processor the best of each kind of core together
        for sources_of in zip(*per_core, strict=False):
            terms = [term for source in sources_of for term in source.terms]
            remarks = dict.fromkeys(note for source in sources_of for note in source.notes)
            yield Source(sources_of[0].name, tuple(terms), False, None, tuple(remarks))

    # -- caches

    def cache(self, cores: Sequence[Pmu], boundary: str) -> Source | None:
        """Return the traffic between two caches, if fills and write-backs can be counted on all cores."""
        entry = self.entry
        terms: list[Term] = []
        notes: list[str] = []
        for number, pmu in enumerate(cores):
            set_name = entry.cache if number == 0 and pmu.name != "cpu_atom" else entry.cache_atom
            facts = (
                [fact for fact in self.data.events(set_name, self.name) if fact.boundary == boundary]
                if set_name
                else []
            )
            missing = {"read", "write"} - {fact.direction for fact in facts}
            if missing:
                what = " or ".join(("fills", "write-backs")[one == "write"] for one in sorted(missing))
                self.reasons[boundary] = f"no event of {entry.title} ({pmu.name}) counts {what} there"
                return None
            for fact in facts:
                try:
                    terms.append(Term(on_core(pmu, fact), entry.line_bytes, fact))
                except NotEncodable as error:
                    self.reasons[boundary] = str(error)
                    return None
                notes += [fact.note] if fact.note else []
        return Source(boundary, tuple(terms), notes=tuple(notes)) if terms else None


def _remarks(one: EventSet) -> list[str]:
    """Return what a reader of a set's counts must know."""
    remarks = []
    if one.quality and not one.quality.startswith("retired"):
        remarks.append(f"quality: {one.quality}")
    remarks += [text for text in (one.masked, one.impossible) if text]
    return remarks
