"""Finds out what machine this is: processor, instruction sets, caches and their policies, memory, hypervisor.

``/sys`` and ``/proc`` are asked first and CPUID second, because the kernel knows which processors share a
cache. What neither tells is assumed, and the cache's ``source`` or the machine's notes say so. Nothing is
measured here.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import units
from ..errors import BadInput, MachineError
from . import cpuid as cpuid_
from . import policy, sysfs
from .cpuid import Cpuid
from .model import CacheLevel, Machine
from .policy import Identity
from .sysfs import CacheFacts, Tree

_ARM_CORES = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD83): "Neoverse V3",
    (0x41, 0xD8E): "Neoverse N3",
    (0x46, 0x001): "A64FX",
    (0xC0, 0xAC3): "Ampere-1",
}
_ARM_IMPLEMENTERS = {0x41: "Arm", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x61: "Apple", 0xC0: "Ampere"}
_DMI_HYPERVISORS = ("QEMU", "KVM", "VMware", "Xen", "VirtualBox", "Amazon EC2", "Google Compute Engine")
_ASSUMED_WAYS = 16
_ASSUMED_LINE_BYTES = 64


def detect(
    root: Path | str = "/",
    *,
    cpuid: Cpuid | None = None,
    allowed: Iterable[int] | None = None,
    architecture: str | None = None,
    caches: Sequence[CacheLevel] | None = None,
) -> Machine:
    """Return this machine, without ceilings.

    Parameters
    ----------
    root
        Folder that holds ``sys`` and ``proc``; another than ``/`` describes another machine, and then nothing
        is asked of the processor that runs this unless ``cpuid`` and ``architecture`` are given.
    cpuid
        Answers to CPUID.
    allowed
        Processors this process may use.
    architecture
        As ``uname -m`` prints it.
    caches
        Take these instead of looking for them.

    Raises
    ------
    MachineError
        If no source tells the cache geometry.
    """
    tree = Tree(Path(root))
    if tree.is_real():
        cpuid = cpuid or cpuid_.processor_cpuid
        allowed = os.sched_getaffinity(0) if allowed is None else allowed
        architecture = architecture or platform.machine()
    ask = cpuid or (lambda leaf, subleaf: None)
    info = sysfs.cpuinfo(tree)
    online = sysfs.online(tree) or tuple(sorted(allowed or (0,)))
    usable = tuple(cpu for cpu in online if allowed is None or cpu in set(allowed)) or online
    cpu, identity = _processor(tree, info, ask)
    notes: list[str] = []
    if caches is None:
        caches, notes = _caches(tree, ask, identity, usable)
    hypervisor = _hypervisor(tree, info, ask)
    stated = [one or other for one, other in zip(sysfs.clocks(tree), cpuid_.clocks(ask), strict=True)]
    architecture = architecture or ("aarch64" if "CPU implementer" in info else "x86_64")
    return Machine(
        name=_name(cpu, len(online), hypervisor),
        architecture=architecture,
        cpu=cpu,
        logical_cpus=len(online),
        isa=_isa(architecture, info, ask),
        caches=tuple(caches),
        memory_bytes=sysfs.memory_bytes(tree) or _physical_memory(tree),
        hypervisor=hypervisor,
        notes=(*notes, *_limits(tree, online, usable)),
        tlbs=policy.tlbs(identity, ask),
        nominal_hz=stated[0],
        maximum_hz=stated[1],
        stores=policy.stores(identity),
    )


def identity() -> Identity:
    """Return what tables know this processor by."""
    return _processor(Tree(Path("/")), sysfs.cpuinfo(Tree(Path("/"))), cpuid_.processor_cpuid)[1]


def placement(
    threads: int, *, root: Path | str = "/", allowed: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Return the processors on which ``threads`` threads run best: one a core as long as there are cores.

    Raises
    ------
    BadInput
        If this process may not use so many.
    """
    tree = Tree(Path(root))
    if allowed is None:
        allowed = os.sched_getaffinity(0) if tree.is_real() else (sysfs.online(tree) or (0,))
    usable = set(allowed)
    if not 1 <= threads <= len(usable):
        raise BadInput(
            f"{threads} threads were asked for; this process may use {len(usable)} "
            f"processor{'s' if len(usable) > 1 else ''} ({sysfs.cpu_list(usable)}), "
            f"so give a number from 1 to {len(usable)}"
        )
    fast = _fast_cores(tree, usable)

    def rank(cpu: int) -> tuple[int, bool, int]:
        core = [one for one in sysfs.siblings(tree, cpu) if one in usable]
        return core.index(cpu), cpu not in fast, cpu

    return tuple(sorted(usable, key=rank)[:threads])


