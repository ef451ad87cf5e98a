"""What doctor says of machines with and without counters: all described by files, so all run everywhere."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof import capabilities
from counteroof.capabilities import NO_PMU, Offer, Quantity, Surroundings, survey
from counteroof.commands import DONE, _machine, main
from counteroof.count import perf_open
from counteroof.count.events import Processor
from counteroof.count.likwid_look import INSTALL, NOT_INSTALLED, Looked
from counteroof.count.perf_open import Event
from counteroof.count.resctrl import MOUNT, Support
from counteroof.count.select import Availability
from counteroof.errors import MachineError
from counteroof.machine.sysfs import Tree
from tests.count import pmu_trees
from tests.count.test_perf_plan import ALDERLAKE, ZEN2, ZEN4, amd, intel
from tests.machine import trees

NO_MONITOR = Support(False, "no bandwidth monitoring (the processor shows no cqm_mbm_total)")
NO_LIKWID = Looked(Availability("likwid", None, NOT_INSTALLED), remedy=INSTALL)
NO_ENGINE = Availability("instrument", None, "the engine runs x86-64 code only, this is aarch64")
ENGINE = Availability("instrument", "m:engine", "here")

Build = Callable[[Path], Path]


def opening(refused: str = "", error: int = errno.EACCES) -> Callable[..., int]:
    """Return what opens everything but events of some PMUs."""

    def opener(event: Event, pid: int, leader: int, enabled: bool) -> int:
        return -error if refused and re.match(refused, event.pmu) else os.open(os.devnull, os.O_RDONLY)

    return opener


def looked(
    root: Path, build: Build = pmu_trees.zen4, cpu: Processor = ZEN4, **fields: Any
) -> dict[str, Quantity]:
    where = Surroundings(
        tree=Tree(build(root)),
        cpu=cpu,
        **{"opener": opening(), "monitor": NO_MONITOR, "likwid": NO_LIKWID, "engine": ENGINE, **fields},
    )
    return {one.name: one for one in survey(where).quantities}


def offer(quantity: Quantity, counter: str) -> Offer:
    (found,) = [one for one in quantity.offers if one.counter == counter]
    return found


def test_a_machine_with_everything_says_by_what_and_how_well(tmp_path: Path) -> None:
    found = looked(tmp_path)
    assert offer(found["FLOPs"], "perf") == Offer("perf", "yes", "3 events of AMD Zen 4 (no split f32/f64)")
    assert offer(found["DRAM bytes"], "perf") == Offer(
        "perf", "yes", "dram_amd_umc: 8 PMUs read on a processor of each socket"
    )
    assert offer(found["clock"], "perf").state == "yes"


def test_a_virtual_machine_without_a_pmu_hears_what_would_give_it_one(tmp_path: Path) -> None:
    found = looked(tmp_path, pmu_trees.virtual_machine)
    for name in ("FLOPs", "DRAM bytes", "cache traffic", "clock"):
        one = offer(found[name], "perf")
        assert (one.state, one.remedy) == ("no", NO_PMU), name
        assert one.finding
    assert found["FLOPs"].state == "yes"  # the engine counts them


def test_without_sys_no_pmu_is_denied_but_none_can_be_found(tmp_path: Path) -> None:
    found = looked(tmp_path, lambda root: root, pmus=())
    for name in ("FLOPs", "DRAM bytes", "cache traffic", "clock"):
        one = offer(found[name], "perf")
        assert one.finding.startswith("/sys/bus/event_source/devices is not there"), name
        assert (one.remedy or "").startswith("sudo mount -t sysfs")


def test_without_proc_the_processor_is_unknown_and_not_unheard_of(tmp_path: Path) -> None:
    hidden = Processor(architecture="aarch64")
    found = looked(tmp_path, cpu=hidden)
    for name in ("FLOPs", "DRAM bytes", "cache traffic"):
        one = offer(found[name], "perf")
        assert one.finding.startswith("nothing tells which processor this is"), name
        assert (one.remedy or "").startswith("sudo mount -t proc"), name
    assert offer(found["clock"], "perf").state == "yes"  # cycles need no data
    where = Surroundings(Tree(tmp_path), hidden, monitor=NO_MONITOR, likwid=NO_LIKWID)
    (item,) = [item for item in survey(where).system if item.name == "microarchitecture"]
    assert item.remark == "unknown: /proc/cpuinfo is not there"


def test_a_driver_that_is_not_loaded_gets_its_command_and_a_guest_the_truth(tmp_path: Path) -> None:
    def cores_alone(root: Path) -> Path:
        pmu_trees.pmu(root, "cpu", 4, pmu_trees.AMD_CORE)
        trees.write_proc(root, 2, trees.x86("AuthenticAMD", 25, 17, "a processor", flags))
        return root

    flags = "fpu"
    found = looked(tmp_path / "bare", cores_alone)["DRAM bytes"]
    assert offer(found, "perf").remedy == "sudo modprobe amd_uncore"
    flags = "fpu hypervisor"
    found = looked(tmp_path / "guest", cores_alone)["DRAM bytes"]
    assert offer(found, "perf").remedy == "bare metal: no hypervisor passes memory controllers on"


def test_a_refusal_by_the_kernel_setting_names_the_command_that_lifts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_open, "paranoid", lambda: 4)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = looked(tmp_path, opener=opening(".*"))
    assert offer(found["FLOPs"], "perf").remedy == "sudo sysctl kernel.perf_event_paranoid=2"
    assert offer(found["DRAM bytes"], "perf").remedy == "sudo sysctl kernel.perf_event_paranoid=0"
    assert "perf_event_paranoid is 4" in offer(found["FLOPs"], "perf").finding


def test_a_refusal_in_spite_of_the_setting_is_a_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_open, "paranoid", lambda: 2)
    found = looked(tmp_path, opener=opening(".*", errno.EPERM))
    assert (offer(found["FLOPs"], "perf").remedy or "").startswith("docker run --cap-add PERFMON")


def test_memory_controllers_that_are_refused_leave_the_cores_lower_bound(tmp_path: Path) -> None:
    found = looked(tmp_path, opener=opening("amd_"))["DRAM bytes"]
    assert offer(found, "perf").state == "no"
    bound = offer(found, "perf, reads only")
    assert bound.state == "partly"
    assert "a lower bound by fb_amd_zen3p" in bound.finding


def test_bytes_that_nothing_but_a_lower_bound_has_are_partly_there(tmp_path: Path) -> None:
    assert looked(tmp_path, opener=opening("amd_"), engine=NO_ENGINE)["DRAM bytes"].state == "partly"


def test_reads_and_writes_that_are_one_count_are_told_so(tmp_path: Path) -> None:
    one = offer(looked(tmp_path, pmu_trees.zen2, ZEN2)["DRAM bytes"], "perf")
    assert "reads and writes together" in one.finding


def test_an_unmounted_resctrl_gets_its_command(tmp_path: Path) -> None:
    found = looked(tmp_path, monitor=Support(False, "resctrl is not mounted", MOUNT))["DRAM bytes"]
    assert offer(found, "resctrl") == Offer("resctrl", "no", "resctrl is not mounted", MOUNT)


def test_resctrl_that_may_lack_write_backs_is_partly_there(tmp_path: Path) -> None:
    found = looked(tmp_path, monitor=Support(True, "misses of the last cache"))["DRAM bytes"]
    assert offer(found, "resctrl").state == "partly"


def test_cores_without_flop_events_are_named(tmp_path: Path) -> None:
    one = offer(looked(tmp_path, pmu_trees.alderlake, ALDERLAKE)["FLOPs"], "perf")
    assert one.state == "partly"
    assert "not on cpu_atom" in one.finding


def test_a_processor_without_flop_events_says_why(tmp_path: Path) -> None:
    one = offer(looked(tmp_path, pmu_trees.haswell, intel(0x3C))["FLOPs"], "perf")
    assert one.finding.startswith("no FP arithmetic event at all")
    assert one.remedy is None


def test_an_unknown_processor_hears_how_to_add_its_events(tmp_path: Path) -> None:
    found = looked(tmp_path, cpu=amd(0x1F, 1))
    assert "--events FILE" in (offer(found["FLOPs"], "perf").remedy or "")
    assert offer(found["clock"], "perf").state == "yes"


def test_likwid_is_offered_for_what_its_groups_have(tmp_path: Path) -> None:
    some = Availability("likwid", "m:count", "groups FLOPS_DP", quantities=frozenset({"FLOPs"}))
    found = looked(tmp_path, likwid=Looked(some, "direct"))
    assert offer(found["FLOPs"], "likwid") == Offer("likwid", "yes", "groups FLOPS_DP")
    assert offer(found["DRAM bytes"], "likwid").state == "no"


def test_likwid_that_is_refused_gets_the_command_that_allows_it(tmp_path: Path) -> None:
    assert offer(looked(tmp_path)["FLOPs"], "likwid") == Offer("likwid", "no", NOT_INSTALLED, INSTALL)
    denied = Looked(Availability("likwid", None, "no rights"), "access daemon", "/d", "sudo chmod u+s /d")
    found = looked(tmp_path, likwid=denied)
    for name in ("FLOPs", "DRAM bytes"):
        assert offer(found[name], "likwid") == Offer("likwid", "no", "no rights", "sudo chmod u+s /d")
    # rights help nobody where there is nothing to read
    guest = looked(tmp_path / "guest", pmu_trees.virtual_machine, likwid=denied)
    assert offer(guest["FLOPs"], "likwid").remedy == NO_PMU
    # through perf_event it is the kernel's setting that refuses
    setting = Looked(
        Availability("likwid", None, "needs 0 (sudo sysctl kernel.perf_event_paranoid=0)"), "perf_event"
    )
    found = looked(tmp_path / "setting", likwid=setting)
    assert offer(found["FLOPs"], "likwid").remedy == "sudo sysctl kernel.perf_event_paranoid=0"


def test_how_likwid_reaches_the_counters_is_told_as_it_says_itself(tmp_path: Path) -> None:
    usable = Looked(Availability("likwid", "m:count", "groups FLOPS_DP"), "perf_event")
    where = Surroundings(
        Tree(pmu_trees.zen4(tmp_path)), ZEN4, opener=opening(), monitor=NO_MONITOR, likwid=usable
    )
    assert {item.name: item.value for item in survey(where).system}["LIKWID access"] == "perf_event"


def test_the_engine_is_reported_as_the_selection_sees_it(tmp_path: Path) -> None:
    one = offer(looked(tmp_path, engine=NO_ENGINE)["FLOPs"], "instrument")
    assert (one.state, one.finding) == ("no", "the engine runs x86-64 code only, this is aarch64")


def test_every_missing_quantity_has_its_reason(tmp_path: Path) -> None:
    for quantity in looked(tmp_path, pmu_trees.virtual_machine, engine=NO_ENGINE).values():
        for one in quantity.offers:
            assert one.finding, quantity.name


def test_a_missing_compiler_is_named_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities.shutil, "which", lambda name, path=None: None)
    one = offer(looked(tmp_path)["compiling C files"], "C compiler")
    assert (one.state, one.remedy) == ("no", "sudo apt install gcc")


def test_the_processor_and_its_pmus_are_among_the_facts(tmp_path: Path) -> None:
    where = Surroundings(
        Tree(pmu_trees.zen4(tmp_path)), ZEN4, opener=opening(), monitor=NO_MONITOR, likwid=NO_LIKWID
    )
    facts = {item.name: item.value for item in survey(where).system}
    assert facts["microarchitecture"] == "AMD Zen 4"
    assert facts["PMUs"] == "amd_df, cpu, amd_umc_0-7"
    assert "MI300A" in facts["known traps"]
    assert facts["LIKWID"] == "not usable"
    assert facts["resctrl"] == "not usable"


# -- the command


def test_doctor_prints_json_that_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == DONE
    told = json.loads(capsys.readouterr().out)
    names = [one["name"] for one in told["quantities"]]
    assert names == ["FLOPs", "DRAM bytes", "cache traffic", "clock", "time", "compiling C files"]
    for one in told["quantities"]:
        assert one["state"] in ("yes", "no", "partly")
        assert all(set(each) == {"counter", "state", "finding", "remedy"} for each in one["offers"])
    assert {"perf_event_paranoid", "container", "SMT"} <= {item["name"] for item in told["system"]}


def test_doctor_ends_well_where_the_machine_cannot_be_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hidden() -> None:
        raise MachineError("cache sizes are hidden")

    monkeypatch.setattr(_machine, "known", hidden)
    assert main(["doctor"]) == DONE
    assert "cache sizes are hidden" in capsys.readouterr().out


@pytest.mark.parametrize("home", [None, "/nonexistent", "file"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_doctor_ends_well_without_a_home_files_or_a_screen(
    tmp_path: Path, home: str | None, options: list[str]
) -> None:
    (tmp_path / "file").touch()
    kept = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONIOENCODING": "ascii"}
    environment = kept if home is None else {**kept, "HOME": str(tmp_path / home)}
    command = [sys.executable, "-m", "counteroof", "doctor", *options]
    told = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stderr) == (DONE, "")
    assert "DRAM bytes" in told.stdout
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', *command], env=environment, capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (DONE, "")


def test_doctor_takes_no_more_than_a_second_of_a_processor() -> None:
    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    best = 60.0
    for _ in range(3):
        start = used()
        subprocess.run([sys.executable, "-m", "counteroof", "doctor"], check=True, capture_output=True)
        best = min(best, used() - start)
    assert best < 1


def test_surroundings_can_be_replaced_one_by_one() -> None:
    assert replace(Surroundings(), monitor=NO_MONITOR).monitor is NO_MONITOR
