"""The table in its forms, on values that all differ, so that no cell can come from the wrong column."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console

from counteroof.count.base import ArrayTraffic, Count
from counteroof.diagnose.base import Finding
from counteroof.reconcile import LedgerLine
from counteroof.report import legend, table
from counteroof.report.columns import COLUMNS
from counteroof.report.selection import PRESETS
from counteroof.results import Results, RoofSample

from ..factories import CEILINGS, bandwidth, failed, measurement, modelled, result, results, traffic, triad

# Declared 24 MB and 4.8 MFLOP (0.2 FLOP/B), moved 32 + 8 MB and executed 5 MFLOP, in 2 ms:
# 2.5 GFLOP/s at 0.125 FLOP/B; 40 MB at 61.9 GB/s take 0.646 ms, 32 % of 2 ms.
DISTINCT = result(
    "distinct",
    seconds=0.002,
    declared=(4_800_000, 24_000_000),
    counted=measurement(
        Count(5_000_000, "scaled", "core events"),
        (traffic("a", read=32_000_000, write=8_000_000),),
        precision="f32",
    ),
    precision="f32",
    threads=1,
)
RESIDENT = result(
    "resident", seconds=1e-7, declared=(2000, 24_000), counted=measurement(2000, (traffic("a"),))
)
UNCOUNTED = result("uncounted", counted=measurement(None), seconds=None, declared=None)
ABOVE = result("above", seconds=0.0095)

TEXTS = {
    "kernel": "distinct",
    "precision": "f32",
    "threads": "1",
    "seconds": "2.00 ms",
    "declared_bytes": "24.0 MB",
    "actual_bytes": "40.0 MB",
    "bytes_ratio": "1.67",
    "declared_flops": "4.80 M",
    "executed_flops": "5.00 M",
    "declared_intensity": "0.200",
    "intensity": "0.125",
    "flops_per_second": "2.50",
    "fraction": "32 %",
    "bound": "DRAM",
    "ceiling": "DRAM copy",
    "sources": "scaled / modelled",
    "error": "",
}


def drawn(whole: Results | list[Results], width: int, keys: list[str] | None = None) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False).print(table.terminal(whole, width, keys))
    return stream.getvalue()


def test_every_column_has_its_own_number() -> None:
    assert {column.key: column.text(DISTINCT) for column in COLUMNS} == TEXTS
    assert len({text for key, text in TEXTS.items() if key != "threads"}) == len(TEXTS) - 1


def test_markdown_puts_every_number_under_its_heading() -> None:
    lines = table.markdown(results(DISTINCT, failed())).splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("| kernel"))
    cells = [cell.strip() for cell in lines[header + 2].strip("|").split("|")]
    headings = [cell.strip() for cell in lines[header].strip("|").split("|")]
    assert dict(zip(headings, cells, strict=True)) == {
        column.heading: TEXTS[column.key] for column in COLUMNS
    }
    assert lines[header + 1].count("|") == lines[header].count("|")


def test_the_wide_table_has_one_line_a_kernel() -> None:
    line = next(line for line in drawn(results(DISTINCT), 160).splitlines() if "distinct" in line)
    assert " ".join(line.split()) == (
        "distinct f32 2.00 ms 24.0 MB 40.0 MB 1.67 4.80 M 5.00 M 0.200 0.125 2.50 32 % DRAM s/m"
    )


def test_the_narrow_table_stacks_declared_above_actual() -> None:
    lines = drawn(results(DISTINCT), 80).splitlines()
    first = next(i for i, line in enumerate(lines) if "distinct" in line)
    assert " ".join(lines[first].split()) == "distinct 24.0 MB 1.67 4.80 M 0.200 2.50 32 % f32"
    assert " ".join(lines[first + 1].split()) == "40.0 MB 5.00 M 0.125 2.00 ms DRAM s/m"


@pytest.mark.parametrize("width", [56, 60, 71, 72, 80, 100, 120, 149, 160, 250])
def test_nothing_is_cut_at_any_usual_width(width: int) -> None:
    text = drawn(results(DISTINCT, RESIDENT, UNCOUNTED, ABOVE, failed()), width)
    assert max(map(len, text.splitlines())) <= width
    assert "\u2026" not in text
    for word in (
        "24.0 MB",
        "40.0 MB",
        "1.67",
        "4.80 M",
        "5.00 M",
        "0.200",
        "0.125",
        "2.50",
        "32 %",
        "109 % !",
    ):
        assert word in text
    for word in ("DRAM", "compute", "no DRAM", "crash", "declared", "actual", "executed", "GFLOP/s"):
        assert word in text


def test_long_texts_of_chosen_columns_are_wrapped_to_the_terminal() -> None:
    said = Finding("rule", "cost", "one " * 60 + "two", "try " * 40 + "this", 2.0)
    whole = results(replace(DISTINCT, findings=(said,)), RESIDENT)
    for width in (100, 130):
        text = drawn(whole, width, list(PRESETS["findings"]))
        table_lines = text.partition("\n\n")[0].splitlines()
        assert max(map(len, table_lines)) <= width
        assert " ".join(table_lines).split().count("one") == 60
        assert " ".join(table_lines).split().count("try") == 41  # and the heading


def test_a_long_name_is_cut_in_the_middle_and_stands_in_full_below() -> None:
    name = "a_very_long_kernel_name_of_some_library_" * 3
    lines = drawn(results(result(name)), 80).splitlines()
    (row,) = (line for line in lines if "480 MB" in line and "…" in line)
    short = row.split()[0]
    assert name.startswith(short.split("…")[0])
    assert name.endswith(short.split("…")[1])
    assert max(map(len, lines)) <= 80
    below = " ".join("\n".join(lines).partition("names in full")[2].split()).replace(" ", "")
    assert f"{short}is{name}" in below


def test_names_of_cpp_functions_are_readable() -> None:
    whole = results(result("_Z4axpydPdS_", label="_Z4axpydPdS_[n=100]"))
    assert "axpy(double, double*, double*)[n=100]" in drawn(whole, 160)
    assert table.frame(whole).loc[0, "kernel"] == "axpy(double, double*, double*)[n=100]"
    assert r"axpy(double, double\*, double\*)\[n=100\]" in table.markdown(whole)


LONG = "void solver::stream<std::vector<double, std::allocator<double> >, 3>(double*, unsigned long)"


def test_in_documents_the_full_name_stands_beside_the_cut_one() -> None:
    for form in (table.html, table.latex):
        text = form(results(result(LONG), result("short")))
        assert "kernel in full" in text
        assert "void solver::stream" in text
    row = next(line for line in table.markdown(results(result(LONG))).splitlines() if "solver" in line)
    assert row.startswith(r"| void solver::stream\<…\>(…) | void solver::stream\<std::vector")
    assert table.frame(results(result(LONG))).loc[0, "kernel"] == LONG


def test_columns_are_chosen_by_name_and_stand_in_that_order() -> None:
    whole = results(DISTINCT)
    keys = ["fraction", "kernel", "peak"]
    assert list(table.frame(whole, keys).columns) == keys
    assert table.csv(whole, keys).splitlines()[0] == "fraction,kernel,peak"
    assert table.markdown(whole, keys).splitlines()[4:7] == [
        "| of roof | kernel | of compute peak |",
        "|---:|---|---:|",
        "| 32 % | distinct | 0.9 % |",
    ]
    assert "distinct" in drawn(whole, 80, keys)
    (record,) = json.loads(table.json(whole, keys))
    assert record == {
        "fraction": pytest.approx(40e6 / 61.9e9 / 0.002),
        "kernel": "distinct",
        "peak": pytest.approx(2.5 / 271.8),
    }


def test_the_matrix_of_a_performance_report_has_declared_beside_actual() -> None:
    grid = table.grid(results(DISTINCT, RESIDENT), PRESETS["performance-report"])
    assert [heading.text for heading in grid.headings] == [
        "kernel",
        "intensity declared (FLOPs / bytes)",
        "intensity actual (FLOPs / bytes)",
        "limiting regime",
        "performance",
        "of roof",
        "of compute peak",
        "source of FLOPs / bytes",
    ]
    assert [[cell.text for cell in row] for row in grid.rows] == [
        [
            "distinct",
            "0.200 (4.80 M / 24.0 MB)",
            "0.125 (5.00 M / 40.0 MB)",
            "DRAM bandwidth",
            "2.50 GFLOP/s",
            "32 %",
            "0.9 %",
            "scaled / modelled",
        ],
        [
            "resident",
            "0.0833 (2.00 k / 24.0 kB)",
            "no DRAM traffic (2.00 k / 0 B)",
            "f64 compute",
            "20.0 GFLOP/s",
            "15 %",
            "15 %",
            "instrumented / modelled",
        ],
    ]


def test_a_kernel_without_flops_performs_bytes_per_second() -> None:
    copy = result(
        "copy", seconds=0.01, declared=(0, 320), counted=measurement(0, (traffic("a", read=320_000_000),))
    )
    ((cell,),) = table.grid(results(copy), ["performance"]).rows
    assert (cell.text, cell.value) == ("32.0 GB/s", 0)


def test_a_dot_above_its_roof_is_strong_in_every_document() -> None:
    whole = results(ABOVE)
    assert "<strong>109 %</strong>" in table.html(whole)
    assert r"\textbf{109 \%}" in table.latex(whole)


def test_findings_and_ledger_are_columns_and_stand_below() -> None:
    finding = Finding("write-allocate", "advice", "lines of a are read", "non-temporal stores", 1.33)
    whole = results(result(findings=(finding,)), result("plain"))
    frame = table.frame(whole, ["kernel", "findings", "finding", "try", "gain", "ledger"])
    assert list(frame.iloc[0]) == [
        "triad",
        "write-allocate",
        "lines of a are read",
        "non-temporal stores",
        1.33,
        "480 MB declared, +160 MB write-allocate (a) = 640 MB",
    ]
    assert frame.loc[1, ["findings", "finding", "gain"]].isna().all()
    line = "triad: lines of a are read; try: non-temporal stores (up to 1.33 times as fast)"
    assert f"- {line}" in table.markdown(whole)
    assert line in drawn(whole, 160)


def test_kernels_of_two_machines_stand_in_one_table() -> None:
    cpu, gpu = results(result("cpu")), results(result("gpu"))
    gpu = replace(gpu, machine=replace(gpu.machine, name="a GPU"))
    frame = table.frame([cpu, gpu])
    assert list(zip(frame["kernel"], frame["machine"], strict=True)) == [
        ("cpu", "2-core Zen 5 VM"),
        ("gpu", "a GPU"),
    ]
    for text in (drawn([cpu, gpu], 80), drawn([cpu, gpu], 160), table.markdown([cpu, gpu])):
        assert "a GPU" in text
        assert "2-core Zen 5 VM" in text


def test_two_runs_on_one_machine_are_told_apart_by_their_time() -> None:
    first = results(result())
    second = replace(first, created="2026-02-03T04:05:06+00:00")
    assert list(table.frame([first, second])["created"]) == [first.created, second.created]


def test_no_dram_traffic_is_said_in_words() -> None:
    assert "| no DRAM traffic |" in table.markdown(results(RESIDENT))
    assert "inf" not in table.markdown(results(RESIDENT)).replace("information", "")


def test_a_missing_number_is_a_dash_with_its_reason_below() -> None:
    text = table.markdown(results(UNCOUNTED))
    row = next(line for line in text.splitlines() if line.startswith("| uncounted"))
    assert row.count(" - ") >= 8
    assert "uncounted: FLOPs not available: the engine was not run" in text
    assert "uncounted: DRAM bytes not available: the cache model was not run" in text


def test_a_failed_kernel_is_a_row_with_its_reason() -> None:
    whole = results(DISTINCT, failed("spoiled", "out-of-bounds", "wrote 8 bytes past the end of a"))
    assert "out-of-bounds: wrote 8 bytes past the end of a |" in table.markdown(whole)
    text = drawn(whole, 160)
    assert "out-of-bounds" in next(line for line in text.splitlines() if line.startswith("spoiled"))
    assert "spoiled: out-of-bounds: wrote 8 bytes past the end of a" in text


def test_without_failures_there_is_no_error_column() -> None:
    assert "error" not in table.markdown(results(DISTINCT))


def test_a_dot_above_its_roof_is_marked_and_explained() -> None:
    text = drawn(results(ABOVE), 160)
    assert "109 % !" in text
    assert "above: 8.8 % above its roof (DRAM copy)" in text
    assert "**109 %**" in table.markdown(results(ABOVE))


def test_kernels_that_failed_alike_share_a_line() -> None:
    kernels = [failed(name) for name in "abcdef"]
    other = failed("c", message="another")
    lines = legend.failures([*kernels[:2], other, *kernels[3:]])
    assert lines == ["a, b, d, e, f: crash: SIGSEGV", "c: crash: another"]
    assert legend.failures(kernels[:1]) == ["a: crash: SIGSEGV"]


def test_every_source_stands_in_the_legend() -> None:
    text = table.markdown(results(DISTINCT, ABOVE))
    assert "s = counted by hardware, scaled for the share of time the counter ran (core events)" in text
    assert "i = instrumented: every instruction executed, exact (engine)" in text
    assert "m = modelled: every access through a model of the caches (cache model, LRU, 32 MiB L3)" in text
    assert "declared = the formulas of the spec" in text
    assert "time = of one call, median of 3 samples" in text
    assert "bound DRAM = DRAM copy: 61.9 GB/s (write-allocate counted, AVX-512, 1 thread, 4.18 GHz)" in text
    assert "roofs were measured 2026-01-02" in text
    assert "c = " not in text


def test_a_ceiling_without_a_clock_says_so() -> None:
    roof = bandwidth("DRAM", 99, clock_hz=None, clock_source="no clock probe", threads=2)
    whole = results(result(threads=2, ceilings=(roof,)), ceilings=(roof,))
    assert (
        "bound DRAM = DRAM: 99.0 GB/s (write-allocate counted, AVX-512, 2 threads, clock unknown)"
        in table.markdown(whole)
    )


def test_a_roof_of_several_thread_counts_is_that_of_the_kernel() -> None:
    roofs = (bandwidth("DRAM", 50), bandwidth("DRAM", 90, threads=2))
    kernels = (result("one", ceilings=roofs), result("two", threads=2, ceilings=roofs))
    text = table.markdown(results(*kernels, ceilings=roofs))
    assert "bound DRAM = DRAM: 50.0 GB/s (write-allocate counted, AVX-512, 1 thread, 4.18 GHz)" in text
    assert "bound DRAM = DRAM: 90.0 GB/s (write-allocate counted, AVX-512, 2 threads, 4.18 GHz)" in text


def test_roofs_measured_beside_the_kernels_have_their_range_and_times_in_the_legend() -> None:
    roof = bandwidth("DRAM", 62)
    samples = tuple(
        RoofSample(f"2026-01-02T03:0{minute}:00+00:00", kernels, "DRAM", 1, value)
        for minute, kernels, value in ((4, 0, 62e9), (5, 1, 48e9), (6, 3, 55e9))
    )
    whole = replace(results(result(ceilings=(roof,)), ceilings=(roof,)), roof_samples=samples)
    text = table.markdown(whole)
    assert "bound DRAM = DRAM: 48.0 GB/s to 62.0 GB/s (write-allocate counted, AVX-512" in text
    assert (
        "roofs of DRAM were measured 3 times between kernels, 2026-01-02T03:04:00+00:00 to "
        "2026-01-02T03:06:00+00:00: each kernel is held against the higher of the two around it"
    ) in text
    strange = replace(whole, roof_samples=tuple(replace(one, ceiling="DRAM copy") for one in samples))
    assert "roofs of DRAM copy were measured 3 times" in table.markdown(strange)


def test_what_is_not_counted_and_the_machines_notes_are_said() -> None:
    whole = results(RESIDENT)
    text = table.markdown(replace(whole, machine=replace(whole.machine, notes=("ceilings: not so good",))))
    assert "- nothing is held against the roof of L1; the hierarchical picture" in text
    assert "- ceilings: not so good" in text
    assert "roof of L1" not in table.markdown(results(result()))


def test_the_way_from_declared_to_actual_bytes_is_told() -> None:
    reads = measurement(1, (traffic("a", read=640_000), traffic("(other)", read=64)))
    about = result("about", declared=(1, 640_000), counted=reads)
    text = table.markdown(results(result(), about, RESIDENT))
    section = text.partition("## From declared to actual bytes")[2].partition("##")[0].split("\n")
    assert [line for line in section if line] == [
        "- triad: 480 MB declared, +160 MB write-allocate (a) = 640 MB",
        "- resident: 24.0 kB declared, -24.0 kB in the formula but not moved = 0 B",
    ]


def test_a_ledger_in_one_line_keeps_every_byte() -> None:
    lines = (
        LedgerLine("declared", 1_000_000),
        LedgerLine("write-allocate", 300_000, "a"),
        LedgerLine("write-allocate", 100_000, "b"),
        LedgerLine("fetched again", 500, "a"),
        LedgerLine("stack, tables and other data", 64),
        LedgerLine("stayed in cache", -200_000, "c"),
        LedgerLine("modelled", 1_200_564),
        LedgerLine("actual", 1_200_564),
    )
    assert legend.ledger_text(lines) == (
        "1.00 MB declared, +400 kB write-allocate (a, b), -200 kB stayed in cache (c), +564 B other causes "
        "= 1.20 MB"
    )
    assert legend.ledger_text((LedgerLine("declared", None), LedgerLine("not told apart", 8), lines[-1])) == (
        "nothing declared, +8 B other causes = 1.20 MB"
    )


def test_what_holds_for_all_kernels_is_said_once() -> None:
    note = "pages: 4 KiB frames at random"
    many = [result(f"k{i}", counted=triad(notes=(note,))) for i in range(12)]
    assert f"all kernels: {note}" in table.markdown(results(*many))
    some = table.markdown(results(*many, result("other")))
    assert f"k0, k1, k2, k3, k4, k5, k6 and 5 others: {note}" in some


def test_what_was_not_counted_is_said() -> None:
    counted = triad(unruled=(("vfoopd", 17),), excluded=("malloc",))
    text = table.markdown(results(result(counted=counted, checked=False)))
    assert "triad: floating-point instructions without a rule, not in the FLOPs: vfoopd (17 times)" in text
    assert "triad: ran natively and so not counted: malloc" in text
    assert "triad: the result does not agree with the reference" in text


def test_names_cannot_break_the_markup_or_the_terminal() -> None:
    odd = result("a|b [red]x[/red] <i> \x1b[31mz")
    assert r"a\|b \[red\]x\[/red\] \<i\> ?\[31mz" in table.markdown(results(odd))
    text = drawn(results(odd), 160)
    assert "a|b [red]x[/red] <i> ?[31mz" in text
    assert "\x1b" not in text


def test_the_frame_has_values_in_base_units() -> None:
    frame = table.frame(results(DISTINCT, RESIDENT, UNCOUNTED, failed()))
    row = frame.iloc[0]
    assert row["declared_bytes"] == 24_000_000
    assert row["actual_bytes"] == 40_000_000
    assert row["bytes_ratio"] == pytest.approx(40 / 24)
    assert row["declared_flops"] == 4_800_000
    assert row["executed_flops"] == 5_000_000
    assert row["declared_intensity"] == pytest.approx(0.2)
    assert row["intensity"] == pytest.approx(0.125)
    assert row["flops_per_second"] == pytest.approx(2.5e9)
    assert row["seconds"] == 0.002
    assert row["fraction"] == pytest.approx(40e6 / 61.9e9 / 0.002)
    assert (row["bound"], row["ceiling"]) == ("dram", "DRAM copy")
    assert row["flops_source"] == "scaled: core events"
    assert row["bytes_source"] == "modelled: cache model, LRU, 32 MiB L3"
    assert row["declared_source"] == "a paper"
    assert math.isnan(frame.loc[1, "intensity"])
    assert frame.loc[1, "no_dram_traffic"]
    assert frame.loc[2, "flops_source"] == "unavailable: the engine was not run"
    assert frame.loc[3, "error"] == "crash: SIGSEGV"
    assert len(frame) == 4


def test_an_empty_run_still_has_a_table() -> None:
    whole = results()
    assert "| kernel |" in table.markdown(whole)
    assert "kernel" in drawn(whole, 80)
    assert len(table.frame(whole)) == 0


def test_a_thousand_kernels_make_a_table() -> None:
    whole = results(*(replace(DISTINCT, label=f"k{i}") for i in range(1000)))
    assert table.markdown(whole).count("| 24.0 MB |") == 1000
    assert len(table.frame(whole)) == 1000


def test_partly_known_bytes_are_not_called_known() -> None:
    lines = (ArrayTraffic("a", 64, 64, 0, 0, 64, 0),)
    half = result(counted=measurement(5, lines, dram_write_bytes=modelled(None)), ceilings=CEILINGS)
    assert half.dram_bytes.value is None
    assert "DRAM bytes not available: the cache model was not run" in table.markdown(results(half))
