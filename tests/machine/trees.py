"""Synthetic ``/sys`` and ``/proc`` folders, and answers to CPUID, of machines the tests do not run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from counteroof.machine.cpuid import Cpuid, Registers


@dataclass(frozen=True)
class Cache:
    """What sysfs says of one cache; ``None`` is a file that is not there."""

    level: int
    size: str | None
    ways: int | None
    shared: str
    kind: str = "Unified"
    sets: int | None = None
    line: int | None = 64


def write(root: Path, path: str, text: str) -> None:
    """Write a file below ``root``."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def write_cpu(root: Path, cpu: int, caches: Sequence[Cache], siblings: str = "", capacity: int = 0) -> None:
    """Write the folder of one processor."""
    folder = f"sys/devices/system/cpu/cpu{cpu}"
    for index, cache in enumerate(caches):
        one = f"{folder}/cache/index{index}"
        write(root, f"{one}/level", str(cache.level))
        write(root, f"{one}/type", cache.kind)
        write(root, f"{one}/shared_cpu_list", cache.shared)
        for name, value in (
            ("size", cache.size),
            ("ways_of_associativity", cache.ways),
            ("number_of_sets", cache.sets),
            ("coherency_line_size", cache.line),
        ):
            if value is not None:
                write(root, f"{one}/{name}", str(value))
    if siblings:
        write(root, f"{folder}/topology/core_cpus_list", siblings)
    if capacity:
        write(root, f"{folder}/cpu_capacity", str(capacity))


def write_proc(root: Path, cpus: int, fields: dict[str, str], memory_kb: int = 16 * 1024**2) -> None:
    """Write ``/proc/cpuinfo``, ``/proc/meminfo`` and the list of processors that are on."""
    blocks = [
        "\n".join([f"processor\t: {cpu}", *(f"{key}\t: {value}" for key, value in fields.items())])
        for cpu in range(cpus)
    ]
    write(root, "proc/cpuinfo", "\n\n".join(blocks))
    write(root, "proc/meminfo", f"MemTotal: {memory_kb} kB\nMemFree: 1 kB\nMemAvailable: {memory_kb // 2} kB")
    write(root, "sys/devices/system/cpu/online", f"0-{cpus - 1}" if cpus > 1 else "0")


def x86(vendor: str, family: int, model: int, name: str, flags: str) -> dict[str, str]:
    """Return the fields of ``/proc/cpuinfo`` on x86-64."""
    return {
        "vendor_id": vendor,
        "cpu family": str(family),
        "model": str(model),
        "model name": name,
        "flags": flags,
    }


ZEN5 = x86("AuthenticAMD", 26, 2, "AMD EPYC", "fpu sse2 avx hypervisor avx2 fma avx512f")


def zen5_vm(root: Path) -> Path:
    """Write a two-processor virtual machine on Zen 5, every cache visible."""
    write_proc(root, 2, ZEN5, 24 * 1024**2)
    for cpu in range(2):
        own = str(cpu)
        caches = [
            Cache(1, "48K", 12, own, "Data"),
            Cache(1, "32K", 8, own, "Instruction"),
            Cache(2, "1024K", 16, own),
            Cache(3, "32768K", 16, "0-1"),
        ]
        write_cpu(root, cpu, caches, own)
    return root


def skylake_sp(root: Path) -> Path:
    """Write two sockets of two cores of two threads; numbers go over cores first, as on real ones."""
    write_proc(
        root,
        8,
        x86("GenuineIntel", 6, 85, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "sse2 avx avx2 avx512f"),
    )
    for cpu in range(8):
        core = f"{cpu % 4},{cpu % 4 + 4}"
        socket = "0-1,4-5" if cpu % 4 < 2 else "2-3,6-7"
        caches = [
            Cache(1, "32K", 8, core, "Data"),
            Cache(1, "32K", 8, core, "Instruction"),
            Cache(2, "1024K", 16, core),
            Cache(3, "28160K", 11, socket),
        ]
        write_cpu(root, cpu, caches, core)
    return root


def ice_lake_client(root: Path) -> Path:
    """Write a laptop processor with an inclusive last-level cache."""
    write_proc(
        root,
        4,
        x86("GenuineIntel", 6, 126, "Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz", "sse2 avx avx2 avx512f"),
    )
    for cpu in range(4):
        core = f"{cpu % 2},{cpu % 2 + 2}"
        caches = [Cache(1, "48K", 12, core, "Data"), Cache(2, "512K", 8, core), Cache(3, "8192K", 16, "0-3")]
        write_cpu(root, cpu, caches, core)
    return root


