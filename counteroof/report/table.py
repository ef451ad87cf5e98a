"""The table of one or more runs, in every form: terminal, Markdown, CSV, LaTeX, HTML, JSON, data frame.

Names of C++ kernels are made readable, and long ones are cut in the middle with the full name beside them;
values in CSV, JSON and data frames are in base units and their names are whole.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from .. import names
from ..results import KernelResult, Results
from . import forms, legend
from . import lines as lines_table
from .columns import BY_KEY, Column, source_letters
from .forms import aligned, escaped, printable
from .grid import Cell, Grid, Heading
from .selection import PRESETS, available

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType

_T = TypeVar("_T")

Runs = Results | Sequence[Results]
"""One run, or several whose kernels stand in one table."""

WIDE = 150
"""From this width on the terminal's table has one line a kernel; below, declared stands above actual."""

NAME_ROOM = 48
"""Characters of a kernel's name in a document's table; the terminal's has what the width leaves."""

_WIDE_KEYS = (
    *("kernel", "precision", "seconds", "declared_bytes", "actual_bytes", "bytes_ratio", "declared_flops"),
    *(
        "executed_flops",
        "declared_intensity",
        "intensity",
        "flops_per_second",
        "fraction",
        "bound",
        "sources",
    ),
)

_STACKED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("kernel", ("kernel",)),
    ("bytes\ndeclared\nactual", ("declared_bytes", "actual_bytes")),
    ("ratio", ("bytes_ratio",)),
    ("FLOPs\ndeclared\nexecuted", ("declared_flops", "executed_flops")),
    ("FLOP/B\ndeclared\ntrue", ("declared_intensity", "intensity")),
    ("GFLOP/s\ntime", ("flops_per_second", "seconds")),
    ("of roof\nbound", ("fraction", "bound")),
    ("prec.\nby", ("precision", "sources")),
)
"""Columns of the narrow table: heading, and the keys whose texts stand one above the other."""

NARROW = 72
"""Below this width the terminal's table has three lines a kernel."""

_TEXT_ROOM = 24
"""Characters that a column of texts keeps, whatever the width of the terminal."""

_STACKED_NARROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("kernel\nprec.\nby", ("kernel", "precision", "sources")),
    ("bytes\ndeclared\nactual\nratio", ("declared_bytes", "actual_bytes", "bytes_ratio")),
    ("FLOPs\ndeclared\nexecuted", ("declared_flops", "executed_flops")),
    ("FLOP/B\ndeclared\ntrue", ("declared_intensity", "intensity")),
    ("GFLOP/s\ntime", ("flops_per_second", "seconds")),
    ("of roof\nbound", ("fraction", "bound")),
)

_HEADINGS = {"sources": "FLOPs/\nbytes by"}
"""Headings of the wide terminal table that differ from the columns' own."""


def grid(runs: Runs, keys: Sequence[str] | None = None) -> Grid:
    """Return the table of one or more runs before it has a form.

    Parameters
    ----------
    runs
        With several, a column says which machine a kernel ran on, or when if it was the same machine.
    keys
        Names of columns; by default the usual ones, and the error if a kernel failed.
    """
    runs = _listed(runs)
    if keys is None:
        failed = any(results.failed for results in runs)
        keys = [key for key in PRESETS["usual"] if key != "error" or failed]
    keys = _with_run(runs, keys)
    rows = []
    columns: dict[str, Column] = {}
    for results in runs:
        columns = available(results)
        chosen = [columns[key] for key in keys]
        for kernel in results.kernels:
            rows.append(tuple(_cell(column, kernel) for column in chosen))
    columns = columns or BY_KEY
    headings = tuple(Heading(key, columns[key].heading, columns[key].numeric) for key in keys)
    return Grid(headings, tuple(rows))


def _listed(runs: Runs) -> list[Results]:
    """Return the runs with readable names, at least one."""
    listed = [runs] if isinstance(runs, Results) else list(runs)
    if not listed:
        raise ValueError("a table needs at least one run")
    return [_readable(results) for results in listed]


