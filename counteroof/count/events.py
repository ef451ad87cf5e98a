"""Which events count FLOPs, DRAM bytes, cache traffic and the clock of a processor: data, loaded and checked.

The data are the files of ``counteroof/data/events``, one a family of processors. A file of the user's own in
the same form adds processors and replaces those of the same name. A processor nobody wrote about has its
architecture's events: instructions and cycles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .. import jsonio
from ..errors import BadInput, CounteroofError, Problem
from ..machine.cpuid import Cpuid
from ..machine.sysfs import Tree, cpuinfo

FOLDER = Path(__file__).resolve().parent.parent / "data" / "events"

Direction = Literal["", "read", "write", "both"]
Boundary = Literal["", "l1_l2", "l2_l3"]


class EventDataError(BadInput):
    """A file of events has mistakes; ``problems`` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, kw_only=True)
class EventFact:
    """One event and what a count of it stands for.

    Attributes
    ----------
    name
        The vendor's or the kernel's.
    event, umask, config1, fields
        Its code, in terms of the PMU's format files in sysfs; ``config1`` is the value of an extra register.
    sysfs
        The name, with wildcards, of the event in the PMU's own list, where only the firmware knows the code.
    instances, step
        So many events of this kind, their codes ``step`` apart.
    precision, lanes
        f16, bf16, f32, f64, x87, or ``any`` where it does not tell them apart; elements of one operation.
    weight
        FLOPs that a count stands for; ``per_128_bits`` times the vector's bits over 128.
    bytes
        Bytes that a count stands for; negative where it is to be taken off.
    direction, boundary
        Which way the bytes go, and between which caches.
    alternative
        Not needed beside the others of its set.
    only
        Processors it is for; none: all that name its set.
    """

    name: str
    event: int | None = None
    umask: int = 0
    config1: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    sysfs: str = ""
    instances: int = 1
    step: int = 0
    precision: str = ""
    lanes: int | None = None
    weight: float | None = None
    per_128_bits: bool = False
    bytes: int | None = None
    direction: Direction = ""
    boundary: Boundary = ""
    alternative: bool = False
    only: tuple[str, ...] = ()
    note: str = ""

    def each(self) -> Iterator[EventFact]:
        """Give the event, or its instances one by one."""
        for number in range(self.instances):
            code = None if self.event is None else self.event + number * self.step
            yield (
                replace(self, name=self.name.replace("<i>", str(number)), event=code, instances=1, step=0)
                if self.instances > 1
                else self
            )


