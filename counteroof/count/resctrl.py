"""Bandwidth monitoring of the kernel's resctrl: bytes across the last cache's border, of our threads alone.

A monitoring group of our own is made below ``mon_groups``, our threads are put into it (those they start
follow), and it is removed afterwards. Its name carries our process, so that :func:`sweep` can remove what a
process that died left behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import CounteroofError
from ..machine.sysfs import Tree, cpuinfo

ROOT = Path("/sys/fs/resctrl")
PREFIX = "counteroof-"
MOUNT = f"sudo mount -t resctrl resctrl {ROOT}"
_DIRTY_VICTIMS, _READS = 0x40, 0x03  # bits of mbm_total_bytes_config (Documentation/arch/x86/resctrl.rst)


class ResctrlFailed(CounteroofError):
    """The kernel's resctrl did not do what it was asked; the text says what, and what would help."""


@dataclass(frozen=True)
class Support:
    """Whether bytes can be had here, and whether they are reads alone.

    ``reason`` says why not, or what the bytes are; ``remedy`` is the command that would change it.
    """

    usable: bool
    reason: str
    remedy: str | None = None
    complete: bool = False


@dataclass(frozen=True)
class Moved:
    """Bytes beyond the last cache, and those of them that were of the memory next to it.

    ``local`` is ``None`` where the processor does not tell, or not of every last cache.
    """

    total: int
    local: int | None

    def since(self, before: Moved) -> Moved:
        """Return what moved after an earlier moment."""
        unknown = self.local is None or before.local is None
        return Moved(self.total - before.total, None if unknown else (self.local or 0) - (before.local or 0))


def support(root: Path = ROOT, tree: Tree | None = None) -> Support:
    """Return whether memory traffic can be monitored here; nothing is changed."""
    info = cpuinfo(tree or Tree(Path("/")))
    flags = info.get("flags", "").split()
    arm = "CPU implementer" in info
    if not (root / "info").is_dir():
        if not info:
            return Support(False, "nothing tells whether there is any (/proc/cpuinfo is not there)")
        if "cqm_mbm_total" not in flags and not arm:
            return Support(False, "no bandwidth monitoring (the processor shows no cqm_mbm_total)")
        if arm and not root.is_dir():
            return Support(False, "this kernel has no resctrl")
        return Support(False, "bandwidth monitoring exists, and resctrl is not mounted", MOUNT)
    features = _text(root / "info" / "L3_MON" / "mon_features") or ""
    if "mbm_total_bytes" not in features.split():
        return Support(False, "resctrl is mounted, and does not monitor memory bandwidth here")
    if not os.access(root / "mon_groups", os.W_OK):
        return Support(
            False, "resctrl is mounted, and groups can be made by root alone", "run as root (sudo)"
        )
    complete, what = _coverage(root, info.get("vendor_id", ""))
    return Support(True, what, complete=complete)


def _coverage(root: Path, vendor: str) -> tuple[bool, str]:
    """Return whether the bytes are reads and writes, and what they are in words."""
    config = _text(root / "info" / "L3_MON" / "mbm_total_bytes_config")
    if config is not None:
        masks = [int(mask, 16) for mask in re.findall(r"=(0x[0-9a-fA-F]+)", config)]
        if masks and all(mask & _DIRTY_VICTIMS and mask & _READS == _READS for mask in masks):
            return True, "lines read, non-temporal stores and dirty lines evicted by the last cache"
        return False, f"what mbm_total_bytes_config selects ({config}), which is not all traffic"
    if vendor == "GenuineIntel":
        return (
            False,
            "misses of the last cache, prefetches included; whether write-backs are is not documented",
        )
    if vendor == "AuthenticAMD":
        return False, "events this kernel cannot tell (no mbm_total_bytes_config)"
    return True, "bytes read and written beyond the last cache"


@dataclass
class Group:
    """A monitoring group for threads, there inside ``with``.

    Parameters
    ----------
    threads
        Threads to monitor; those they start from then on are too.
    root
        Where resctrl is mounted.
    make, remove
        What makes and removes a folder; tests without the real file system have their own.

    Raises
    ------
    ResctrlFailed
        If there is no group left, or the kernel refuses.
    """

    threads: Iterable[int]
    root: Path = ROOT
    make: Callable[[Path], None] = os.mkdir
    remove: Callable[[Path], None] = os.rmdir
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.root / "mon_groups" / f"{PREFIX}{os.getpid()}"

    def __enter__(self) -> Group:
        try:
            self.make(self.folder)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise ResctrlFailed(
                    f"resctrl has no monitoring group left; remove some below {self.root / 'mon_groups'}"
                ) from error
            raise ResctrlFailed(f"resctrl made no monitoring group: {error.strerror}") from error
        try:
            for thread in self.threads:
                with contextlib.suppress(ProcessLookupError), open(self.folder / "tasks", "w") as tasks:
                    tasks.write(f"{thread}\n")
        except OSError as error:
            self.__exit__()
            raise ResctrlFailed(f"resctrl took no threads into a group: {error.strerror}") from error
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self.remove(self.folder)

    def moved(self) -> Moved:
        """Return the bytes since some moment of the past, all domains together.

        Raises
        ------
        ResctrlFailed
            If a domain has no number: it may not be tracked, or its counter may be taken.
        """
        domains = sorted((self.folder / "mon_data").glob("mon_L3_*"))
        if not domains:
            raise ResctrlFailed("the monitoring group has no domain of a last cache")
        total, local = 0, 0
        all_local = True
        for domain in domains:
            text = _text(domain / "mbm_total_bytes")
            if text is None or not text.isdigit():
                raise ResctrlFailed(
                    f"{domain.name} has no count of bytes: {text or 'the file cannot be read'}"
                )
            total += int(text)
            near = _text(domain / "mbm_local_bytes") or ""
            all_local &= near.isdigit()
            local += int(near) if near.isdigit() else 0
        return Moved(total, local if all_local else None)


def sweep(root: Path = ROOT, remove: Callable[[Path], None] = os.rmdir) -> tuple[str, ...]:
    """Remove the groups of processes that are no more; return their names."""
    removed = []
    for folder in sorted((root / "mon_groups").glob(f"{PREFIX}*")) if root.is_dir() else ():
        process = folder.name.removeprefix(PREFIX)
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            with contextlib.suppress(OSError):
                remove(folder)
                removed.append(folder.name)
    return tuple(removed)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