# ---- processor ----


def _processor(tree: Tree, info: dict[str, str], cpuid: Cpuid) -> tuple[str, Identity]:
    """Return the processor's name with all that tells it from its relatives, and its identity."""
    if "CPU implementer" in info:
        return _arm_processor(info)
    family_model = cpuid_.family_and_model(cpuid)
    vendor = info.get("vendor_id") or cpuid_.vendor(cpuid)
    family, model = _integer(info.get("cpu family")), _integer(info.get("model"))
    if family_model and family is None:
        family, model = family_model
    name = _tidy(
        info.get("model name") or cpuid_.brand(cpuid) or vendor or tree.text("proc/device-tree/model")
    )
    if family is not None:
        name += f", family {family} model {model}"
    return name, Identity(vendor, family, model)


def _arm_processor(info: dict[str, str]) -> tuple[str, Identity]:
    implementer, part = _integer(info.get("CPU implementer")), _integer(info.get("CPU part"))
    vendor = _ARM_IMPLEMENTERS.get(implementer or 0)
    core = _ARM_CORES.get((implementer or 0, part or 0))
    if core is None:
        core = f"implementer {info.get('CPU implementer')} part {info.get('CPU part')}"
    return _tidy(f"{vendor or ''} {core}"), Identity(vendor, implementer, part)


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def _tidy(name: str | None) -> str:
    """Return a model name without trademark signs, nominal clock and filling words."""
    if not name:
        return "unknown processor"
    name = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|\bProcessor\b|\d+-Core\b|@.*$", " ", name)
    return " ".join(name.split()) or "unknown processor"


def _name(cpu: str, cpus: int, hypervisor: str | None) -> str:
    parts = [cpu.partition(", family")[0], f"{cpus} CPU{'s' if cpus != 1 else ''}"]
    return ", ".join([*parts, *([f"under {hypervisor}"] if hypervisor else [])])


def _isa(architecture: str, info: dict[str, str], cpuid: Cpuid) -> tuple[str, ...]:
    """Return the vector instruction sets that processor and kernel allow, narrowest first."""
    if architecture == "aarch64":
        features = info.get("Features", "asimd").split()
        return tuple(name for name, flag in (("NEON", "asimd"), ("SVE", "sve")) if flag in features)
    if architecture != "x86_64":
        return ()
    flags = set(info["flags"].split()) if "flags" in info else cpuid_.vector_flags(cpuid)
    wanted = (("SSE", "sse2"), ("AVX", "avx"), ("AVX2", "avx2"), ("AVX-512", "avx512f"))
    found = [name for name, flag in wanted if flag in flags or name == "SSE"]
    return tuple(name for name in found if not (name == "AVX" and "AVX2" in found))


