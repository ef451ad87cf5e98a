#!/usr/bin/env python3
"""Sets the cache model against traffic that hardware counters saw on other machines, for 3-D stencils.

Run from a checkout with the compiled parts in place:
``python scripts/validate_traffic.py stencil_traffic.csv --machines machines.toml``.

Every row of the file is one stencil on one machine at one size. Its accesses go to the cache model with
that machine's caches: whole sweeps over the grids, of which the first fills the caches and the last is
counted. Per machine and level the table has the median, the mean and the 90th percentile of the error of the
bytes moved both ways, ours and the published simulator's, over the rows with at least 1 B an update counted
at that level.

The last level replaces lines as its microarchitecture's entry in ``counteroof/data/machines`` says (LRU where
it says nothing), found by the beginning of the machine's name or by ``microarchitecture = "..."`` in the
machine file. The arrays lie one behind the other in 2 MiB frames, as transparent huge pages place them;
``--small-pages`` spreads them over 4 KiB frames at random. ``--leave-one-out`` asks whether what was fitted
holds: the one constant, the share of lines that the last level takes in near, is chosen on all rows of a
machine but one, and the error of that row counts.

What is simulated is what the row's instruction set does with the stencil in words: for k, for j, vectors over
i and single elements for the remainder, the points in order of their addresses, ordinary stores. The accesses
are given to the model loop by loop. With ``--engine`` the stencil is compiled as a C kernel and runs under
the instrumentation engine instead, which is slower and counts the same, and a few lines of the stack; a test
says so.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counteroof.cachesim.model import SEED, CacheModel, Kind, Totals
from counteroof.errors import BadInput, Problem
from counteroof.machine import policy, replacement
from counteroof.machine.model import CacheLevel, Policy
from counteroof.native import ffi, lib

LINE_BYTES = 64
BASE = 0x7000_0000_0000
PAGE = 1 << 12
HUGE = 1 << 21
"""The first grid starts on such a boundary."""
SHARES = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
"""What ``--leave-one-out`` chooses from."""
DECIDED = 6.0
"""Arrays of so many times the caches' size move the same whatever the share, and from the second sweep on."""
MICROARCHITECTURES = {
    "nehalemex": "Nehalem-EX, Westmere-EX",
    "westmereex": "Nehalem-EX, Westmere-EX",
    "nehalem": "Nehalem, Westmere client",
    "westmere": "Nehalem, Westmere client",
    "sandybridge": "Sandy Bridge",
    "ivybridge": "Ivy Bridge",
    "haswell": "Haswell",
    "broadwell": "Broadwell",
    "skylake": "Skylake-SP, Cascade Lake, Cooper Lake",
    "cascadelake": "Skylake-SP, Cascade Lake, Cooper Lake",
    "cooperlake": "Skylake-SP, Cascade Lake, Cooper Lake",
    "icelake": "Ice Lake-SP, Ice Lake-D",
    "sapphirerapids": "Sapphire Rapids, Emerald Rapids",
    "emeraldrapids": "Sapphire Rapids, Emerald Rapids",
    "graniterapids": "Granite Rapids, Sierra Forest, Clearwater Forest",
    "zen5": "Zen 5",
    "zen4": "Zen 4",
    "zen3": "Zen 3",
    "zen2": "Zen 2",
    "zen": "Zen, Zen+",
}
"""Entries by the beginnings of machines' names, which are taken to be servers."""
LEAST = 1.0
"""Bytes an update from which on an error in per cent means something."""
VECTOR_BYTES = {"SSE": 16, "AVX": 32, "AVX2": 32, "AVX-512": 64}
FLAGS = {"SSE": "-msse2", "AVX": "-mavx", "AVX2": "-mavx2", "AVX-512": "-mavx512f"}
OLD = ("sandybridge", "ivybridge")
"""Machines that have AVX but not AVX2, by the beginning of their names."""
ITEM_BYTES = {"f64": 8, "f32": 4}
LEVELS = ("l1l2", "l2l3", "mem")
FILLS = ("inclusive", "non-inclusive", "victim")
COLUMNS = ("machine", "radius", "shape", "coefficients", "weighting", "dtype", "n")
WEIGHTINGS = ("heterogeneous", "homogeneous", "isotropic", "point-symmetric")
"""What has a coefficient of its own: a point, all together, all as far along the axes, two opposite ones."""


# ---- what is given ----


