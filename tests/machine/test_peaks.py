"""Ceilings that somebody else states: read from a file, never taken for measured ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput, MachineFileError
from counteroof.machine import peaks

SHEET = """
name = "datasheet"

[[ceiling]]
gb_per_s = 460.8
threads = 96

[[ceiling]]
gflop_per_s = 5376
precision = "f64"
isa = "AVX-512"
threads = 96
"""


def test_a_datasheet_states_bandwidth_and_peaks(tmp_path: Path) -> None:
    (tmp_path / "sheet.toml").write_text(SHEET)
    memory, peak = peaks.load(tmp_path / "sheet.toml")
    assert (memory.name, memory.kind, memory.level, memory.value) == (
        "datasheet DRAM",
        "bandwidth",
        "dram",
        460.8e9,
    )
    assert (peak.name, peak.kind, peak.precision, peak.value, peak.threads) == (
        "datasheet f64 AVX-512",
        "compute",
        "f64",
        5376e9,
        96,
    )
    assert memory.peak
    assert peak.peak
    assert peak.measured is None


def entry(**keys: Any) -> dict[str, Any]:
    return {"name": "sheet", "ceiling": [{"gb_per_s": 1.0, "threads": 1, **keys}]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "an object"),
        ({"ceiling": [{"gb_per_s": 1, "threads": 1}]}, "name: found nothing"),
        ({"name": "sheet"}, "ceiling: found nothing"),
        ({**entry(), "peaks": 1}, "peaks: found a key nobody knows"),
        (entry(gb_per_s=0), "gb_per_s: found 0"),
        (entry(gb_per_s=True), "gb_per_s: found true"),
        (entry(gb_per_s="100 GB/s"), "a number above 0"),
        (entry(threads=None), "how many threads"),
        (entry(gflop_per_s=2), "found gb_per_s and gflop_per_s"),
        (entry(precision="f64"), "none for a bandwidth"),
        ({"name": "a", "ceiling": [{"gflop_per_s": 1, "threads": 1}]}, "precision: found nothing"),
        ({"name": "a", "ceiling": [{"threads": 1}]}, "found no value"),
        ({"name": "a", "ceiling": 2 * entry()["ceiling"]}, "each ceiling once"),
    ],
)
def test_mistakes_are_said(data: object, said: str) -> None:
    with pytest.raises(MachineFileError) as error:
        peaks.from_data(data, "sheet.toml")
    assert said in str(error.value)


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"peak file .* cannot be read: No such file"):
        peaks.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("460 GB/s")
    with pytest.raises(BadInput, match=r"peak file .* is neither JSON nor TOML"):
        peaks.load(tmp_path / "bad.toml")
