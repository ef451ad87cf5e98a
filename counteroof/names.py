"""Names of symbols for people: the nearest ones, and C++ names readably."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Iterable, Sequence


def nearest(name: str, names: Sequence[str], count: int = 5) -> list[str]:
    """Return the names most like ``name``: those that contain it, then look-alikes."""
    wanted = name.lower().strip("_")
    contains = sorted(
        (other for other in names if wanted and wanted in other.lower()),
        key=lambda other: (len(other), other),
    )
    alike = difflib.get_close_matches(name, names, count, 0.6) if len(contains) < count else []
    return list(dict.fromkeys([*contains[:count], *alike]))[:count]


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Return the readable form of C++ names, where ``c++filt`` or ``llvm-cxxfilt`` is there."""
    readable = {name: name for name in names}
    mangled = [name for name in readable if name.startswith("_Z")]
    tool = next(filter(None, map(shutil.which, ("c++filt", "llvm-cxxfilt"))), None)
    if mangled and tool:
        done = subprocess.run(
            [tool], input="\n".join(mangled), capture_output=True, text=True, timeout=60, check=False
        )
        lines = done.stdout.splitlines()
        if len(lines) == len(mangled):
            readable |= zip(mangled, lines, strict=True)
    return readable


def printable(text: str) -> str:
    """Return a text for one line of output: whatever would break the line or the terminal is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
