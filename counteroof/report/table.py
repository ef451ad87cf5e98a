"""The table of a run: for the terminal (rich), as Markdown, and as a pandas data frame."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..results import KernelResult, Results
from . import legend
from . import lines as lines_table
from .columns import BY_KEY, COLUMNS, Column, source_letters

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType
    from rich.table import Table

WIDE = 150
"""From this width on the terminal's table has one line a kernel; below, declared stands above actual."""

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

_HEADINGS = {"sources": "FLOPs/\nbytes by"}
"""Headings of the wide terminal table that differ from the columns' own."""


def terminal(results: Results, width: int) -> RenderableType:
    """Return the table and its legend as something a rich console prints in ``width`` columns."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    gap = (0, 1, 0, 0) if width >= 90 else (0, 0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=gap, show_edge=False)
    columns: Sequence[tuple[str, tuple[str, ...]]] = (
        [(_HEADINGS.get(key, BY_KEY[key].heading.replace(" ", "\n", 1)), (key,)) for key in _WIDE_KEYS]
        if width >= WIDE
        else _STACKED
    )
    for heading, keys in columns:
        name = keys[0] == "kernel"
        table.add_column(
            heading,
            justify="right" if BY_KEY[keys[0]].numeric else "left",
            no_wrap=not name,
            overflow="fold",
            min_width=10 if name else None,
        )
    for kernel in results.kernels:
        style = "red" if kernel.error is not None else None
        cells = [Text("\n".join(_terminal_text(kernel, key) for key in keys)) for _, keys in columns]
        table.add_row(*cells, style=style)
    parts: list[RenderableType] = [table]
    for kernel in results.kernels:
        if found := lines_table.rows(kernel):
            parts += [
                Text(""),
                Text(printable(f"{kernel.label}: source lines"), style="bold"),
                _lines(found, width, gap),
            ]
    for title, lines in _sections(results):
        listing = Table.grid(padding=(0, 1))
        for line in lines:
            listing.add_row(Text(" -"), Text(printable(line)))
        parts += [Text(""), Text(title, style="bold"), listing]
    return Group(*parts)


def _lines(
    rows: Sequence[tuple[str, ...]], width: int, gap: tuple[int, int] | tuple[int, int, int, int]
) -> Table:
    """Return the table of source lines; on a narrow terminal its last two columns give way."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    headings = [heading.replace(" ", "\n", 1) for heading in lines_table.HEADINGS]
    cells = [list(map(printable, row)) for row in rows]
    widths = [
        max(len(text) for row in (headings, *cells) for text in row[number].split("\n"))
        for number in range(len(headings))
    ]
    between = 1 + gap[1]  # the box draws a blank
    left = width - sum(widths[: lines_table.NUMERIC]) - between * lines_table.NUMERIC
    rooms = [max(left, 8)]  # below this width, without the source
    if left >= 24:
        where = min(widths[-2], left // 2)
        rooms = [where, left - where - between]
    shown = lines_table.NUMERIC + len(rooms)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=gap, show_edge=False)
    for number, heading in enumerate(headings[:shown]):
        table.add_column(heading, justify="right" if number < lines_table.NUMERIC else "left", no_wrap=True)
    for row in cells:
        ends = [_cut(text, room) for text, room in zip(row[lines_table.NUMERIC :], rooms, strict=False)]
        table.add_row(*(Text(text) for text in (*row[: lines_table.NUMERIC], *ends)))
    return table


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _terminal_text(kernel: KernelResult, key: str) -> str:
    if key == "intensity" and kernel.placement is not None and kernel.placement.no_dram_traffic:
        return "no DRAM"
    if key == "bound" and kernel.error is not None and kernel.placement is None:
        return kernel.error.kind
    if key == "sources":
        return source_letters(kernel)
    if key == "fraction" and kernel.placement is not None and kernel.placement.excess is not None:
        return BY_KEY[key].text(kernel) + " !"
    return printable(BY_KEY[key].text(kernel))


def markdown(results: Results) -> str:
    """Return the table and its legend as Markdown."""
    columns = [column for column in COLUMNS if column.key != "error" or results.failed]
    rows = [
        "| " + " | ".join(column.heading for column in columns) + " |",
        "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|",
    ]
    for kernel in results.kernels:
        rows.append("| " + " | ".join(_markdown_text(kernel, column) for column in columns) + " |")
    machine = results.machine
    head = [
        "# Roofline",
        "",
        f"{escaped(machine.name)}. counteroof {escaped(results.counteroof)}, {escaped(results.created)}.",
        "",
    ]
    tail: list[str] = []
    for kernel in results.kernels:
        if found := lines_table.rows(kernel):
            tail += ["", f"## Source lines of {escaped(kernel.label)}", "", *_markdown_lines(found)]
    for title, lines in _sections(results):
        tail += ["", f"## {title.capitalize()}", "", *(f"- {escaped(line)}" for line in lines)]
    return "\n".join([*head, *rows, *tail]) + "\n"


def _markdown_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    rule = ["---:" if i < lines_table.NUMERIC else "---" for i in range(len(lines_table.HEADINGS))]
    body = [[escaped(cell) for cell in row] for row in rows]
    return ["| " + " | ".join(cells) + " |" for cells in (list(lines_table.HEADINGS), rule, *body)]


def _markdown_text(kernel: KernelResult, column: Column) -> str:
    text = column.text(kernel)
    if column.key == "fraction" and kernel.placement is not None and kernel.placement.excess is not None:
        return f"**{text}**"
    return escaped(text)


def frame(results: Results) -> pandas.DataFrame:
    """Return the table as a data frame: one row a kernel, values in base units, missing ones as NaN.

    ``flops_source`` and ``bytes_source`` say in words how the numbers were got, ``notes`` what must be known.
    """
    import pandas

    rows = []
    for kernel in results.kernels:
        row = {column.key: column.value(kernel) for column in COLUMNS}
        del row["sources"]
        row["flops_source"] = _source_text(kernel, "flops")
        row["bytes_source"] = _source_text(kernel, "dram_bytes")
        row["declared_source"] = kernel.declared.source if kernel.declared is not None else None
        row["no_dram_traffic"] = kernel.placement.no_dram_traffic if kernel.placement is not None else None
        row["notes"] = "; ".join(kernel.placement.notes) if kernel.placement is not None else ""
        rows.append(row)
    table = pandas.DataFrame(rows)
    for column in COLUMNS:
        if column.numeric and column.key in table:
            table[column.key] = pandas.to_numeric(table[column.key])
    return table


def _source_text(kernel: KernelResult, quantity: str) -> str:
    count = kernel.flops if quantity == "flops" else kernel.dram_bytes
    if count.value is None:
        return f"unavailable: {count.reason}"
    return f"{count.status}: {count.source}"


def _sections(results: Results) -> list[tuple[str, list[str]]]:
    sections = [
        ("failed", legend.failures(results.kernels)),
        ("from declared to actual bytes", legend.ledgers(results)),
        ("notes", legend.notes(results)),
        ("sources", legend.sources(results)),
    ]
    return [(title, lines) for title, lines in sections if lines]


def printable(text: str) -> str:
    """Return ``text`` without control characters, which a kernel's name may smuggle into a terminal."""
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Cs") else "?" for character in text
    )


def escaped(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, in one line."""
    text = printable(" ".join(text.split()))
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#" else character for character in text)