def _hypervisor(tree: Tree, info: dict[str, str], cpuid: Cpuid) -> str | None:
    found = cpuid_.hypervisor(cpuid)
    if found is not None:
        return found
    if kind := tree.text("sys/hypervisor/type"):
        return kind.capitalize()
    dmi = " ".join(tree.text(f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    for name in _DMI_HYPERVISORS:
        # cloud vendors sell bare metal under the same names, and say so in the product's
        if name in dmi and ".metal" not in dmi:
            return name
    return "unknown" if "hypervisor" in info.get("flags", "").split() else None


def _physical_memory(tree: Tree) -> int | None:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if tree.is_real() else None


# ---- caches ----


def _caches(
    tree: Tree, cpuid: Cpuid, identity: Identity, usable: Sequence[int]
) -> tuple[tuple[CacheLevel, ...], list[str]]:
    """Return the caches of the fastest usable cores, and what a reader must know about them."""
    fast = sorted(_fast_cores(tree, usable))
    by_kernel = sysfs.caches_of(tree, fast[0])
    by_cpuid = cpuid_.caches(cpuid)
    facts = by_kernel or by_cpuid
    if not facts:
        raise MachineError(
            f"cache sizes are hidden: {tree.root / sysfs.CPU}/cpu{fast[0]}/cache has none and CPUID tells "
            "none; describe the caches in a file and give it with --machine FILE "
            "([[cache]] level = 1, size = '32 KiB', ways = 8, ...)"
        )
    notes = [] if by_kernel else [f"no caches under {tree.root / 'sys'}; geometry from CPUID"]
    told = {one.level: one for one in by_cpuid}
    levels = []
    for fact in facts:
        other = told.get(fact.level)
        if by_kernel and other and other.bytes != fact.bytes:
            notes.append(
                f"L{fact.level}: {units.binary_bytes(fact.bytes)} by sysfs, "
                f"{units.binary_bytes(other.bytes)} by CPUID; the first is used"
            )
            other = None
        levels.append(_level(fact, other, identity, len(usable)))
    return tuple(levels), notes + _other_cores(tree, facts, usable)


def _level(fact: CacheFacts, other: CacheFacts | None, identity: Identity, cpus: int) -> CacheLevel:
    """Return one level from what one source says, another adds, is known of the processor, or is assumed."""
    sources = [fact.source]
    ways, line = fact.ways, fact.line_bytes
    if (ways is None or line is None) and other is not None:
        ways, line = ways or other.ways, line or other.line_bytes
        sources.append(f"ways by {other.source}")
    if ways is None:
        ways = _ASSUMED_WAYS
        sources.append(f"{ways} ways assumed")
    if line is None:
        line = _ASSUMED_LINE_BYTES
        sources.append(f"{line}-byte lines assumed")
    shared = fact.shared_by
    if shared is None:
        shared = 1 if fact.level < 3 else cpus
        sources.append("sharing assumed")
    inclusive = fact.inclusive if other is None else other.inclusive
    complex_index = fact.hashed if other is None else other.hashed
    how, how_known = policy.fill(identity, fact.level, inclusive)
    hashed, hash_known = policy.hashed(identity, fact.level, complex_index)
    replaced, replaced_known = policy.replaced(identity, fact.level)
    # CPUID rounds up the number of processors that share a cache
    shared = max(1, min(shared, cpus)) if fact.source == "CPUID" else shared
    sources += [text for text in (how_known, hash_known, replaced_known) if text]
    known = "; ".join(sources)
    return CacheLevel(f"L{fact.level}", fact.bytes, ways, line, shared, how, hashed, known, replaced)


def _fast_cores(tree: Tree, usable: Iterable[int]) -> set[int]:
    """Return the usable processors of the fastest kind: all of them but on a hybrid."""
    cpus = set(usable)
    big = cpus & set(tree.cpus("sys/devices/cpu_core/cpus") or ())
    if big:
        return big
    capacity = {cpu: tree.number(f"{sysfs.CPU}/cpu{cpu}/cpu_capacity") or 0 for cpu in cpus}
    most = max(capacity.values())
    return {cpu for cpu in cpus if capacity[cpu] == most}


def _other_cores(tree: Tree, facts: Sequence[CacheFacts], usable: Sequence[int]) -> list[str]:
    """Return a note for each group of usable processors whose caches differ from those in use."""
    groups: dict[tuple[CacheFacts, ...], list[int]] = {}
    of_core: dict[int, tuple[CacheFacts, ...]] = {}  # a core's processors have the same
    for cpu in usable:
        if cpu not in of_core:
            of_core |= dict.fromkeys((cpu, *sysfs.siblings(tree, cpu)), sysfs.caches_of(tree, cpu))
        caches = of_core[cpu]
        if caches and [(one.level, one.bytes, one.ways) for one in caches] != [
            (one.level, one.bytes, one.ways) for one in facts
        ]:
            groups.setdefault(caches, []).append(cpu)
    return [
        f"processors {sysfs.cpu_list(cpus)} have other caches, which are not modelled: "
        + ", ".join(f"L{one.level} {units.binary_bytes(one.bytes)}" for one in caches)
        for caches, cpus in groups.items()
    ]


def _limits(tree: Tree, online: Sequence[int], usable: Sequence[int]) -> list[str]:
    """Return what keeps this process from using the whole machine."""
    notes = []
    if len(usable) < len(online):
        notes.append(
            f"this process may use {len(usable)} of {len(online)} processors ({sysfs.cpu_list(usable)})"
        )
    quota = sysfs.cpu_quota(tree)
    if quota is not None and quota < len(usable):
        notes.append(f"a control group allows the time of {units.significant(quota)} processors")
    return notes
