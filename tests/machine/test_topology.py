"""What machine this is, on machines that are not here."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from counteroof.errors import BadInput, MachineError
from counteroof.machine import sysfs
from counteroof.machine.cpuid import Registers
from counteroof.machine.model import CacheLevel, Machine
from counteroof.machine.sysfs import Tree
from counteroof.machine.topology import detect, placement

from . import trees

KIB, MIB = 1 << 10, 1 << 20


def levels(machine: Machine) -> dict[str, tuple[int, int, int, str, bool]]:
    """Return size, ways, sharing, fill and hash of each cache."""
    return {c.name: (c.bytes, c.ways, c.shared_by, c.fill, c.hashed) for c in machine.caches}


def test_zen5_vm_has_a_victim_l3_and_an_inclusive_l2(tmp_path: Path) -> None:
    machine = detect(trees.zen5_vm(tmp_path))
    assert levels(machine) == {
        "L1": (48 * KIB, 12, 1, "non-inclusive", False),
        "L2": (1 * MIB, 16, 1, "inclusive", False),
        "L3": (32 * MIB, 16, 2, "victim", True),
    }
    assert machine.cpu == "AMD EPYC, family 26 model 2"
    assert machine.isa == ("SSE", "AVX2", "AVX-512")
    assert machine.logical_cpus == 2
    assert machine.memory_bytes == 24 * 1024**3
    assert machine.notes == ()
    assert {c.line_bytes for c in machine.caches} == {64}
    assert "sysfs" in machine.caches[2].source


def test_the_hypervisor_is_named_by_cpuid_and_else_only_known_to_be_there(tmp_path: Path) -> None:
    root = trees.zen5_vm(tmp_path)
    assert detect(root).hypervisor == "unknown"
    assert detect(root, cpuid=trees.ZEN5_CPUID).hypervisor == "KVM"
    assert detect(root, cpuid=trees.ZEN5_CPUID).name == "AMD EPYC, 2 CPUs, under KVM"


def test_the_clock_is_stated_by_drivers_or_by_cpuid_or_not_at_all(tmp_path: Path) -> None:
    def stated(machine: Machine) -> tuple[float | None, float | None]:
        return machine.nominal_hz, machine.maximum_hz

    def cpuid(leaf: int, subleaf: int) -> Registers | None:
        answers = {0: (0x16, *struct.unpack("<III", b"GenuntelineI")), 0x16: (2600, 3500, 100, 0)}
        return answers.get(leaf)

    root = trees.zen5_vm(tmp_path)
    assert stated(detect(root)) == (None, None)
    assert stated(detect(root, cpuid=cpuid)) == (2.6e9, 3.5e9)
    trees.write(root, "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "2450")
    trees.write(root, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3675000")
    assert stated(detect(root, cpuid=cpuid)) == (2.45e9, 3.675e9)
    trees.write(root, "sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "0")
    assert stated(detect(root)) == (None, 3.675e9)


def test_the_name_never_has_the_host_name(tmp_path: Path) -> None:
    host = platform.node()
    machine = detect(trees.zen5_vm(tmp_path))
    assert host
    assert host not in (machine.name, machine.cpu)


def test_skylake_sp_has_a_victim_l3_for_each_socket(tmp_path: Path) -> None:
    machine = detect(trees.skylake_sp(tmp_path))
    assert levels(machine) == {
        "L1": (32 * KIB, 8, 2, "non-inclusive", False),
        "L2": (1 * MIB, 16, 2, "non-inclusive", False),
        "L3": (28160 * KIB, 11, 4, "victim", True),
    }
    assert machine.cpu == "Intel Xeon Gold 6148, family 6 model 85"
    assert machine.hypervisor is None
    assert machine.name == "Intel Xeon Gold 6148, 8 CPUs"


def test_ice_lake_client_has_an_inclusive_l3(tmp_path: Path) -> None:
    machine = detect(trees.ice_lake_client(tmp_path))
    assert levels(machine)["L3"] == (8 * MIB, 16, 4, "inclusive", True)
    assert levels(machine)["L2"] == (512 * KIB, 8, 2, "non-inclusive", False)


def test_a_hybrid_has_the_caches_of_its_fast_cores_and_says_what_the_others_have(tmp_path: Path) -> None:
    machine = detect(trees.alder_lake(tmp_path))
    assert levels(machine)["L1"] == (48 * KIB, 12, 2, "non-inclusive", False)
    assert levels(machine)["L2"][:3] == (1280 * KIB, 10, 2)
    (note,) = machine.notes
    assert "processors 4-7" in note
    assert "L1 32 KiB, L2 2 MiB" in note


def test_a_hybrid_confined_to_slow_cores_has_their_caches(tmp_path: Path) -> None:
    machine = detect(trees.alder_lake(tmp_path), allowed=(5, 6))
    assert levels(machine)["L2"][:3] == (2 * MIB, 16, 4)
    assert machine.notes == ("this process may use 2 of 8 processors (5-6)",)


def test_an_intel_processor_in_no_table_is_filled_as_cpuid_says(tmp_path: Path) -> None:
    for inclusive, fill in ((True, "inclusive"), (False, "non-inclusive")):
        machine = detect(tmp_path, cpuid=trees.intel_cpuid(0x97, inclusive), architecture="x86_64")
        assert machine.caches[2].fill == fill
        assert "fill by CPUID" in machine.caches[2].source


def test_a_hypervisor_that_calls_the_l3_inclusive_does_not_overrule_the_table(tmp_path: Path) -> None:
    machine = detect(tmp_path, cpuid=trees.intel_cpuid(0x55, True), architecture="x86_64")
    assert machine.caches[2].fill == "victim"


def test_grace_is_an_arm_with_inclusive_l2_and_what_is_assumed_is_said(tmp_path: Path) -> None:
    machine = detect(trees.grace(tmp_path))
    assert machine.architecture == "aarch64"
    assert machine.cpu == "Arm Neoverse V2"
    assert machine.isa == ("NEON", "SVE")
    assert levels(machine)["L2"] == (1 * MIB, 8, 1, "inclusive", False)
    assert levels(machine)["L3"] == (114 * MIB, 12, 4, "non-inclusive", True)
    assert "fill assumed" in machine.caches[2].source


def test_ways_that_firmware_leaves_out_come_from_the_sets_or_are_assumed(tmp_path: Path) -> None:
    machine = detect(trees.grace(tmp_path, ways=False))
    l1, l2, _ = machine.caches
    assert (l2.ways, "assumed" in l2.source) == (8, False)
    assert (l1.ways, "16 ways assumed" in l1.source) == (16, True)


def test_a_vm_that_hides_its_caches_in_sysfs_is_asked_through_cpuid(tmp_path: Path) -> None:
    machine = detect(trees.hidden_caches_vm(tmp_path), cpuid=trees.ZEN5_CPUID)
    assert levels(machine) == levels(detect(trees.zen5_vm(tmp_path / "other")))
    assert all(cache.source.startswith("CPUID") for cache in machine.caches)
    assert any("geometry from CPUID" in note for note in machine.notes)


def test_sharing_by_cpuid_is_never_more_than_the_processors_there_are(tmp_path: Path) -> None:
    trees.write(tmp_path, "sys/devices/system/cpu/online", "0-3")
    machine = detect(tmp_path, cpuid=trees.intel_cpuid(0x55, False), architecture="x86_64")
    assert [cache.shared_by for cache in machine.caches] == [2, 2, 4]


def test_without_sys_and_proc_cpuid_tells_everything_it_can(tmp_path: Path) -> None:
    machine = detect(tmp_path, cpuid=trees.ZEN5_CPUID, architecture="x86_64", allowed=(0, 1))
    assert machine.cpu == "AMD EPYC, family 26 model 2"
    assert machine.isa == ("SSE", "AVX2", "AVX-512")
    assert machine.logical_cpus == 2
    assert machine.memory_bytes is None


def test_a_machine_that_tells_no_cache_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    root = trees.hidden_caches_vm(tmp_path)
    with pytest.raises(MachineError, match=r"cache sizes are hidden.*--machine FILE"):
        detect(root)
    caches = (CacheLevel("L1", 32 * KIB, 8, 64, 1, "non-inclusive", False, "file"),)
    assert detect(root, caches=caches).caches == caches


def test_nonsense_from_cpuid_is_no_geometry(tmp_path: Path) -> None:
    with pytest.raises(MachineError):
        detect(tmp_path, cpuid=trees.VALGRIND_CPUID, architecture="x86_64")


def test_two_sources_that_disagree_are_both_named(tmp_path: Path) -> None:
    root = trees.zen5_vm(tmp_path)
    trees.write(root, "sys/devices/system/cpu/cpu0/cache/index3/size", "16384K")
    machine = detect(root, cpuid=trees.ZEN5_CPUID)
    assert machine.caches[2].bytes == 16 * MIB
    assert any("16 MiB by sysfs, 32 MiB by CPUID" in note for note in machine.notes)


def test_limits_of_a_container_are_said(tmp_path: Path) -> None:
    root = trees.skylake_sp(tmp_path)
    trees.write(root, "sys/fs/cgroup/cpu.max", "150000 100000")
    machine = detect(root, allowed=(0, 1, 4))
    assert machine.logical_cpus == 8
    assert machine.notes == (
        "this process may use 3 of 8 processors (0-1,4)",
        "a control group allows the time of 1.50 processors",
    )


def test_a_processor_with_avx_alone_says_so(tmp_path: Path) -> None:
    root = trees.skylake_sp(tmp_path)
    trees.write_proc(root, 8, trees.x86("GenuineIntel", 6, 45, "Intel(R) Xeon(R) CPU E5-2680", "sse2 avx"))
    assert detect(root).isa == ("SSE", "AVX")


def test_bare_metal_of_a_cloud_is_no_hypervisor(tmp_path: Path) -> None:
    root = trees.grace(tmp_path)
    trees.write(root, "sys/class/dmi/id/sys_vendor", "Amazon EC2")
    trees.write(root, "sys/class/dmi/id/product_name", "c8g.metal-24xl")
    assert detect(root).hypervisor is None
    trees.write(root, "sys/class/dmi/id/product_name", "c8g.2xlarge")
    assert detect(root).hypervisor == "Amazon EC2"


def test_threads_go_to_cores_before_they_share_one(tmp_path: Path) -> None:
    root = trees.skylake_sp(tmp_path)
    assert placement(4, root=root) == (0, 1, 2, 3)
    assert placement(5, root=root) == (0, 1, 2, 3, 4)
    assert placement(2, root=root, allowed=(0, 4, 6)) == (0, 6)


def test_threads_go_to_fast_cores_first(tmp_path: Path) -> None:
    root = trees.alder_lake(tmp_path)
    assert placement(2, root=root) == (0, 2)
    assert placement(7, root=root) == (0, 2, 4, 5, 6, 7, 1)


@pytest.mark.parametrize("threads", [0, -1, 9])
def test_more_threads_than_processors_are_refused_with_the_range(tmp_path: Path, threads: int) -> None:
    with pytest.raises(BadInput, match=rf"{threads} threads.*8 processors \(0-7\).*from 1 to 8"):
        placement(threads, root=trees.skylake_sp(tmp_path))


def test_this_machine_is_described() -> None:
    machine = detect()
    assert machine.logical_cpus >= 1
    assert machine.architecture == platform.machine()
    sizes = [cache.bytes for cache in machine.caches]
    assert sizes == sorted(sizes)
    assert all(cache.bytes % cache.line_bytes == 0 for cache in machine.caches)
    assert set(placement(1)) <= os.sched_getaffinity(0)


def test_a_process_confined_to_one_processor_is_told_so_and_gets_that_one() -> None:
    code = """
