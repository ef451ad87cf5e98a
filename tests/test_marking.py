"""Regions of Python and C programs, counted by what every kernel counts: processor time and page faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import counteroof
from counteroof import marking
from counteroof.count.base import Count, unavailable
from counteroof.count.perf_open import SOFTWARE, open_event, refusal
from counteroof.marking import INCLUDE, RegionCounts, Regions
from counteroof.native import lib

ROOT = Path(__file__).parents[1]
NOTHING = unavailable("perf", "no PMU")
PROGRAM = r"""
#include <counteroof.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void touch(size_t pages) {
    char *memory = malloc(pages * 4096 + (64 << 20)); /* large enough to be mapped for itself */
    for (size_t i = 0; i < pages; i++) ((volatile char *)memory)[i * 4096] = 1;
    free(memory);
}
static void *thread(void *pages) { touch((size_t)pages); return NULL; }
void work(void) {
    counteroof_begin("outer");
    touch(500);
    for (int i = 0; i < 3; i++) {
        counteroof_begin("inner");
        touch(100);
        counteroof_end("inner");
    }
    counteroof_end("outer");
    counteroof_begin("threads");
    pthread_t one;
    pthread_create(&one, NULL, thread, (void *)400);
    pthread_join(one, NULL);
    counteroof_end("threads");
    counteroof_end("never begun");
}
#ifdef MAIN
int main(int argc, char **argv) { (void)argv; work(); return argc - 1; }
#endif
"""


@pytest.fixture(autouse=True)
def software() -> None:
    got = open_event(SOFTWARE[0], 0, -1, False)
    if got < 0:
        pytest.skip(f"software events are refused here: {refusal(SOFTWARE[0], -got)}")
    lib.perf_close(got)


def python(code: str, *arguments: str) -> str:
    """Run a program in a process of its own, in which nothing counts yet."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


HEAD = """
import counteroof, mmap, os, sys, threading
def touch(pages):
    with mmap.mmap(-1, pages * 4096) as memory:
        for page in range(pages): memory[page * 4096] = 1
def faults(name):
    one = counteroof.regions()[name]
    return one.calls, one.failures, one.page_faults.value if one.page_faults.value is not None else -1
"""


def faults(code: str, *names: str) -> list[tuple[int, int, int]]:
    """Return calls, failures and page faults of regions; where the processor counts, the latter are -1."""
    show = "".join(f"\nprint(*faults({name!r}))" for name in names)
    rows = [tuple(map(int, line.split())) for line in python(HEAD + code + show).splitlines()]
    return [(row[0], row[1], row[2]) for row in rows]


def about(counted: int, expected: int) -> bool:
    return counted == -1 or expected <= counted < expected + 200


def test_a_region_counts_what_is_inside_each_time_it_is_passed() -> None:
    code = """
touch(1000)
for _ in range(3):
    with counteroof.region("solve"): touch(200)
    touch(1000)
"""
    ((calls, failures, counted),) = faults(code, "solve")
    assert (calls, failures) == (3, 0)
    assert about(counted, 600)


def test_an_inner_region_is_in_the_outer_one_too() -> None:
    code = """
with counteroof.region("outer"):
    touch(500)
    with counteroof.region("inner"): touch(300)
"""
    (_, _, outer), (_, _, inner) = faults(code, "outer", "inner")
    assert about(inner, 300)
    assert about(outer, 800)


def test_a_region_decorates_a_function_and_ends_when_it_fails() -> None:
    code = """
@counteroof.region("f")
def f(): touch(100); raise ValueError
for _ in range(2):
    try: f()
    except ValueError: pass
"""
    ((calls, failures, counted),) = faults(code, "f")
    assert (calls, failures) == (2, 0)
    assert about(counted, 200)


def test_threads_that_exist_and_threads_that_start_inside_are_counted() -> None:
    code = """
go, done = threading.Event(), threading.Event()
def wait(): go.wait(); touch(400); done.set()
old = threading.Thread(target=wait, daemon=True); old.start()
with counteroof.region("all"):
    go.set(); done.wait()
    new = threading.Thread(target=touch, args=(300,)); new.start(); new.join()
old.join()
"""
    ((_, _, counted),) = faults(code, "all")
    assert about(counted, 700)


def test_one_thread_alone_can_be_counted_and_others_are_then_refused_not_miscounted() -> None:
    code = """
from counteroof import marking
marking.setup(threads="own")
def elsewhere():
    with counteroof.region("other"): pass
with counteroof.region("own"):
    touch(100)
    thread = threading.Thread(target=touch, args=(500,)); thread.start(); thread.join()
thread = threading.Thread(target=elsewhere); thread.start(); thread.join()
"""
    own, other = faults(code, "own", "other")
    assert about(own[2], 100)
    assert other[0] == 0
    assert other[1] >= 1
    assert other[2] == -1  # not 0: it was not counted


