"""Reads what the kernel says of the machine in ``/sys`` and ``/proc``; every answer may be missing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import units

CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class CacheFacts:
    """One data or unified cache as one source describes it; ``None`` is what the source does not say.

    ``inclusive`` (of the levels above) and ``hashed`` are known to CPUID alone.
    """

    level: int
    bytes: int
    ways: int | None
    line_bytes: int | None
    shared_by: int | None
    inclusive: bool | None
    hashed: bool | None
    source: str


@dataclass(frozen=True)
class Tree:
    """The text files below a root folder; the root is ``/`` but for tests."""

    root: Path

    def text(self, path: str) -> str | None:
        """Return a file's text without surrounding space, or ``None`` if it cannot be read or is empty."""
        # pathlib takes several times as long, and a large server has ten thousand files about its caches
        try:
            with open(os.path.join(self.root, path), "rb", buffering=0) as file:
                content = file.readall()
        except OSError:
            return None
        return content.decode(errors="replace").strip().strip("\0") or None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder in order; none if it cannot be read."""
        try:
            return tuple(sorted(os.listdir(os.path.join(self.root, path))))
        except OSError:
            return ()

    def number(self, path: str) -> int | None:
        """Return a file's integer, or ``None``."""
        text = self.text(path)
        return int(text) if text and re.fullmatch(r"-?\d+", text) else None

    def cpus(self, path: str) -> tuple[int, ...] | None:
        """Return the processors of a list such as ``0-3,8``, or ``None``."""
        text = self.text(path)
        return None if text is None else parse_cpu_list(text)

    def is_real(self) -> bool:
        """Whether this is the machine that runs this code."""
        return self.root == Path("/")


def parse_cpu_list(text: str) -> tuple[int, ...] | None:
    """Return the numbers in ``0-3,8,10-11``, or ``None`` if that is not what ``text`` is."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            return None
        numbers.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(numbers)


def cpu_list(numbers: Iterable[int]) -> str:
    """Return processors as the kernel writes them: ``0-3,8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def caches_of(tree: Tree, cpu: int) -> tuple[CacheFacts, ...]:
    """Return the data and unified caches of one processor, the nearest first; none if ``/sys`` hides them."""
    found: dict[int, CacheFacts] = {}
    folder = f"{CPU}/cpu{cpu}/cache"
    for index in tree.names(folder):
        if not index.startswith("index"):
            continue
        one = f"{folder}/{index}"
        level, kind, size = (
            tree.number(f"{one}/level"),
            tree.text(f"{one}/type"),
            tree.text(f"{one}/size"),
        )
        if level is None or size is None or kind not in ("Data", "Unified"):
            continue
        try:
            size_bytes = units.binary_size(size)
        except ValueError:
            continue
        if size_bytes <= 0:
            continue
        line = tree.number(f"{one}/coherency_line_size") or None
        shared = tree.cpus(f"{one}/shared_cpu_list")
        found.setdefault(
            level,
            CacheFacts(
                level,
                size_bytes,
                _ways(tree, one, size_bytes, line),
                line,
                len(shared) if shared else None,
                None,
                None,
                "sysfs",
            ),
        )
    return tuple(found[level] for level in sorted(found))


def _ways(tree: Tree, folder: str, size: int, line: int | None) -> int | None:
    """Return the ways; where the kernel has 0 or nothing, what the number of sets leaves."""
    ways = tree.number(f"{folder}/ways_of_associativity")
    sets = tree.number(f"{folder}/number_of_sets")
    if not ways and sets and line and size % (sets * line) == 0:
        ways = size // (sets * line)
    return ways or None


def cpuinfo(tree: Tree) -> dict[str, str]:
    """Return the first processor's block of ``/proc/cpuinfo``."""
    block: dict[str, str] = {}
    for row in (tree.text("proc/cpuinfo") or "").splitlines():
        key, colon, value = row.partition(":")
        if not row.strip() and block:
            break
        if colon:
            block.setdefault(key.strip(), value.strip())
    return block


def online(tree: Tree) -> tuple[int, ...] | None:
    """Return the processors that are switched on, or ``None`` if neither ``/sys`` nor ``/proc`` tells."""
    listed = tree.cpus(f"{CPU}/online")
    if listed:
        return listed
    numbers = re.findall(r"^processor\s*:\s*(\d+)", tree.text("proc/cpuinfo") or "", re.MULTILINE)
    return tuple(int(number) for number in numbers) or None


