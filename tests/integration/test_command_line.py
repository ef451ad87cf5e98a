"""Whole runs through the command line, on a small library of good and bad kernels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from counteroof.machine import store
from tests import factories

GOOD = """
[library]
path = "libtoy.so"

[[kernel]]
name = "triad"
params = { n = 4000 }
args = { a = { dtype = "f64", shape = "n" }, b = { dtype = "f64", shape = "n", init = "random" },
         c = { dtype = "f64", shape = "n", init = "random" }, s = 3.0, n = "n" }
declared = { flops = "2*n", bytes = "24*n" }
precision = "f64"
"""
BAD = """
[[kernel]]
name = "{name}"
params = {{ n = 100 }}
args = {{ a = {{ dtype = "f64", shape = "n" }}, n = "n" }}
time_limit = {limit}
"""


def run(*args: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run counteroof in a folder, with a machine file so that no ceilings are measured."""
    machine = folder / "machine.json"
    if not machine.exists():
        store.save(factories.machine(), machine)
    command = [sys.executable, "-m", "counteroof", *map(str, args)]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120)


def environment() -> dict[str, str]:
    """Return the environment with a terminal wide enough for texts to stay in one piece."""
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "120"}


def measured(folder: Path) -> dict[str, Any]:
    results = json.loads((folder / "counteroof-out" / "results.json").read_text())
    return {kernel["label"]: kernel for kernel in results["kernels"]}


@pytest.mark.x86_64
def test_kernels_that_misbehave_fail_alone_with_their_reasons(folder: Path) -> None:
    expected = {
        "crash": ("crash", "SIGSEGV"),
        "leave": ("exit", "status 3"),
        "beyond": ("out-of-bounds", "end of"),
        "forever": ("timeout", "1 s"),
    }
    bad = "".join(BAD.format(name=name, limit=1 if name == "forever" else 60) for name in expected)
    last = GOOD.partition("[[kernel]]")[2].replace('"triad"', '"again"\nsymbol = "triad"')
    (folder / "toy.toml").write_text(f"{GOOD}{bad}[[kernel]]{last}")
    done = run("run", "toy.toml", "--machine", "machine.json", folder=folder)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    kernels = measured(folder)
    assert list(kernels) == ["triad", *expected, "again"]
    for name, (kind, words) in expected.items():
        assert kernels[name]["error"]["kind"] == kind
        assert words in kernels[name]["error"]["message"]
        assert words in " ".join(done.stdout.split())
    for name in ("triad", "again"):
        assert kernels[name]["error"] is None
        assert kernels[name]["counters"]["instrument"]["flops"]["value"] == 8000
        assert kernels[name]["seconds"]["median"] > 0


@pytest.mark.x86_64
def test_a_library_runs_in_one_command_and_says_what_was_guessed(folder: Path) -> None:
    args = ("run", "libtoy.so", "--kernel", "triad", "--set", "n=1000", "--machine", "machine.json", "--json")
    done = run(*args, folder=folder)
    assert done.returncode == 0, done.stderr
    (triad,) = json.loads(done.stdout)["kernels"]
    assert triad["counters"]["instrument"]["flops"]["value"] == 2000
    notes = " ".join(triad["counters"]["instrument"]["notes"])
    assert "guessed: a is an array of n f64" in notes
    assert "counters passed over: likwid" in notes


@pytest.mark.x86_64
def test_a_c_file_runs_in_one_command_at_two_sizes(folder: Path) -> None:
    args = ("run", "toy.c", "--kernel", "dot", "--set", "n=1000,2000", "--machine", "machine.json", "--json")
    done = run(*args, folder=folder)
    assert done.returncode == 0, done.stderr
    kernels = {kernel["label"]: kernel for kernel in json.loads(done.stdout)["kernels"]}
    assert {
        label: kernel["counters"]["instrument"]["flops"]["value"] for label, kernel in kernels.items()
    } == {
        "dot[n=1000]": 2000,
        "dot[n=2000]": 4000,
    }


def test_init_writes_a_spec_that_run_reads(folder: Path) -> None:
    written = run("init", "libtoy.so", "--out", "made.toml", "--force", folder=folder)
    assert written.returncode == 0, written.stderr
    refused = run("init", "libtoy.so", "--out", "made.toml", folder=folder)
    assert refused.returncode == 2
    assert "made.toml exists" in refused.stderr
    from counteroof import load

    assert {"triad", "dot", "crash"} <= {kernel.name for kernel in load(folder / "made.toml")}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("text.so", "not a library", "text.so"),
        ("broken.c", "void f(double *a, int n) { a[0] = ; }", "broken.c"),
        ("empty.c", "", "empty.c"),
    ],
)
def test_a_file_that_cannot_be_used_is_bad_input(folder: Path, name: str, content: str, words: str) -> None:
    (folder / name).write_text(content)
    done = run("run", name, "--machine", "machine.json", folder=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.x86_64
def test_ctrl_c_keeps_the_kernels_that_are_done(folder: Path) -> None:
    (folder / "slow.toml").write_text(GOOD + BAD.format(name="forever", limit=100))
    store.save(factories.machine(), folder / "machine.json")
    out = folder / "interrupted"
    args = ["run", "slow.toml", "--machine", "machine.json", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "counteroof", *args],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (out / "results.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted; 1 of 2 kernels were not measured" in errors
    results = json.loads((out / "results.json").read_text())
    assert [kernel["name"] for kernel in results["kernels"]] == ["triad"]
    assert (out / "table.md").exists()


def test_doctor_and_machine_show_what_is_here(folder: Path) -> None:
    doctor = run("doctor", folder=folder)
    assert doctor.returncode == 0, doctor.stderr
    assert "FLOPs\n  [" in doctor.stdout
    shown = run("machine", "--show", folder=folder)
    assert shown.returncode == 0, shown.stderr
    assert "L1" in shown.stdout


@pytest.mark.x86_64
def test_detail_lines_tells_which_source_line_moved_the_bytes(folder: Path) -> None:
    (folder / "lines.toml").write_text(GOOD.replace("n = 4000", "n = 2_000_000"))
    done = run("run", "lines.toml", "--detail", "lines", "--out", "lines-out", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "triad: source lines" in done.stdout
    assert "a[i] = b[i] + s * c[i];" in done.stdout
    (kernel,) = json.loads((folder / "lines-out" / "results.json").read_text())["kernels"]
    counter = kernel["counters"]["instrument"]
    line = kernel["lines"][0]
    assert line["file"] == str(folder / "toy.c")
    assert line["flops"] == counter["flops"]["value"] == 4_000_000
    moved = counter["dram_read_bytes"]["value"] + counter["dram_write_bytes"]["value"]
    assert sum(one["dram_bytes"] for one in kernel["lines"]) == moved
    table = kernel["instruction_table"]
    assert sum(one["times"] for one in table) == counter["instructions"]["value"]
    assert "a[i] = b[i]" in run("table", "lines-out", folder=folder).stdout