def _readable(results: Results) -> Results:
    """Return the run with C++ names as people write them."""
    if not any("_Z" in kernel.label for kernel in results.kernels):
        return results
    plain = names.all_readable(kernel.label for kernel in results.kernels)
    kernels = tuple(
        kernel if plain[kernel.label] == kernel.label else replace(kernel, label=plain[kernel.label])
        for kernel in results.kernels
    )
    return replace(results, kernels=kernels)


def _with_run(runs: Sequence[Results], keys: Sequence[str]) -> list[str]:
    """Return the keys with what tells several runs apart after the kernel's name."""
    keys = list(keys)
    machines = {results.machine.name for results in runs}
    if len(runs) > 1:
        key = "machine" if len(machines) > 1 else "created"
        if key not in keys:
            keys.insert(keys.index("kernel") + 1 if "kernel" in keys else 0, key)
    return keys


def _cell(column: Column, kernel: KernelResult) -> Cell:
    above = kernel.placement is not None and kernel.placement.excess is not None
    return Cell(column.value(kernel), column.text(kernel), above and column.key == "fraction")


def frame(runs: Runs, keys: Sequence[str] | None = None) -> pandas.DataFrame:
    """Return the table as a data frame: one row a kernel, values in base units, missing ones as NaN.

    ``flops_source`` and ``bytes_source`` say in words how the numbers were got, ``notes`` what must be known.
    """
    return forms.frame(grid(runs, PRESETS["data"] if keys is None else keys))


def csv(runs: Runs, keys: Sequence[str] | None = None) -> str:
    """Return the table as CSV, in base units; by default the columns of the data frame."""
    return forms.csv(grid(runs, PRESETS["data"] if keys is None else keys))


def json(runs: Runs, keys: Sequence[str] | None = None) -> str:
    """Return the table as a JSON list of objects in base units; by default the data frame's columns."""
    return forms.json(grid(runs, PRESETS["data"] if keys is None else keys))


def markdown(runs: Runs, keys: Sequence[str] | None = None) -> str:
    """Return the table and its legend as Markdown."""
    runs = _listed(runs)
    tail: list[str] = []
    for results in runs:
        name = f" ({escaped(results.machine.name)})" if len(runs) > 1 else ""
        for kernel in results.kernels:
            if found := lines_table.rows(kernel):
                title = f"## Source lines of {escaped(kernel.label)}{name}"
                tail += ["", title, "", *_markdown_lines(found)]
        for title, lines in _sections(results):
            tail += ["", f"## {title.capitalize()}{name}", "", *(f"- {escaped(line)}" for line in lines)]
    heads = [f"{escaped(run_title(results))}." for results in runs]
    head = ["# Roofline", "", *(part for line in heads for part in (line, ""))]
    rows = forms.markdown(grid(runs, keys).with_names_cut(NAME_ROOM))
    return "\n".join([*head, *rows, *tail]) + "\n"


def run_title(results: Results) -> str:
    """Return where and when a run was made, in one line."""
    return f"{results.machine.name}. counteroof {results.counteroof}, {results.created}"


def _markdown_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    rule = ["---:" if i < lines_table.NUMERIC else "---" for i in range(len(lines_table.HEADINGS))]
    body = [[escaped(cell) for cell in row] for row in rows]
    return ["| " + " | ".join(cells) + " |" for cells in (list(lines_table.HEADINGS), rule, *body)]


def html(runs: Runs, keys: Sequence[str] | None = None) -> str:
    """Return the table as an HTML fragment with its legend; names are escaped."""
    return _document(forms.html, runs, keys)


def latex(runs: Runs, keys: Sequence[str] | None = None) -> str:
    """Return the table for LaTeX with booktabs; by default the matrix of a performance report."""
    return _document(forms.latex, runs, PRESETS["performance-report"] if keys is None else keys)


def _document(form: Callable[..., str], runs: Runs, keys: Sequence[str] | None) -> str:
    runs = _listed(runs)
    notes = [line for results in runs for line in (*legend.notes(results), *legend.sources(results))]
    caption = "; ".join(map(run_title, runs))
    return form(grid(runs, keys).with_names_cut(NAME_ROOM), caption, dict.fromkeys(notes))


