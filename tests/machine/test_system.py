"""What the system does to measurements, read from folders that stand for /sys and /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.machine import system
from counteroof.machine.sysfs import Tree
from counteroof.machine.system import Item, grouped, items

from . import trees


def seen(root: Path) -> dict[str, Item]:
    return {item.name: item for item in items(Tree(root))}


def cpus(root: Path, number: int, siblings: str = "") -> None:
    trees.write(root, "sys/devices/system/cpu/online", f"0-{number - 1}")
    for cpu in range(number):
        pair = f"{cpu - cpu % 2}-{cpu - cpu % 2 + 1}" if siblings else str(cpu)
        trees.write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", pair)


@pytest.mark.parametrize(
    ("level", "remark"),
    [
        ("-1", "ordinary users: everything is allowed"),
        ("0", "ordinary users: own events, and whole processors and sockets"),
        ("1", "ordinary users: own events, in user mode and in the kernel"),
        ("2", "ordinary users: own events in user mode only"),
        ("4", "ordinary users: nothing without rights"),
    ],
)
def test_the_level_of_paranoia_is_told_with_what_it_means(tmp_path: Path, level: str, remark: str) -> None:
    trees.write(tmp_path, system.PARANOID, level)
    assert seen(tmp_path)["perf_event_paranoid"] == Item("perf_event_paranoid", level, remark)


def test_a_kernel_without_the_setting_counts_no_events(tmp_path: Path) -> None:
    trees.write(tmp_path, "proc/sys/kernel/osrelease", "6.1")
    assert seen(tmp_path)["perf_event_paranoid"].remark == "this kernel counts no events"


def test_what_cannot_be_read_is_unknown_and_neither_off_nor_none(tmp_path: Path) -> None:
    found = seen(tmp_path)
    assert found["perf_event_paranoid"] == Item("perf_event_paranoid", "unknown", "/proc is not mounted")
    assert found["rights"].value.endswith(", capabilities unknown")
    assert found["SMT"].value == "unknown"
    assert found["NUMA"].value == "unknown"


def test_capabilities_are_read_from_the_process_itself(tmp_path: Path) -> None:
    trees.write(tmp_path, "proc/self/status", "Name:\tx\nCapEff:\t0000004000000000\n")
    assert seen(tmp_path)["rights"].value.endswith(", CAP_PERFMON")
    assert system.may_count_all(Tree(tmp_path))
    trees.write(tmp_path, "proc/self/status", "CapEff:\t0000000000000400\n")
    assert seen(tmp_path)["rights"].value.endswith("no capability to count")
    assert not system.may_count_all(Tree(tmp_path))


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("run/systemd/container", "lxc", "lxc"),
        ("proc/1/cgroup", "12:cpu:/kubepods/burstable/pod1", "kubepods"),
    ],
)
def test_a_container_is_known_by_its_files(tmp_path: Path, path: str, text: str, name: str) -> None:
    assert seen(tmp_path)["container"].value == "none seen"
    trees.write(tmp_path, path, text)
    assert seen(tmp_path)["container"].value == name
    assert "the host's" in (seen(tmp_path)["container"].remark or "")


def test_a_watchdog_that_holds_a_counter_is_told_with_the_command_that_frees_it(tmp_path: Path) -> None:
    assert seen(tmp_path)["NMI watchdog"].value == "not shown"
    trees.write(tmp_path, "proc/sys/kernel/nmi_watchdog", "1")
    assert "sysctl kernel.nmi_watchdog=0" in (seen(tmp_path)["NMI watchdog"].remark or "")
    trees.write(tmp_path, "proc/sys/kernel/nmi_watchdog", "0")
    assert seen(tmp_path)["NMI watchdog"].value == "off"


def test_governor_and_turbo_are_told_and_how_to_steady_the_clock(tmp_path: Path) -> None:
    assert "not shown" in seen(tmp_path)["clock"].value
    cpus(tmp_path, 2)
    for cpu in range(2):
        trees.write(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "powersave")
    trees.write(tmp_path, "sys/devices/system/cpu/intel_pstate/no_turbo", "0")
    assert seen(tmp_path)["clock"].value == "governor powersave, turbo on"
    assert "cpupower" in (seen(tmp_path)["clock"].remark or "")


def test_turbo_of_other_drivers_is_called_boost(tmp_path: Path) -> None:
    trees.write(tmp_path, "sys/devices/system/cpu/cpufreq/boost", "0")
    assert seen(tmp_path)["clock"].value == "turbo off"


def test_threads_that_share_a_core_are_counted_against_its_counters(tmp_path: Path) -> None:
    cpus(tmp_path / "on", 4, siblings="pairs")
    assert seen(tmp_path / "on")["SMT"].value == "on: 4 processors on 2 cores"
    cpus(tmp_path / "off", 4)
    assert seen(tmp_path / "off")["SMT"].value == "off or hidden: 4 processors, one a core"


def test_memory_nodes_come_with_their_processors(tmp_path: Path) -> None:
    for node, listed in ((0, "0-3"), (1, "4-7"), (10, "")):
        trees.write(tmp_path, f"sys/devices/system/node/node{node}/cpulist", listed)
    trees.write(tmp_path, "sys/devices/system/node/possible", "0-10")
    assert seen(tmp_path)["NUMA"].value == "3 nodes (0: 0-3; 1: 4-7; 10: no CPUs)"


def test_huge_pages_are_the_mode_and_the_reserve(tmp_path: Path) -> None:
    trees.write(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    trees.write(tmp_path, "proc/sys/vm/nr_hugepages", "16")
    assert seen(tmp_path)["huge pages"].value == "transparent: madvise, 16 reserved"


def test_names_with_numbers_are_told_in_short() -> None:
    names = ["cpu", "uncore_imc_0", "uncore_imc_1", "uncore_imc_3", "uncore_imc_free_running_0", "i915"]
    assert grouped(names) == "cpu, i915, uncore_imc_0-1,3, uncore_imc_free_running_0"


def test_this_machine_can_be_asked() -> None:
    assert {"perf_event_paranoid", "rights", "container", "clock", "SMT"} <= {item.name for item in items()}
