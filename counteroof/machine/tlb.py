"""The buffers of address translations: what CPUID says of them, and what can be simulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from ..errors import Problem
from .cpuid import Cpuid, existing_leaf, vendor
from .model import PageSize, Tlb

_SMALL: tuple[PageSize, ...] = ("4 KiB",)
_HUGE: tuple[PageSize, ...] = ("2 MiB",)
_BOTH = _SMALL + _HUGE
_CPUID = "CPUID"

# Intel SDM, volume 2, CPUID leaf 2: descriptors of data and shared second-level TLBs since Nehalem.
# Others, of 1 GiB pages and of instructions, are left out.
_DESCRIPTORS = {
    0x03: Tlb(1, 64, 4, _SMALL),
    0x5A: Tlb(1, 32, 4, _HUGE),
    0x63: Tlb(1, 32, 4, _HUGE),
    0xC1: Tlb(2, 1024, 8, _BOTH),
    0xC3: Tlb(2, 1536, 6, _BOTH),
    0xC4: Tlb(1, 32, 4, _HUGE),
    0xCA: Tlb(2, 512, 4, _SMALL),
}
_AMD_WAYS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 16, 0xA: 32, 0xB: 48, 0xC: 64, 0xD: 96, 0xE: 128}
"""AMD APM volume 3, leaf 8000_0006H: the fewest ways that a code stands for; 0FH is fully associative."""
_AMD_MAKERS = ("AuthenticAMD", "HygonGenuine")


def problem(tlb: Tlb) -> str | None:
    """Return why a TLB cannot be simulated, or ``None`` if it can."""
    if tlb.level not in (1, 2):
        return f"a TLB is of level 1 or 2, not {tlb.level}"
    if not 1 <= tlb.entries <= 1 << 20:
        return f"a TLB has 1 to {1 << 20} entries, not {tlb.entries}"
    if tlb.ways < 1 or tlb.entries % tlb.ways:
        return f"{tlb.entries} entries of a TLB are not a whole number of sets of {tlb.ways} ways"
    if not tlb.pages:
        return "a TLB takes pages of some size"
    sets = tlb.entries // tlb.ways
    if tlb.hashed and sets & (sets - 1):
        return f"a hashed TLB has a power of two of sets, not {sets}"
    return None


def problems(tlbs: Sequence[Tlb], where: str) -> list[Problem]:
    """Return what cannot be in a list of TLBs."""
    found = []
    taken: set[tuple[int, PageSize]] = set()
    for index, one in enumerate(tlbs):
        if wrong := problem(one):
            found.append(Problem(f"{where}[{index}]", wrong, "a TLB that can be simulated"))
        for size in one.pages:
            if (one.level, size) in taken:
                again = f"level {one.level} has more than one TLB for pages of {size}"
                found.append(Problem(f"{where}[{index}].pages", again, "one for each size and level"))
            taken.add((one.level, size))
    return found


def text(tlbs: Iterable[Tlb]) -> str:
    """Return TLBs in words: ``L1 64 entries 4-way 4 KiB, L2 1536 entries 12-way hashed 4 KiB and 2 MiB``."""
    return ", ".join(
        f"L{tlb.level} {tlb.entries} entries {tlb.ways}-way{' hashed' * tlb.hashed} {' and '.join(tlb.pages)}"
        for tlb in tlbs
    )


def by_own_leaf(cpuid: Cpuid) -> tuple[Tlb, ...]:
    """Return the data TLBs of an Intel processor that has a leaf for them, which tells entries and ways.

    None if it has not, or does not tell those of level 1: a hypervisor may leave it empty.
    """
    return _usable(_deterministic(cpuid)) if vendor(cpuid) == "GenuineIntel" else ()


def by_leaves_of_amd(cpuid: Cpuid) -> tuple[Tlb, ...]:
    """Return the data TLBs of an AMD processor that tells them itself: their entries, and ways in outline.

    None of another maker, nor if level 1 is not fully associative, as that of all with these leaves since
    Zen is: what hypervisors make up (QEMU: 255 entries in one way) is not.
    """
    found = by_cpuid(cpuid) if vendor(cpuid) in _AMD_MAKERS else ()
    first = [one for one in found if one.level == 1]
    return found if first and all(one.ways == one.entries for one in first) else ()


def by_cpuid(cpuid: Cpuid) -> tuple[Tlb, ...]:
    """Return the data TLBs of this processor, level 1 first; none if it does not tell those of level 1."""
    maker = vendor(cpuid)
    if maker == "GenuineIntel":
        found = list(_deterministic(cpuid)) or list(_descriptors(cpuid))
    elif maker in _AMD_MAKERS:
        found = [*_amd(cpuid, 1), *_amd(cpuid, 2)]
    else:
        found = []
    return _usable(found)


def _usable(tlbs: Iterable[Tlb]) -> tuple[Tlb, ...]:
    found = [dataclasses.replace(one, source=_CPUID) for one in tlbs if not problem(one)]
    if not any(one.level == 1 and "4 KiB" in one.pages for one in found):
        return ()
    return tuple(sorted(_first_of_each_size(found), key=lambda one: one.level))


def _first_of_each_size(tlbs: Sequence[Tlb]) -> Iterator[Tlb]:
    """Leave out pages of a size that an earlier TLB of the level takes."""
    taken: set[tuple[int, PageSize]] = set()
    for tlb in tlbs:
        pages = tuple(size for size in tlb.pages if (tlb.level, size) not in taken)
        taken |= {(tlb.level, size) for size in pages}
        if pages:
            yield dataclasses.replace(tlb, pages=pages)


def _deterministic(cpuid: Cpuid) -> Iterator[Tlb]:
    """Decode Intel's leaf 18H (SDM, volume 2). Of TLBs for loads and for stores, that for loads counts."""
    first = existing_leaf(cpuid, 0x18)
    for subleaf in range(min(first[0], 31) + 1 if first else 0):
        registers = existing_leaf(cpuid, 0x18, subleaf)
        if registers is None:
            return
        _, ebx, sets, edx = registers
        kind, level, ways = edx & 0x1F, edx >> 5 & 7, ebx >> 16
        pages = _SMALL * (ebx & 1) + _HUGE * (ebx >> 1 & 1)
        if kind in (1, 3, 4) and level in (1, 2) and pages:  # data, unified, loads
            yield Tlb(level, ways * sets, ways, pages)