def alder_lake(root: Path) -> Path:
    """Write a hybrid: two P cores of two threads, then four E cores that share their second-level cache."""
    write_proc(root, 8, x86("GenuineIntel", 6, 151, "12th Gen Intel(R) Core(TM) i9-12900K", "sse2 avx avx2"))
    write(root, "sys/devices/cpu_core/cpus", "0-3")
    write(root, "sys/devices/cpu_atom/cpus", "4-7")
    last = Cache(3, "30720K", 12, "0-7")
    for cpu in range(4):
        core = "0-1" if cpu < 2 else "2-3"
        write_cpu(root, cpu, [Cache(1, "48K", 12, core, "Data"), Cache(2, "1280K", 10, core), last], core)
    for cpu in range(4, 8):
        own = str(cpu)
        write_cpu(root, cpu, [Cache(1, "32K", 8, own, "Data"), Cache(2, "2048K", 16, "4-7"), last], own)
    return root


def grace(root: Path, *, ways: bool = True) -> Path:
    """Write four of Grace's cores; firmware without the associativity leaves those files out."""
    fields = {"Features": "fp asimd fphp asimdhp sve sve2", "CPU implementer": "0x41", "CPU part": "0xd4f"}
    write_proc(root, 4, fields)
    for cpu in range(4):
        own = str(cpu)
        caches = [
            Cache(1, "64K", 4 if ways else None, own, "Data"),
            Cache(1, "64K", 4 if ways else None, own, "Instruction"),
            Cache(2, "1024K", 8 if ways else None, own, sets=None if ways else 2048),
            Cache(3, "116736K", 12 if ways else None, "0-3"),
        ]
        write_cpu(root, cpu, caches, own)
    return root


def hidden_caches_vm(root: Path) -> Path:
    """Write a virtual machine whose sysfs has processors and no caches."""
    write_proc(root, 2, ZEN5)
    for cpu in range(2):
        write_cpu(root, cpu, [], str(cpu))
    return root


def answers(registers: dict[tuple[int, int], Registers]) -> Cpuid:
    """Return a processor that answers with these registers, and with zeros to what is not there."""
    return lambda leaf, subleaf: registers.get((leaf, subleaf), (0, 0, 0, 0))


ZEN5_CPUID = answers(
    {
        (0, 0): (0x1C, 0x68747541, 0x444D4163, 0x69746E65),
        (1, 0): (0x00B00F21, 0x01020800, 0xFFFA3203, 0x178BFBFF),
        (7, 0): (1, 0xF1BF07AB, 0x00405FC6, 0x110),
        (0xD, 0): (0xE7, 0x980, 0x980, 0),
        (0x4000_0000, 0): (0x40000001, 0x4B4D564B, 0x564B4D56, 0x4D),
        (0x8000_0000, 0): (0x80000021, 0x68747541, 0x444D4163, 0x69746E65),
        (0x8000_0001, 0): (0x00B00F21, 0x40000000, 0x004003F3, 0x2FD3FBFF),
        (0x8000_0002, 0): (0x20444D41, 0x43595045, 0, 0),
        (0x8000_001D, 0): (0x121, 0x02C0003F, 0x3F, 0),
        (0x8000_001D, 1): (0x122, 0x01C0003F, 0x3F, 0),
        (0x8000_001D, 2): (0x143, 0x03C0003F, 0x3FF, 2),
        (0x8000_001D, 3): (0x4163, 0x03C0003F, 0x7FFF, 1),
    }
)
"""Two processors of Zen 5 under KVM, as CPUID there answers."""


def intel_cpuid(model: int, inclusive_l3: bool, family: int = 6) -> Cpuid:
    """Return an Intel processor with 32 KiB, 1 MiB and 27.5 MiB, the last shared by up to 64 identifiers."""
    signature = family << 8 | (model & 0xF) << 4 | model >> 4 << 16
    return answers(
        {
            (0, 0): (0x16, 0x756E6547, 0x6C65746E, 0x49656E69),
            (1, 0): (signature, 0, 0x7FFEFBBF & ~(1 << 31), 0),
            (4, 0): (0x1C004121, 0x01C0003F, 0x3F, 0),
            (4, 1): (0x1C004122, 0x01C0003F, 0x3F, 0),
            (4, 2): (0x1C004143, 0x03C0003F, 0x3FF, 0),
            (4, 3): (0x1C0FC163, 0x0280003F, 0x9FFF, 4 | (2 if inclusive_l3 else 0)),
        }
    )


VALGRIND_CPUID = answers(
    {
        (0, 0): (0xD, 0x68747541, 0x444D4163, 0x69746E65),
        (1, 0): (0x00B00F21, 0, 0, 0),
        (0x8000_0000, 0): (0x8000001E, 0, 0, 0),
        (0x8000_0001, 0): (0, 0, 1 << 22, 0),
        (0x8000_001D, 0): (0x27, 0x12345678, 0x99, 0),
    }
)
"""A processor that answers with a cache of a type that does not exist, as one is seen under valgrind."""
