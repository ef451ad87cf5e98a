"""The table that holds the built-in kernels against the machine's roofs, on results written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import results as results_file
from counteroof.catalog import kernels
from counteroof.count.base import AccessMix
from counteroof.machine.model import Ceiling
from counteroof.results import KernelResult, RoofSample, Seconds
from scripts import check_roofs as script
from tests import factories
from tests.factories import N, bandwidth, compute

CEILINGS = (bandwidth("DRAM triad", 50.0), bandwidth("DRAM read", 40.0), compute("f64 FMA", 60.0, "f64"))
MOVED = 32 * N
"""Bytes of the triad of the factories."""


def judged(kernel: KernelResult) -> script.Line:
    return script.judged(factories.results(kernel, ceilings=CEILINGS), kernel)


def at(gigabytes: float, name: str = "triad") -> KernelResult:
    """Return a kernel that moves its bytes at so many GB/s."""
    seconds = MOVED / gigabytes / 1e9
    found = factories.result(name, seconds=seconds, ceilings=CEILINGS)
    return replace(found, seconds=Seconds.of((seconds,)))


def test_a_kernel_at_its_roof_is_fine() -> None:
    line = judged(at(49.0))
    assert line.rate == pytest.approx(49e9)
    assert (line.roof, line.bound, line.miss) == (50e9, "dram", "")
    assert line.fraction == pytest.approx(0.98)


@pytest.mark.parametrize("name", ["triad", "fft"])
def test_no_kernel_may_be_above_the_dram_roof(name: str) -> None:
    assert judged(at(52.0, name)).miss == ""
    assert judged(at(55.0, name)).miss == "10% above the DRAM roof"


def test_streaming_kernels_have_to_come_near_their_roof_and_others_have_not() -> None:
    assert judged(at(43.0)).miss == ""
    assert judged(at(42.0)).miss == "more than 15% off the roof of its mix"
    assert judged(at(20.0, "matmul")).miss == ""


def test_what_cannot_be_judged_is_a_miss() -> None:
    no_bytes = factories.result(counted=factories.measurement(2 * N), ceilings=CEILINGS)
    assert judged(no_bytes).miss == "no bytes, time or roof to judge it by"
    assert judged(factories.failed()).miss == "failed: SIGSEGV"


def test_misses_come_first_and_decide_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = at(49.0), at(30.0, "dot")
    path = tmp_path / "results.json"
    for found, status in (((good, bad), 1), ((good,), 0)):
        results_file.save(factories.results(*found, ceilings=CEILINGS), path)
        assert script.main([str(path)]) == script.main([str(tmp_path)]) == status
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].split()[0] == found[-1].name
        assert lines[-1] == f"{len(found)} kernels, {status} missed"


def test_the_kernels_that_must_reach_their_roof_are_built_in() -> None:
    assert {*script.STREAMING, *script.WAITING} <= {kernel.name for kernel in kernels()}


def test_a_streaming_kernel_is_held_against_the_roof_of_its_mix_around_it() -> None:
    triad, dot = at(45.0), at(30.0, "dot")
    moved = [(0, "DRAM read", 30.0), (1, "DRAM read", 31.0), (1, "DRAM triad", 48.0), (2, "DRAM read", 34.0)]
    samples = tuple(
        RoofSample("2026-01-02T03:04:05+00:00", after, name, 1, value * 1e9) for after, name, value in moved
    )
    found = replace(factories.results(triad, dot, ceilings=CEILINGS), roof_samples=samples)
    first, second = (script.judged(found, one) for one in found.kernels)
    assert first.fraction == pytest.approx(45 / 48)
    assert second.fraction == pytest.approx(30 / 34)  # the higher of the two around it
    assert (first.miss, second.miss) == ("", "")
    gone = replace(found, roof_samples=(), machine=replace(found.machine, ceilings=CEILINGS[1:]))
    assert script.judged(gone, found.kernels[0]).miss == "there is no roof DRAM triad"


def test_the_shortest_call_is_held_against_the_highest_sample() -> None:
    kernel = at(30.0)
    assert kernel.seconds is not None
    samples = (MOVED / 30e9, MOVED / 30e9, MOVED / 48e9)
    assert judged(replace(kernel, seconds=replace(kernel.seconds, samples=samples))).miss == ""


def test_streams_on_small_pages_are_held_against_their_share_of_the_roof() -> None:
    """Measured were 50 GB/s on huge pages and 40 on small ones; around the kernel it was 45 on huge ones."""
    for huge_pages, fraction, miss in (
        (False, 34 / 36, ""),
        (True, 34 / 45, "more than 15% off the roof of its mix"),
    ):
        array = replace(factories.traffic("a", read=MOVED), huge_pages=huge_pages)
        seconds = MOVED / 34e9
        counted = factories.measurement(2 * N, (array,))
        triad = factories.result("triad", seconds=seconds, counted=counted, ceilings=CEILINGS)
        triad = replace(triad, seconds=Seconds.of((seconds,)))
        found = factories.results(triad, ceilings=CEILINGS)
        paces = (bandwidth("DRAM triad, 4 KiB pages", 40.0),)
        samples = (RoofSample("2026-01-02T03:04:05+00:00", 0, "DRAM triad", 1, 45e9),)
        found = replace(found, roof_samples=samples, machine=replace(found.machine, access=paces))
        line = script.judged(found, triad)
        assert line.fraction == pytest.approx(fraction)
        assert line.miss == miss


PACES = (
    bandwidth("DRAM strided", 5.0),
    bandwidth("DRAM scattered", 4.0),
    bandwidth("DRAM scattered, 4 KiB pages", 2.0),
    bandwidth("DRAM copy", 40.0),
    bandwidth("L2-L3 scattered", 20.0, level="l3"),
    bandwidth("L1-L2 walk 1024", 100.0, level="l2"),
    bandwidth("L1-L2 same set", 10.0, level="l2"),
)
TABLE, OTHERS = 16 * N, 8 * N
"""Bytes read of the table that is waited for, and of what is streamed; as many cross to L2 twice from L3."""


def waiting(name: str, seconds: float, *, huge_pages: bool = True, **fields: Any) -> KernelResult:
    """Return a kernel that waits for an array, and reads another in order."""
    waited = script.WAITING[name][0] if name in script.WAITING else "a"
    array = replace(factories.traffic(waited, read=TABLE), huge_pages=huge_pages)
    counted = factories.measurement(2 * N, (array, factories.traffic("b", read=OTHERS)), **fields)
    found = factories.result(name, seconds=seconds, counted=counted, ceilings=CEILINGS)
    return replace(found, seconds=Seconds.of((seconds,)))


def judged_by(kernel: KernelResult, paces: tuple[Ceiling, ...] = PACES) -> script.Line:
    found = factories.results(kernel, ceilings=CEILINGS)
    return script.judged(replace(found, machine=replace(found.machine, access=paces)), kernel)


def test_a_waiting_kernel_takes_no_less_than_its_longest_part_and_no_more_than_all() -> None:
    """A table at 4 GB/s and a stream at 40: the second is a twentieth of the first."""
    table, stream = TABLE / 4e9, OTHERS / 40e9
    for seconds, miss in (
        (table, ""),
        (0.86 * table, ""),
        (0.84 * table, "faster than its longest part"),
        (1.14 * (table + stream), ""),
        (1.16 * (table + stream), "slower than its parts one after the other"),
    ):
        line = judged_by(waiting("gather", seconds))
        assert line.miss == miss
    assert judged_by(waiting("gather", table)).parts == "1.00 DRAM scattered + 0.05 DRAM copy = 1.05"


def test_an_array_on_small_pages_is_held_against_what_these_reach() -> None:
    assert judged_by(waiting("gather", TABLE / 2e9, huge_pages=False)).miss == ""
    assert judged_by(waiting("gather", TABLE / 4e9, huge_pages=False)).miss == "faster than its longest part"


def test_lines_from_l3_and_translations_are_parts_of_a_walk() -> None:
    """All lines come from memory through L3; as many more from L3 alone, each sending one down."""
    mix = AccessMix(3 * N, 24 * N, 0, 0, 0, 0)
    line = judged_by(
        waiting(
            "column_walk_power_of_two",
            TABLE / 4e9,
            l1_l2_bytes=factories.modelled(2 * TABLE),
            l2_l3_bytes=factories.modelled(4 * (TABLE + OTHERS)),
            access_mix=mix,
        )
    )
    memory, from_l3, walk = TABLE / 4e9, 2 * (TABLE + OTHERS) / 20e9, 64 * 3 * N / 100e9
    assert f"{from_l3 / memory:.2f} L2-L3 scattered + {walk / memory:.2f} L1-L2 walk 1024" in line.parts
    assert f"{2 * TABLE / 10e9 / memory:.2f} L1-L2 same set" in line.parts
    assert line.miss == ""


def test_a_waiting_kernel_cannot_be_judged_by_what_was_not_measured() -> None:
    line = judged_by(waiting("gather", 1.0), PACES[:1])
    assert line.miss == "'counteroof machine' has not measured DRAM scattered"
    assert judged(at(5.0, "gather")).miss == "no bytes of arrays"
