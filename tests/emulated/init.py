#!/usr/bin/python3.11 -B
"""The first program of an emulated Arm machine: the whole package from the command line, on a real PMU.

Prints the counters of the results between two lines of ``==``; ``scripts/test_pmu_package.sh`` judges them.
"""

import ctypes
import json
import os
import subprocess
from pathlib import Path

libc = ctypes.CDLL(None)
for kind, where in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")):
    libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None)
os.environ.update(
    PYTHONPATH="/site", HOME="/tmp", PATH="/usr/bin:/bin", LC_ALL="C.UTF-8", MPLCONFIGDIR="/tmp"
)
RUN = (
    "run /spec.toml --counter perf --events /events.toml --machine /machine.toml "
    "--time-limit 900 --out /tmp/out"
)
for arguments in ("doctor", RUN):
    command = ["/usr/bin/python3.11", "-B", "-m", "counteroof", *arguments.split()]
    with open("/tmp/said", "w") as said:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
    print(Path("/tmp/said").read_text()[-6000:])
    print(f"exit status of {arguments.split()[0]}: {ended.returncode}", flush=True)
results = Path("/tmp/out/results.json")
if results.exists():
    kernels = json.loads(results.read_text())["kernels"]
    told = {one["name"]: {"error": one["error"], **one["counters"].get("perf", {})} for one in kernels}
    print("==\n" + json.dumps(told) + "\n==", flush=True)
libc.sync()
libc.reboot(0x4321FEDC)  # RB_POWER_OFF
