"""The table of source lines, on lines written by hand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from counteroof.report import lines, table
from counteroof.results import KernelResult, SourceLine

from ..factories import result, results


def line(
    number: int | None,
    read: int,
    write: int,
    flops: int = 0,
    instructions: int = 5,
    file: str = "/no/such/folder/kernel.c",
    symbol: str | None = None,
) -> SourceLine:
    return SourceLine(file, number, instructions, flops, read + write, read, write, symbol)


def kernel(*some: SourceLine) -> KernelResult:
    return result("kernel", lines=some)


def test_a_row_has_bytes_flops_executions_and_their_shares() -> None:
    rows = lines.rows(kernel(line(1, 600_000, 150_000, 3_000_000, 70_000), line(2, 250_000, 0, 1_000_000)))
    assert rows[0] == ("600 kB", "150 kB", "75 %", "3.00 M", "75 %", "70.0 k", "kernel.c:1", "")
    assert rows[1] == ("250 kB", "0 B", "25 %", "1.00 M", "25 %", "5", "kernel.c:2", "")


def test_lines_with_most_bytes_come_first_then_those_with_most_flops() -> None:
    rows = lines.rows(kernel(line(1, 0, 0, 7), line(2, 64, 0), line(3, 0, 64, 1), line(4, 0, 0, 9)))
    assert [row[6] for row in rows] == ["kernel.c:3", "kernel.c:2", "kernel.c:4", "kernel.c:1"]


def test_the_rest_is_put_together_so_that_nothing_is_missing() -> None:
    rows = lines.rows(kernel(*(line(number, 64 * number, 0, number) for number in range(1, 6))), top=3)
    assert [row[6] for row in rows] == ["kernel.c:5", "kernel.c:4", "kernel.c:3", "2 more lines"]
    assert rows[-1][:4] == ("192 B", "0 B", "20 %", "3")


def test_code_without_lines_is_named_by_function_and_library() -> None:
    rows = lines.rows(
        kernel(
            line(None, 128, 0, file="/lib/libfoo.so.3", symbol="dgemm"),
            line(None, 64, 0, file="/lib/libfoo.so.3"),
        )
    )
    assert [row[6] for row in rows] == ["dgemm (libfoo.so.3)", "libfoo.so.3"]


def test_source_is_shown_where_it_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text("int i;\n    a[i] = b[i];\n")
    rows = lines.rows(kernel(line(2, 128, 0, file=str(file)), line(3, 64, 0, file=str(file))))
    assert [row[7] for row in rows] == ["a[i] = b[i];", ""]


def test_a_kernel_without_lines_has_no_table() -> None:
    assert lines.rows(kernel()) == []
    assert "source lines" not in drawn(120, kernel())


def drawn(width: int, *kernels: KernelResult) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(table.terminal(results(*kernels), width))
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_numbers_are_whole_at_every_width(width: int, tmp_path: Path) -> None:
    file = tmp_path / ("long_" * 12 + "name.c")
    file.write_text("x" * 300)
    text = drawn(width, kernel(line(1, 111_000_000, 222_000_000, 333_000_000, 444_000_000, str(file))))
    after = text[text.index("kernel: source lines") :].splitlines()
    row = next(line for line in after if "111 MB" in line)
    assert row.split()[:10] == ["111", "MB", "222", "MB", "100", "%", "333", "M", "100", "%"]
    assert "444 M" in row
    assert "long_" in row
    assert len(row) <= width
    assert ("xxx" in row) == (width > 60)


def test_control_characters_of_a_source_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text("a[i] = 1; /* \x1b[2J */\n")
    assert "\x1b" not in drawn(200, kernel(line(1, 64, 0, file=str(file))))


def test_markdown_has_the_same_rows(tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text("a[i] = b[i] | 1;\n")
    text = table.markdown(results(kernel(line(1, 64, 128, 7, file=str(file)))))
    assert "## Source lines of kernel" in text
    assert r"| 64 B | 128 B | 100 % | 7 | 100 % | 5 | kernel.c:1 | a\[i\] = b\[i\] \| 1; |" in text