def test_threads_that_are_just_ending_do_not_spoil_a_reading() -> None:
    code = """
from counteroof.native import ffi, lib
from counteroof import marking
import time
counteroof.region("ends")
go = True
def start():
    while go:
        threads = [threading.Thread(target=int) for _ in range(4)]
        for one in threads: one.start()
        for one in threads: one.join()
starter = threading.Thread(target=start); starter.start()
number = lib.regions_find(b"ends")
until = time.monotonic() + 1.0
cost = ffi.new("struct regions_cost *")
while time.monotonic() < until:
    lib.regions_cost(2000, cost)
go = False
starter.join()
one = counteroof.regions()["(cost of a region)"]
print(one.calls > 0, one.failures)
"""
    assert python(HEAD + code).split() == ["True", "0"]


def test_setting_up_again_forgets_what_was_counted_and_leaks_nothing() -> None:
    code = """
from counteroof import marking
with counteroof.region("before"): pass
number = len(os.listdir("/proc/self/fd"))
for _ in range(5): marking.setup()
assert len(os.listdir("/proc/self/fd")) == number
assert list(counteroof.regions()) == []
with counteroof.region("after"): touch(100)
"""
    ((calls, _, counted),) = faults(code, "after")
    assert calls == 1
    assert about(counted, 100)


def test_nothing_passed_is_nothing_counted() -> None:
    assert python("import counteroof; print(len(counteroof.regions()))").strip() == "0"


