"""The forms of a table, on a small grid whose texts mean something to each of the languages."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from counteroof.report import forms
from counteroof.report.grid import Cell, Grid, Heading, text_row

from ..compiled import needs

ODD = r'a&b_c%d$e#f{g}~h^i\j<script>|"k" [l] --m'
GRID = Grid(
    (Heading("kernel", "kernel", numeric=False), Heading("bytes", "B_actual")),
    (
        (Cell("triad", "triad"), Cell(640_000_000, "640 MB")),
        (Cell(ODD, ODD), Cell(1.5, "1.50 B", strong=True)),
        (Cell("none", "[none]"), Cell(None, "-")),
    ),
)


def test_a_row_must_have_a_cell_for_each_heading() -> None:
    with pytest.raises(ValueError, match="2 cells stand under 1 headings"):
        Grid((Heading("a", "a"),), (text_row(("x", "y")),))


def test_csv_holds_values_and_quotes_what_it_must() -> None:
    text = forms.csv(Grid(GRID.headings, (*GRID.rows, (Cell('x,"y"\nz', ""), Cell(0.1 + 0.2, "")))))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["kernel", "bytes"]
    assert rows[1] == ["triad", "640000000"]
    assert rows[2] == [ODD, "1.5"]
    assert rows[3] == ["none", ""]
    assert rows[4] == ['x,"y"\nz', "0.30000000000000004"]


def test_json_has_null_for_what_is_missing() -> None:
    assert json.loads(forms.json(GRID)) == [
        {"kernel": "triad", "bytes": 640_000_000},
        {"kernel": ODD, "bytes": 1.5},
        {"kernel": "none", "bytes": None},
    ]


def test_the_frame_has_nan_for_a_missing_number() -> None:
    frame = forms.frame(GRID)
    assert list(frame["bytes"][:2]) == [640_000_000, 1.5]
    assert math.isnan(frame["bytes"][2])
    assert list(frame["kernel"]) == ["triad", ODD, "none"]


def test_an_empty_table_still_has_its_columns() -> None:
    empty = Grid(GRID.headings, ())
    assert list(forms.frame(empty).columns) == ["kernel", "bytes"]
    assert forms.csv(empty) == "kernel,bytes\n"
    assert forms.text(empty).splitlines()[0].split() == ["kernel", "B_actual"]


class Reader(HTMLParser):
    """Collects the cells of a table, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.values: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self.values.append(dict(attrs).get("data-value"))

    def handle_data(self, data: str) -> None:
        if self.cells and data.strip():
            self.cells[-1] += data


def test_html_escapes_names_and_keeps_values() -> None:
    reader = Reader()
    reader.feed(forms.html(GRID))
    assert reader.cells == ["kernel", "B_actual", "triad", "640 MB", ODD, "1.50 B", "[none]", "-"]
    assert reader.values == [None, None, None, "640000000", None, "1.5", None, None]
    assert set(reader.tags) == {"table", "thead", "tbody", "tr", "th", "td", "strong"}


def test_html_escapes_caption_and_notes() -> None:
    text = forms.html(GRID, "<b>run</b>", ["a <note>"])
    assert "<caption>&lt;b&gt;run&lt;/b&gt;</caption>" in text
    assert "<li>a &lt;note&gt;</li>" in text


def test_latex_uses_booktabs_and_escapes_names() -> None:
    text = forms.latex(GRID, "50 % of it", ["note_1"])
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    assert r"\begin{tabular}{@{}lr@{}}" in text
    assert r"\caption{50 \% of it}" in text
    assert r"note\_1\par" in text
    assert r"kernel & B\_actual \\" in text
    assert r"a\&b\_c\%d\$e\#f\{g\}\textasciitilde{}h\textasciicircum{}i\textbackslash{}j" in text
    assert r"[l] -{}-m & \textbf{1.50 B} \\" in text
    assert "\n{[none]} & - \\\\" in text  # no bracket directly after the line break before it


def test_a_latex_table_longer_than_a_page_may_break() -> None:
    long = Grid(GRID.headings, GRID.rows * 50)
    text = forms.latex(long, "many")
    assert r"\begin{longtable}{@{}lr@{}}" in text
    assert text.count("triad") == 50
    assert r"\begin{table}" not in text


@needs("pdflatex")
@pytest.mark.parametrize("times", [1, 50])
def test_latex_accepts_it(tmp_path: Path, times: int) -> None:
    table = forms.latex(Grid(GRID.headings, GRID.rows * times), ODD, [ODD, "2 µs … → end"])
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs,longtable}\\begin{document}\n"
        f"{table}\\end{{document}}\n"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "t.log").read_text(errors="replace")


def test_aligned_text_puts_numbers_to_the_right_and_counts_wide_characters() -> None:
    grid = Grid(GRID.headings, (text_row(("日本", "1")), text_row(("abc", "22 MB"))))
    assert forms.text(grid).splitlines() == [
        "kernel  B_actual",
        "────────────────",
        "日本           1",
        "abc        22 MB",
    ]


def test_control_characters_never_reach_a_terminal() -> None:
    grid = Grid(GRID.headings, (text_row(("\x1b[31mred\u202e", "1")),))
    assert "\x1b" not in forms.text(grid)
    assert "?[31mred?" in forms.text(grid)


def test_cells_of_several_lines_stand_side_by_side() -> None:
    head, body = forms.aligned(["a\nb", "c"], [False, True], [["x\ny", "1"]])
    assert head == ["a", "b c", "───"]
    assert body == ["x 1\ny"]