def terminal(runs: Runs, width: int, keys: Sequence[str] | None = None) -> RenderableType:
    """Return the table and its legend as something a rich console prints in ``width`` columns."""
    from rich.console import Group
    from rich.text import Text

    runs = _listed(runs)
    parts: list[RenderableType] = [*_table(runs, width, keys)]
    for results in runs:
        if len(runs) > 1:
            parts += [Text(""), Text(printable(run_title(results)), style="bold")]
        for kernel in results.kernels:
            if found := lines_table.rows(kernel):
                heading = printable(f"{kernel.label}: source lines")
                parts += [Text(""), Text(heading, style="bold"), *_lines(found, width)]
        for heading, lines in _sections(results):
            listing = [hanging(printable(line), width) for line in lines]
            parts += [Text(""), Text(heading, style="bold"), *_in_blocks(listing)]
    return Group(*parts)


def _table(runs: Sequence[Results], width: int, keys: Sequence[str] | None) -> list[RenderableType]:
    """Return the table itself, and below it the names that had to be cut in full."""
    stacks = _stacks(runs, width, keys)
    kernels: list[KernelResult] = []
    columns: list[dict[str, Column]] = []
    for results in runs:
        kernels += results.kernels
        columns += [available(results)] * len(results.kernels)
    first = columns[0] if columns else available(runs[0])
    numeric = [first[stack[0]].numeric for _, stack in stacks]
    rows = [
        ["\n".join(_terminal_text(kernel, known[key]) for key in stack) for _, stack in stacks]
        for kernel, known in zip(kernels, columns, strict=True)
    ]
    headings = [heading for heading, _ in stacks]
    cut: dict[str, str] = {}
    at = next((i for i, (_, stack) in enumerate(stacks) if stack[0] == "kernel"), None)
    gap = 2 if width >= 90 else 1
    if keys is not None:
        _wrap(
            rows,
            headings,
            [i for i, is_number in enumerate(numeric) if not is_number and i != at],
            width,
            gap,
        )
    if at is not None:
        others = [[cell for i, cell in enumerate(row) if i != at] for row in rows]
        rest, _ = aligned(headings[:at] + headings[at + 1 :], numeric[:at] + numeric[at + 1 :], others, gap)
        room = max(width - len(rest[-1]) - gap, 10)
        cut = names.shortened((line for row in rows for line in row[at].split("\n")), room)
        for row in rows:
            row[at] = "\n".join(cut[line] for line in row[at].split("\n"))
    head, body = aligned(headings, numeric, rows, gap)
    return [*_styled(head, body, kernels), *_in_full(cut, width)]


