"""Synthetic ``/sys/bus/event_source`` folders of machines the tests do not run on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from counteroof.count.pmus import DEVICES
from tests.machine import trees

EVENT_UMASK = {"event": "config:0-7", "umask": "config:8-15"}
X86_CORE = {**EVENT_UMASK, "edge": "config:18", "inv": "config:23", "cmask": "config:24-31"}
INTEL_CORE = {**X86_CORE, "offcore_rsp": "config1:0-63"}
AMD_CORE = {**X86_CORE, "event": "config:0-7,32-35"}
ARM_CORE = {"event": "config:0-15"}


def pmu(
    root: Path,
    name: str,
    kind: int,
    formats: Mapping[str, str],
    *,
    cpumask: str | None = None,
    cpus: str | None = None,
    events: Mapping[str, str] | None = None,
) -> None:
    """Write the folder of one PMU."""
    folder = f"{DEVICES}/{name}"
    trees.write(root, f"{folder}/type", str(kind))
    for entry, text in formats.items():
        trees.write(root, f"{folder}/format/{entry}", text)
    for entry, text in (events or {}).items():
        trees.write(root, f"{folder}/events/{entry}", text)
    if cpumask is not None:
        trees.write(root, f"{folder}/cpumask", cpumask)
    if cpus is not None:
        trees.write(root, f"{folder}/cpus", cpus)


def sockets(root: Path, per_socket: int, number: int) -> None:
    """Write which socket each processor is in."""
    for cpu in range(per_socket * number):
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
        trees.write(root, f"{topology}/physical_package_id", str(cpu // per_socket))
    trees.write(root, "sys/devices/system/cpu/online", f"0-{per_socket * number - 1}")


def skylake_sp(root: Path) -> Path:
    """Two sockets of 28 processors, six channels each; every PMU covers both sockets."""
    sockets(root, 28, 2)
    pmu(root, "cpu", 4, INTEL_CORE)
    for channel in range(6):
        alias = {
            "cas_count_read": "event=0x04,umask=0x03",
            "cas_count_read.scale": "6.103515625e-5",
            "cas_count_read.unit": "MiB",
        }
        pmu(root, f"uncore_imc_{channel}", 14 + channel, EVENT_UMASK, cpumask="0,28", events=alias)
    pmu(root, "uncore_cha_0", 30, EVENT_UMASK, cpumask="0,28")
    return root


def granite_rapids(root: Path) -> Path:
    """Two sockets, twelve channels; the kernel's alias counts one of two sub-channels."""
    sockets(root, 8, 2)
    pmu(root, "cpu", 4, INTEL_CORE)
    alias = {"cas_count_read": "event=0x05,umask=0xcf", "cas_count_write": "event=0x05,umask=0xf0"}
    for channel in range(12):
        pmu(root, f"uncore_imc_{channel}", 20 + channel, EVENT_UMASK, cpumask="0,8", events=alias)
    return root


def icelake_sp(root: Path) -> Path:
    """One socket; free-running counters beside the programmable ones, with the scale of an old kernel."""
    sockets(root, 8, 1)
    pmu(root, "cpu", 4, INTEL_CORE)
    for channel in range(8):
        pmu(root, f"uncore_imc_{channel}", 20 + channel, EVENT_UMASK, cpumask="0")
    for controller in range(4):
        free = {"read": "event=0xff,umask=0x20", "read.scale": "3.814697266e-6", "read.unit": "MiB"}
        name = f"uncore_imc_free_running_{controller}"
        pmu(root, name, 40 + controller, EVENT_UMASK, cpumask="0", events=free)
    return root


