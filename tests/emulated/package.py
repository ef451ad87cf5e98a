"""What the whole package must say on the emulated PMU; the machine's output comes on standard input."""

from __future__ import annotations

import json
import re
import sys

N = 100_000


def problems(output: str) -> list[str]:
    """Return what is wrong with the output of ``init.py``."""
    wrong = []
    for command in ("doctor", "run"):
        match = re.search(rf"exit status of {command}: (-?\d+)", output)
        if match is None or match[1] != "0":
            wrong.append(f"{command} ended with {match[1] if match else 'nothing'}")
    if "[yes] perf: cycles of the kernel's own threads" not in output:
        wrong.append("doctor does not offer perf for the clock")
    found = re.search(r"^==\s*\n(.*?)\n==", output, re.DOTALL | re.MULTILINE)
    if found is None:
        return [*wrong, "there are no results"]
    dot = json.loads(found[1].replace("\r", "").replace("\n", ""))["dot"]
    if dot["error"] is not None:
        wrong.append(f"dot failed: {dot['error']}")
    instructions = dot["instructions"]
    for name, count in ((name, dot[name]) for name in ("instructions", "flops", "cycles")):
        if count["status"] != "counted":
            wrong.append(f"{name} are {count['status']}: {count['reason']}")
    # ld1, ld1, fmadd, add, cmp and b.ne an element, or with the address in an addressing mode one less
    per_element = (instructions["value"] or 0) / N
    if not 5 <= per_element < 7:
        wrong.append(f"{per_element} instructions an element of a dot product")
    # events.toml counts each instruction as one FLOP, so that the way from an event to FLOPs is seen: once as
    # f64 beside the instructions, and nine times as f32, for which there are counters in further passes only
    classes = {one["precision"]: one["flops"] for one in dot["flops_by"]}
    if classes.get("f64") != round(instructions["value"] or 0):
        wrong.append(f"{classes} FLOPs, and {instructions['value']} instructions")
    if abs(classes.get("f32", 0) / 9 / N - per_element) > 0.01:
        wrong.append(f"{classes} FLOPs, and nine passes of {instructions['value']} instructions")
    if not any(re.match(r"counted in [2-9] passes", note) for note in dot["notes"]):
        wrong.append(f"nothing says that there were several passes: {dot['notes']}")
    if dot["dram_read_bytes"]["value"] is not None:
        wrong.append("bytes were counted where nothing counts them")
    return wrong


if __name__ == "__main__":
    found = problems(sys.stdin.read().replace("\r", ""))
    print("\n".join(found) or "the package counts on a PMU")
    sys.exit(bool(found))
