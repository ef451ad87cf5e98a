"""The table that holds the built-in kernels against the machine's roofs, on results written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
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

CEILINGS = (
    replace(bandwidth("DRAM triad", 50.0), median=45e9),
    replace(bandwidth("DRAM read", 40.0), median=36e9),
    compute("f64 FMA", 60.0, "f64"),
)
MOVED = 32 * N
"""Bytes of the triad of the factories."""


def judged(kernel: KernelResult) -> script.Line:
    (line,) = script.all_judged([factories.results(kernel, ceilings=CEILINGS)])
    return line


def at(gigabytes: float, name: str = "triad") -> KernelResult:
    """Return a kernel that moves its bytes at so many GB/s."""
    seconds = MOVED / gigabytes / 1e9
    found = factories.result(name, seconds=seconds, ceilings=CEILINGS)
    return replace(found, seconds=Seconds.of((seconds,)))


def test_a_kernel_at_its_roof_is_fine() -> None:
    line = judged(at(49.0))
    assert line.rate == pytest.approx(49e9)
    assert (line.roof, line.bound, line.miss) == (50e9, "dram", "")
    assert line.fraction == pytest.approx(49 / 45)
    assert line.parts == "0.98 of the highest of DRAM triad"


@pytest.mark.parametrize("name", ["triad", "fft"])
def test_no_kernel_may_be_above_the_dram_roof(name: str) -> None:
    assert judged(at(51.5, name)).miss == ""
    assert judged(at(55.0, name)).miss == "10% above the DRAM roof"


def test_streaming_kernels_have_to_come_near_their_roof_and_others_have_not() -> None:
    assert judged(at(0.86 * 45)).miss == ""
    assert judged(at(0.84 * 45)).miss == "more than 15% off what its roof usually is"
    assert judged(at(1.14 * 36, "dot")).miss == ""
    assert judged(at(1.16 * 36, "dot")).miss == "more than 15% off what its roof usually is"
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


def sample(after: int, name: str, highest: float, usual: float | None) -> RoofSample:
    median = None if usual is None else usual * 1e9
    return RoofSample("2026-01-02T03:04:05+00:00", after, name, 1, highest * 1e9, median)


def test_a_streaming_kernel_is_held_against_the_roof_of_its_mix_around_it() -> None:
    triad, dot = at(45.0), at(30.0, "dot")
    samples = (
        sample(0, "DRAM read", 30.0, 22.0),
        sample(1, "DRAM read", 31.0, 27.0),
        sample(1, "DRAM triad", 48.0, 44.0),
        sample(2, "DRAM read", 34.0, 29.0),
    )
    found = replace(factories.results(triad, dot, ceilings=CEILINGS), roof_samples=samples)
    first, second = script.all_judged([found])
    assert first.fraction == pytest.approx(45 / 44)
    assert second.fraction == pytest.approx(30 / 28)
    assert second.parts == f"{30 / 34:.2f} of the highest of DRAM read"  # of the two around it
    assert (first.miss, second.miss) == ("", "")
    before = tuple(replace(one, median=None) for one in samples)  # files from before they had medians
    assert script.all_judged([replace(found, roof_samples=before)])[1].fraction == pytest.approx(30 / 36)
    gone = replace(found, roof_samples=(), machine=replace(found.machine, ceilings=CEILINGS[1:]))
    assert script.all_judged([gone])[0].miss == "there is no roof DRAM triad on its pages"


def test_the_median_call_is_held_against_the_roof() -> None:
    kernel = at(30.0)
    assert kernel.seconds is not None
    samples = (MOVED / 30e9, MOVED / 30e9, MOVED / 48e9)
    low = judged(replace(kernel, seconds=replace(kernel.seconds, samples=samples)))
    assert low.fraction == pytest.approx(30 / 45)
    assert low.miss


def test_of_several_runs_the_median_of_the_ratios_counts() -> None:
    runs = [
        replace(
            factories.results(at(rate), ceilings=CEILINGS),
            roof_samples=(sample(0, "DRAM triad", 50.0, usual),),
        )
        for rate, usual in ((30.0, 40.0), (36.0, 40.0), (27.0, 30.0))
    ]
    (line,) = script.all_judged(runs)
    assert line.fraction == pytest.approx(0.9)
    assert line.rate == pytest.approx(36e9)
    assert line.parts == "0.75 to 0.90 in 3 runs, 0.60 of the highest of DRAM triad"
    assert line.miss == ""
    (line,) = script.all_judged([*runs, runs[0], runs[0]])
    assert line.miss == "more than 15% off what its roof usually is"


def test_each_streaming_kernel_is_run_several_times_with_its_roof_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        if "run" in command:
            out = Path(command[command.index("--out") + 1])
            out.mkdir()
            asked.append(command[command.index("--kernel") + 1])
            results_file.save(factories.results(at(49.0), ceilings=CEILINGS), out / "results.json")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(script.subprocess, "run", run)
    assert len(script.run_all(tmp_path)) == len(asked)
    assert asked[0] == "*"
    assert {name: asked[1:].count(name) for name in asked[1:]} == dict.fromkeys(
        script.STREAMING, script.TURNS
    )


def test_streams_on_small_pages_are_held_against_the_roof_of_such_pages() -> None:
    small = replace(bandwidth("DRAM triad, 4 KiB pages", 40.0), median=33e9)
    for huge_pages, fraction in ((False, 34 / 33), (True, 34 / 45), (None, 34 / 45)):
        array = replace(factories.traffic("a", read=MOVED), huge_pages=huge_pages)
        seconds = MOVED / 34e9
        counted = factories.measurement(2 * N, (array,))
        triad = factories.result("triad", seconds=seconds, counted=counted, ceilings=CEILINGS)
        triad = replace(triad, seconds=Seconds.of((seconds,)))
        found = factories.results(triad, ceilings=CEILINGS)
        (line,) = script.all_judged([replace(found, machine=replace(found.machine, access=(small,)))])
        assert line.fraction == pytest.approx(fraction)
        assert bool(line.miss) == (huge_pages is not False)
    array = replace(factories.traffic("a", read=MOVED), huge_pages=False)
    triad = factories.result("triad", counted=factories.measurement(2 * N, (array,)), ceilings=CEILINGS)
    assert judged(triad).miss == "there is no roof DRAM triad on its pages"


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


def test_a_file_that_is_none_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main([str(tmp_path / "absent.json")])
    assert ended.value.code == 2
    assert "absent.json cannot be read" in capsys.readouterr().err