@dataclass(frozen=True, kw_only=True)
class EventSet:
    """Events that together count one quantity.

    Attributes
    ----------
    events
        What is counted, and added up.
    pmu
        Name of the PMUs in sysfs, with wildcards; empty for the core's own.
    combine
        ``sum``, or ``first``: only the first that can be had.
    firmware_scale
        Bytes of a count come from the PMU's own ``.scale`` and ``.unit`` files, if it has them.
    scope
        What one PMU covers: core, mc (a memory controller), die, socket.
    quality, blind, impossible, trap, ...
        What a reader of the count must know.
    confidence
        How well the facts are known.
    """

    events: tuple[EventFact, ...]
    pmu: str = ""
    combine: Literal["sum", "first"] = "sum"
    firmware_scale: bool = False
    scope: str = ""
    quality: str = ""
    fma: str = ""
    masked: str = ""
    blind: str = ""
    impossible: str = ""
    trap: str = ""
    note: str = ""
    notes: tuple[str, ...] = ()
    confidence: str


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which processors an entry is for; what is not given does not matter."""

    vendor: str = ""
    family: int | None = None
    models: tuple[int, ...] = ()
    model_ranges: tuple[tuple[int, int], ...] = ()
    steppings: tuple[int, ...] = ()
    implementer: int | None = None
    parts: tuple[int, ...] = ()
    pvr: int | None = None
    architecture: str = ""

    def fits(self, cpu: Processor) -> bool:
        """Whether a processor is one of them."""
        if self == Match():
            return False
        models = not (self.models or self.model_ranges) or (
            cpu.model is not None
            and (
                cpu.model in self.models
                or any(first <= cpu.model <= last for first, last in self.model_ranges)
            )
        )
        return (
            self.vendor in ("", cpu.vendor)
            and self.family in (None, cpu.family)
            and models
            and (not self.steppings or cpu.stepping in self.steppings)
            and self.implementer in (None, cpu.implementer)
            and (not self.parts or cpu.part in self.parts)
            and self.pvr in (None, cpu.pvr)
            and self.architecture in ("", cpu.architecture)
        )


@dataclass(frozen=True, kw_only=True)
class Processor:
    """What a processor says of itself; what its architecture does not have is ``None``."""

    architecture: str
    name: str = ""
    vendor: str = ""
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: int | None = None
    part: int | None = None
    pvr: int | None = None

    @property
    def identified(self) -> bool:
        """Whether anything tells it from others of its architecture."""
        return bool(self.name or self.vendor) or (self.implementer, self.pvr) != (None, None)

    def __str__(self) -> str:
        if self.implementer is not None:
            return f"implementer {self.implementer:#x}, part {self.part or 0:#x}"
        if self.family is not None:
            return f"{self.vendor}, family {self.family:#x}, model {self.model or 0:#x}"
        return self.name or self.architecture


@dataclass(frozen=True, kw_only=True)
class ProcessorEvents:
    """The sets of one microarchitecture, by name.

    Attributes
    ----------
    title
        Its name in print.
    core_pmus
        PMUs of its kinds of core; empty: the one there is.
    flops, flops_atom
        Sets that are added up, on the first kind of core, and on the second.
    dram
        Sets of which the first that can be had counts; those of ``dram_extra`` are of another memory.
    fallback, cache, clock
        Reads that miss the last cache; traffic between caches; instructions and cycles.
    vector_bits
        Length of a scalable vector.
    flops_impossible
        Why there are no FLOPs.
    """

    title: str
    match: Match
    core_pmus: tuple[str, ...] = ()
    flops: tuple[str, ...] = ()
    flops_atom: tuple[str, ...] = ()
    flops_impossible: str = ""
    dram: tuple[str, ...] = ()
    dram_extra: tuple[str, ...] = ()
    fallback: str = ""
    fallback_atom: str = ""
    cache: str = ""
    cache_atom: str = ""
    clock: str = ""
    vector_bits: int | None = None
    line_bytes: int = 64
    traps: tuple[str, ...] = ()
    source: str
    confidence: str

    @property
    def set_names(self) -> tuple[str, ...]:
        """All sets it names."""
        single = (self.fallback, self.fallback_atom, self.cache, self.cache_atom, self.clock)
        return (
            *self.flops,
            *self.flops_atom,
            *self.dram,
            *self.dram_extra,
            *(name for name in single if name),
        )


@dataclass(frozen=True, kw_only=True)
class EventFile:
    """A file of events as it is written."""

    family: str
    gathered: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, EventSet] = field(default_factory=dict)
    processor: Mapping[str, ProcessorEvents] = field(default_factory=dict)


@dataclass(frozen=True)
class EventData:
    """Everything known of events: sets and processors by name."""

    sets: Mapping[str, EventSet]
    processors: Mapping[str, ProcessorEvents]

    def find(self, cpu: Processor) -> tuple[str, ProcessorEvents] | None:
        """Return the entry of a processor and its name, or ``None`` if nobody wrote about it."""
        fitting = [(name, one) for name, one in self.processors.items() if one.match.fits(cpu)]
        # one that names steppings is meant before one that takes any
        return min(fitting, key=lambda item: not item[1].match.steppings, default=None)

    def events(self, set_name: str, processor: str = "") -> tuple[EventFact, ...]:
        """Return the events of a set that are for a processor, each instance of its own."""
        return tuple(
            one
            for fact in self.sets[set_name].events
            if not fact.alternative and (not fact.only or processor in fact.only)
            for one in fact.each()
        )


def load(path: Path) -> EventFile:
    """Return a file of events.

    Raises
    ------
    EventDataError
        With everything that is wrong in it.
    BadInput
        If it cannot be read, or is no TOML.
    """
    import tomli

    try:
        data = tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the events file {path} cannot be read: {error.strerror}") from error
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"the events file {path} is not TOML: {error}") from error
    problems: list[Problem] = []
    found = jsonio.from_json(EventFile, data, "", problems)
    if found is None:
        raise EventDataError([replace(one, where=f"{path.name}: {one.where}") for one in problems])
    return found


def combine(files: Sequence[tuple[Path, EventFile]]) -> EventData:
    """Return the data of several files; a later one replaces what has the same name.

    Raises
    ------
    EventDataError
        If a processor names a set that no file has, or an event has no meaning in its set.
    """
    sets: dict[str, EventSet] = {}
    processors: dict[str, ProcessorEvents] = {}
    problems: list[Problem] = []
    for path, file in files:
        sets.update(file.set)
        processors.update(file.processor)
        problems += _problems(path.name, file, sets)
    if problems:
        raise EventDataError(problems)
    return EventData(sets, processors)


def _problems(name: str, file: EventFile, sets: Mapping[str, EventSet]) -> Iterator[Problem]:
    for set_name, one in file.set.items():
        for number, fact in enumerate(one.events):
            where = f"{name}: set.{set_name}.events[{number}]"
            if fact.event is None and not fact.fields and not fact.sysfs:
                yield Problem(where, f"no code of {fact.name}", "event, fields or sysfs")
            if fact.instances < 1 or (fact.instances > 1) != bool(fact.step):
                yield Problem(where, f"{fact.instances} instances {fact.step} apart", "instances with a step")
    for cpu_name, cpu in file.processor.items():
        where = f"{name}: processor.{cpu_name}"
        if cpu.match == Match():
            yield Problem(f"{where}.match", "nothing", "what tells the processor: vendor, family and models")
        for set_name in cpu.set_names:
            if set_name not in sets:
                yield Problem(where, f"the set {set_name!r}", f"one of {', '.join(sets)}")
        for kind, names in (("weight", (*cpu.flops, *cpu.flops_atom)), ("bytes", (*cpu.dram, cpu.fallback))):
            for set_name in names:
                for fact in sets[set_name].events if set_name in sets else ():
                    if getattr(fact, kind) is None:
                        yield Problem(
                            f"{name}: set.{set_name}", f"{fact.name} without {kind}", f"a {kind} for each"
                        )


@cache
def builtin() -> EventData:
    """Return the data that come with counteroof."""
    return combine([(path, load(path)) for path in sorted(FOLDER.glob("*.toml"))])


def with_file(path: Path | None) -> EventData:
    """Return the data that come with counteroof, and those of a file of the user's own in front."""
    if path is None:
        return builtin()
    own = load(path)
    known = builtin()
    merged = combine([(Path("the built-in events"), EventFile(family="", set=known.sets)), (path, own)])
    # those of the user's file are asked first
    return EventData(merged.sets, {**own.processor, **_without(known.processors, own.processor)})


