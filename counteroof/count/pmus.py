"""The PMUs that the kernel shows in sysfs, and what to open on them: codes, processors, sockets.

All is read below a root folder, so that the machines nobody has at hand can be described by their files.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..machine.sysfs import CPU, Tree, online
from .events import EventFact
from .perf_open import Event

DEVICES = "sys/bus/event_source/devices"
REAL = Tree(Path("/"))
NO_CORE = "the kernel has no PMU of the cores (most virtual machines have none)"
NOT_SHOWN = f"/{DEVICES} is not there, so that no PMU can be found (is /sys mounted?)"
UNITS = {"Bytes": 1, "bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""What the kernel writes into ``.unit`` files."""


class NotEncodable(ValueError):
    """A PMU has no place for a field of an event's code; the text says which."""


@dataclass(frozen=True)
class Pmu:
    """One PMU as sysfs shows it.

    Attributes
    ----------
    name
        Such as ``cpu``, ``uncore_imc_3``, ``amd_umc_0``.
    type
        What perf_event_open calls it.
    format
        For each field of a code the word it goes to (0: config) and its bit ranges, low bits first.
    events
        The kernel's own names, with their codes as text.
    scales
        What one count of a named event is, with its unit: ``("6.103515625e-5", "MiB")``.
    cpus
        Processors on which it is to be opened, ``None`` if it follows threads.
    """

    name: str
    type: int
    format: Mapping[str, tuple[int, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    events: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cpus: tuple[int, ...] | None = None

    def words(self, values: Mapping[str, int]) -> tuple[int, int, int]:
        """Return ``config``, ``config1`` and ``config2`` of the values of fields.

        Raises
        ------
        NotEncodable
            If the PMU has no such field, or a value does not fit into it.
        """
        words = [0, 0, 0]
        for name, value in values.items():
            if name in ("config", "config1", "config2"):
                words[("config", "config1", "config2").index(name)] |= value
                continue
            if name not in self.format:
                known = ", ".join(self.format) or "none"
                raise NotEncodable(f"the PMU {self.name} has no field {name!r} (its fields: {known})")
            word, ranges = self.format[name]
            rest = value
            for low, high in ranges:
                width = high - low + 1
                words[word] |= (rest & ((1 << width) - 1)) << low
                rest >>= width
            if rest:
                raise NotEncodable(f"the value {value:#x} does not fit into {name!r} of the PMU {self.name}")
        return words[0], words[1], words[2]

    def named(self, name: str) -> Mapping[str, int]:
        """Return the fields of one of the kernel's named events; ``event=0x3c,umask=0x0``."""
        return parse_terms(self.events[name])


def parse_terms(text: str) -> dict[str, int]:
    """Return the fields of an event as sysfs writes it; a field without a value is 1."""
    terms: dict[str, int] = {}
    for term in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = term.partition("=")
        if value != "?":
            terms[name] = int(value, 0) if value else 1
    return terms


def parse_format(text: str) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """Return the word and the bit ranges of ``config1:0-7,32-35``, or ``None`` if that is not what it is."""
    match = re.fullmatch(r"config([0-3]?):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", text.strip())
    if match is None or match[1] == "3":
        return None
    ranges = []
    for part in match[2].split(","):
        low, _, high = part.partition("-")
        ranges.append((int(low), int(high or low)))
    return int(match[1] or 0), tuple(ranges)


def discover(tree: Tree = REAL) -> tuple[Pmu, ...]:
    """Return the PMUs, sorted by name with their numbers in order; one that cannot be read is left out."""
    try:
        names = [entry.name for entry in (tree.root / DEVICES).iterdir()]
    except OSError:
        return ()
    found = (_pmu(tree, name) for name in sorted(names, key=_natural))
    return tuple(pmu for pmu in found if pmu is not None)


def without_cores(pmus: Iterable[Pmu], tree: Tree = REAL) -> str:
    """Return why there is no PMU of the cores: the kernel has none, or nothing shows which it has."""
    return NO_CORE if tuple(pmus) or (tree.root / DEVICES).is_dir() else NOT_SHOWN


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _pmu(tree: Tree, name: str) -> Pmu | None:
    folder = f"{DEVICES}/{name}"
    kind = tree.number(f"{folder}/type")
    if kind is None:
        return None
    formats = {}
    for entry in _entries(tree, f"{folder}/format"):
        parsed = parse_format(tree.text(f"{folder}/format/{entry}") or "")
        if parsed is not None:
            formats[entry] = parsed
    texts = {
        entry: tree.text(f"{folder}/events/{entry}") or "" for entry in _entries(tree, f"{folder}/events")
    }
    events = {entry: text for entry, text in texts.items() if not entry.endswith((".scale", ".unit"))}
    scales = {
        entry.removesuffix(".scale"): (text, texts.get(entry.removesuffix(".scale") + ".unit", ""))
        for entry, text in texts.items()
        if entry.endswith(".scale")
    }
    cpus = tree.cpus(f"{folder}/cpumask")
    return Pmu(name, kind, formats, events, scales, cpus)


def _entries(tree: Tree, folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in (tree.root / folder).iterdir())
    except OSError:
        return []


def matching(pmus: Iterable[Pmu], pattern: str) -> tuple[Pmu, ...]:
    """Return the PMUs whose name is as a set of events says.

    ``[0-9]*`` at the end stands for a number and nothing behind it: ``uncore_imc_[0-9]*`` is not
    ``uncore_imc_0_extra``; a name without a number, as the only PMU of a kind has it, goes with it too.
    """
    if pattern.endswith("_[0-9]*"):
        stem = re.escape(pattern.removesuffix("_[0-9]*"))
        return tuple(pmu for pmu in pmus if re.fullmatch(rf"{stem}(_\d+)?", pmu.name))
    return tuple(pmu for pmu in pmus if fnmatch.fnmatchcase(pmu.name, pattern))


CORE_PATTERNS = ("cpu", "cpu_core", "cpu_atom", "cpu_lowpower", "armv[78]_*", "armv9_*", "apple_*_pmu")


def core_pmus(pmus: Iterable[Pmu], names: Iterable[str] = ()) -> tuple[Pmu, ...]:
    """Return the PMUs of the cores: those named, else whatever is one by its name."""
    wanted = tuple(names)
    by_name = {pmu.name: pmu for pmu in pmus}
    if wanted and all(name not in by_name for name in wanted) and "cpu" in by_name:
        wanted = ("cpu",)  # a hybrid processor with its small cores switched off, or a guest of one
    if wanted:
        return tuple(by_name[name] for name in wanted if name in by_name)
    return tuple(
        pmu for pmu in by_name.values() if any(fnmatch.fnmatchcase(pmu.name, one) for one in CORE_PATTERNS)
    )


def fields_of(fact: EventFact) -> dict[str, int]:
    """Return the fields of an event's code as the files of its data have them."""
    values = {} if fact.event is None else {"event": fact.event}
    if fact.umask:
        values["umask"] = fact.umask
    if fact.config1:
        values["config1"] = fact.config1
    return values | dict(fact.fields)


def encode(pmu: Pmu, fact: EventFact) -> tuple[int, int, int]:
    """Return the words of an event on a PMU.

    Raises
    ------
    NotEncodable
        If the PMU has no place for its code, or no event of the name that only the firmware can decode.
    """
    if fact.sysfs:
        names = sorted(name for name in pmu.events if fnmatch.fnmatchcase(name, fact.sysfs))
        if not names:
            raise NotEncodable(f"the PMU {pmu.name} lists no event {fact.sysfs}")
        return pmu.words(pmu.named(names[0]))
    return pmu.words(fields_of(fact))


def open_on(pmu: Pmu, fact: EventFact, tree: Tree = REAL) -> tuple[Event, ...]:
    """Return what to open for an event of a socket's PMU: one for each processor of its cpumask.

    Raises
    ------
    NotEncodable
        As :func:`encode`.
    """
    config, config1, config2 = encode(pmu, fact)
    cpus = pmu.cpus or (online(tree) or (0,))[:1]
    return tuple(
        Event(fact.name, pmu.name, pmu.type, config, config1, config2, cpu=cpu, exclude=0) for cpu in cpus
    )


def on_core(pmu: Pmu, fact: EventFact) -> Event:
    """Return what to open for an event of the core, wherever the thread runs.

    Raises
    ------
    NotEncodable
        As :func:`encode`.
    """
    config, config1, config2 = encode(pmu, fact)
    return Event(fact.name, pmu.name, pmu.type, config, config1, config2)


def firmware_bytes(pmu: Pmu, fact: EventFact) -> float | None:
    """Return the bytes of a count as the PMU's own files have it, or ``None`` if they do not say."""
    names = [name for name in pmu.scales if fact.sysfs and fnmatch.fnmatchcase(name, fact.sysfs)]
    if not names:
        return None
    scale, unit = pmu.scales[names[0]]
    try:
        return float(scale) * UNITS[unit or "Bytes"]
    except (KeyError, ValueError):
        return None


def socket_of(tree: Tree, cpu: int) -> int:
    """Return the socket a processor is in; 0 if the kernel does not tell."""
    package = tree.number(f"{CPU}/cpu{cpu}/topology/physical_package_id")
    return package if package is not None and package >= 0 else 0
