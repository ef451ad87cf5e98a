"""The picture of what the caches hold, drawn from a sweep written here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counteroof.errors import BadInput
from counteroof.machine.model import Capacity, Machine, SweepPoint
from counteroof.plot import sweep
from tests import factories

KIB, MIB = 1 << 10, 1 << 20


def swept() -> Machine:
    points = [SweepPoint(4096 << step, 1e-9 * (1 + step), 3e11 / (1 + step)) for step in range(14)]
    points.append(SweepPoint(6144, 1.5e-9))
    held = (
        Capacity("L1", 40 * KIB, 1e-9),
        Capacity("L2", None, None, "a reason"),
        Capacity("L3", 3 * MIB, 9e-9),
    )
    return replace(
        factories.machine(), sweep=tuple(sorted(points, key=lambda one: one.bytes)), capacities=held
    )


def test_time_and_bandwidth_are_drawn_over_the_size() -> None:
    upper, lower = sweep.draw(swept()).axes
    (latency,) = [line for line in upper.lines if line.get_gid() == "ns a random load"]
    assert list(latency.get_xdata())[:3] == [4096, 6144, 8192]
    assert list(latency.get_ydata())[:3] == pytest.approx([1.0, 1.5, 2.0])
    (bandwidth,) = [line for line in lower.lines if line.get_gid() == "GB/s, loads in a row"]
    assert list(bandwidth.get_xdata())[:2] == [4096, 8192]  # nothing is drawn where nothing was measured
    assert list(bandwidth.get_ydata())[:2] == pytest.approx([300.0, 150.0])


def test_nominal_and_measured_capacity_are_told_apart() -> None:
    upper, _ = sweep.draw(swept()).axes
    places = {line.get_gid(): line.get_xdata()[0] for line in upper.lines if ":" in str(line.get_gid())}
    assert places == {
        "nominal:L1": 48 * KIB,
        "nominal:L2": MIB,
        "nominal:L3": 32 * MIB,
        "held:L1": 40 * KIB,
        "held:L3": 3 * MIB,
    }
    texts = {text.get_gid(): text.get_text() for text in upper.texts}
    assert texts["name:L2"] == "L2: unknown\nof 1 MiB"
    assert texts["name:L3"] == "L3: 3 MiB\nof 32 MiB"


def test_a_machine_without_a_sweep_is_told_how_to_make_one() -> None:
    with pytest.raises(BadInput, match="counteroof machine --full makes one"):
        sweep.draw(factories.machine())


def test_the_same_sweep_gives_the_same_file(tmp_path: Path) -> None:
    one, other = (sweep.save(swept(), tmp_path / name, "sweep", ("svg",))[0] for name in "ab")
    assert one.read_bytes() == other.read_bytes()
