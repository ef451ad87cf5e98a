"""The machine file: measurements come back exactly, mistakes all at once, old facts are noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput, MachineFileError
from counteroof.machine import loops, store
from counteroof.machine.model import Machine
from tests import factories


@pytest.fixture
def machine() -> Machine:
    return factories.machine()


@pytest.fixture
def file(machine: Machine, tmp_path: Path) -> dict[str, Any]:
    """The content of a good file."""
    data: dict[str, Any] = json.loads(json.dumps(store.to_json(store.record(machine))))
    return data


def mistakes(data: object) -> str:
    with pytest.raises(MachineFileError) as caught:
        store.from_json(data, "m.json")
    return str(caught.value)


def test_a_machine_survives_the_file_exactly(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "new" / "machine.json"
    store.save(machine, path)
    assert store.load(path) == machine
    assert json.loads(path.read_text())["schema"] == "counteroof.machine/2"


def test_saving_replaces_the_file_and_leaves_nothing_beside_it(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    store.save(machine, path)
    store.save(replace(machine, ceilings=()), path)
    assert store.load(path).ceilings == ()
    assert [one.name for one in tmp_path.iterdir()] == ["machine.json"]


def test_a_file_that_could_not_be_written_leaves_the_old_one(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    store.save(machine, path)
    spoiled = replace(machine, ceilings=(replace(machine.ceilings[0], value=float("nan")),))
    with pytest.raises(ValueError, match="nan"):
        store.save(spoiled, path)
    assert store.load(path) == machine


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "expected an object"),
        ("{}", 'schema: found nothing; expected "counteroof.machine/2"'),
        ('{"schema": "counteroof.results/1"}', "counteroof.results/1"),
        ('{"schema": "counteroof.machine/2"}', "machine: found nothing"),
        ('{"schema": "counteroof.machine/2", "machine": NaN}', "NaN is not JSON"),
    ],
)
def test_what_is_no_machine_file_says_so(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        store.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        store.load(tmp_path / "none.json")


def test_all_mistakes_of_type_are_reported(file: dict[str, Any]) -> None:
    file["machine"]["logical_cpus"] = "two"
    file["machine"]["caches"][1]["fill"] = "exclusive"
    del file["machine"]["ceilings"][0]["value"]
    file["machine"]["colour"] = "red"
    text = mistakes(file)
    for part in (
        'm.json: machine.logical_cpus: found "two"; expected an integer',
        "machine.caches[1].fill",
        "machine.ceilings[0].value: found nothing",
        "machine.colour: found a key nobody knows",
    ):
        assert part in text
    assert len(text.splitlines()) == 4


def test_all_impossible_values_are_reported(file: dict[str, Any]) -> None:
    machine = file["machine"]
    machine["logical_cpus"] = 0
    machine["caches"][0]["line_bytes"] = 48
    machine["caches"][1]["ways"] = 0
    machine["caches"][2]["bytes"] = 1000
    machine["ceilings"][0].update(value=-1.0, level="l9")
    machine["ceilings"][1].update(threads=0, samples=[1.0, 0.0], clock_hz=0.0)
    machine["ceilings"][3].update(precision=None)
    machine["ceilings"].append(machine["ceilings"][2])
    text = mistakes(file)
    for part in (
        "machine.logical_cpus: found 0",
        "machine.caches[0].line_bytes: found 48; expected a power of two",
        "machine.caches[1].ways: found 0",
        "machine.caches[2].bytes: found 1000; expected a multiple of ways x line size",
        "machine.ceilings[0].value: found -1.0",
        'machine.ceilings[0].level: found "l9"',
        "machine.ceilings[1].threads: found 0",
        "machine.ceilings[1].samples: found 0.0",
        "machine.ceilings[1].clock_hz: found 0.0",
        "machine.ceilings[3].precision: found null",
        "machine.ceilings[9].name: found 'DRAM triad' with 1 threads again",
    ):
        assert part in text


def test_levels_out_of_order_are_a_mistake(file: dict[str, Any]) -> None:
    file["machine"]["caches"].reverse()
    assert "machine.caches[0].name: found 'L3'; expected 'L1', levels in order" in mistakes(file)


def test_a_machine_without_caches_is_a_mistake(file: dict[str, Any]) -> None:
    file["machine"]["caches"] = []
    assert "machine.caches: found an empty list" in mistakes(file)


# ---- the user's cache ----


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "counteroof"


def test_ceilings_are_found_again(machine: Machine, cache: Path) -> None:
    bare = replace(machine, ceilings=(), measured=None)
    assert store.cached(bare) == (None, ("not measured yet",))
    store.save(machine, store.cache_file(machine))
    assert store.cached(bare) == (machine, ())
    assert store.cache_file(machine).parent == cache


def test_a_cache_that_is_somebody_elses_is_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", denied)
    found, (reason,) = store.cached(machine)
    assert found is None
    assert reason.startswith("the kept ceilings cannot be used: /")
    assert reason.endswith(": Permission denied")


def test_a_user_without_a_home_has_no_cache(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    found, (reason,) = store.cached(machine)
    assert found is None
    assert "no home directory; set HOME or XDG_CACHE_HOME" in reason


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_facts_of_today_are_kept_beside_the_ceilings_of_then(machine: Machine, cache: Path) -> None:
    store.save(machine, store.cache_file(machine))
    today = replace(machine, ceilings=(), memory_bytes=1, notes=("a control group",))
    found, _ = store.cached(today)
    assert found is not None
    assert (found.memory_bytes, found.notes) == (1, ("a control group",))
    assert found.ceilings == machine.ceilings


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kernel": "5.4.0-old"}, "kernel: 5.4.0-old then"),
        ({"counteroof": "0.0.1"}, "counteroof: 0.0.1 then"),
        ({"measurement": "1"}, "way of measuring: 1 then"),
    ],
)
def test_another_kernel_version_or_way_of_measuring_makes_ceilings_stale(
    machine: Machine, cache: Path, change: dict[str, Any], reason: str
) -> None:
    kept = replace(store.record(machine), **change)
    path = store.cache_file(machine)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(store.to_json(kept)))
    found, reasons = store.cached(machine)
    assert found is None
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_a_file_that_does_not_say_how_it_was_measured_is_stale(
    machine: Machine, cache: Path, file: dict[str, Any]
) -> None:
    del file["measurement"]
    path = store.cache_file(machine)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(file))
    found, (reason,) = store.cached(machine)
    assert found is None
    assert reason.startswith("way of measuring: 1 then, ")


def test_other_loops_are_another_way_of_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    now = store.measurement()
    assert now == store.measurement()
    first, *rest = loops.table()
    for changed in ([replace(first, flops=first.flops + 1), *rest], rest):
        monkeypatch.setattr(loops, "table", lambda found=changed: tuple(found))
        assert store.measurement() != now
    monkeypatch.undo()
    monkeypatch.setattr(store, "MEASUREMENT", store.MEASUREMENT + 1)
    assert store.measurement() != now


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("cpu", "Another", "processor: AMD EPYC then, Another now"),
        ("logical_cpus", 4, "number of processors: 2 then, 4 now"),
        ("hypervisor", None, "hypervisor: KVM then, None now"),
        ("caches", (), "caches: L1 49152 B 12 ways shared by 1"),
    ],
)
def test_another_machine_makes_ceilings_stale(machine: Machine, field: str, value: Any, reason: str) -> None:
    now = replace(machine, **{field: value})
    (found,) = store.staleness(store.record(machine), now)
    assert found.startswith(reason)


def test_the_same_machine_is_not_stale_whatever_its_notes(machine: Machine) -> None:
    assert store.staleness(store.record(machine), replace(machine, notes=("x",), memory_bytes=5)) == ()


def test_machines_that_share_a_home_do_not_share_a_file(machine: Machine, cache: Path) -> None:
    others = [replace(machine, cpu="Another"), replace(machine, logical_cpus=64), replace(machine, caches=())]
    assert len({store.cache_file(one) for one in [machine, *others]}) == 4


def test_a_broken_file_in_the_cache_is_measured_again_with_the_reason(machine: Machine, cache: Path) -> None:
    path = store.cache_file(machine)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    found, (reason,) = store.cached(machine)
    assert found is None
    assert "cannot be used" in reason


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert store.cache_directory() == Path.home() / ".cache" / "counteroof"
