"""Names of symbols for people: the nearest ones, and C++ names readably."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

_MANGLED = re.compile(r"(?<![A-Za-z0-9_])_Z[A-Za-z0-9_.$]+")

_PARAMETERS = re.compile(r"\(…?\)( const)?(\[.*\])?$")
"""How a function ends whose parameters are left out."""


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


def cxx_parts(text: str) -> tuple[str, str, str]:
    """Return of a readable C++ function its name, the arguments of its template, and its parameters.

    ``void blas::scale<double, 4>(double*)`` has ``blas::scale``, ``<double, 4>`` and ``(double*)``; of what
    is no function all is name.
    """
    depth, start, angle, opened = 0, 0, len(text), len(text)
    for number, character in enumerate(text):
        if text.startswith("operator", number):
            # an operator's name may have all of these characters
            opened = text.find("(", number + len("operator()") if "operator()" in text else number)
            angle = opened = opened if opened >= 0 else len(text)
            break
        if character == "(" and not depth and not text.startswith("(anonymous namespace)", number):
            opened = number
            break
        if character == " " and not depth:
            start, angle = number + 1, len(text)
        if character == "<" and not depth:
            angle = number
        elif character == ":" and not depth:
            angle = len(text)  # that template was of a class
        depth += (character in "<(") - (character in ">)")
    angle = min(angle, opened)
    return text[start:angle], text[angle:opened], text[opened:]


def printable(text: str) -> str:
    """Return a text for one line of output: whatever would break the line or the terminal is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def readable(text: str) -> str:
    """Return a text in which every mangled C++ name is readable; see :func:`all_readable` for many."""
    return all_readable([text])[text]


def all_readable(texts: Iterable[str]) -> dict[str, str]:
    """Return for each text, such as ``_Z4axpyd[n=100]``, the one in which C++ names are readable."""
    texts = list(texts)
    mangled = {name for text in texts if "_Z" in text for name in _MANGLED.findall(text)}
    plain = demangle(mangled) if mangled else {}
    return {text: _MANGLED.sub(lambda match: plain[match[0]], text) if mangled else text for text in texts}


def shortened(texts: Iterable[str], room: int) -> dict[str, str]:
    """Return for each text one of at most ``room`` characters (no fewer than 8), cut in the middle.

    Of a C++ function the arguments of its templates and its parameters go first, for they are the least of
    its name, then what it returns; what tells two texts apart is in the full one.
    """
    return {text: _shortened(text, max(room, 8)) for text in texts}


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    bare = _without_nested(text)
    if bare != text and len(bare) <= room:
        return bare
    if bare != text and _PARAMETERS.search(bare) and (parts := cxx_parts(text))[0]:
        bare = bare[len(_without_nested(text[: len(text) - len("".join(parts))])) :]
        if len(bare) <= room:
            return bare
    tail = (room - 1) // 3
    return f"{bare[: room - 1 - tail]}…{bare[len(bare) - tail :]}"


def _without_nested(text: str) -> str:
    """Return a text with ``…`` for what stands in its outermost angle and round brackets.

    An operator's name, and brackets that do not close, stay.
    """
    if "operator" in text:
        return text
    closing = {"<": ">", "(": ")"}
    parts: list[str] = []
    waiting: list[str] = []
    start = 0
    for number, character in enumerate(text):
        if waiting and character == waiting[-1]:
            waiting.pop()
            if not waiting:
                inside = text[start + 1 : number]
                parts.append(f"{text[start]}{'…' if len(inside) > 1 else inside}{character}")
        elif character in closing and not text.startswith("(anonymous namespace)", number):
            if not waiting:
                start = number
            waiting.append(closing[character])
        elif not waiting:
            parts.append(character)
    return text if waiting else "".join(parts)