def _wrap(
    rows: Sequence[list[str]], headings: Sequence[str], which: Sequence[int], width: int, gap: int
) -> None:
    """Break the cells of text columns into lines, as far as the table is wider than the terminal."""

    def widest(column: int) -> int:
        lines = [
            line for cell in (headings[column], *(row[column] for row in rows)) for line in cell.split("\n")
        ]
        return max(map(len, lines))

    widths = [widest(i) for i in range(len(headings))]
    long = sorted((i for i in which if widths[i] > _TEXT_ROOM), key=lambda i: widths[i])
    fixed = sum(min(one, _TEXT_ROOM) for i, one in enumerate(widths) if i not in long)
    left = width - fixed - gap * (len(headings) - 1)
    for number, i in enumerate(long):
        room = max(left // (len(long) - number), _TEXT_ROOM)
        left -= min(room, widths[i])
        for row in rows:
            row[i] = "\n".join(textwrap.wrap(row[i], room, break_on_hyphens=False)) if row[i] else row[i]


def _styled(
    head: Sequence[str], body: Sequence[str], kernels: Sequence[KernelResult]
) -> list[RenderableType]:
    from rich.text import Text

    whole = Text("\n".join(head), style="bold", no_wrap=True, overflow="ignore")
    blocks: list[RenderableType] = [whole]
    for pairs in _batched(list(zip(body, kernels, strict=True))):
        rows = Text(no_wrap=True, overflow="ignore")
        for number, (text, kernel) in enumerate(pairs):
            rows.append("\n" if number else "")
            rows.append(text, style="red" if kernel.error is not None else "")
        blocks.append(rows)
    return blocks


def _in_blocks(lines: Sequence[str]) -> list[RenderableType]:
    """Return lines as texts of some each: rich takes time with the square of a text's length."""
    from rich.text import Text

    return [Text("\n".join(some), no_wrap=True, overflow="ignore") for some in _batched(lines)]


def _batched(items: Sequence[_T], size: int = 50) -> Iterator[Sequence[_T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _in_full(cut: dict[str, str], width: int) -> list[RenderableType]:
    from rich.text import Text

    shown = [f"{short} is {full}" for full, short in cut.items() if short != full]
    if not shown:
        return []
    listing = [hanging(line, width) for line in shown]
    return [Text(""), Text("names in full", style="bold"), *_in_blocks(listing)]


def _stacks(
    runs: Sequence[Results], width: int, keys: Sequence[str] | None
) -> list[tuple[str, tuple[str, ...]]]:
    """Return the columns of the terminal's table: heading, and the keys that stand one above the other."""
    if keys is None and width < WIDE:
        run = [key for key in _with_run(runs, ["kernel"]) if key != "kernel"]
        stacked = _STACKED if width >= NARROW else _STACKED_NARROW
        return [(heading, (*stack, *run) if "kernel" in stack else stack) for heading, stack in stacked]
    columns = available(runs[0])
    shown = _with_run(runs, _WIDE_KEYS if keys is None else keys)
    return [(_HEADINGS.get(key, columns[key].heading.replace(" ", "\n", 1)), (key,)) for key in shown]


def hanging(line: str, width: int) -> str:
    """Return a line of a list, as wide as the terminal, its later lines below the text of the first."""
    return textwrap.fill(line, max(width, 20), initial_indent=" - ", subsequent_indent="   ")


def _lines(rows: Sequence[tuple[str, ...]], width: int) -> list[RenderableType]:
    """Return the table of source lines; on a narrow terminal its last two columns give way."""
    from rich.text import Text

    headings = [heading.replace(" ", "\n", 1) for heading in lines_table.HEADINGS]
    cells = [list(map(printable, row)) for row in rows]
    gap = 2 if width >= 90 else 1
    numbers = lines_table.NUMERIC
    rule = aligned(headings[:numbers], [True] * numbers, [row[:numbers] for row in cells], gap)[0][-1]
    left = width - len(rule) - gap
    rooms = [max(left, 8)]  # below this width, without the source
    if left >= 24:
        where = min(max(len(row[-2]) for row in cells), left // 2)
        rooms = [where, left - where - gap]
    shown = numbers + len(rooms)
    for row in cells:
        row[numbers:] = [_cut(text, room) for text, room in zip(row[numbers:], rooms, strict=False)]
    numeric = [number < numbers for number in range(shown)]
    head, body = aligned(headings[:shown], numeric, [row[:shown] for row in cells], gap)
    bold = Text("\n".join(head), style="bold", no_wrap=True, overflow="ignore")
    return [bold, Text("\n".join(body), no_wrap=True, overflow="ignore")]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _terminal_text(kernel: KernelResult, column: Column) -> str:
    if column.key == "intensity" and kernel.placement is not None and kernel.placement.no_dram_traffic:
        return "no DRAM"
    if column.key == "bound" and kernel.error is not None and kernel.placement is None:
        return kernel.error.kind
    if column.key == "sources":
        return source_letters(kernel)
    if column.key == "fraction" and kernel.placement is not None and kernel.placement.excess is not None:
        return column.text(kernel) + " !"
    return printable(column.text(kernel))


def _sections(results: Results) -> list[tuple[str, list[str]]]:
    sections = [
        ("failed", legend.failures(results.kernels)),
        ("from declared to actual bytes", legend.ledgers(results)),
        ("findings", legend.findings(results.kernels)),
        ("notes", legend.notes(results)),
        ("sources", legend.sources(results)),
    ]
    return [(title, lines) for title, lines in sections if lines]
