"""Stands for pylikwid on a two-socket machine: what it answers is written down, what it is told is kept.

``LIKWID_STUB`` says what to do: ``works``, ``exits`` (as liblikwid does without its daemon), ``refuses``,
``hangs``, ``stuck`` (from the first question on); and after a colon which processor to be.
"""

from __future__ import annotations

import os
import sys
import time

MODE, _, CPU = os.environ.get("LIKWID_STUB", "works:CLX").partition(":")

FLOPS_DP = (
    ["INSTR_RETIRED_ANY", "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE"],
    {"Runtime (RDTSC) [s]": [0.5, 0.5], "DP [MFLOP/s]": [400.0, 600.0], "Packed [MUOPS/s]": [1.0, 1.0]},
)
FLOPS_SP = (
    ["INSTR_RETIRED_ANY", "FP_ARITH_INST_RETIRED_SCALAR_SINGLE"],
    {"SP [MFLOP/s]": [10.0, 0.0], "AVX SP [MFLOP/s]": [9.0, 0.0]},
)
MEM = (
    ["INSTR_RETIRED_ANY", "CAS_COUNT_RD"],
    {
        "Memory read bandwidth [MBytes/s]": [7.0, 7.0],
        "Memory read data volume [GBytes]": [4.0, 2.0],
        "Memory write data volume [GBytes]": [1.0, 0.5],
        "Memory data volume [GBytes]": [5.0, 2.5],
    },
)
ALL = (["RETIRED_INSTRUCTIONS", "RETIRED_SSE_AVX_FLOPS_ALL"], {"DP [MFLOP/s]": [100.0, 100.0]})
ALL_AGAIN = (ALL[0], {"SP [MFLOP/s]": [100.0, 100.0]})
HALF = (["DRAM_CHANNEL_0"], {"Memory data volume [GBytes]": [3.0, 0.0]})
PROCESSORS = {
    "CLX": {"FLOPS_DP": FLOPS_DP, "FLOPS_SP": FLOPS_SP, "MEM": MEM},
    "zen3": {"FLOPS_DP": ALL, "FLOPS_SP": ALL_AGAIN, "MEM1": HALF, "MEM2": HALF},
    "zen2": {"FLOPS_DP": ALL, "MEM": MEM},
    "blind": {
        "FLOPS_DP": ([], {"DP [MFLOP/s]": [400.0, float("nan")]}),
        "MEM": ([], {"Memory read data volume [GBytes]": [4.0, float("nan")]}),
    },
    "dead": {
        "FLOPS_DP": ([], {"DP [MFLOP/s]": [1.0, 1.0]}),
        "MEM": ([], {"Memory read data volume [GBytes]": [0.0, 0.0]}),
    },
    "plain": {"ENERGY": (["PWR"], {})},
}
GROUPS = PROCESSORS.get(CPU or "CLX", {})
SECONDS = 0.5

_added: list[str] = []
_started = 0.0
_runs: dict[int, int] = {}
_idle = False


def getconfiguration() -> dict[str, object]:
    if MODE == "stuck":
        time.sleep(60)
    return {"daemonMode": -1, "daemonPath": None}


def inittopology() -> bool:
    print("this is no answer")  # liblikwid prints to standard output
    return True


def getcpuinfo() -> dict[str, object]:
    return {"name": f"A {CPU} processor", "short_name": CPU}


def init(cpus: list[int]) -> int:
    if MODE == "exits":
        print(
            "ERROR - [access_client_startDaemon] Failed to execute likwid-accessD",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)
    if MODE == "hangs":
        time.sleep(60)
    if MODE == "refuses":
        print("Cannot get access to MSRs. Please check permissions to the MSRs", file=sys.stderr)
        return 1
    return 0


def getgroups() -> list[dict[str, str]]:
    return [{"Name": name, "Info": "", "Long": ""} for name in GROUPS]


def addeventset(name: str) -> int:
    if name.startswith("FP_ARITH_INST_RETIRED_") and CPU == "plain":
        GROUPS[name] = ([event.partition(":")[0] for event in name.split(",")], {})
    if name not in GROUPS:
        return -22
    _added.append(name)
    return len(_added) - 1


def getnumberofevents(group: int) -> int:
    return len(GROUPS[_added[group]][0])


def getnameofevent(group: int, event: int) -> str:
    return GROUPS[_added[group]][0][event]


def getnumberofmetrics(group: int) -> int:
    return len(GROUPS[_added[group]][1])


def getnameofmetric(group: int, metric: int) -> str:
    return list(GROUPS[_added[group]][1])[metric]


def setup(group: int) -> int:
    _runs[group] = _runs.get(group, 0) + 1
    return 0


def start() -> int:
    return 0


def stop() -> int:
    return 0


def getnumberofthreads() -> int:
    return 2


def gettimeofgroup(group: int) -> float:
    return SECONDS * _runs[group]  # of all runs together


def getlastresult(group: int, event: int, thread: int) -> float:
    return 1000.0 * (thread + 1)


def getlastmetric(group: int, metric: int, thread: int) -> float:
    name = _added[group]
    if name.startswith("MEM") and _runs[group] != 2:  # the looks at the idle memory
        return 0.1 if thread == 0 else 0.0
    return list(GROUPS[name][1].values())[metric][thread]
