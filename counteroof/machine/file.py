"""What ``--machine FILE`` takes: a machine file with ceilings, or caches alone, written by hand.

A hand-written file asks "what would these kernels move on that machine?" and holds nothing but caches::

    name = "Skylake Gold 6148"

    [[cache]]
    level = 1
    size = "32 KiB"          # or bytes = 32768
    ways = 8

    [[cache]]
    level = 3
    size = "27.5 MiB"
    ways = 11
    shared_by = 20           # logical processors; 1 if left out
    fill = "victim"          # inclusive, non-inclusive (if left out), victim
    hashed = true            # true from L3 on if left out
    slices = 20              # parts picked by a hash of all address bits; 1 if left out
    policy = "qlru"          # lru if left out; or { name = "qlru", near = 0.5 }, see replacement.py

    [stores]
    evasion = "always"       # lines written whole are not read: none (if left out), under load, always
    evaded = 0.5             # share of them that the model spares; if left out 1 of always and 0 under load
    partial = "masked"       # what a partly filled write-combining buffer costs: read (if left out) or masked

    [[tlb]]                  # none if left out: then nothing can be said of page walks
    level = 2                # 1 or 2
    entries = 1536
    ways = 12                # as many as entries: fully associative
    pages = ["4 KiB", "2 MiB"]
    hashed = true            # the set by the page's number mixed with the bits above; false if left out

    [prefetch]
    adjacent = true          # the other line of an aligned pair; false if left out
    stream = true            # lines at a steady step within a page; false if left out
    distance = 20            # steps ahead, lines at a time and pages watched; as here if left out
    degree = 2
    streams = 32

``line_bytes`` (64 if left out) stands at the top. The same keys in JSON will do.
"""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from pathlib import Path
from typing import Any

from .. import jsonio, units
from ..errors import BadInput, MachineFileError, Problem
from . import replacement, store, tlb, topology
from .model import CacheLevel, Evasion, Fill, Machine, Partial, Prefetch, Stores, Tlb

EXPECTED = (
    "what counteroof machine --out FILE writes, or a TOML file with [[cache]] entries of level, size and ways"
)
_TOP_KEYS = ("name", "line_bytes", "cache", "stores", "prefetch", "tlb")
_STORE_KEYS = ("evasion", "evaded", "partial")
_CACHE_KEYS = ("level", "size", "bytes", "ways", "shared_by", "fill", "hashed", "slices", "policy")


def load(path: Path, here: Machine | None = None) -> Machine:
    """Return the machine that a file describes.

    From a file with caches alone comes this machine (``here``, or as detected) with those caches and a note
    that says so: times and ceilings stay those of this machine.

    Raises
    ------
    BadInput
        If the file cannot be read, as :class:`MachineFileError` if it has mistakes.
    """
    data = read_table(path, "machine file", EXPECTED)
    if isinstance(data, dict) and "schema" in data:
        return store.from_json(data, str(path)).machine
    problems: list[Problem] = []
    stores = _stores(data, str(path), problems)
    tlbs = _tlbs(data, str(path), problems)
    prefetch = _prefetch(data, str(path), problems)
    try:
        name, caches = caches_from(data, str(path))
    except MachineFileError as error:
        problems += error.problems
    if problems:
        raise MachineFileError(problems)
    if here is None:
        here = topology.detect(caches=caches)
    notes = [
        f"the caches are those of {name} from {path}, not this machine's: bytes are what that machine would "
        "move, times and ceilings are of this one"
    ]
    if isinstance(data, dict) and "stores" not in data:
        notes.append(
            f"{path} says nothing of stores: that a line is read before it is written (no write-allocate "
            "evasion), and that a non-temporal store in part costs a read, is assumed"
        )
    return dataclasses.replace(
        here, caches=caches, stores=stores, prefetch=prefetch, tlbs=tlbs, notes=(*here.notes, *notes)
    )


