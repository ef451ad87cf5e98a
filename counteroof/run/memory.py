"""How much memory there is for the arrays, and on what pages they came to lie, as the system tells."""

from __future__ import annotations


def available_memory() -> int | None:
    """Return the bytes that can be had without swapping, or ``None`` if the system does not tell."""
    free = _meminfo("MemAvailable")
    for folder in _control_groups():
        limit = _number(f"{folder}/memory.max")
        used = _number(f"{folder}/memory.current")
        if limit is not None and used is not None:
            # The group's file cache counts as used, but goes when memory is wanted.
            room = limit - used + (_statistic(f"{folder}/memory.stat", "inactive_file") or 0)
            free = room if free is None else min(free, room)
    return free


def _meminfo(key: str) -> int | None:
    kib = _statistic("/proc/meminfo", f"{key}:")
    return None if kib is None else kib * 1024


def _statistic(path: str, key: str) -> int | None:
    try:
        with open(path) as file:
            for line in file:
                words = line.split()
                if words and words[0] == key:
                    return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _number(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None  # no such group, or "max"


def _control_groups() -> list[str]:
    """Return the folders of this process's control group (version 2) and the groups around it."""
    try:
        with open("/proc/self/cgroup") as file:
            path = next((line[3:].strip() for line in file if line.startswith("0::")), "/")
    except OSError:
        path = "/"
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/sys/fs/cgroup/" + "/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def huge_page_bytes(spans: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Return how many bytes of each array lie on huge pages; ``spans`` gives start and bytes by name."""
    found = dict.fromkeys(spans, 0)
    inside: list[str] = []
    try:
        with open("/proc/self/smaps") as file:
            for line in file:
                head = line.split(maxsplit=1)[0]
                if "-" in head and not head.endswith(":"):
                    low, high = (int(text, 16) for text in head.split("-"))
                    inside = [
                        name for name, (start, size) in spans.items() if start < high and start + size > low
                    ]
                elif inside and head == "AnonHugePages:":
                    for name in inside:
                        found[name] += int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return dict.fromkeys(spans, 0)
    return found
