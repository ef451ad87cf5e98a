"""Whole runs of one case: every misbehaviour is told by name, and what was finished before is kept."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from counteroof.formula import Formula
from counteroof.run.execute import KernelRun, execute
from counteroof.spec import (
    Argument,
    ArrayRef,
    KernelCase,
    LibrarySpec,
    NullArg,
    ResultArg,
    ScalarArg,
    SetupCall,
    array,
)

from .conftest import Case

REFERENCES = str(Path(__file__).with_name("references.py"))
COUNTERS = "tests.run.counters"
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def find_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)


def reference(name: str) -> str:
    return f"{REFERENCES}:{name}"


def failure(run: KernelRun, kind: str) -> str:
    assert run.failure is not None
    assert run.failure.kind == kind, run.failure
    assert run.timing is None
    return run.failure.message


def test_right_result_is_counted_and_timed(case: Case, triad_args: tuple[Argument, ...]) -> None:
    stages: list[str] = []
    run = execute(
        case("triad", triad_args, n=1000, reference=reference("triad")),
        tasks=[f"{COUNTERS}:calls"],
        options={"name": "mine"},
        progress=stages.append,
    )
    assert run.failure is None
    assert run.checked is True
    assert [(m.counter, m.flops.value) for m in run.measurements] == [("mine", 1000)]
    assert run.timing is not None
    assert len(run.timing.samples) >= 6
    assert run.timing.loops > 1
    assert run.timing.processes == 3
    assert run.timing.pyperf_json["benchmarks"]
    assert 0 < run.timing.median < 0.01
    assert stages[0:2] == ["build", "check"]  # the counting may be over before it is noticed
    assert stages[-1] == "time"
    assert set(run.stages) == set(stages)
    assert run.signature is not None
    assert str(run.signature).startswith("void triad(")


def test_page_faults_and_clock_of_the_timed_calls_are_told(
    case: Case, triad_args: tuple[Argument, ...]
) -> None:
    quiet = execute(case("triad", triad_args, n=1000)).timing
    assert quiet is not None
    assert quiet.page_faults is not None
    assert quiet.page_faults.minor < 1
    assert quiet.processor_share is not None
    assert 0 < quiet.processor_share < 1.1
    assert quiet.clock_hz is None or 5e8 < quiet.clock_hz < 1e10
    noisy = execute(case("fresh_pages")).timing
    assert noisy is not None
    assert noisy.page_faults is not None
    assert 64 <= noisy.page_faults.minor < 80
    assert noisy.page_faults.seconds_each is not None


def test_wrong_result_is_never_timed(case: Case, triad_args: tuple[Argument, ...]) -> None:
    stages: list[str] = []
    run = execute(
        case("triad", triad_args, reference=reference("wrong_triad")),
        tasks=[f"{COUNTERS}:calls"],
        progress=stages.append,
    )
    message = failure(run, "wrong-result")
    assert re.search(r"a: 1 of 10 elements differ, the first at \[5\]: expected \S+, found \S+", message)
    assert run.checked is False
    assert run.measurements == ()
    assert "time" not in stages


def test_all_zero_result_fails(case: Case, triad_args: tuple[Argument, ...]) -> None:
    args = (*triad_args[:4], ScalarArg("n", 0))
    message = failure(execute(case("triad", args, reference=reference("triad"))), "wrong-result")
    assert "a: 10 of 10 elements differ" in message


def test_returned_value_is_checked(case: Case) -> None:
    args = (array("a", "f64", "n", "random"), array("b", "f64", "n", "random"), ScalarArg("n", Formula("n")))
    assert execute(case("dot", args, reference=reference("dot")), timing=False).checked is True
    wrong = (*args[:2], ScalarArg("n", 9))
    message = failure(execute(case("dot", wrong, reference=reference("dot"))), "wrong-result")
    assert "the returned value: expected" in message


def test_reference_that_returns_its_input_is_not_fooled(case: Case) -> None:
    failure(execute(case("add_one", reference=reference("unchanged"))), "wrong-result")


def test_without_a_reference_nothing_is_said_about_the_result(case: Case) -> None:
    run = execute(case("add_one"), timing=False)
    assert run.checked is None
    assert run.failure is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("writes_input", "read-only"),
        ("wrong_shape", r"the shape \(9,\); it is \(10,\)"),
        ("unknown_name", "results for aa; it can give: a, return"),
        ("missing", "has no attribute 'missing'"),
    ],
)
def test_mistaken_reference_is_told(case: Case, name: str, told: str) -> None:
    assert re.search(told, failure(execute(case("add_one", reference=reference(name))), "input"))


@pytest.mark.parametrize(
    ("symbol", "kind", "told"),
    [
        ("past_end", "out-of-bounds", r"SIGSEGV: wrote just past the end of a \(80 bytes of f64\)"),
        (
            "one_past_end",
            "out-of-bounds",
            r"wrote just past the end of a \(80 bytes\), bytes [0-7] to 7 beyond",
        ),
        (
            "one_before",
            "out-of-bounds",
            r"wrote just before the start of a \(80 bytes\), 8 to [1-8] bytes before",
        ),
        ("far_past_end", "out-of-bounds", r"SIGSEGV: wrote past the end of a .*, 3200000 bytes beyond it"),
        ("read_past_end", "out-of-bounds", r"SIGSEGV: read just past the end of a"),
        (
            "null_pointer",
            "crash",
            r"SIGSEGV: wrote address 0x8: a null pointer, in null_pointer of .* at kernels.c:",
        ),
        ("wild_pointer", "crash", r"SIGSEGV: an address no process can have"),
        ("divide", "crash", r"SIGFPE: integer division by zero"),
        ("illegal", "crash", r"SIGILL: an instruction this processor does not have"),
        ("bus", "crash", r"SIGBUS.* called from bus of"),
        ("give_up", "crash", r"SIGABRT.* called from give_up .*assertion of the kernel"),
        ("bad_free", "crash", r"SIGABRT.* called from bad_free .*invalid pointer"),
        ("deep", "crash", r"SIGSEGV: the stack overflowed .* in deep of"),
        ("in_libc", "out-of-bounds", r"past the end of a .*libc.* called from in_libc of \S+ at kernels.c"),
        ("crash_in_thread", "out-of-bounds", r"before the start of a"),
        ("quit", "exit", r"the call of quit ended the process with status 3"),
        ("quit_at_once", "exit", r"ended the process with status 0"),
        ("end_thread", "exit", r"ended the process with status 0"),
        ("kill_itself", "crash", r"SIGKILL"),
        ("print_and_crash", "crash", r"SIGSEGV.*about to fall over"),
        ("own_handler", "exit", r"status 77"),
        (
            "second_time",
            "crash",
            r"the second call of second_time \(the first was fine\) was ended by SIGSEGV",
        ),
    ],
)
def test_misbehaviour_is_told_by_name(case: Case, symbol: str, kind: str, told: str) -> None:
    run = execute(case(symbol))
    message = failure(run, kind)
    assert re.search(told, message, re.DOTALL), message


def test_ruined_heap_ends_the_worker_and_nothing_else(case: Case) -> None:
    run = execute(case("trash_heap"), tasks=[f"{COUNTERS}:calls"])
    assert run.failure is not None
    assert run.failure.kind in ("crash", "internal")
    assert run.timing is None
    if run.failure.kind == "crash" and " of libpython" in run.failure.message:
        assert "did it overwrite memory that is not its own?" in run.failure.message


@pytest.mark.parametrize("symbol", ["spin", "block_and_spin", "stop"])
def test_endless_call_is_killed_when_its_time_is_up(case: Case, symbol: str) -> None:
    start = time.monotonic()
    message = failure(execute(case(symbol), time_limit=2.0), "timeout")
    assert time.monotonic() - start < 10
    assert "was still running when its 2 s were over" in message
    if symbol == "spin":
        assert re.search(r"in spin of \S+ at kernels.c:\d+", message)


def test_endless_reference_is_killed_too(case: Case) -> None:
    message = failure(execute(case("add_one", reference=reference("endless")), time_limit=3.0), "timeout")
    assert "the reference" in message


def test_limit_of_the_spec_goes_first(case: Case) -> None:
    assert "1 s were over" in failure(execute(case("spin", time_limit=1.0), time_limit=100), "timeout")


@pytest.mark.parametrize("symbol", ["flood", "leave_child", "fork_and_return"])
def test_odd_but_harmless_kernels_get_their_result(case: Case, symbol: str) -> None:
    run = execute(case(symbol, reference=reference("add_one")), timing=False)
    assert run.failure is None
    assert run.checked is True


def test_closed_file_descriptors_do_not_matter(case: Case) -> None:
    run = execute(
        case("close_all", reference=reference("add_one")), tasks=[f"{COUNTERS}:calls"], timing=False
    )
    assert run.failure is None
    assert run.checked is True
    assert len(run.measurements) == 1


def test_failure_while_timing_is_told_as_such(case: Case) -> None:
    run = execute(case("third_time"))
    message = failure(run, "exit")
    assert "the timing of third_time (single calls were fine) ended the process with status 9" in message


def test_write_to_an_array_declared_read_names_the_element(case: Case) -> None:
    message = failure(execute(case("write_input", access="read")), "out-of-bounds")
    assert 'wrote element 3 of a, which is declared access = "read"' in message
    assert execute(case("write_input", access="update"), timing=False).failure is None


def test_crashing_constructor_is_told(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stddef.h>\nint *volatile none;\n"
        "__attribute__((constructor)) void start(void) { *none = 1; }\n"
        "void add_one(double *a, size_t n) { a[0] = n; }\n"
    )
    run = execute(case("add_one", library=LibrarySpec(sources=(str(source),))))
    message = failure(run, "crash")
    assert re.search(r"loading .*libbad.so.* SIGSEGV.* in start of libbad.so at bad.c:3", message)
    assert run.build is not None


def test_missing_library_is_the_inputs_fault(case: Case) -> None:
    assert "nowhere.so" in failure(execute(case("add_one", library=LibrarySpec(path="/nowhere.so"))), "input")


def test_missing_symbol_is_the_inputs_fault(case: Case) -> None:
    assert "add_one" in failure(execute(case("add_two")), "input")


def test_arrays_beyond_the_memory_are_refused_before_they_are_made(case: Case) -> None:
    fits = case("add_one")
    message = failure(execute(KernelCase(fits.spec, {"n": 1 << 44})), "setup")
    assert re.search(r"the arrays need 140737488355328 bytes and \d+ are available", message)


def test_counter_that_crashes_leaves_the_timing(case: Case) -> None:
    run = execute(case("add_one"), tasks=[f"{COUNTERS}:calls", f"{COUNTERS}:crashes"])
    assert run.failure is not None
    assert run.failure.kind == "crash"
    assert "the counted call (tests.run.counters:crashes; the plain calls were fine)" in run.failure.message
    assert len(run.measurements) == 1
    assert run.timing is not None


def test_refusal_of_a_counter_is_passed_on(case: Case) -> None:
    run = execute(case("add_one"), tasks=[f"{COUNTERS}:refuses"], timing=False)
    assert failure(run, "unsupported") == "xbegin at triad+0x12"


def test_long_counting_is_a_stage_of_its_own(case: Case) -> None:
    stages: list[str] = []
    run = execute(case("add_one"), tasks=[f"{COUNTERS}:slow"], timing=False, progress=stages.append)
    assert run.failure is None
    assert stages == ["build", "check", "count"]
    assert run.stages["count"] > 0.3


def test_mistake_of_a_counter_is_not_blamed_on_the_kernel(case: Case) -> None:
    message = failure(execute(case("add_one"), tasks=[f"{COUNTERS}:mistaken"], timing=False), "internal")
    assert "ZeroDivisionError: a mistake of the counter" in message


def test_cold_timing_makes_one_call_a_sample(case: Case, triad_args: tuple[Argument, ...]) -> None:
    run = execute(case("triad", triad_args, n=1000, cache="cold", reference=reference("triad")))
    assert run.failure is None
    assert run.timing is not None
    assert run.timing.loops == 1


PLAN = SetupCall(
    "make_plan",
    (
        ArrayRef("in", "input"),
        ArrayRef("out", "out"),
        ArrayRef("table", "table"),
        ScalarArg("n", Formula("n")),
    ),
    result="plan",
)


def test_setup_call_makes_a_plan_and_the_inputs_are_as_before(case: Case) -> None:
    buffers = (array("input", "f64", "n", "random"), array("out", "f64", "n"), array("table", "f64", "n"))
    planned = case(
        "run_plan", (ResultArg("p", "plan"),), setup=(PLAN,), buffers=buffers, reference=reference("run_plan")
    )
    run = execute(planned, tasks=[f"{COUNTERS}:calls"], timing=False)
    assert run.failure is None
    assert run.checked is True
    assert run.measurements[0].flops.value == 10  # refilled before, table kept: every element of out changed


def test_setup_call_that_returns_null_is_told(case: Case) -> None:
    setup = SetupCall("no_plan", (ScalarArg("n", 1),), result="plan")
    run = execute(case("run_plan", (ResultArg("p", "plan"),), setup=(setup,)))
    assert failure(run, "setup") == "set-up call no_plan returned NULL"


def test_crash_in_a_setup_call_is_told(case: Case) -> None:
    setup = SetupCall("null_pointer", (NullArg("a"), ScalarArg("n", 1)))
    message = failure(execute(case("add_one", setup=(setup,))), "crash")
    assert message.startswith("the set-up call null_pointer was ended by SIGSEGV")


def test_threads_and_environment_reach_the_kernel(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("UNWANTED", "1")
    source = tmp_path / "env.c"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "static int is(const char *name, const char *value) { const char *v = getenv(name); "
        "return value ? v && !strcmp(v, value) : !v; }\n"
        'int look(void) { return is("OMP_NUM_THREADS", "3") + 2 * is("OPENBLAS_NUM_THREADS", "7") '
        '+ 4 * is("UNWANTED", 0); }\n'
    )
    look = tmp_path / "look.py"
    look.write_text("def look(arrays, params): return {'return': 7}\n")
    run = execute(
        case(
            "look",
            (),
            library=LibrarySpec(sources=(str(source),)),
            threads=3,
            env={"OPENBLAS_NUM_THREADS": "7", "UNWANTED": ""},
            reference=f"{look}:look",
        ),
        timing=False,
    )
    assert run.failure is None
    assert run.checked is True
