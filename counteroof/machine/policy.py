"""How lines get into each cache, its index and replacement, by processor: nothing at run time tells all.

The facts are the files of ``counteroof/data/machines``, one a vendor, with an entry for each
microarchitecture; every property says how it is known and from where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .. import jsonio
from ..errors import MachineFileError, Problem
from . import replacement
from . import tlb as tlb_
from .cpuid import Cpuid
from .model import Evasion, Fill, PageSize, Partial, Policy, Stores, Tlb

FOLDER = Path(__file__).resolve().parent.parent / "data" / "machines"
GENERIC = "generic.toml"

Known = Literal["measured", "published", "assumed"]


@dataclass(frozen=True)
class Identity:
    """The processor as tables know it; for Arm, the implementer and part numbers."""

    vendor: str | None
    family: int | None
    model: int | None


@dataclass(frozen=True)
class FillFact:
    """How a level is filled, how that is known, and the name of the source."""

    value: Fill
    known: Known
    source: str


@dataclass(frozen=True)
class HashFact:
    """Whether a hash of the address picks the set."""

    value: bool
    known: Known
    source: str


@dataclass(frozen=True)
class PolicyFact:
    """Which line of a full set leaves, as :func:`.replacement.read` takes it."""

    value: Any
    known: Known
    source: str


@dataclass(frozen=True, kw_only=True)
class TlbGeometry:
    """A TLB as entries of a file give it; see ``Tlb``."""

    level: int
    entries: int
    ways: int
    pages: tuple[PageSize, ...]
    hashed: bool = False


@dataclass(frozen=True)
class TlbFact:
    """The data TLBs of a core."""

    value: tuple[TlbGeometry, ...]
    known: Known
    source: str


@dataclass(frozen=True)
class EvasionFact:
    """Whether a store of a whole line spares the read of it."""

    value: Evasion
    known: Known
    source: str


@dataclass(frozen=True)
class PartialFact:
    """What a partly filled write-combining buffer costs."""

    value: Partial
    known: Known
    source: str


@dataclass(frozen=True, kw_only=True)
class Microarchitecture:
    """What is known of one microarchitecture; ``None`` is what its entry does not say.

    Attributes
    ----------
    families, family_from, models, model_ranges
        What fits: a family among these or not below that; a model among these or in one of the ranges, both
        ends included. Empty fits any.
    l3_fill, l3_hashed, l3_policy
        Of all levels from the third on.
    """

    name: str
    families: tuple[int, ...] = ()
    family_from: int | None = None
    models: tuple[int, ...] = ()
    model_ranges: tuple[tuple[int, int], ...] = ()
    l2_fill: FillFact | None = None
    l3_fill: FillFact | None = None
    l3_hashed: HashFact | None = None
    l3_policy: PolicyFact | None = None
    write_allocate_evasion: EvasionFact | None = None
    partial_lines: PartialFact | None = None
    tlbs: TlbFact | None = None

    def fits(self, identity: Identity) -> bool:
        """Whether a processor of a fitting vendor is one of these."""
        family, model = identity.family, identity.model
        if self.families and family not in self.families:
            return False
        if self.family_from is not None and (family is None or family < self.family_from):
            return False
        if not self.models and not self.model_ranges:
            return True
        return model is not None and (
            model in self.models or any(first <= model <= last for first, last in self.model_ranges)
        )

    def facts(
        self,
    ) -> Iterator[tuple[str, FillFact | HashFact | PolicyFact | EvasionFact | PartialFact | TlbFact]]:
        """Give the names and facts of what the entry says."""
        for name in (
            "l2_fill",
            "l3_fill",
            "l3_hashed",
            "l3_policy",
            "write_allocate_evasion",
            "partial_lines",
            "tlbs",
        ):
            fact = getattr(self, name)
            if fact is not None:
                yield name, fact


@dataclass(frozen=True, kw_only=True)
class PolicyFile:
    """One file as it is written."""

    vendors: tuple[str, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    microarchitecture: tuple[Microarchitecture, ...] = ()


def load(path: Path) -> PolicyFile:
    """Return a file of cache policies.

    Raises
    ------
    MachineFileError
        With everything that is wrong in it.
    """
    import tomli

    try:
        data = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineFileError([Problem(str(path), str(error), "a TOML file that can be read")]) from error
    problems: list[Problem] = []
    found = jsonio.from_json(PolicyFile, data, "", problems)
    if found is not None:
        for entry in found.microarchitecture:
            problems += [
                Problem(
                    f"{entry.name}: {name}", f"source {fact.source!r}", f"one of {', '.join(found.sources)}"
                )
                for name, fact in entry.facts()
                if fact.source not in found.sources
            ]
            problems += tlb_.problems(_tlbs_of(entry.tlbs), f"{entry.name}: tlbs")
            if entry.l3_policy is not None:
                replacement.read(entry.l3_policy.value, f"{entry.name}: l3_policy.value", problems)
    if found is None or problems:
        raise MachineFileError([replace(one, where=f"{path.name}: {one.where}") for one in problems])
    return found


@cache
def files() -> Mapping[str, PolicyFile]:
    """Return the files that come with counteroof, by name."""
    return {path.name: load(path) for path in sorted(FOLDER.glob("*.toml"))}


def microarchitecture(identity: Identity) -> Microarchitecture | None:
    """Return the first entry that fits a processor, or ``None`` if no file of its vendor has one."""
    return next(
        (
            entry
            for file in files().values()
            if identity.vendor in file.vendors
            for entry in file.microarchitecture
            if entry.fits(identity)
        ),
        None,
    )


def generic() -> Microarchitecture:
    """Return what is taken for a processor that nobody knows."""
    (entry,) = files()[GENERIC].microarchitecture
    return entry


def fill(identity: Identity, level: int, inclusive: bool | None) -> tuple[Fill, str]:
    """Return how a level is filled, and how that is known.

    ``inclusive`` is what CPUID says of the level, or ``None``. It tells inclusive from the rest, but not a
    cache filled by evictions from one filled along with the levels above.
    """
    if level == 1:
        return "non-inclusive", ""
    entry = microarchitecture(identity)
    fact = _fill_fact(entry, level) if entry else None
    if entry and fact:
        return fact.value, f"fill {fact.known} for {entry.name}"
    if inclusive is not None:
        return ("inclusive" if inclusive else "non-inclusive"), "fill by CPUID"
    usual = _fill_fact(generic(), level)
    assert usual is not None  # a test says so of the file
    return usual.value, f"fill {usual.known}"


def _fill_fact(entry: Microarchitecture, level: int) -> FillFact | None:
    return entry.l2_fill if level == 2 else entry.l3_fill


def hashed(identity: Identity, level: int, complex_index: bool | None) -> tuple[bool, str]:
    """Return whether a hash of the address picks the set, and how that is known.

    ``complex_index`` is what CPUID says of the level, or ``None``.
    """
    if level < 3:
        return bool(complex_index), ""
    entry = microarchitecture(identity)
    if entry and entry.l3_hashed:
        return entry.l3_hashed.value, f"index {entry.l3_hashed.known} for {entry.name}"
    if complex_index is not None:
        return complex_index, "index by CPUID"
    usual = generic().l3_hashed
    assert usual is not None
    return usual.value, f"hashed index {usual.known}"


def replaced(identity: Identity, level: int) -> tuple[Policy, str]:
    """Return which line of a full set leaves a level, and how that is known."""
    if level < 3:
        return Policy(), ""
    entry = microarchitecture(identity)
    fact = entry.l3_policy if entry else None
    name = f" for {entry.name}" if entry and fact else ""
    fact = fact or generic().l3_policy
    assert fact is not None
    found = replacement.read(fact.value, "", [])
    assert found is not None  # load has read it
    return found, f"{replacement.text(found)} {fact.known}{name}"


def stores(identity: Identity) -> Stores:
    """Return what stores cost beyond the lines that they write, with how that is known in ``source``.

    Evasion under load spares nothing in the model, which does not know the load: it depends on how busy
    memory is and on how long the runs of stores are (Laukemann et al., IPDPS 2024).
    """
    entry = microarchitecture(identity) or generic()
    usual = generic()
    evasion = entry.write_allocate_evasion or usual.write_allocate_evasion
    partial = entry.partial_lines or usual.partial_lines
    assert evasion is not None  # a test says so of the file
    assert partial is not None
    known = [
        f"{what} {fact.known}" + ("" if fact in (of for _, of in usual.facts()) else f" for {entry.name}")
        for what, fact in (("write-allocate evasion", evasion), ("partly filled lines", partial))
    ]
    share = 1.0 if evasion.value == "always" else 0.0
    return Stores(evasion.value, share, partial.value, "; ".join(known))


def tlbs(identity: Identity, cpuid: Cpuid) -> tuple[Tlb, ...]:
    """Return the data TLBs of a core; none if nothing tells them.

    A leaf of CPUID that tells entries and ways is asked first; it does not know of hashes, which are the
    table's if its geometry is the same. AMD's leaves tell entries, and of ways the order of magnitude: these
    are the table's if it has as many entries. Other leaves are asked last: they do not know every
    associativity.
    """
    entry = microarchitecture(identity)
    known = _tlbs_of(entry.tlbs) if entry else ()
    told = tlb_.by_own_leaf(cpuid)
    if told:
        hashed = {(one.level, one.entries, one.ways) for one in known if one.hashed}
        return tuple(replace(one, hashed=(one.level, one.entries, one.ways) in hashed) for one in told)
    if entry is None or entry.tlbs is None:
        return tlb_.by_cpuid(cpuid)
    source = f"{entry.tlbs.known} for {entry.name}"
    told = tlb_.by_leaves_of_amd(cpuid)
    if told and _entries(told) != _entries(known):
        return told
    if told:
        source = f"entries by CPUID, ways {source}"
    return tuple(replace(one, source=source) for one in known)


def _entries(tlbs: Sequence[Tlb]) -> dict[tuple[int, PageSize], int]:
    return {(one.level, size): one.entries for one in tlbs for size in one.pages}


def _tlbs_of(fact: TlbFact | None) -> tuple[Tlb, ...]:
    return tuple(
        Tlb(one.level, one.entries, one.ways, one.pages, one.hashed) for one in (fact.value if fact else ())
    )
