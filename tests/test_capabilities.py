"""What doctor says of machines with and without counters; probes are replaced, so all run everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counteroof import capabilities
from counteroof.capabilities import Fact, survey
from counteroof.count import perf_probe, select


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Fact]]:
    def facts(
        *,
        works: bool = False,
        reason: str = "no PMU",
        level: int = 2,
        root: bool = False,
        pmus: tuple[str, ...] = (),
    ) -> dict[str, Fact]:
        monkeypatch.setattr(perf_probe, "hardware_counters", lambda: (works, reason))
        monkeypatch.setattr(perf_probe, "paranoid", lambda: level)
        monkeypatch.setattr(perf_probe, "pmus", lambda: pmus)
        monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
        return {fact.topic.split(" (")[0]: fact for fact in survey()}

    return facts


def test_a_virtual_machine_without_a_pmu_hears_what_would_give_it_one(
    machine: Callable[..., dict[str, Fact]],
) -> None:
    fact = machine()["hardware counters of the core"]
    assert fact.state == "no"
    assert fact.finding == "no PMU"
    assert fact.remedy is not None
    assert "pmu=on" in fact.remedy


def test_a_refusal_by_the_kernel_setting_names_the_command_that_lifts_it(
    machine: Callable[..., dict[str, Fact]],
) -> None:
    fact = machine(level=4, pmus=("cpu",))["hardware counters of the core"]
    assert fact.remedy == "sudo sysctl kernel.perf_event_paranoid=2"


def test_a_refusal_in_spite_of_the_setting_is_a_containers(machine: Callable[..., dict[str, Fact]]) -> None:
    fact = machine(level=4, root=True, pmus=("cpu",))["hardware counters of the core"]
    assert fact.remedy is not None
    assert fact.remedy.startswith("in a container")


def test_working_counters_are_no_promise_that_they_are_used(machine: Callable[..., dict[str, Fact]]) -> None:
    fact = machine(works=True, reason="cycles counted", pmus=("cpu",))["hardware counters of the core"]
    assert fact.state == "yes"
    assert "does not count with them yet" in fact.finding


def test_memory_controllers_need_rights_that_are_named(machine: Callable[..., dict[str, Fact]]) -> None:
    topic = "hardware counters of the memory controllers"
    pmus = ("cpu", "uncore_imc_0", "uncore_imc_1")
    assert machine(pmus=pmus)[topic].state == "partly"
    assert machine(pmus=pmus)[topic].remedy == "root, or: sudo sysctl kernel.perf_event_paranoid=0"
    assert machine(pmus=pmus, root=True)[topic].state == "yes"
    assert machine()[topic].state == "no"


def test_the_engine_is_reported_as_the_selection_sees_it(
    machine: Callable[..., dict[str, Fact]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "instrument", lambda: select.Availability("instrument", None, "not x86-64"))
    fact = machine()["FLOPs and DRAM bytes by instrumentation"]
    assert (fact.state, fact.finding) == ("no", "not x86-64")


def test_a_missing_compiler_is_named_with_the_package(
    machine: Callable[..., dict[str, Fact]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities.shutil, "which", lambda name: None)
    fact = machine()["compiling C files"]
    assert (fact.state, fact.remedy) == ("no", "sudo apt install gcc")
