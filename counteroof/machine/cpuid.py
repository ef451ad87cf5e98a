"""Decodes what an x86-64 processor says of itself through CPUID, which works where ``/sys`` does not.

A hypervisor may answer in the processor's place, and answers may be nonsense; what is not plausible is
dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from .sysfs import CacheFacts

Registers = tuple[int, int, int, int]
"""eax, ebx, ecx, edx."""

Cpuid = Callable[[int, int], Registers | None]
"""Leaf and subleaf to registers, or ``None`` where there is no CPUID."""

_EXTENDED = 0x8000_0000
_HYPERVISORS = {
    "KVMKVMKVM": "KVM",
    "Linux KVM Hv": "KVM",
    "Microsoft Hv": "Hyper-V",
    "VMwareVMware": "VMware",
    "XenVMMXenVMM": "Xen",
    "TCGTCGTCGTCG": "QEMU without KVM",
    "VBoxVBoxVBox": "VirtualBox",
    "bhyve bhyve ": "bhyve",
    "ACRNACRNACRN": "ACRN",
}


def processor_cpuid(leaf: int, subleaf: int) -> Registers | None:
    """Return the registers that this processor answers with, or ``None`` if it has no CPUID."""
    from ..native import ffi, lib

    registers = ffi.new("uint32_t[4]")
    if lib.machine_cpuid(leaf, subleaf, registers) != 0:
        return None
    return (registers[0], registers[1], registers[2], registers[3])


def existing_leaf(cpuid: Cpuid, leaf: int, subleaf: int = 0) -> Registers | None:
    """Return a leaf that exists; beyond the last one, processors repeat other leaves."""
    highest = cpuid(leaf & _EXTENDED, 0)
    return cpuid(leaf, subleaf) if highest is not None and highest[0] >= leaf else None


def vendor(cpuid: Cpuid) -> str | None:
    """Return ``GenuineIntel``, ``AuthenticAMD`` and the like."""
    registers = cpuid(0, 0)
    if registers is None:
        return None
    return _text(registers[1], registers[3], registers[2]) or None


def clocks(cpuid: Cpuid) -> tuple[float | None, float | None]:
    """Return nominal and maximum clock (Intel SDM, CPUID leaf 16H, in MHz), 0 being none."""
    registers = existing_leaf(cpuid, 0x16) if vendor(cpuid) == "GenuineIntel" else None
    if registers is None:
        return None, None
    nominal, maximum = (1e6 * (register & 0xFFFF) or None for register in registers[:2])
    return nominal, maximum


def family_and_model(cpuid: Cpuid) -> tuple[int, int] | None:
    """Return family and model with their extensions added (Intel SDM, CPUID leaf 1)."""
    registers = existing_leaf(cpuid, 1)
    if registers is None:
        return None
    eax = registers[0]
    family, model = eax >> 8 & 0xF, eax >> 4 & 0xF
    if family in (6, 15):
        model |= (eax >> 16 & 0xF) << 4
    if family == 15:
        family += eax >> 20 & 0xFF
    return family, model


def stepping(cpuid: Cpuid) -> int | None:
    """Return the stepping (Intel SDM, CPUID leaf 1)."""
    registers = existing_leaf(cpuid, 1)
    return None if registers is None else registers[0] & 0xF


def brand(cpuid: Cpuid) -> str | None:
    """Return the model name the processor carries."""
    leaves = [existing_leaf(cpuid, leaf) for leaf in (0x8000_0002, 0x8000_0003, 0x8000_0004)]
    return "".join(_text(*registers) for registers in leaves if registers is not None).strip() or None


def hypervisor(cpuid: Cpuid) -> str | None:
    """Return the hypervisor's name, or ``None`` if the processor says there is none."""
    registers = existing_leaf(cpuid, 1)
    if registers is None or not registers[2] >> 31 & 1:
        return None
    answer = cpuid(0x4000_0000, 0)
    signature = _text(*answer[1:]) if answer else ""
    known = _HYPERVISORS.get(signature) or _HYPERVISORS.get(signature.rstrip())
    return known or f"unknown ({signature.strip() or 'no signature'})"


def vector_flags(cpuid: Cpuid) -> set[str]:
    """Return which of ``avx``, ``avx2`` and ``avx512f`` the processor has and the kernel has room for."""
    basic, saved = existing_leaf(cpuid, 1), existing_leaf(cpuid, 0xD)
    features = existing_leaf(cpuid, 7) or (0, 0, 0, 0)
    if basic is None or saved is None or not basic[2] >> 27 & 1:  # OSXSAVE: the kernel saves vector registers
        return set()
    # what it may save (SDM, leaf 0DH); a kernel that saves any of it saves all it knows of
    halves, registers = saved[0] & 0b110 == 0b110, saved[0] & 0xE6 == 0xE6
    present = {
        "avx": halves and basic[2] >> 28 & 1,
        "avx2": halves and features[1] >> 5 & 1,
        "avx512f": registers and features[1] >> 16 & 1,
    }
    return {name for name, there in present.items() if there}


def caches(cpuid: Cpuid) -> tuple[CacheFacts, ...]:
    """Return the data and unified caches of the processor, the nearest first; none if it does not tell."""
    for leaf in (4, 0x8000_001D):
        if leaf != 4 and not _topology_extensions(cpuid):
            continue
        found = _caches_of_leaf(cpuid, leaf)
        if found:
            return found
    return ()


def _topology_extensions(cpuid: Cpuid) -> bool:
    registers = existing_leaf(cpuid, 0x8000_0001)
    return registers is not None and bool(registers[2] >> 22 & 1)  # AMD APM 3, TopologyExtensions


def _caches_of_leaf(cpuid: Cpuid, leaf: int) -> tuple[CacheFacts, ...]:
    """Decode the deterministic cache parameters, which AMD's leaf lays out as Intel's does."""
    found: dict[int, CacheFacts] = {}
    for subleaf in range(16):
        registers = existing_leaf(cpuid, leaf, subleaf)
        if registers is None or not 1 <= registers[0] & 0x1F <= 3:  # data, instruction, unified
            break
        eax, ebx, ecx, edx = registers
        kind, level = eax & 0x1F, eax >> 5 & 7
        line, partitions, ways = (ebx & 0xFFF) + 1, (ebx >> 12 & 0x3FF) + 1, (ebx >> 22) + 1
        if kind == 2 or not 1 <= level <= 4 or line < 16 or line & (line - 1):
            continue
        found.setdefault(
            level,
            CacheFacts(
                level=level,
                bytes=ways * partitions * line * (ecx + 1),
                ways=ways,
                line_bytes=line,
                shared_by=(eax >> 14 & 0xFFF) + 1,  # at most: identifiers are rounded up to a power of two
                inclusive=bool(edx >> 1 & 1),
                hashed=bool(edx >> 2 & 1) if leaf == 4 else None,
                source="CPUID",
            ),
        )
    return tuple(found[level] for level in sorted(found))


def _text(*registers: int) -> str:
    raw = b"".join(struct.pack("<I", register) for register in registers)
    return raw.rstrip(b"\0").decode("ascii", errors="replace")