@dataclass(frozen=True)
class Stencil:
    """What is swept: a grid ``a`` is read, a grid ``b`` written, n points along each edge."""

    radius: int
    shape: str
    coefficients: str
    weighting: str
    dtype: str
    n: int

    @property
    def points(self) -> list[tuple[int, int, int]]:
        """Offsets (k, j, i) of the neighbours, the one with the lowest address first."""
        reach = range(-self.radius, self.radius + 1)
        box = itertools.product(reach, reach, reach)
        return [point for point in box if self.shape == "box" or point.count(0) >= 2]

    @property
    def coefficient_arrays(self) -> int:
        return sum(number is not None for number in self.loaded)

    @property
    def loaded(self) -> list[int | None]:
        """For each point the coefficient array that is read at it: at the first of those that share it."""
        found: list[int | None] = []
        seen: set[tuple[int, ...]] = set()
        for point in self.points:
            alike = self._weight_of(point)
            new = self.coefficients == "variable" and alike not in seen
            found.append(len(seen) if new else None)
            seen.add(alike)
        return found

    def _weight_of(self, point: tuple[int, int, int]) -> tuple[int, ...]:
        if self.weighting == "homogeneous":
            return ()
        if self.weighting == "isotropic":
            return tuple(sorted(abs(offset) for offset in point))
        if self.weighting == "point-symmetric":
            k, j, i = point
            return min(point, (-k, -j, -i))
        return point

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def grid_bytes(self) -> int:
        return self.n**3 * self.item_bytes

    @property
    def inner(self) -> int:
        return self.n - 2 * self.radius

    @property
    def updates(self) -> int:
        return self.inner**3


