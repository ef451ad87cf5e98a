"""Where a command's ceilings come from: kept ones are used, missing ones measured, others never lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import ceiling_access, ceilings, refresh
from counteroof.commands import BAD_INPUT, DONE, _machine, main
from counteroof.errors import BadInput
from counteroof.machine import store, topology
from counteroof.machine.model import Capacity, Ceiling, Machine, SweepPoint
from tests import factories

efforts: list[Any] = []
"""How long each measurement was to be."""

BARE = factories.machine(())
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[int, ...]]:
    """A machine whose measuring is quick and written down, and a cache of its own."""
    calls: list[tuple[int, ...]] = []

    def measure(
        machine: Machine,
        *,
        threads: Sequence[int],
        progress: Any = None,
        ratios: Sequence[str] = (),
        effort: Any = None,
    ) -> Machine:
        efforts.append(effort)
        calls.append(tuple(threads))
        kept = tuple(one for one in machine.ceilings if one.threads not in threads)
        names = ["DRAM read", *(f"DRAM {ratio}" for ratio in ratios)]
        new = tuple(factories.bandwidth(name, 40, threads=count) for count in threads for name in names)
        return replace(machine, ceilings=kept + new, measured="2026-01-02T03:04:05+00:00")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(topology, "detect", lambda: BARE)
    monkeypatch.setattr(ceilings, "measure", measure)
    monkeypatch.setattr(ceiling_access, "swept", swept)
    monkeypatch.setattr(ceiling_access, "measured", other_ways)
    return calls


def swept(machine: Machine, progress: Any) -> Machine:
    """Return a machine whose last cache holds less than its label."""
    held = [
        Capacity("L1", 49152, 1e-9),
        Capacity("L2", None, 4e-9, "a reason"),
        Capacity("L3", 3 << 20, 15e-9),
    ]
    return replace(machine, sweep=(SweepPoint(4096, 1e-9, 3e11),), capacities=tuple(held))


def other_ways(
    machine: Machine, threads: Sequence[int], progress: Any
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """Return what a measurement of random loads and of four threads would."""
    random = factories.bandwidth("DRAM random", 0.5, note="64 MiB of memory, 126 ns a load")
    return (random, factories.bandwidth("DRAM read", 41, threads=4)), (
        "one memory node: no memory is remote",
    )


def threads_of(machine: Machine) -> list[int]:
    return sorted({one.threads for one in machine.ceilings})


def test_ceilings_are_measured_once_and_kept(measured: list[tuple[int, ...]]) -> None:
    first = _machine.for_run(None, [1])
    assert _machine.for_run(None, [1]) == first
    assert measured == [(1,)]


def test_kept_ceilings_that_were_disturbed_are_measured_again_and_kept(
    measured: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _machine.for_run(None, [1])
    better = factories.bandwidth("DRAM read", 50)

    def refreshed(machine: Machine, threads: Sequence[int], progress: Any) -> tuple[Machine, tuple[str, ...]]:
        return replace(machine, ceilings=(better,)), ("it reaches 50, kept was 40",)

    monkeypatch.setattr(refresh, "refreshed", refreshed)
    machine, here = _machine.for_run(None, [1])
    assert here == machine
    assert machine.ceilings == (better,)
    assert machine.notes == ("ceilings: measured again: it reaches 50, kept was 40",)
    assert _machine.known().ceilings == (better,)
    assert measured == [(1,)]


def test_only_missing_numbers_of_threads_are_measured(measured: list[tuple[int, ...]]) -> None:
    _machine.for_run(None, [1])
    assert threads_of(_machine.for_run(None, [1, 2])[0]) == [1, 2]
    assert measured == [(1,), (2,)]
    assert threads_of(_machine.known()) == [1, 2]


def test_the_machine_command_measures_again_and_loses_no_others(
    measured: list[tuple[int, ...]], capsys: Captured
) -> None:
    assert main(["machine"]) == DONE
    assert main(["machine", "--threads", "2"]) == DONE
    assert main(["machine", "--threads", "2"]) == DONE
    assert measured == [(1,), (2,), (2,)]
    assert threads_of(_machine.known()) == [1, 2]
    assert "DRAM read" in capsys.readouterr().out


def test_show_measures_nothing(measured: list[tuple[int, ...]], capsys: Captured) -> None:
    assert main(["machine", "--show"]) == DONE
    assert measured == []
    assert "ceilings: not measured yet" in capsys.readouterr().out


def test_the_machine_file_can_be_written_and_used(
    measured: list[tuple[int, ...]], tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "machine.json"
    assert main(["machine", "--out", str(path)]) == DONE
    measured.clear()
    assert _machine.for_run(path, [1]) == (store.load(path), None)
    assert measured == []
    assert main(["machine", "--out", str(path / "below a file")]) == BAD_INPUT
    assert "cannot write" in capsys.readouterr().err


def test_a_file_of_caches_alone_gets_this_machines_ceilings(
    measured: list[tuple[int, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "other.toml"
    path.write_text("name = 'a small one'\n[[cache]]\nlevel = 1\nsize = '16 KiB'\nways = 4\n")
    machine, here = _machine.for_run(path, [1])
    assert here is not None
    assert (machine.caches[0].bytes, here.caches) == (16384, BARE.caches)
    assert machine.ceilings == here.ceilings
    assert threads_of(machine) == [1]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("name =", "line_bytes = 512\nname =", "all levels need the same line size, 64, 128 or 256 bytes"),
        ("ways = 4", "ways = 128", "L1: 1 to 64 ways can be simulated, not 128"),
    ],
)
def test_caches_that_cannot_be_simulated_are_a_mistake_of_the_file(
    measured: list[tuple[int, ...]], tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    """And no failure of each kernel, once the machine has been measured."""
    path = tmp_path / "other.toml"
    text = "name = 'a small one'\n[[cache]]\nlevel = 1\nsize = '16 KiB'\nways = 4\n"
    path.write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=f"other.toml: {complaint}"):
        _machine.for_run(path, [1])
    assert measured == []


def test_a_cache_that_cannot_be_written_stops_nothing(
    measured: list[tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert threads_of(_machine.for_run(None, [1])[0]) == [1]
    assert "the ceilings cannot be kept in" in capsys.readouterr().err


def test_a_user_without_a_home_measures_all_the_same(
    measured: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert threads_of(_machine.for_run(None, [1])[0]) == [1]
    assert "the ceilings cannot be kept: this user has no home" in capsys.readouterr().err


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_mix_is_measured_and_kept_beside_the_usual_ones(capsys: Captured) -> None:
    assert main(["machine", "--mix", "2:1"]) == DONE
    assert "DRAM 2:1: 40.0 GB/s" in capsys.readouterr().out
    assert [one.name for one in _machine.known().ceilings] == ["DRAM read", "DRAM 2:1"]


def test_a_mix_without_a_loop_is_refused_before_anything_is_measured(
    measured: list[tuple[int, ...]], capsys: Captured
) -> None:
    assert main(["machine", "--mix", "fast"]) == BAD_INPUT
    assert "'fast' was asked for; it is loads to stores, such as 2:1" in capsys.readouterr().err
    assert measured == []


def test_json_is_the_machine_file_and_nothing_else(tmp_path: Path, capsys: Captured) -> None:
    assert main(["machine", "--json", "--out", str(tmp_path / "m.json")]) == DONE
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "m.json").read_text())
    assert [one["name"] for one in printed["machine"]["ceilings"]] == ["DRAM read"]


def test_quick_takes_few_samples() -> None:
    efforts.clear()
    assert main(["machine", "--quick"]) == DONE
    assert main(["machine", "--full"]) == DONE
    assert main(["machine"]) == DONE
    assert main(["machine", "--quick", "--threads", "1", "--threads", "2"]) == DONE
    assert efforts == [ceilings.in_seconds(1), None, None, ceilings.in_seconds(2)]
    assert 2 * (efforts[3].budget + efforts[3].patience) == efforts[0].budget + efforts[0].patience < 8


def test_full_says_what_the_caches_hold_and_what_other_ways_to_memory_reach(capsys: Captured) -> None:
    assert main(["machine"]) == DONE
    out = capsys.readouterr().out
    assert "L1 holds 48 KiB of 48 KiB, 1.00 ns a load" in out
    assert "L2 holds: unknown, a reason" in out
    assert "L3 holds 3 MiB of 32 MiB, 15.0 ns a load" in out
    assert "DRAM random: 500 MB/s" in out
    assert "64 MiB of memory, 126 ns a load" in out
    assert "DRAM read is saturated by 1 of 4 threads" in out
    assert "note: access: one memory node: no memory is remote" in out
    kept = _machine.known()
    assert [one.name for one in kept.access] == ["DRAM random", "DRAM read"]
    assert kept.capacities[2].bytes == 3 << 20


def test_quick_keeps_what_a_full_measurement_found_of_the_caches() -> None:
    assert main(["machine"]) == DONE
    assert main(["machine", "--quick"]) == DONE
    kept = _machine.known()
    assert (len(kept.access), len(kept.sweep), len(kept.capacities)) == (2, 1, 3)
    # and so has the machine of a run
    machine, _ = _machine.for_run(None, [1])
    assert (machine.access, machine.sweep, machine.capacities) == (kept.access, kept.sweep, kept.capacities)


@pytest.mark.parametrize(
    ("clocks", "line"),
    [
        ((3.24e9, 3.23e9, 3.23e9), "clock while computing, 1 thread: 3.23 GHz with every instruction set"),
        ((4.2e9, 2.1e9, 2.11e9), "clock while computing, 1 thread: AVX2 4.20 GHz, AVX-512 2.10 GHz"),
        (
            (3.5e9, 2.8e9, 3.4e9),
            "clock while computing, 1 thread: AVX2 3.50 GHz, AVX-512 2.80 GHz to 3.40 GHz",
        ),
    ],
)
def test_the_clock_of_each_instruction_set_is_said_where_they_differ(
    clocks: tuple[float, float, float], line: str
) -> None:
    peaks = [
        factories.compute(f"f64 {isa} {mix}", 50, "f64", isa, mix=mix, clock_hz=hz)
        for isa, mix, hz in zip(("AVX2", "AVX-512", "AVX-512"), ("FMA", "FMA", "DIV"), clocks, strict=True)
    ]
    assert line in _machine.description(replace(BARE, ceilings=tuple(peaks)))


def test_the_roofs_alone_and_the_sweep_are_drawn(tmp_path: Path, capsys: Captured) -> None:
    assert main(["machine", "--pictures", str(tmp_path / "here")]) == DONE
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [
        "roofs.png",
        "roofs.svg",
        "sweep.png",
        "sweep.svg",
    ]
    assert "written: " in capsys.readouterr().out


def test_without_a_sweep_the_roofs_are_drawn_all_the_same(tmp_path: Path) -> None:
    assert main(["machine", "--quick", "--pictures", str(tmp_path)]) == DONE
    assert {path.stem for path in tmp_path.glob("*.png")} == {"roofs"}


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("256 KiB a thread", ")"),
        (f"256 KiB a thread; {ceilings.DISTURBED}", f"; {ceilings.DISTURBED}"),
        ("unsteady: the clock moved by 4.0 % while it was measured", "while it was measured"),
    ],
)
def test_what_speaks_against_a_ceiling_is_shown_beside_it(note: str, shown: str) -> None:
    roof = factories.bandwidth("DRAM read", 40, note=note)
    line = next(one for one in _machine.description(replace(BARE, ceilings=(roof,))) if "DRAM read" in one)
    assert line.endswith(shown)
