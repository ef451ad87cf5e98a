"""The table that holds the built-in kernels against the machine's roofs, on results written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.catalog import kernels
from counteroof.results import KernelResult
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
    return factories.result(name, seconds=MOVED / gigabytes / 1e9, ceilings=CEILINGS)


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
    assert judged(at(42.0)).miss == "more than 15% off the roof it is bound by"
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
    assert set(script.STREAMING) <= {kernel.name for kernel in kernels()}