@dataclass(frozen=True)
class Row:
    """One row of the file: bytes an update that crossed each level's lower boundary, both ways."""

    where: str
    machine: str
    isa: str
    stencil: Stencil
    counted: dict[str, float]
    published: dict[str, float]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a traffic file.

    Raises
    ------
    BadInput
        The file cannot be read, a column is missing or a value is impossible; the text names the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # as spreadsheets save it
            reader = csv.DictReader(file, skipinitialspace=True)
            needed = [*COLUMNS, *(f"{level}_{way}" for level in LEVELS for way in ("load", "evict"))]
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise BadInput(f"{path}: found no column {', '.join(missing)}; expected {', '.join(needed)}")
            rows = [_row(f"{path}:{reader.line_num}", record) for record in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read as CSV: {error}") from error
    if not rows:
        raise BadInput(f"{path}: found a header alone; expected a row for each stencil counted")
    return rows


def _row(where: str, record: dict[str, str]) -> Row:
    def choice(name: str, allowed: Sequence[str]) -> str:
        if record[name] not in allowed:
            raise BadInput(f"{where}: found {name} {record[name]!r}; expected {' or '.join(allowed)}")
        return record[name]

    def integer(name: str, least: int, most: int) -> int:
        text = record[name] or ""
        value = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= value <= most:
            raise BadInput(f"{where}: found {name} {text!r}; expected an integer from {least} to {most}")
        return value

    def both(level: str, prefix: str = "") -> float:
        total = 0.0
        for way in ("load", "evict"):
            name = f"{prefix}{level}_{way}"
            try:
                value = float(record[name] or "")
            except ValueError:
                value = math.nan
            if not 0 <= value < math.inf:
                raise BadInput(f"{where}: found {name} {record[name]!r}; expected bytes an update, 0 or more")
            total += value
        return total

    coefficients = choice("coefficients", ("constant", "variable"))
    if coefficients == "variable":  # scalars cause no traffic, however many there are
        choice("weighting", WEIGHTINGS)
    radius = integer("radius", 1, 8)
    stencil = Stencil(
        radius,
        choice("shape", ("star", "box")),
        coefficients,
        record["weighting"],
        choice("dtype", tuple(ITEM_BYTES)),
        integer("n", 2 * radius + 1, 4096),
    )
    isa = "AVX" if record["machine"].startswith(OLD) else "AVX2"
    if record.get("isa"):
        isa = choice("isa", tuple(VECTOR_BYTES))
    published = [level for level in LEVELS if f"simulator_{level}_load" in record]
    return Row(
        where,
        record["machine"],
        isa,
        stencil,
        {level: both(level) for level in LEVELS},
        {level: both(level, "simulator_") for level in published},
    )


def read_machines(path: Path) -> dict[str, tuple[CacheLevel, ...]]:
    """Return the caches of each machine of a file, the first level first.

    Raises
    ------
    BadInput
        The file cannot be read, or a level lacks a number; the text names it.
    """
    try:
        tables = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as TOML: {error}") from error
    machines = {}
    for name, table in tables.items():
        entry = table.pop("microarchitecture", None) if isinstance(table, dict) else None
        levels = sorted(table) if isinstance(table, dict) else []
        if not levels or levels != [f"l{number + 1}" for number in range(len(levels))]:
            raise BadInput(
                f"{path}: found [{name}] with {levels or table!r}; expected l1, l2, ... without gaps"
            )
        caches = [_level(f"{path}: [{name}] {key}", key.upper(), table[key]) for key in levels]
        if len(caches) > 2 and "policy" not in table[levels[-1]]:
            caches[-1] = replace(caches[-1], policy=_last_policy(f"{path}: [{name}]", name, entry))
        machines[name] = tuple(caches)
    return machines


def _last_policy(where: str, name: str, entry: object) -> Policy:
    """Return how the last level of a machine replaces lines, by the entry named or by the machine's name."""
    entries = {one.name: one for file in policy.files().values() for one in file.microarchitecture}
    if entry is None:
        plain = "".join(letter for letter in name.lower() if letter.isalnum())
        found = next((full for start, full in MICROARCHITECTURES.items() if plain.startswith(start)), None)
        if found is None:
            return Policy()
        entry = found
    if entry not in entries:
        raise BadInput(f"{where}: found microarchitecture {entry!r}; expected one of {', '.join(entries)}")
    fact = entries[entry].l3_policy
    chosen = replacement.read(fact.value, where, []) if fact else Policy()
    assert chosen is not None  # the files have been checked
    return chosen


def _level(where: str, name: str, table: Any) -> CacheLevel:
    if not isinstance(table, dict):
        raise BadInput(f"{where}: found {table!r}; expected {{ bytes = ..., ways = ... }}")
    numbers = {"bytes": table.get("bytes"), "ways": table.get("ways"), "slices": table.get("slices", 1)}
    for key, value in numbers.items():
        if type(value) is not int or value < 1:
            raise BadInput(f"{where}: found {key} = {value!r}; expected a whole number above 0")
    fill = table.get("fill", "non-inclusive")
    if fill not in FILLS:
        raise BadInput(f"{where}: found fill = {fill!r}; expected {', '.join(FILLS)}")
    unknown = set(table) - {"bytes", "ways", "slices", "fill", "policy"}
    if unknown:
        raise BadInput(
            f"{where}: found {', '.join(sorted(unknown))}; expected bytes, ways, slices, fill, policy alone"
        )
    problems: list[Problem] = []
    chosen = replacement.read(table.get("policy", "lru"), f"{where}.policy", problems)
    if chosen is None:
        raise BadInput(
            "; ".join(f"{one.where}: found {one.found}; expected {one.expected}" for one in problems)
        )
    hashed, source = numbers["slices"] > 1, "machine file"
    return CacheLevel(name, numbers["bytes"], numbers["ways"], LINE_BYTES, 1, fill, hashed, source, chosen)


# ---- what the stencil does ----


@dataclass(frozen=True)
class Place:
    """Where the arrays of a stencil lie: addresses of ``a``, of ``b`` and of each coefficient array."""

    a: int
    b: int
    coefficients: tuple[int, ...]


def places(stencil: Stencil, base: int = BASE) -> Place:
    """Return a layout: one array behind the other, each on a page of its own, as large allocations lie."""
    room = -(-stencil.grid_bytes // PAGE) * PAGE
    start = base + 2 * room
    return Place(
        base,
        base + room,
        tuple(start + number * stencil.grid_bytes for number in range(stencil.coefficient_arrays)),
    )


def addresses(stencil: Stencil, place: Place) -> list[int]:
    """Return what an update of the point (0, 0, 0) would touch, in order; the last is the store."""
    n, item = stencil.n, stencil.item_bytes
    found = []
    for (k, j, i), number in zip(stencil.points, stencil.loaded, strict=True):
        found.append(place.a + ((k * n + j) * n + i) * item)
        if number is not None:
            found.append(place.coefficients[number])
    return [*found, place.b]


def sweep(model: CacheModel, stencil: Stencil, place: Place, vector_bytes: int) -> None:
    """Give the model one sweep over the interior."""
    n, item, radius = stencil.n, stencil.item_bytes, stencil.radius
    lanes = vector_bytes // item
    origin = np.array(addresses(stencil, place), np.uint64)
    kinds = ffi.new("uint32_t[]", [Kind.LOAD] * (len(origin) - 1) + [Kind.STORE])
    starts = np.empty_like(origin)
    address = ffi.from_buffer("uint64_t[]", starts)

    def loop(width: int) -> Callable[[int], None]:
        strides, widths = (
            ffi.new("int64_t[]", [width] * len(origin)),
            ffi.new("uint32_t[]", [width] * len(origin)),
        )
        pointer, streams = model.pointer, len(origin)
        return lambda count: lib.cachesim_loop(pointer, streams, address, strides, widths, kinds, count)

    vectors, single = loop(vector_bytes), loop(item)
    whole, rest = divmod(stencil.inner, lanes)
    for k in range(radius, n - radius):
        for j in range(radius, n - radius):
            np.add(origin, np.uint64(((k * n + j) * n + radius) * item), out=starts)
            if whole:
                vectors(whole)
            if rest:
                np.add(starts, np.uint64(whole * vector_bytes), out=starts)
                single(rest)


def source(stencil: Stencil, vector_bytes: int) -> str:
    """Return the C code of ``void sweep(T *a, T *b, T *w)``, whose loads stay in the order of the text."""
    n, radius, lanes = stencil.n, stencil.radius, vector_bytes // stencil.item_bytes
    scalar = {"f64": "double", "f32": "float"}[stencil.dtype]

    def body(kind: str) -> str:
        lines = []
        for (k, j, i), number in zip(stencil.points, stencil.loaded, strict=True):
            value = f"LOAD({kind}, a + at + {(k * n + j) * n + i}L)"
            if number is not None:
                lines.append(f"x = {value}; c = LOAD({kind}, w + at + {number * n**3}L); s += c * x;")
            else:
                lines.append(f"s += {value};")
        return f"{kind} s = {{0}}, x, c; {' '.join(lines)} *(volatile {kind} *)(b + at) = s;".replace(
            "scalar s = {0}", "scalar s = 0"
        )

    return f"""
typedef {scalar} scalar;
typedef {scalar} vector
    __attribute__((vector_size({vector_bytes}), aligned({stencil.item_bytes}), may_alias));
#define LOAD(kind, address) (*(const volatile kind *)(address))
void sweep(const scalar *a, scalar *b, const scalar *w)
{{
    for (long k = {radius}; k < {n - radius}; k++)
        for (long j = {radius}; j < {n - radius}; j++) {{
            long at = (k * {n} + j) * {n} + {radius}, end = at + {stencil.inner};
            for (; at + {lanes} <= end; at += {lanes}) {{ {body("vector")} }}
            for (; at < end; at++) {{ {body("scalar")} }}
        }}
    (void)w;
}}
"""


# ---- one row ----


@dataclass(frozen=True)
class Options:
    """How rows are run."""

    warm: int | None = None
    """Sweeps before the one that counts; two, or one where the arrays are so large that nothing stays."""
    seed: int = SEED
    small_pages: bool = False
    engine: bool = False


def model_of(caches: Sequence[CacheLevel], stencil: Stencil, place: Place, options: Options) -> CacheModel:
    model = CacheModel(caches, seed=options.seed)
    arrays = [("a", place.a, stencil.grid_bytes), ("b", place.b, stencil.grid_bytes)]
    if place.coefficients:
        arrays.append(("w", place.coefficients[0], stencil.grid_bytes * len(place.coefficients)))
    for name, start, nbytes in arrays:
        model.add_array(name, start, nbytes)
    if not options.small_pages:
        _, start, nbytes = arrays[-1]
        model.place(place.a, -(-(start + nbytes) // HUGE) * HUGE - place.a)
    return model


def decided(caches: Sequence[CacheLevel], stencil: Stencil) -> bool:
    """Whether the arrays are so large that no line stays from one sweep to the next."""
    nbytes = (2 + stencil.coefficient_arrays) * stencil.grid_bytes
    return nbytes > DECIDED * sum(cache.bytes for cache in caches)


def warm_sweeps(caches: Sequence[CacheLevel], stencil: Stencil, options: Options) -> int:
    if options.warm is not None:
        return options.warm
    return 1 if decided(caches, stencil) else 2


def run(caches: Sequence[CacheLevel], stencil: Stencil, isa: str, options: Options) -> CacheModel:
    """Return the model after the sweep that counts."""
    vector_bytes = VECTOR_BYTES[isa]
    if options.engine:
        return run_compiled(caches, stencil, isa, options)
    place = places(stencil)
    model = model_of(caches, stencil, place, options)
    for _ in range(warm_sweeps(caches, stencil, options)):
        sweep(model, stencil, place, vector_bytes)
    model.reset()
    sweep(model, stencil, place, vector_bytes)
    return model


def run_compiled(caches: Sequence[CacheLevel], stencil: Stencil, isa: str, options: Options) -> CacheModel:
    """Do the same with a compiled kernel under the engine."""
    from counteroof.instrument.engine import Engine

    # memory that nobody has touched reads as zeros and takes no room until it is written to
    room = places(stencil, 0)
    last = room.coefficients[-1] if room.coefficients else room.b
    memory = np.zeros(last + stencil.grid_bytes + HUGE, np.uint8)
    place = places(stencil, -(-memory.ctypes.data // HUGE) * HUGE)
    model = model_of(caches, stencil, place, options)
    frame = ffi.new("struct run_frame *")
    frame.ints[0], frame.ints[1] = place.a, place.b
    frame.ints[2] = place.coefficients[0] if place.coefficients else 0
    with tempfile.TemporaryDirectory(prefix="stencil-") as folder:
        library = ctypes.CDLL(str(compiled(stencil, isa, Path(folder))))
    function = ctypes.cast(library.sweep, ctypes.c_void_p).value
    assert function is not None
    with Engine("bytes", model.pointer) as engine:
        for _ in range(warm_sweeps(caches, stencil, options)):
            engine.call(function, frame)
        engine.drain()
        model.reset()
        engine.call(function, frame)
        engine.drain()
    return model


def compiled(stencil: Stencil, isa: str, folder: Path) -> Path:
    """Compile a stencil for an instruction set and return the library."""
    code, library = folder / "stencil.c", folder / "stencil.so"
    code.write_text(source(stencil, VECTOR_BYTES[isa]))
    command = ["cc", "-shared", "-fPIC", "-O2", "-w", FLAGS[isa], str(code), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def per_update(totals: Totals, updates: int) -> dict[str, float]:
    """Return bytes an update below L1, below L2 and at memory; a level that is not there has none."""
    between = {"l1l2": totals.between(1), "l2l3": totals.between(2)}
    moved = {level: value for level, value in between.items() if value is not None}
    moved["mem"] = totals.dram_read_bytes + totals.dram_write_bytes
    return {level: value / updates for level, value in moved.items()}


# ---- errors ----


@dataclass(frozen=True)
class Errors:
    """Errors in per cent of what was counted."""

    rows: int
    median: float
    mean: float
    percentile_90: float


def errors(pairs: Sequence[tuple[float, float]]) -> Errors | None:
    """Return the errors of (counted, predicted); ``None`` without pairs.

    The percentile is an error that occurred, the next above where it lies (as the published figures are).
    """
    if not pairs:
        return None
    found = np.array([abs(predicted - counted) / counted * 100 for counted, predicted in pairs])
    return Errors(
        len(pairs),
        float(np.median(found)),
        float(found.mean()),
        float(np.percentile(found, 90, method="higher")),
    )


@dataclass(frozen=True)
class Result:
    """A row and what the model said of it."""

    row: Row
    modelled: dict[str, float]
    seconds: float


def summary(results: Sequence[Result]) -> Iterator[tuple[str, str, Errors, Errors | None]]:
    """Give machine, level, our errors and the published simulator's, of the same rows."""
    for machine in dict.fromkeys(result.row.machine for result in results):
        for level in reversed(LEVELS):
            chosen = [
                result
                for result in results
                if result.row.machine == machine
                and level in result.modelled
                and result.row.counted[level] >= LEAST
            ]
            ours = errors([(one.row.counted[level], one.modelled[level]) for one in chosen])
            theirs = errors(
                [
                    (one.row.counted[level], one.row.published[level])
                    for one in chosen
                    if level in one.row.published
                ]
            )
            if ours:
                yield machine, level, ours, theirs


# ---- the command ----


def spread(rows: Sequence[Row], most: int | None) -> list[Row]:
    """Return at most so many rows of each machine, at equal distances."""
    if most is None:
        return list(rows)
    chosen: list[Row] = []
    for machine in dict.fromkeys(row.machine for row in rows):
        mine = [row for row in rows if row.machine == machine]
        count = min(most, len(mine))
        chosen += [mine[(2 * number + 1) * len(mine) // (2 * count)] for number in range(count)]
    return chosen


def chosen_rows(arguments: argparse.Namespace, machines: dict[str, Any]) -> list[Row]:
    rows = read_rows(arguments.file)
    known = list(dict.fromkeys(row.machine for row in rows))
    for name in arguments.machine or ():
        if name not in known:
            raise BadInput(
                f"--machine {name}: found no row of it in {arguments.file}; it has {', '.join(known)}"
            )
    if arguments.machine:
        rows = [row for row in rows if row.machine in arguments.machine]
    rows = spread(rows, arguments.rows)
    for row in rows:
        if row.machine not in machines:
            raise BadInput(
                f"{row.where}: found machine {row.machine!r}; expected one of {arguments.machines}:"
                f" {', '.join(machines)}"
            )
    return rows


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="CSV file of counted traffic")
    parser.add_argument("--machines", type=Path, required=True, help="TOML file of their caches")
    parser.add_argument(
        "--machine", action="append", metavar="NAME", help="only this machine; may be repeated"
    )
    parser.add_argument(
        "--rows", type=positive, metavar="N", help="at most N rows of each machine, spread out"
    )
    parser.add_argument("--json", action="store_true", help="print every row and the errors as JSON")
    parser.add_argument(
        "--engine", action="store_true", help="compile the stencils and run them instrumented"
    )
    parser.add_argument(
        "--warm", type=positive, metavar="N", help="sweeps before the counted one (2, of large grids 1)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="places the physical pages")
    parser.add_argument("--small-pages", action="store_true", help="the arrays lie in 4 KiB frames at random")
    parser.add_argument(
        "--leave-one-out", action="store_true", help="choose the constant on all rows but the one judged"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    arguments = parser.parse_args(given)
    options = Options(arguments.warm, arguments.seed, arguments.small_pages, arguments.engine)
    try:
        machines = read_machines(arguments.machines)
        rows = chosen_rows(arguments, machines)
        if arguments.leave_one_out:
            judged = list(leave_one_out(rows, machines, options, arguments.quiet))
        else:
            results = list(results_of(rows, machines, options, arguments.quiet))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.leave_one_out:
        print(
            json.dumps([asdict(one) for one in judged], indent=1) if arguments.json else judged_text(judged)
        )
    elif arguments.json:
        print(json.dumps(as_json(results, options), indent=1))
    else:
        print_table(results)
    return 0


def results_of(
    rows: Sequence[Row], machines: dict[str, tuple[CacheLevel, ...]], options: Options, quiet: bool
) -> Iterator[Result]:
    work = sum(row.stencil.updates for row in rows)
    done, begun = 0, time.monotonic()
    for number, row in enumerate(rows, 1):
        started = time.thread_time()
        totals = run(machines[row.machine], row.stencil, row.isa, options).totals()
        modelled = per_update(totals, row.stencil.updates)
        yield Result(row, modelled, time.thread_time() - started)
        done += row.stencil.updates
        if not quiet:
            spent = time.monotonic() - begun
            stencil = row.stencil
            print(
                f"[{number}/{len(rows)}] {row.machine} radius {stencil.radius} {stencil.shape} n={stencil.n}:"
                f" {modelled['mem']:.2f} B/update modelled, {row.counted['mem']:.2f} counted; "
                f"{spent:.0f} s, about {spent * (work - done) / done:.0f} s to go",
                file=sys.stderr,
                flush=True,
            )


# ---- the constant, chosen without the row it is judged on ----


@dataclass(frozen=True)
class Judged:
    """One machine: errors of its rows at memory, each under the share that is best for the other rows."""

    machine: str
    policy: str
    chosen: dict[str, int]
    """Share: how many rows were judged by it."""
    model: Errors
    published: Errors | None


def leave_one_out(
    rows: Sequence[Row], machines: dict[str, tuple[CacheLevel, ...]], options: Options, quiet: bool
) -> Iterator[Judged]:
    """Give each machine's errors where the share is the one of least mean error over all other rows."""
    for machine in dict.fromkeys(row.machine for row in rows):
        mine = [row for row in rows if row.machine == machine and row.counted["mem"] >= LEAST]
        if len(mine) < 2:
            raise BadInput(f"{machine}: found {len(mine)} row(s) with {LEAST:g} B or more; expected two")
        caches = machines[machine]
        shares = SHARES if caches[-1].policy.kind in ("rrip", "adaptive") else (caches[-1].policy.near,)
        modelled: dict[float, list[float]] = {share: [] for share in shares}
        for row in mine:
            all_the_same = decided(caches, row.stencil)
            for share in shares[-1:] if all_the_same else shares:
                last = replace(caches[-1], policy=replace(caches[-1].policy, near=share))
                totals = run((*caches[:-1], last), row.stencil, row.isa, options).totals()
                moved = per_update(totals, row.stencil.updates)["mem"]
                for same in shares if all_the_same else (share,):
                    modelled[same].append(moved)
            if not quiet:
                print(f"{machine} radius {row.stencil.radius} n={row.stencil.n}", file=sys.stderr, flush=True)
        yield judge(machine, replacement.text(caches[-1].policy), mine, modelled)


def judge(machine: str, policy: str, rows: Sequence[Row], modelled: dict[float, list[float]]) -> Judged:
    """Return the errors of rows, each under the share whose mean error is least over the others."""
    counted = [row.counted["mem"] for row in rows]
    off = {
        share: [abs(one - count) / count for one, count in zip(moved, counted, strict=True)]
        for share, moved in modelled.items()
    }
    best = [min(off, key=lambda share: sum(off[share]) - off[share][left]) for left in range(len(rows))]
    ours = errors([(counted[left], modelled[share][left]) for left, share in enumerate(best)])
    assert ours is not None
    published = [
        (count, row.published["mem"])
        for row, count in zip(rows, counted, strict=True)
        if "mem" in row.published
    ]
    chosen = {f"{share:g}": best.count(share) for share in modelled if share in best}
    return Judged(machine, policy, chosen, ours, errors(published))


def judged_text(judged: Sequence[Judged]) -> str:
    lines = [
        f"Error at memory in % (median, mean, 90th) of rows with at least {LEAST:g} B an update, each under",
        "the share of lines taken in near that is best for the machine's other rows",
    ]
    for one in judged:
        shares = ", ".join(f"{share} ({count} rows)" for share, count in one.chosen.items())
        lines.append(f"{one.machine}: {one.policy}; chosen {shares}")
        lines.append(f"{'':26}{'model':>12}{cells(one.model)}   published{cells(one.published)}")
    return "\n".join(lines)


def as_json(results: Sequence[Result], options: Options) -> dict[str, Any]:
    return {
        "options": asdict(options),
        "rows": [
            {
                "machine": result.row.machine,
                "isa": result.row.isa,
                **asdict(result.row.stencil),
                "counted": result.row.counted,
                "modelled": result.modelled,
                "published": result.row.published,
                "seconds": result.seconds,
            }
            for result in results
        ],
        "errors_percent": [
            {
                "machine": machine,
                "level": level,
                "model": asdict(ours),
                "published": asdict(theirs) if theirs else None,
            }
            for machine, level, ours, theirs in summary(results)
        ],
    }


def print_table(results: Sequence[Result]) -> None:
    print(f"Error of the bytes moved both ways, in %, rows with at least {LEAST:g} B an update counted")
    print(f"{'':26}{'':12}{'':>5}{'model':>24}{'published simulator':>27}")
    heads = f"{'median':>9}{'mean':>8}{'90th':>8}"
    print(f"{'machine':26}{'level':12}{'rows':>5}{heads}  {heads}")
    names = {"mem": "memory", "l2l3": "L2-L3", "l1l2": "L1-L2"}
    for machine, level, ours, theirs in summary(results):
        print(f"{machine:26}{names[level]:12}{ours.rows:5}{cells(ours)}  {cells(theirs)}")
    print(f"{len(results)} rows, {sum(result.seconds for result in results):.0f} s of processor time")


def cells(found: Errors | None) -> str:
    if found is None:
        return f"{'-':>9}{'-':>8}{'-':>8}"
    return f"{found.median:9.1f}{found.mean:8.1f}{found.percentile_90:8.1f}"


if __name__ == "__main__":
    sys.exit(main())