def _descriptors(cpuid: Cpuid) -> Iterator[Tlb]:
    registers = existing_leaf(cpuid, 2)
    if registers is None:
        return
    for index, register in enumerate(registers):
        if register >> 31:  # no descriptors in this one
            continue
        for byte in register.to_bytes(4, "little")[1 if index == 0 else 0 :]:
            if byte in _DESCRIPTORS:
                yield _DESCRIPTORS[byte]


def _amd(cpuid: Cpuid, level: int) -> Iterator[Tlb]:
    """Decode leaf 8000_0005H or 8000_0006H; as many entries for both sizes are taken to be one TLB."""
    registers = existing_leaf(cpuid, 0x8000_0004 + level)
    if registers is None:
        return
    huge, small = (_amd_geometry(register, level) for register in registers[:2])
    if small and huge and small[0] == huge[0]:
        yield Tlb(level, *small, _BOTH)
        return
    for geometry, pages in ((small, _SMALL), (huge, _HUGE)):
        if geometry:
            yield Tlb(level, *geometry, pages)


def _amd_geometry(register: int, level: int) -> tuple[int, int] | None:
    """Return entries and ways of a data TLB, whose half of the register is the upper one."""
    if level == 1:
        entries, ways = register >> 16 & 0xFF, register >> 24
        return (entries, entries if ways == 0xFF else ways) if entries and ways else None
    entries, code = register >> 16 & 0xFFF, register >> 28
    found = entries if code == 0xF else _AMD_WAYS.get(code)
    if not entries or not found:
        return None
    above = (ways for other, ways in _AMD_WAYS.items() if other > code)
    may_be = range(found, next(above, found + 1))
    # a code stands for as many ways as up to the next one: of these, that which leaves a power of two of sets
    whole = (ways for ways in may_be if entries % ways == 0 and (entries // ways).bit_count() == 1)
    return entries, next(whole, found)