def alderlake(root: Path) -> Path:
    """Two kinds of core, and two PMUs of each memory controller."""
    sockets(root, 8, 1)
    pmu(root, "cpu_core", 4, INTEL_CORE, cpus="0-3")
    pmu(root, "cpu_atom", 10, INTEL_CORE, cpus="4-7")
    for controller in range(2):
        pmu(root, f"uncore_imc_{controller}", 20 + controller, EVENT_UMASK, cpumask="0")
        pmu(root, f"uncore_imc_free_running_{controller}", 24 + controller, EVENT_UMASK, cpumask="0")
    return root


def haswell(root: Path) -> Path:
    """A client with one PMU for all its memory, whose counters are 32 bits wide."""
    sockets(root, 4, 1)
    pmu(root, "cpu", 4, INTEL_CORE)
    pmu(root, "uncore_imc", 9, {"event": "config:0-7"}, cpumask="0")
    return root


def zen2(root: Path) -> Path:
    """Two sockets; one PMU of the data fabric, read on a processor of each."""
    sockets(root, 64, 2)
    pmu(root, "cpu", 4, AMD_CORE)
    fabric = {"event": "config:0-7,32-35,59-60", "umask": "config:8-15"}
    pmu(root, "amd_df", 12, fabric, cpumask="0,64")
    return root


def _umc(root: Path, per_socket: int, channels: int) -> Path:
    sockets(root, per_socket, 2)
    pmu(root, "cpu", 4, AMD_CORE)
    pmu(
        root,
        "amd_df",
        12,
        {"event": "config:0-7,32-37", "umask": "config:8-15,24-27"},
        cpumask=f"0,{per_socket}",
    )
    for number in range(2 * channels):
        cpu = per_socket * (number // channels)
        formats = {"event": "config:0-7", "rdwrmask": "config:8-9"}
        pmu(root, f"amd_umc_{number}", 20 + number, formats, cpumask=str(cpu))
    return root


def zen4(root: Path) -> Path:
    """Two sockets of four channels each, numbered over both."""
    return _umc(root, 96, 4)


def zen5(root: Path) -> Path:
    """Two sockets of twelve channels each, numbered over both."""
    return _umc(root, 128, 12)


def zen4_without_umc(root: Path) -> Path:
    """A kernel before 6.7: only the data fabric's PMU."""
    sockets(root, 96, 1)
    pmu(root, "cpu", 4, AMD_CORE)
    pmu(root, "amd_df", 12, {"event": "config:0-7,32-37", "umask": "config:8-15,24-27"}, cpumask="0")
    return root


def grace(root: Path) -> Path:
    """Two sockets, one PMU of the coherency fabric each, the socket's number in its name."""
    sockets(root, 72, 2)
    pmu(root, "armv8_pmuv3_0", 8, ARM_CORE, cpus="0-143")
    for socket in range(2):
        pmu(root, f"nvidia_scf_pmu_{socket}", 20 + socket, {"event": "config:0-31"}, cpumask=str(72 * socket))
    return root


def a64fx(root: Path) -> Path:
    """No PMU but the cores'."""
    sockets(root, 48, 1)
    pmu(root, "armv8_pmuv3_0", 8, ARM_CORE, cpus="0-47")
    return root


def power9(root: Path) -> Path:
    """Two chips, eight memory controllers whose events the firmware names."""
    sockets(root, 64, 2)
    pmu(root, "cpu", 4, {"event": "config:0-59"})
    for number in range(8):
        names = {}
        for word, code in (("READ", 0x448), ("WRITE", 0x450)):
            one = f"PM_MBA{number}_{word}_BYTES"
            names |= {one: f"event={code:#x}", f"{one}.scale": "6.1e-5", f"{one}.unit": "MiB"}
        pmu(
            root, f"nest_mba{number}_imc", 30 + number, {"event": "config:0-63"}, cpumask="0,64", events=names
        )
    return root


def virtual_machine(root: Path) -> Path:
    """No PMU but the kernel's own."""
    sockets(root, 2, 1)
    for number, name in enumerate(("software", "tracepoint", "breakpoint")):
        pmu(root, name, number + 1, {})
    return root
