"""LIKWID's raw marker file, whose counters have no names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput
from counteroof.importers import likwid_marker
from counteroof.importers.imported import Contradiction, Options
from counteroof.results import KernelResult

# An AMD Zen 3: two regions, one thread, seven counters.
ZEN3 = """\
1 2 1
0:matmul-0
1:eigen-0
0 0 0 1 1.457989e+01 7 3.341458e+09 1.950814e+09 1.551955e+09 0.000000e+00 4.686700e+04 0.000000e+00 0.000000e+00 
1 0 0 1 1.075343e+01 7 6.192120e+09 4.340800e+09 3.276216e+09 0.000000e+00 1.055400e+05 0.000000e+00 0.000000e+00 
"""  # noqa: E501, W291
TWO_THREADS = """\
2 1 1
0:a-b-0
0 0 0 4 2.0e+00 2 1.0e+02 3.2e+01
0 0 1 4 1.0e+00 2 2.0e+02 1.6e+01
"""


def read(text: str, **options: Any) -> tuple[KernelResult, ...]:
    assert likwid_marker.recognises(text)
    (run,) = likwid_marker.read(text, Path("marker.txt"), Options(**options))
    return run.kernels


def test_regions_and_times_are_known_and_counters_are_not() -> None:
    matmul, eigen = read(ZEN3)
    assert (matmul.name, eigen.name) == ("matmul", "eigen")
    assert matmul.seconds is not None
    assert eigen.seconds is not None
    assert (matmul.seconds.median, eigen.seconds.median) == (14.57989, 10.75343)
    assert matmul.flops.value is None
    assert "does not name its counters; name them with --events" in str(matmul.flops.reason)
    assert matmul.dram_bytes.value is None


def test_named_counters_are_counts_of_one_call_over_all_threads() -> None:
    (kernel,) = read(TWO_THREADS, events=("RETIRED_INSTRUCTIONS", "RETIRED_SSE_AVX_FLOPS_ALL"))
    assert (kernel.name, kernel.threads) == ("a-b", 2)
    assert kernel.seconds is not None
    assert kernel.seconds.median == 0.5
    assert kernel.counters["LIKWID marker file"].instructions.value == 75
    assert kernel.flops.value == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ZEN3.replace("1 2 1", "2 2 1", 1), "2 threads and 2 regions make 4 lines, but there are 2"),
        (ZEN3.replace("e+01 7 3.34", "e+01 6 3.34"), "6 counters are announced and 7 follow"),
    ],
)
def test_what_is_said_in_two_ways_that_disagree_is_refused(text: str, message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        read(text)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (ZEN3.replace("1:eigen-0", "eigen"), {}, "found 'eigen'; expected one of 2 regions"),
        (
            ZEN3.replace("1.075343e+01", "long"),
            {},
            "expected region, group, thread, calls, seconds, counters",
        ),
        (ZEN3.replace("\n1 0 0 1", "\n5 0 0 1"), {}, "found region 5, group 0"),
        (ZEN3.replace("\n1 0 0 1", "\n1 0 0 -1"), {}, "expected numbers that are not negative"),
        (ZEN3, {"events": ("A", "B")}, "2 events are named, but marker.txt has 7 counters"),
    ],
)
def test_damaged_files_are_refused(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(text, **options)
