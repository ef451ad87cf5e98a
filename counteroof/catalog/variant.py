"""Which of the compiled kernel libraries this processor runs best; the built-in claims are about its code."""

from __future__ import annotations

import importlib.machinery
import platform
from collections.abc import Iterable
from pathlib import Path

from ..errors import LibraryError

LEVELS: dict[str, frozenset[str]] = {
    "v4": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    "v3": frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    "v2": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
}
"""Levels of x86-64, widest first: what each needs beyond the next one, by the names in /proc/cpuinfo
(System V ABI, AMD64 supplement, section 3.1.1; pni is SSE3, abm includes lzcnt)."""

CPUINFO = Path("/proc/cpuinfo")


def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Return the feature flags that every processor of this machine has; empty if the system lists none.

    Linux lists a flag only if it saves the registers that go with it, so no other check is needed.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    processors = [frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")]
    return frozenset.intersection(*processors) if processors else frozenset()


def runnable_levels(flags: Iterable[str]) -> tuple[str, ...]:
    """Return the levels that a processor with these flags runs, widest first."""
    have = frozenset(flags)
    levels: list[str] = []
    for level, needed in reversed(LEVELS.items()):
        if not needed <= have:
            break
        levels.insert(0, level)
    return tuple(levels)


def available_levels() -> tuple[str, ...]:
    """Return the levels that this processor runs, widest first; ``base`` is the only one beyond x86-64."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ("base",)
    return runnable_levels(cpu_flags())


def library_path(level: str | None = None) -> Path:
    """Return the kernel library of a level, by default the widest that this processor runs.

    Raises
    ------
    LibraryError
        If the processor runs none, or the library was not built.
    """
    if level is None:
        levels = available_levels()
        if not levels:
            missing = ", ".join(sorted(LEVELS["v2"] - cpu_flags()))
            raise LibraryError(
                f"the built-in kernels need x86-64-v2; this processor lacks {missing} according to {CPUINFO}"
            )
        level = levels[0]
    package = Path(__file__).resolve().parent.parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = package / f"_kernels_{level}{suffix}"
        if path.exists():
            return path
    raise LibraryError(
        f"counteroof's kernel library for level {level} is missing in {package}; "
        "install the package: pip install ."
    )