def siblings(tree: Tree, cpu: int) -> tuple[int, ...]:
    """Return the processors on the core of ``cpu``, itself included."""
    topology = f"{CPU}/cpu{cpu}/topology"
    for name in ("core_cpus_list", "thread_siblings_list"):
        listed = tree.cpus(f"{topology}/{name}")
        if listed and cpu in listed:
            return listed
    return (cpu,)


def memory_bytes(tree: Tree) -> int | None:
    """Return the memory of the machine, or ``None``."""
    return _meminfo(tree, "MemTotal")


def available_memory(tree: Tree) -> int | None:
    """Return the bytes that may still be taken: what is free, or less if a control group limits it."""
    limits = [_meminfo(tree, "MemAvailable")]
    for folder, unified in _groups(tree, "memory"):
        most = tree.number(f"{folder}/{'memory.max' if unified else 'memory.limit_in_bytes'}")
        used = tree.number(f"{folder}/{'memory.current' if unified else 'memory.usage_in_bytes'}") or 0
        if most is not None:
            files = _stat(tree, folder, "inactive_file" if unified else "total_inactive_file")
            limits.append(max(0, most - max(0, used - files)))
    return min((limit for limit in limits if limit is not None), default=None)


def _groups(tree: Tree, controller: str) -> Iterator[tuple[str, bool]]:
    """Give the folders of the control groups this process is in, and whether they are of the unified kind.

    Those of ``/proc/self/cgroup`` (cgroups(7)) with all above them; in a container the path may be that of
    the host, and then the container's own group is at the root of what is mounted.
    """
    for line in ("0::/", f"1:{controller}:/", *(tree.text("proc/self/cgroup") or "").splitlines()):
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        unified = number == "0"
        if not unified and controller not in controllers.split(","):
            continue
        roots = ("", "/unified") if unified else (f"/{controller}", f"/{controllers}")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for root in dict.fromkeys(roots):
            for depth in range(len(parts) + 1):
                yield "/".join((f"sys/fs/cgroup{root}", *parts[:depth])), unified


def _stat(tree: Tree, folder: str, name: str) -> int:
    """Return the bytes of files in memory that a control group counts as used and gives back at once."""
    found = re.search(rf"^{name} (\d+)$", tree.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    return int(found[1]) if found else 0


def clocks(tree: Tree) -> tuple[float | None, float | None]:
    """Return nominal and maximum clock of the first processor in Hz, as far as its drivers tell them."""
    cpu = (online(tree) or (0,))[0]

    def hertz(path: str, unit: float) -> float | None:
        number = tree.number(f"{CPU}/cpu{cpu}/{path}")
        return number * unit if number else None

    # intel_pstate; ACPI CPPC, which AMD has; both kHz and MHz are the kernel's (Documentation/admin-guide)
    nominal = hertz("cpufreq/base_frequency", 1e3) or hertz("acpi_cppc/nominal_freq", 1e6)
    return nominal, hertz("cpufreq/cpuinfo_max_freq", 1e3)


def huge_share(tree: Tree, start: int, size: int) -> float | None:
    """Return the share of a stretch of this process's memory that lies on huge pages, or ``None``."""
    huge = 0
    seen = False
    here = False
    for line in (tree.text("proc/self/smaps") or "").splitlines():
        place = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if place is not None:
            here = int(place[1], 16) < start + size and int(place[2], 16) > start
        elif here and (told := re.match(r"AnonHugePages:\s*(\d+) kB", line)):
            huge, seen = huge + 1024 * int(told[1]), True
    return min(1.0, huge / size) if seen and size else None


def nodes(tree: Tree) -> dict[int, tuple[int, ...]]:
    """Return the processors of each memory node that has some, by number; nothing if ``/sys`` is silent."""
    found = {}
    for path in (tree.root / "sys/devices/system/node").glob("node[0-9]*"):
        cpus = tree.cpus(f"sys/devices/system/node/{path.name}/cpulist")
        if cpus and path.name[4:].isdigit():
            found[int(path.name[4:])] = cpus
    return dict(sorted(found.items()))


def cpu_quota(tree: Tree) -> float | None:
    """Return how many processors' time a control group allows, or ``None`` if it sets no limit."""
    quotas = []
    for folder, unified in _groups(tree, "cpu"):
        if unified:
            quota, _, period = (tree.text(f"{folder}/cpu.max") or "").partition(" ")
        else:
            quota = tree.text(f"{folder}/cpu.cfs_quota_us") or ""
            period = tree.text(f"{folder}/cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _meminfo(tree: Tree, key: str) -> int | None:
    match = re.search(rf"^{key}:\s*(\d+) kB", tree.text("proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None
