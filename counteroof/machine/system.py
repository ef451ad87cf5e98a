"""What the system does to measurements: rights, container, watchdog, clock, threads a core, memory nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .sysfs import CPU, Tree, cpu_list, online, siblings

CAP_SYS_ADMIN, CAP_PERFMON = 21, 38  # include/uapi/linux/capability.h
REAL = Tree(Path("/"))
PARANOID = "proc/sys/kernel/perf_event_paranoid"
NO_PROC = "/proc is not mounted"
_MEANINGS = {
    -1: "everything is allowed",
    0: "own events, and whole processors and sockets",
    1: "own events, in user mode and in the kernel",
    2: "own events in user mode only",
}


@dataclass(frozen=True)
class Item:
    """One fact: its name, what was found, and what a reader should know of it."""

    name: str
    value: str
    remark: str | None = None


def items(tree: Tree = REAL) -> tuple[Item, ...]:
    """Return the facts that can be had, in the order a reader wants them; nothing is changed."""
    questions: tuple[Callable[[Tree], Item | None], ...] = (
        _kernel,
        _paranoid,
        _rights,
        _container,
        _watchdog,
        _frequency,
        _threads_a_core,
        _nodes,
        _huge_pages,
    )
    return tuple(item for ask in questions if (item := ask(tree)) is not None)


def paranoid(tree: Tree = REAL) -> int | None:
    """Return ``kernel.perf_event_paranoid``, or ``None`` if the kernel has no such setting."""
    return tree.number(PARANOID)


def may_count_all(tree: Tree = REAL) -> bool:
    """Whether this process is above ``perf_event_paranoid``: as root, or by a capability."""
    held = _capabilities(tree) or 0  # where nothing tells, the refusals do
    return bool(held & (1 << CAP_SYS_ADMIN | 1 << CAP_PERFMON))


def container(tree: Tree = REAL) -> str | None:
    """Return the container this process runs in, or ``None`` if nothing tells of one."""
    for path, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (tree.root / path).exists():
            return name
    told = tree.text("run/systemd/container")
    if told:
        return told
    groups = tree.text("proc/1/cgroup") or ""
    match = re.search(r"(docker|kubepods|lxc|libpod|containerd)", groups)
    return match[1] if match else None


def _kernel(tree: Tree) -> Item | None:
    release = tree.text("proc/sys/kernel/osrelease")
    return Item("kernel", release) if release else None


def _paranoid(tree: Tree) -> Item:
    level = paranoid(tree)
    if level is None:
        if tree.text("proc/sys/kernel/osrelease") is None:
            return Item("perf_event_paranoid", "unknown", NO_PROC)
        return Item("perf_event_paranoid", "not there", "this kernel counts no events")
    allowed = _MEANINGS.get(level, "nothing without rights" if level > 2 else _MEANINGS[-1])
    return Item("perf_event_paranoid", str(level), f"ordinary users: {allowed}")


def _capabilities(tree: Tree) -> int | None:
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", tree.text("proc/self/status") or "", re.MULTILINE)
    return int(match[1], 16) if match else None


def _rights(tree: Tree) -> Item:
    held = _capabilities(tree)
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    if held is None:
        return Item("rights", f"{user}, capabilities unknown", NO_PROC)
    names = [
        name
        for name, bit in (("CAP_PERFMON", CAP_PERFMON), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN))
        if held >> bit & 1
    ]
    return Item("rights", ", ".join([user, *names]) if names else f"{user}, no capability to count")


def _container(tree: Tree) -> Item:
    found = container(tree)
    if found is None:
        return Item("container", "none seen")
    return Item("container", found, "counters of processors and sockets are the host's, and so see others")


def _watchdog(tree: Tree) -> Item:
    state = tree.number("proc/sys/kernel/nmi_watchdog")
    if state is None:
        return Item("NMI watchdog", "not shown")
    if state:
        return Item("NMI watchdog", "on", "takes one counter; off: sudo sysctl kernel.nmi_watchdog=0")
    return Item("NMI watchdog", "off")


def _frequency(tree: Tree) -> Item:
    folders = [f"{CPU}/cpu{cpu}/cpufreq" for cpu in online(tree) or (0,)]
    governors = sorted({text for folder in folders if (text := tree.text(f"{folder}/scaling_governor"))})
    turbo = _turbo(tree)
    if not governors and turbo is None:
        return Item("clock", "its control is not shown (usual in virtual machines)")
    said = [f"governor {', '.join(governors)}"] if governors else []
    if turbo is not None:
        said.append(f"turbo {'on' if turbo else 'off'}")
    remark = None
    if governors and governors != ["performance"]:
        remark = "steadier: sudo cpupower frequency-set -g performance"
    return Item("clock", ", ".join(said), remark)


def _turbo(tree: Tree) -> bool | None:
    off = tree.number("sys/devices/system/cpu/intel_pstate/no_turbo")
    if off is not None:
        return not off
    boost = tree.number("sys/devices/system/cpu/cpufreq/boost")
    return None if boost is None else bool(boost)


def _threads_a_core(tree: Tree) -> Item:
    cpus = online(tree)
    if not cpus:
        return Item("SMT", "unknown", "neither /sys nor /proc shows the processors")
    most = max(len(siblings(tree, cpu)) for cpu in cpus)
    if most == 1:
        return Item("SMT", f"off or hidden: {len(cpus)} processors, one a core")
    cores = {siblings(tree, cpu) for cpu in cpus}
    return Item(
        "SMT",
        f"on: {len(cpus)} processors on {len(cores)} cores",
        "counters of a core are halved where its threads share them",
    )


def _nodes(tree: Tree) -> Item:
    folder = tree.root / "sys/devices/system/node"
    try:
        names = sorted(
            (entry.name for entry in folder.iterdir() if re.fullmatch(r"node\d+", entry.name)),
            key=lambda name: int(name[4:]),
        )
    except OSError:
        names = []
    if not names:
        return Item("NUMA", "unknown", "no /sys/devices/system/node")
    if len(names) == 1:
        return Item("NUMA", "one node")
    each = (f"{name[4:]}: {tree.text(f'{folder}/{name}/cpulist') or 'no CPUs'}" for name in names)
    return Item("NUMA", f"{len(names)} nodes ({'; '.join(each)})")


def _huge_pages(tree: Tree) -> Item | None:
    text = tree.text("sys/kernel/mm/transparent_hugepage/enabled")
    match = re.search(r"\[(\w+)\]", text or "")
    kept = tree.number("proc/sys/vm/nr_hugepages")
    if match is None and kept is None:
        return None
    said = [f"transparent: {match[1]}"] if match else []
    said += [f"{kept} reserved"] if kept is not None else []
    return Item("huge pages", ", ".join(said))


def grouped(names: Iterable[str]) -> str:
    """Return names in short: ``cpu, uncore_imc_0-5`` for ``cpu, uncore_imc_0, uncore_imc_1, ...``."""
    families: dict[str, list[int]] = {}
    plain: dict[str, None] = {}
    for name in names:
        match = re.fullmatch(r"(.+?)_?(\d+)", name)
        if match and name.rsplit("_", 1)[-1].isdigit():
            families.setdefault(f"{name.rsplit('_', 1)[0]}_", []).append(int(match[2]))
        else:
            plain[name] = None
    return ", ".join([*plain, *(f"{stem}{cpu_list(numbers)}" for stem, numbers in families.items())])
