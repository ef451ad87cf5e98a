"""One kernel in full: the sentence for each kind of place a kernel can stand, and where numbers come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof.count.base import ReuseDistances
from counteroof.report import explain, pace
from counteroof.results import KernelResult

from ..factories import failed, machine, measured_in_full, measurement, result, results, traffic, triad

N = 20_000_000


def sentence(kernel: KernelResult) -> str:
    return explain.sentence(kernel, machine())


def dense(flops: int, **fields: Any) -> KernelResult:
    return result(counted=measurement(flops, (traffic("a", read=1_000_000),)), declared=None, **fields)


def test_left_of_the_ridge_bytes_decide() -> None:
    assert sentence(result()) == (
        "intensity 0.0833 declared, 0.0625 true; 35 times left of the ridge; at 83 % of the DRAM roof (DRAM "
        "copy, 61.9 GB/s); halving its bytes would double it at most"
    )


def test_close_to_the_ridge_compute_limits_what_fewer_bytes_give() -> None:
    assert sentence(dense(1_500_000, seconds=2e-5)).endswith(
        "1.5 times left of the ridge; at 81 % of the DRAM roof (DRAM copy, 61.9 GB/s); halving its bytes "
        "would allow 1.46 times that at most"
    )


def test_right_of_the_ridge_fewer_bytes_help_nothing() -> None:
    assert sentence(dense(100_000_000, seconds=1e-3)) == (
        "intensity 100 true, nothing declared; 46 times right of the ridge; at 74 % of the compute roof (f64 "
        "AVX-512 FMA, 136 GFLOP/s); fewer bytes would not make it faster"
    )


def test_far_below_its_roof_something_else_holds_it_back() -> None:
    assert sentence(result(seconds=1.0)).endswith("; something other than this roof holds it back")


def test_without_dram_traffic_there_is_no_ridge() -> None:
    resident = result(seconds=3e-8, declared=(2000, 24_000), counted=measurement(2000, (traffic("a"),)))
    assert sentence(resident) == (
        "intensity 0.0833 declared, no DRAM traffic; at 49 % of the compute roof (f64 AVX-512 FMA, "
        "136 GFLOP/s); something other than this roof holds it back"
    )


def test_a_kernel_without_flops_has_no_intensity() -> None:
    copy = result(declared=(0, 16 * N), counted=measurement(0, (traffic("a", read=8 * N, write=8 * N),)))
    assert sentence(copy) == (
        "no FLOPs; at 41 % of the DRAM roof (DRAM copy, 61.9 GB/s); something other than this roof holds it "
        "back"
    )


def test_what_could_not_be_had_is_said() -> None:
    assert sentence(failed()) == "not measured to the end: crash: SIGSEGV"
    assert sentence(result(counted=measurement(None), declared=None)) == (
        "intensity unknown, nothing declared; held against no roof: not placed: FLOPs and DRAM bytes not "
        "available"
    )
    uncounted = measurement(2 * N, read=None, write=None)
    assert sentence(result(counted=uncounted)).startswith("intensity 0.0833 declared, the true one unknown; ")
    assert sentence(result(seconds=None)).endswith(
        "under the DRAM roof (DRAM copy, 61.9 GB/s), but not timed"
    )


def test_every_number_has_its_source_or_its_reason() -> None:
    kernel = result(declared=(2 * N, None))
    text = explain.text(kernel, results(kernel))
    rows = {line[:20].strip(): line for line in text.splitlines()}
    assert rows["FLOPs declared"].endswith("declared: a paper")
    assert rows["bytes declared"].split() == ["bytes", "declared", "-", "not", "declared"]
    assert "instrument, instrumented: engine" in rows["FLOPs"]
    assert "480 MB  instrument, modelled: cache model, LRU, 32 MiB L3" in rows["DRAM read"]
    assert "-  instrument, the cache model was not run" in rows["bytes L1 - L2"]
    assert rows["time"].endswith("median of 3 samples, spread -")


def test_the_ledger_and_the_arrays_are_whole() -> None:
    text = explain.text(result(), results(result()))
    assert "+160 MB  write-allocate  a      lines read because they were about to be written" in text
    assert "640 MB  actual" in text
    arrays = text.partition("\narrays\n")[2].splitlines()
    assert [line.split()[0] for line in arrays[2:5]] == ["a", "b", "c"]


def test_notes_are_those_of_the_kernel_without_its_name() -> None:
    kernel = result(counted=triad(notes=("pages: 4 KiB frames",)))
    assert " - pages: 4 KiB frames\n" in explain.text(kernel, results(kernel, result("other")))


@pytest.mark.parametrize("name", ["_Z4axpydPdS_", "\x1b[31mred"])
def test_names_are_readable_and_harmless(name: str) -> None:
    kernel = result(name)
    text = explain.text(kernel, results(kernel))
    assert "\x1b" not in text
    assert text.startswith(("axpy(double, double*, double*)\n", "?[31mred"))


def test_no_line_is_wider_than_a_terminal() -> None:
    kernel = result(declared=(2 * N, 100 * N), counted=triad(notes=("a note " * 40,)))
    text = explain.text(kernel, results(kernel))
    assert max(map(len, text.splitlines())) <= explain.WIDTH
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if "in the formula but not moved" in line)
    assert lines[at].endswith("bytes of the formula that stayed in cache, or were")
    assert lines[at + 1].strip() == "never touched"


def lines_of(kernel: KernelResult) -> list[str]:
    """Return the lines of a text with single spaces."""
    return [" ".join(line.split()) for line in explain.text(kernel, results(kernel)).splitlines()]


def test_loops_that_wait_are_told_with_their_chain_and_the_time_at_the_clock_of_the_calls() -> None:
    lines = lines_of(measured_in_full())
    at = next(n for n, line in enumerate(lines) if line.startswith("f, line 27"))
    # 14 M cycles at 3.5 GHz; what takes no time is left out
    assert " ".join(lines[at : at + 2]).startswith(
        "f, line 27 2.00 M 7 2 4.00 ms vmulsd xmm0, xmm0, xmm1 3 -> vaddsd 4 (through memory)"
    )
    assert "latencies of Zen 3, published: a manual" in lines


def test_strides_and_the_ledger_of_flops_are_told() -> None:
    lines = lines_of(measured_in_full())
    assert "a 75 % 32 bytes" in lines
    assert "a 12 % 8 bytes nothing left out" in lines
    assert "a 12 % no stride that came again" in lines
    assert any(line.startswith("+5.00 M executed beyond the formula") for line in lines)
    assert any(line.startswith("+3.00 M library call expf of libm.so.6") for line in lines)
    assert any(line.startswith("777 in remainders of vectorised loops") for line in lines)


def test_what_was_seen_beside_the_counts_is_told() -> None:
    lines = lines_of(measured_in_full())
    assert "core clock 3.50 GHz right after the timed calls" in lines
    assert "time on processors 50 % of the timed calls, all threads together" in lines
    assert "page faults 65 of a timed call, 1 of them from files or swap space" in lines
    assert "pages touched 1.23 k instrument, of 4 KiB" in lines
    assert "gathered or scattered 25 % instrument, of 1.00 k elements loaded and stored" in lines
    assert "denormals operands and results instrument, flags of the processor; FTZ set" in lines


def test_what_was_not_seen_is_not_told() -> None:
    text = explain.text(result(), results(result()))
    for heading in ("wait for each other", "were walked", "executed FLOPs", "page faults", "denormals"):
        assert heading not in text


def test_reuse_distances_are_shares_of_each_arrays_accesses() -> None:
    counted = triad()
    a, b, c = counted.arrays
    arrays = (
        replace(a, reuse=ReuseDistances(10, (60, 0, 30))),
        replace(b, reuse=ReuseDistances(0, (5, 10, 0, 85))),
        replace(c, reuse=ReuseDistances(0, ())),
    )
    table = next(
        one
        for one in pace.tables(result(counted=replace(counted, arrays=arrays)))
        if one.title == "accesses by reuse distance"
    )
    assert [heading for heading, _ in table.headings] == ["lines in between", "a", "b"]
    assert table.rows == (
        ("0", "60 %", "5.0 %"),
        ("1", "", "10 %"),
        ("2 to 3", "30 %", ""),
        ("4 to 7", "", "85 %"),
        ("never before", "10 %", ""),
    )
    assert "accesses by reuse distance" not in [one.title for one in pace.tables(result())]


def test_arrays_have_their_page_walks_where_addresses_were_translated() -> None:
    counted = triad()
    arrays = tuple(replace(one, tlb_misses=1111, page_walks=22) for one in counted.arrays)
    counted = replace(counted, arrays=arrays, tlb_misses=3333, page_walks=66)
    kernel = result(counted=counted)
    lines = [" ".join(line.split()) for line in explain.text(kernel, results(kernel)).splitlines()]
    at = lines.index("addresses to be translated")
    assert lines[at + 1] == "array not in the first TLB in none: page walks"
    assert lines[at + 3 : at + 6] == ["a 1.11 k 22", "b 1.11 k 22", "c 1.11 k 22"]
    assert any(line.startswith("TLB misses 3.33 k instrument") for line in lines)
    assert any(line.startswith("page walks 66 instrument") for line in lines)
    usual = result()
    assert "translated" not in explain.text(usual, results(usual))
