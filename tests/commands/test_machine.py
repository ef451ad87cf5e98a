"""Where a command's ceilings come from: kept ones are used, missing ones measured, others never lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import ceilings, refresh
from counteroof.commands import BAD_INPUT, DONE, _machine, main
from counteroof.machine import store, topology
from counteroof.machine.model import Machine
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
    return calls


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


def test_a_cache_that_cannot_be_written_stops_nothing(
    measured: list[tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert threads_of(_machine.for_run(None, [1])[0]) == [1]
    assert "the ceilings cannot be kept in" in capsys.readouterr().err


def test_a_mix_is_measured_and_kept_beside_the_usual_ones(capsys: Captured) -> None:
    assert main(["machine", "--mix", "2:1"]) == DONE
    assert "DRAM 2:1: 40.0 GB/s" in capsys.readouterr().out
    assert [one.name for one in _machine.known().ceilings] == ["DRAM read", "DRAM 2:1"]


def test_a_mix_without_a_loop_is_refused_before_anything_is_measured(
    measured: list[tuple[int, ...]], capsys: Captured
) -> None:
    assert main(["machine", "--mix", "fast"]) == BAD_INPUT
    assert "'fast' was asked for; loads to stores can be 1:0, 0:1" in capsys.readouterr().err
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
    assert efforts == [ceilings.QUICK, None, None]