def test_a_region_reads_the_counters_twice_and_makes_no_other_system_call() -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    code = """
import counteroof, os
def passed():
    os.getppid()
    with counteroof.region("one"): pass
    os.getppid()
passed()
passed()
"""
    traced = ["strace", "-qq", "-e", "signal=none", sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(traced, capture_output=True, text=True, check=False, timeout=60, env=environment)
    if "ptrace" in ran.stderr and "not permitted" in ran.stderr:
        pytest.skip("strace is refused here")
    calls = [line.split("(")[0] for line in ran.stderr.splitlines()]
    last = [place for place, name in enumerate(calls) if name == "getppid"][-2:]
    inside = calls[last[0] + 1 : last[1]]
    assert len(inside) >= 2
    assert len(inside) % 2 == 0
    assert set(inside) <= {"read"}


def test_what_a_region_costs_is_told_by_its_parts() -> None:
    code = """
import resource
from counteroof.native import ffi, lib
counteroof.region("made")
cost = ffi.new("struct regions_cost *")
both = lib.regions_cost(1000, cost)
assert 0 < max(cost.begin, cost.end) <= both, (cost.begin, cost.end, both)
assert 0 < cost.readings
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert {lib.regions_cost(0, cost) for _ in range(1_000_000)} == {-1}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most)
"""
    assert int(python(HEAD + code)) < 4096  # KiB: nothing is left behind


def test_the_cpu_time_of_a_region_is_in_seconds() -> None:
    code = """
import time
for number in range(10):
    with counteroof.region(str(number)):
        until = time.thread_time() + 0.001
        while time.thread_time() < until: pass
for one in counteroof.regions().values():
    print(one.cpu_seconds.value if one.cpu_seconds.value is not None else -1)
"""
    for seconds in map(float, python(HEAD + code).split()):
        assert seconds == -1 or 0.0009 < seconds < 1


def test_there_is_one_object_of_each_name() -> None:
    code = """
assert counteroof.region("a") is counteroof.region("a") is not counteroof.region("b")
with counteroof.region("a") as one: pass
print(one.name, one is counteroof.region(name="a"))
"""
    assert python(HEAD + code).split() == ["a", "True"]


@pytest.mark.parametrize("name", ["7", "b'x'", "None"])
def test_a_name_is_text(name: str) -> None:
    code = f"try: counteroof.region({name})\nexcept TypeError as error: print(error)"
    assert "must be str" in python("import counteroof\n" + code)


def test_more_regions_than_there_may_be_are_refused() -> None:
    code = """
try:
    for number in range(1000): counteroof.region(f"r{number}")
except ValueError as error: print(number, error)
try: counteroof.region("r999")
except ValueError as error: print(error)
"""
    first, second = python(HEAD + code).splitlines()
    assert first.startswith("256 too many regions; 'r256'")
    assert second.startswith("too many regions; 'r999'")


def test_a_forked_process_counts_itself_and_not_the_one_it_comes_from() -> None:
    code = """
held = counteroof.region("held")
with held: touch(100)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    assert len(counteroof.regions()) == 0
    os.write(writer, b"ready")
    with held: touch(300)
    print(*faults("held"), flush=True)
    os._exit(0)
os.read(reader, 5)
with held: touch(700)
assert os.waitpid(child, 0)[1] == 0
"""
    forked, parent = faults(code, "held")
    assert forked[:2] == (1, 0)
    assert parent[:2] == (2, 0)
    assert about(forked[2], 300)
    assert about(parent[2], 800)


def test_importing_the_package_does_not_open_anything() -> None:
    code = "import counteroof, sys; print('counteroof.marking' in sys.modules, 'numpy' in sys.modules)"
    assert python(code).split() == ["False", "False"]


# -- results


def counts(name: str = "solve", **fields: object) -> RegionCounts:
    values = {
        "instructions": Count(4000, "counted", "instructions"),
        "cycles": Count(2000, "counted", "cycles"),
        "flops": Count(3_000_000, "counted", "events"),
        "dram_bytes": NOTHING,
        "cpu_seconds": NOTHING,
        "page_faults": NOTHING,
        **fields,
    }
    return RegionCounts(name, 5, 0.5, **values)  # type: ignore[arg-type]


def test_the_table_has_each_value_in_its_column_and_each_reason_once() -> None:
    text = str(Regions([counts(), counts("other")], ["a note"]))
    head, first, second, *rest = text.splitlines()
    assert head.split() == [
        "region",
        "calls",
        "seconds",
        "instructions",
        "cycles",
        "FLOPs",
        "DRAM",
        "bytes",
        "FLOP/s",
    ]
    assert first.split() == [
        "solve",
        "5",
        "500",
        "ms",
        "4.00",
        "k",
        "2.00",
        "k",
        "3.00",
        "M",
        "-",
        "6.00",
        "MFLOP/s",
    ]
    assert second.startswith("other")
    assert rest == ["DRAM bytes: no PMU", "a note"]


def test_rate_and_intensity_need_what_they_are_made_of() -> None:
    assert counts().flops_per_second == 6_000_000
    assert counts().intensity is None
    assert counts(flops=NOTHING).flops_per_second is None
    assert counts(dram_bytes=Count(6_000_000, "counted", "x")).intensity == 0.5


def test_a_region_that_could_not_be_counted_says_how_often() -> None:
    one = RegionCounts("bad", 0, 0.0, *[NOTHING] * 6, failures=3)
    assert "bad: 3 passes could not be counted" in str(Regions([one]))


# -- C


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and a library that mark regions."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("regions")
    (folder / "program.c").write_text(PROGRAM)
    build = ["cc", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", str(folder / "program.c")]
    subprocess.run([*build, "-DMAIN", "-o", str(folder / "program"), "-ldl"], check=True)
    subprocess.run([*build, "-shared", "-fPIC", "-o", str(folder / "libregions.so"), "-ldl"], check=True)
    return folder


def check_program(found: Regions) -> None:
    assert (found["outer"].calls, found["inner"].calls, found["threads"].calls) == (1, 3, 1)
    assert (found["never begun"].calls, found["never begun"].failures) == (0, 1)
    if found["outer"].page_faults.value is not None:
        assert about(int(found["outer"].page_faults.value), 800)
        assert about(int(found["inner"].page_faults.value or 0), 300)
        assert about(int(found["threads"].page_faults.value or 0), 400)


def test_regions_of_a_c_program_are_counted_from_outside(compiled: Path) -> None:
    status, found = marking.run([str(compiled / "program"), "one argument"])
    assert status == 1
    check_program(found)


def test_the_same_program_runs_alone_and_counts_nothing(compiled: Path) -> None:
    assert subprocess.run([str(compiled / "program")], check=False).returncode == 0


def test_a_program_without_regions_is_told_so() -> None:
    _, found = marking.run(["true"])
    assert len(found) == 0
    assert found.notes == ("true passed no region marked with counteroof.h",)


def test_the_command_prints_the_table_and_passes_the_status_on(compiled: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "counteroof.marking", str(compiled / "program"), "x", "y"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.splitlines()[1].split()[:2] == ["outer", "1"]


def test_regions_of_a_library_in_pythons_process_are_in_pythons_table(compiled: Path) -> None:
    code = f"""
import counteroof, ctypes
with counteroof.region("python"):
    ctypes.CDLL({str(compiled / "libregions.so")!r}).work()
found = counteroof.regions()
print(found["python"].calls, found["outer"].calls, found["inner"].calls, found["threads"].calls)
"""
    assert python(code).split() == ["1", "1", "3", "1"]


def test_the_header_is_c_plus_plus_too(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    (tmp_path / "a.cpp").write_text(
        '#include <counteroof.h>\nint main() { counteroof_begin("a"); counteroof_end("a"); }\n'
    )
    command = [
        "c++",
        "-Wall",
        "-Werror",
        f"-I{INCLUDE}",
        str(tmp_path / "a.cpp"),
        "-o",
        str(tmp_path / "a"),
        "-ldl",
    ]
    subprocess.run(command, check=True)


def test_the_public_names_are_the_packages() -> None:
    assert counteroof.region is marking.region
    assert counteroof.regions is marking.regions
