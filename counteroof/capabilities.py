"""What can be measured on this machine, what cannot, why, and what would allow it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .count import perf_probe, select

RESCTRL = Path("/sys/fs/resctrl")
CPUINFO = Path("/proc/cpuinfo")
_MEMORY_PMUS = ("uncore_imc", "amd_umc", "amd_df", "arm_cmn", "nvidia_scf", "hisi_sccl")
_CORE_PMUS = ("cpu", "cpu_core", "cpu_atom", "armv8", "armv9")


@dataclass(frozen=True)
class Fact:
    """One thing a user may want measured: whether it can be, what was found, and what would help."""

    topic: str
    state: Literal["yes", "no", "partly"]
    finding: str
    remedy: str | None = None


def survey() -> tuple[Fact, ...]:
    """Return what this machine allows, most useful first; nothing is changed and nothing takes long."""
    return (_time(), _engine(), _core_counters(), _memory_counters(), _likwid(), _compiler())


def _time() -> Fact:
    count = len(os.sched_getaffinity(0))
    return Fact(
        "time", "yes", f"pyperf, in processes of their own, on {count} processor{'s' if count > 1 else ''}"
    )


def _engine() -> Fact:
    answer = select.instrument()
    if answer.usable:
        return Fact("FLOPs and DRAM bytes by instrumentation", "yes", answer.reason)
    return Fact("FLOPs and DRAM bytes by instrumentation", "no", answer.reason)


def _core_counters() -> Fact:
    topic = "hardware counters of the core (perf_event_open)"
    works, found = perf_probe.hardware_counters()
    if works:
        return Fact(topic, "yes", f"{found}; counteroof does not count with them yet")
    level = perf_probe.paranoid()
    if level is not None and level > 2 and os.geteuid() != 0:
        return Fact(topic, "no", found, "sudo sysctl kernel.perf_event_paranoid=2")
    if not any(pmu.startswith(_CORE_PMUS) for pmu in perf_probe.pmus()):
        remedy = "bare metal, or a virtual machine with a PMU (QEMU/KVM: -cpu host,pmu=on on such a host)"
        return Fact(topic, "no", found, remedy)
    return Fact(
        topic, "no", found, "in a container: docker run --cap-add PERFMON --security-opt seccomp=unconfined"
    )


def _memory_counters() -> Fact:
    topic = "hardware counters of the memory controllers"
    pmus = [name for name in perf_probe.pmus() if name.startswith(_MEMORY_PMUS)]
    resctrl = _resctrl()
    if pmus:
        names = ", ".join(pmus[:4]) + (", ..." if len(pmus) > 4 else "")
        state: Literal["yes", "partly"] = "partly" if os.geteuid() != 0 else "yes"
        remedy = None if state == "yes" else "root, or: sudo sysctl kernel.perf_event_paranoid=0"
        return Fact(
            topic, state, f"the kernel has {names}; {resctrl}; counteroof does not read them yet", remedy
        )
    return Fact(
        topic, "no", f"the kernel has no PMU of a memory controller (uncore_imc, amd_umc ...); {resctrl}"
    )


def _resctrl() -> str:
    try:
        flags = CPUINFO.read_text().split()
    except OSError:
        flags = []
    if "cqm_mbm_total" not in flags:
        return "no bandwidth monitoring by resctrl (the processor shows no cqm_mbm_total)"
    return "bandwidth monitoring by resctrl " + (
        "is mounted" if (RESCTRL / "info").exists() else "exists, not mounted"
    )


def _likwid() -> Fact:
    found = shutil.which("likwid-perfctr")
    python = importlib.util.find_spec("pylikwid") is not None
    state = f"{found or 'likwid-perfctr is not installed'}; pylikwid is {'' if python else 'not '}installed"
    return Fact("LIKWID", "no", f"{state}; counteroof does not count with it yet")


def _compiler() -> Fact:
    for name in (os.environ.get("CC", "").split(" ")[0], "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return Fact("compiling C files", "yes", path)
    return Fact("compiling C files", "no", "no C compiler (CC, cc, gcc, clang)", "sudo apt install gcc")