def _without(
    all_of: Mapping[str, ProcessorEvents], names: Mapping[str, ProcessorEvents]
) -> dict[str, ProcessorEvents]:
    return {name: one for name, one in all_of.items() if name not in names}


def this_processor(
    tree: Tree | None = None, architecture: str | None = None, cpuid: Cpuid | None = None
) -> Processor:
    """Return what the processor says of itself in ``/proc/cpuinfo``, or where that is hidden by CPUID.

    Parameters
    ----------
    tree
        The folder below which ``proc`` lies; the real one if not given.
    architecture
        As ``platform.machine()`` has it; asked for if not given.
    cpuid
        What answers CPUID; the processor that runs this, unless ``tree`` is another machine's.
    """
    import platform

    info = cpuinfo(tree or Tree(Path("/")))
    here = tree is None or tree.root == Path("/")
    if not info and (here or cpuid is not None):
        return _by_cpuid(architecture or platform.machine(), cpuid)
    return Processor(
        architecture=architecture or platform.machine(),
        name=info.get("model name", ""),
        vendor=info.get("vendor_id", ""),
        family=_number(info.get("cpu family")),
        model=_number(info.get("model")),
        stepping=_number(info.get("stepping")),
        implementer=_number(info.get("CPU implementer")),
        part=_number(info.get("CPU part")),
        pvr=_pvr(info),
    )


def _by_cpuid(architecture: str, cpuid: Cpuid | None) -> Processor:
    """Return what an x86 processor answers to CPUID; of others, and without our compiled part, little."""
    from ..machine import cpuid as asked

    try:
        cpuid = cpuid or asked.processor_cpuid
        known = asked.family_and_model(cpuid)
    except CounteroofError:
        known = None
    if cpuid is None or known is None:
        return Processor(architecture=architecture)
    return Processor(
        architecture=architecture,
        name=asked.brand(cpuid) or "",
        vendor=asked.vendor(cpuid) or "",
        family=known[0],
        model=known[1],
        stepping=asked.stepping(cpuid),
    )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def _pvr(info: Mapping[str, Any]) -> int | None:
    """Return the version half of POWER's processor version register: "revision : 2.2 (pvr 004e 1202)"."""
    match = re.search(r"pvr ([0-9a-f]{4}) [0-9a-f]{4}", str(info.get("revision", "")))
    return int(match[1], 16) if match else None