def read_table(path: Path, what: str, expected: str) -> object:
    """Return a file's content, JSON or TOML by its first character.

    ``what`` it is and what is ``expected`` are for the message.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{what} {path} cannot be read: {reason}; expected {expected}") from error
    if text.lstrip().startswith("{"):
        return jsonio.read_file(path, what)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{what} {path} is neither JSON nor TOML: {error}; expected {expected}") from error


def caches_from(data: object, where: str) -> tuple[str, tuple[CacheLevel, ...]]:
    """Return the name and the caches in hand-written ``data``.

    Raises
    ------
    MachineFileError
        With all mistakes.
    """
    problems: list[Problem] = []
    if not isinstance(data, dict):
        raise MachineFileError([Problem(where, jsonio.shown(data), "an object")])
    _unknown(data, _TOP_KEYS, where, problems)
    name = _get(data, "name", str, "another machine", where, problems)
    line = _get(data, "line_bytes", int, 64, where, problems)
    entries = data.get("cache")
    if not isinstance(entries, list) or not entries:
        found = jsonio.shown(entries) if "cache" in data else "nothing"
        problems.append(Problem(f"{where}: cache", found, "a list of caches ([[cache]] in TOML)"))
        entries = []
    levels: dict[int, CacheLevel] = {}
    for index, entry in enumerate(entries):
        at = f"{where}: cache[{index}]"
        read = _cache(entry, line, at, problems)
        if read is None:
            continue
        level, cache = read
        if level in levels:
            problems.append(Problem(f"{at}.level", f"{level} again", "each level once"))
        levels[level] = cache
    caches = tuple(levels[level] for level in sorted(levels))
    if not problems:
        problems = store.cache_problems(caches, f"{where}: cache")
    if problems:
        raise MachineFileError(problems)
    return name, caches


def _stores(data: object, where: str, problems: list[Problem]) -> Stores:
    """Return what hand-written ``data`` says of stores; what most processors do where it says nothing."""
    entry = data.get("stores", {}) if isinstance(data, dict) else {}
    at = f"{where}: stores"
    if not isinstance(entry, dict):
        problems.append(Problem(at, jsonio.shown(entry), "a table"))
        return Stores()
    before = len(problems)
    _unknown(entry, _STORE_KEYS, at, problems)
    evasion = _word(entry, "evasion", Evasion, at, problems)
    partial = _word(entry, "partial", Partial, at, problems)
    evaded = entry.get("evaded", 1.0 if evasion == "always" else 0.0)
    if type(evaded) not in (int, float) or not 0 <= evaded <= 1:
        problems.append(Problem(f"{at}.evaded", jsonio.shown(evaded), "a share of 0 to 1"))
    elif evaded and evasion == "none":
        expected = "0, or an evasion of 'always' or 'under load'"
        problems.append(Problem(f"{at}.evaded", jsonio.shown(evaded), expected))
    if len(problems) > before:
        return Stores()
    return Stores(evasion, float(evaded), partial, where if entry else f"{where} says nothing of stores")


def _prefetch(data: object, where: str, problems: list[Problem]) -> Prefetch:
    """Return the hardware prefetchers of hand-written ``data``; none where it says nothing."""
    entry = data.get("prefetch", {}) if isinstance(data, dict) else {}
    found = jsonio.from_json(Prefetch, entry, f"{where}: prefetch", problems)
    caches = data.get("cache") if isinstance(data, dict) else None
    if found is not None and found.on and isinstance(caches, list) and len(caches) == 1:
        problems.append(Problem(f"{where}: prefetch", "one cache alone", "two or more: it fills level 2"))
    return found or Prefetch()


def _word(entry: dict[str, Any], key: str, words: Any, where: str, problems: list[Problem]) -> Any:
    """Return one of the words of a literal type, the first if the key is missing."""
    allowed = typing.get_args(words)
    value = _get(entry, key, str, allowed[0], where, problems)
    if value not in allowed:
        problems.append(Problem(f"{where}.{key}", repr(value), "one of " + ", ".join(map(repr, allowed))))
    return value


def _tlbs(data: object, where: str, problems: list[Problem]) -> tuple[Tlb, ...]:
    """Return the TLBs in hand-written ``data``, none if it has none."""
    entries = data.get("tlb", []) if isinstance(data, dict) else []
    if not isinstance(entries, list):
        problems.append(Problem(f"{where}: tlb", jsonio.shown(entries), "a list ([[tlb]] in TOML)"))
        return ()
    found = []
    for index, entry in enumerate(entries):
        at = f"{where}: tlb[{index}]"
        one = jsonio.from_json(Tlb, entry, at, problems)
        if one is not None:
            found.append(dataclasses.replace(one, source=one.source or where))
    problems += tlb.problems(found, f"{where}: tlb")
    return tuple(found)


def _cache(entry: object, line: int, where: str, problems: list[Problem]) -> tuple[int, CacheLevel] | None:
    """Return the level and the cache of one entry, or ``None`` after adding its mistakes."""
    if not isinstance(entry, dict):
        problems.append(Problem(where, jsonio.shown(entry), "a table"))
        return None
    before = len(problems)
    _unknown(entry, _CACHE_KEYS, where, problems)
    level = _get(entry, "level", int, None, where, problems)
    ways = _get(entry, "ways", int, None, where, problems)
    shared_by = _get(entry, "shared_by", int, 1, where, problems)
    hashed = _get(entry, "hashed", bool, level is not None and level >= 3, where, problems)
    slices = _get(entry, "slices", int, 1, where, problems)
    fill = _get(entry, "fill", str, "non-inclusive", where, problems)
    fills = typing.get_args(Fill)
    if fill == "victim" and level == 1:
        problems.append(
            Problem(f"{where}.fill", repr(fill), "another: there is no cache above to evict lines")
        )
    if fill is not None and fill not in fills:
        problems.append(Problem(f"{where}.fill", repr(fill), "one of " + ", ".join(map(repr, fills))))
    size = _size(entry, where, problems)
    policy = replacement.read(entry.get("policy", "lru"), f"{where}.policy", problems)
    if len(problems) > before or policy is None:
        return None
    source = where.partition(":")[0] + _taken_for_granted(entry, level)
    cache = CacheLevel(f"L{level}", size, ways, line, shared_by, fill, hashed, source, policy, slices)
    return level, cache


def _taken_for_granted(entry: dict[str, Any], level: int) -> str:
    """Return what an entry leaves out of how a cache works, as an addition to its source."""
    asked = {"fill": "fill"} if level > 1 else {}
    if level > 2:
        asked |= {"hashed": "index", "policy": "replacement"}
    words = [word for key, word in asked.items() if key not in entry]
    if not words:
        return ""
    *first, last = words
    return f" (L{level}: {', '.join(first)}{' and ' if first else ''}{last} assumed)"


def _size(entry: dict[str, Any], where: str, problems: list[Problem]) -> int:
    if ("size" in entry) == ("bytes" in entry):
        found = "both size and bytes" if "size" in entry else "neither size nor bytes"
        problems.append(Problem(where, found, "one of them, such as size = '32 KiB' or bytes = 32768"))
        return 0
    if "bytes" in entry:
        return int(_get(entry, "bytes", int, None, where, problems) or 0)
    text = _get(entry, "size", str, None, where, problems)
    if text is None:
        return 0
    try:
        return units.binary_size(text)
    except ValueError:
        problems.append(Problem(f"{where}.size", repr(text), "a size such as '32 KiB' or '27.5 MiB'"))
        return 0


def _get(
    entry: dict[str, Any], key: str, kind: type, default: Any, where: str, problems: list[Problem]
) -> Any:
    """Return the value of a key, or the default; a key that is missing without a default is a mistake."""
    names = {str: "a string", int: "an integer", bool: "true or false"}
    if key not in entry:
        if default is None:
            problems.append(Problem(f"{where}.{key}", "nothing", names[kind]))
        return default
    value = entry[key]
    if type(value) is not kind:  # a bool is an int to isinstance
        problems.append(Problem(f"{where}.{key}", jsonio.shown(value), names[kind]))
        return default
    return value


def _unknown(entry: dict[str, Any], known: tuple[str, ...], where: str, problems: list[Problem]) -> None:
    for key in entry:
        if key not in known:
            problems.append(Problem(f"{where}.{key}", "a key nobody knows", "one of " + ", ".join(known)))
