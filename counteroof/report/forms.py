"""The forms of a table: Markdown, CSV, LaTeX, HTML, JSON, a data frame, and aligned text for a terminal."""

from __future__ import annotations

import csv as csv_module
import html as html_module
import io
import json as json_module
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .grid import Cell, Grid

if TYPE_CHECKING:
    import pandas

LONG_TABLE = 40
"""A LaTeX table of more rows than this may break across pages."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "µ": r"\textmu{}",
    "…": r"\ldots{}",
    "→": r"$\rightarrow$",
}
"""Characters that mean something else to LaTeX, or that its default fonts may lack."""


def printable(text: str) -> str:
    """Return ``text`` without control characters, which a kernel's name may smuggle into a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Cs") else "?" for character in text
    )


def escaped(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, in one line."""
    text = printable(" ".join(text.split()))
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#" else character for character in text)


def latex_escaped(text: str) -> str:
    """Return ``text`` so that LaTeX prints it as it is, in one line."""
    text = "".join(_LATEX.get(character, character) for character in printable(" ".join(text.split())))
    return text.replace("--", "-{}-").replace("--", "-{}-")  # two hyphens would become a dash


def markdown(grid: Grid) -> list[str]:
    """Return the table as lines of Markdown."""
    lines = [
        "| " + " | ".join(escaped(heading.text) for heading in grid.headings) + " |",
        "|" + "|".join("---:" if heading.numeric else "---" for heading in grid.headings) + "|",
    ]
    return lines + ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in grid.rows]


def _markdown_cell(cell: Cell) -> str:
    return f"**{escaped(cell.text)}**" if cell.strong else escaped(cell.text)


def csv(grid: Grid) -> str:
    """Return the table as CSV: values in base units, a missing one as nothing."""
    stream = io.StringIO()
    writer = csv_module.writer(stream, lineterminator="\n")
    writer.writerow(heading.key for heading in grid.headings)
    writer.writerows([cell.value for cell in row] for row in grid.rows)
    return stream.getvalue()


def records(grid: Grid) -> list[dict[str, Any]]:
    """Return one dictionary a row, of values in base units."""
    keys = [heading.key for heading in grid.headings]
    return [dict(zip(keys, (cell.value for cell in row), strict=True)) for row in grid.rows]


def json(grid: Grid) -> str:
    """Return the table as a JSON list of objects, with values in base units and ``null`` for missing ones."""
    return json_module.dumps(records(grid), indent=1, allow_nan=False) + "\n"


def frame(grid: Grid) -> pandas.DataFrame:
    """Return the table as a data frame of values in base units, a missing number as NaN."""
    import pandas

    table = pandas.DataFrame(records(grid), columns=[heading.key for heading in grid.headings])
    for heading in grid.headings:
        if heading.numeric:
            table[heading.key] = pandas.to_numeric(table[heading.key])
    return table


def html(grid: Grid, caption: str = "", notes: Iterable[str] = ()) -> str:
    """Return the table as an HTML fragment; every cell of a number has its value in ``data-value``."""
    lines = ['<table class="counteroof">']
    if caption:
        lines.append(f"<caption>{_html(caption)}</caption>")
    heads = "".join(
        f'<th scope="col"{_align(heading.numeric)}>{_html(heading.text)}</th>' for heading in grid.headings
    )
    lines += [f"<thead><tr>{heads}</tr></thead>", "<tbody>"]
    for row in grid.rows:
        cells = []
        for heading, cell in zip(grid.headings, row, strict=True):
            known = heading.numeric and cell.value is not None
            value = f' data-value="{_html(str(cell.value))}"' if known else ""
            text = f"<strong>{_html(cell.text)}</strong>" if cell.strong else _html(cell.text)
            cells.append(f"<td{_align(heading.numeric)}{value}>{text}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines += ["</tbody>", "</table>"]
    items = "".join(f"<li>{_html(note)}</li>" for note in notes)
    return "\n".join(lines + ([f'<ul class="counteroof-notes">{items}</ul>'] if items else [])) + "\n"


def _html(text: str) -> str:
    return html_module.escape(printable(" ".join(text.split())))


def _align(numeric: bool) -> str:
    return ' style="text-align:right"' if numeric else ' style="text-align:left"'


def latex(grid: Grid, caption: str = "", notes: Iterable[str] = ()) -> str:
    """Return the table for LaTeX, ruled by booktabs; one that is too long for a page is a ``longtable``."""
    long = len(grid.rows) > LONG_TABLE
    spec = "".join("r" if heading.numeric else "l" for heading in grid.headings)
    head = " & ".join(latex_escaped(heading.text) for heading in grid.headings) + r" \\"
    body = [" & ".join(map(_latex_cell, row)) + r" \\" for row in grid.rows]
    below = [latex_escaped(note) + r"\par" for note in notes]
    below = [r"\par\smallskip\footnotesize\raggedright", *below] if below else []
    title = [rf"\caption{{{latex_escaped(caption)}}}"] if caption else []
    if long:
        titled = [title[0] + r" \\"] if title else []
        begin = [rf"\begin{{longtable}}{{@{{}}{spec}@{{}}}}", *titled]
        rules = [r"\toprule", head, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
        lines = [*begin, *rules, *body, r"\end{longtable}", *([r"{", *below, r"}"] if below else [])]
        return "\n".join(["% needs the packages booktabs and longtable", *lines]) + "\n"
    begin = [r"\begin{table}", r"\centering", *title, rf"\begin{{tabular}}{{@{{}}{spec}@{{}}}}"]
    rules = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    end = [r"\end{tabular}", *below, r"\end{table}"]
    return "\n".join(["% needs the package booktabs", *begin, *rules, *end]) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = latex_escaped(cell.text)
    # a bracket at the start of a row would be read as an argument of the line break before it
    text = "{" + text + "}" if text.startswith(("[", "*")) else text
    return rf"\textbf{{{text}}}" if cell.strong else text


def aligned(
    headings: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]], gap: int = 1
) -> tuple[list[str], list[str]]:
    """Return the lines of the head with its rule, and one text for each row, all as wide as they must be.

    Cells may have several lines; a row then has as many as the highest of its cells. Texts must be printable.
    """
    from rich.cells import cell_len

    heads = [heading.split("\n") for heading in headings]
    cells = [[text.split("\n") for text in row] for row in rows]
    widths = [
        max((cell_len(line) for row in (heads, *cells) for line in row[i]), default=0)
        for i in range(len(heads))
    ]
    space = " " * gap

    def line(row: Sequence[Sequence[str]], number: int, height: int, bottom: bool) -> str:
        texts = []
        for lines, width, right in zip(row, widths, numeric, strict=True):
            at = number - (height - len(lines)) if bottom else number
            text = lines[at] if 0 <= at < len(lines) else ""
            padding = " " * (width - cell_len(text))
            texts.append(padding + text if right else text + padding)
        return space.join(texts).rstrip()

    def block(row: Sequence[Sequence[str]], bottom: bool = False) -> list[str]:
        height = max(map(len, row))
        return [line(row, number, height, bottom) for number in range(height)]

    rule = "─" * (sum(widths) + gap * (len(widths) - 1))
    return [*block(heads, bottom=True), rule], ["\n".join(block(row)) for row in cells]


def text(grid: Grid) -> str:
    """Return the table as aligned plain text."""
    rows = [[printable(cell.text) for cell in row] for row in grid.rows]
    headings = [heading.text for heading in grid.headings]
    head, body = aligned(headings, [heading.numeric for heading in grid.headings], rows, gap=2)
    return "\n".join([*head, *body]) + "\n"