import os
from counteroof.errors import BadInput
from counteroof.machine.topology import detect, placement
one = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {one})
assert placement(1) == (one,)
try: placement(2)
except BadInput as error: print(error)
print(*detect().notes, sep="\\n")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    one = max(os.sched_getaffinity(0))
    assert f"2 threads were asked for; this process may use 1 processor ({one})" in ran.stdout
    if (os.cpu_count() or 1) > 1:
        assert f"this process may use 1 of {os.cpu_count()} processors ({one})" in ran.stdout


def test_the_caches_of_a_core_are_read_once_for_all_its_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu in range(8):
        core = cpu // 2 * 2
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        trees.write(tmp_path, f"{folder}/topology/core_cpus_list", f"{core}-{core + 1}")
        size = "32K" if cpu < 6 else "48K"
        for name, text in (("level", "1"), ("type", "Data"), ("size", size), ("shared_cpu_list", f"{cpu}")):
            trees.write(tmp_path, f"{folder}/cache/index0/{name}", text)
    trees.write(tmp_path, "sys/devices/system/cpu/online", "0-7")
    asked: list[int] = []
    real = sysfs.caches_of

    def counting(tree: Tree, cpu: int) -> tuple[sysfs.CacheFacts, ...]:
        asked.append(cpu)
        return real(tree, cpu)

    monkeypatch.setattr(sysfs, "caches_of", counting)
    machine = detect(tmp_path, architecture="x86_64")
    assert asked == [0, 0, 2, 4, 6]  # those in use, and one of each core to compare
    assert any("processors 6-7 have other caches" in note for note in machine.notes)
