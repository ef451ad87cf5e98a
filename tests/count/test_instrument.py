"""Executed FLOPs and modelled bytes of the built-in kernels, through a worker, against closed forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counteroof.catalog import EXECUTED, executed_flops, kernels
from counteroof.count.base import LoopChain, Measurement, StrideShare
from counteroof.formula import Formula
from counteroof.instrument.latencies import here
from counteroof.machine.model import CacheLevel, Stores
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.spec import KernelCase, KernelSpec, LibrarySpec, ScalarArg, array
from tests.compiled import needs, shared

pytestmark = pytest.mark.x86_64

TASK = "counteroof.count.instrument:count"


def counted(case: KernelCase, **options: object) -> Measurement:
    """Count one case in a worker of its own."""
    run = execute(case, tasks=[TASK], options={"machine": detect()} | options, time_limit=60, timing=False)
    assert run.failure is None, run.failure
    return run.measurements[0]


SMALL = tuple(
    CacheLevel(name, size, ways, 64, 1, "inclusive", False, "a small machine: small arrays leave its caches")
    for name, size, ways in (("L1", 32 << 10, 8), ("L2", 256 << 10, 8), ("L3", 2 << 20, 16))
)
N = 400_000
"""Elements of 8 bytes: an array is larger than the small machine's last cache."""


def on_small_machine(name: str, stores: Stores = Stores()) -> Measurement:  # noqa: B008
    (case,) = named(name).cases(overrides={"n": N})
    return counted(case, machine=replace(detect(), caches=SMALL, stores=stores))


def named(name: str) -> KernelSpec:
    return next(kernel for kernel in kernels() if kernel.name == name)


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_executed_flops_equal_the_closed_form(kernel: KernelSpec) -> None:
    assert kernel.name in EXECUTED
    (case,) = kernel.cases(size="small")
    measurement = counted(case, detail="flops")
    assert measurement.flops.value == executed_flops(kernel.name, case.params)
    assert measurement.unruled == ()
    assert measurement.dram_read_bytes.value is None  # no addresses were recorded, so nothing is claimed


def test_the_core_loads_and_stores_24_bytes_an_element_of_a_triad() -> None:
    (case,) = named("triad").cases(overrides={"n": N})
    for detail in ("flops", "bytes"):
        measurement = counted(case, detail=detail)
        assert measurement.core_l1_bytes.status == "instrumented"
        assert measurement.core_l1_bytes.value == pytest.approx(24 * N, rel=1e-3)


def test_triad_moves_32_bytes_an_element_of_which_8_are_write_allocate() -> None:
    measurement = on_small_machine("triad")
    assert measurement.dram_read_bytes.value == pytest.approx(24 * N, rel=1e-3)
    assert measurement.dram_write_bytes.value == pytest.approx(8 * N, rel=1e-3)
    assert measurement.write_allocate_bytes.value == pytest.approx(8 * N, rel=1e-3)
    by_name = {array.name: array for array in measurement.arrays}
    assert by_name["a"].dram_write_bytes == pytest.approx(8 * N, rel=1e-3)
    assert by_name["b"].dram_write_bytes == 0


def test_where_lines_written_whole_are_not_read_a_triad_moves_24_bytes_an_element() -> None:
    measurement = on_small_machine("triad", Stores("always", 1.0, source="a test"))
    assert measurement.dram_read_bytes.value == pytest.approx(16 * N, rel=1e-3)
    assert measurement.dram_write_bytes.value == pytest.approx(8 * N, rel=1e-3)
    by_name = {array.name: array for array in measurement.arrays}
    assert by_name["a"].write_allocate_bytes <= 128  # the array's ends
    assert by_name["a"].evaded_bytes == pytest.approx(8 * N, rel=1e-3)
    said = "write-allocate evasion: a line written whole is spared the read (always; a test)"
    assert said in measurement.notes


def test_evasion_under_load_is_said_and_not_modelled_unless_a_share_is_given() -> None:
    measurement = on_small_machine("triad", Stores("under load", source="a test"))
    assert measurement.dram_read_bytes.value == pytest.approx(24 * N, rel=1e-3)
    (said,) = [note for note in measurement.notes if note.startswith("write-allocate evasion")]
    assert "no line written whole is spared the read, though this processor spares some" in said
    measurement = on_small_machine("triad", Stores("under load", 0.5, source="a test"))
    assert measurement.dram_read_bytes.value == pytest.approx(20 * N, rel=0.02)
    assert any("for 50% a line written whole is spared" in note for note in measurement.notes)


def test_non_temporal_stores_are_not_read_first() -> None:
    measurement = on_small_machine("copy_nontemporal")
    assert measurement.dram_read_bytes.value == pytest.approx(8 * N, rel=1e-3)
    assert measurement.dram_write_bytes.value == pytest.approx(8 * N, rel=1e-3)
    assert measurement.write_allocate_bytes.value == 0


def test_what_stays_in_cache_moves_no_dram_bytes() -> None:
    (case,) = named("triad").cases(size="small")
    measurement = counted(case)
    assert measurement.dram_read_bytes.value == 0
    assert measurement.dram_write_bytes.value == 0


PARALLEL = """
void scale(double *a, long n) {
    _Pragma("omp parallel for")
    for (long i = 0; i < n; i++) a[i] = 2 * a[i] + 1;
}
"""


def parallel(tmp_path: Path, source: str, **params: int) -> KernelCase:
    library = shared(tmp_path, source, "-fopenmp", "-g", "-O1")
    kernel = KernelSpec(
        name="scale",
        library=LibrarySpec(path=str(library)),
        symbol="scale",
        params={name: (value,) for name, value in params.items()},
        args=(array("a", "f64", "n", "random"), ScalarArg("n", Formula("n"))),
        threads=3,
    )
    (case,) = kernel.cases()
    return case


@needs("gcc")
def test_a_kernel_on_several_threads_has_flops_and_bytes_of_all(tmp_path: Path) -> None:
    n = 9_000_000  # 72 MB: more than the caches hold
    measurement = counted(parallel(tmp_path, PARALLEL, n=n))
    assert measurement.flops.value == 2 * n
    assert measurement.flops_by_thread == (2 * n // 3,) * 3
    a = measurement.arrays[0]
    assert a.touched_bytes == 8 * n
    assert a.dram_read_bytes == pytest.approx(8 * n, rel=0.6)
    assert any("3 threads take turns" in note for note in measurement.notes)


TWO_OF_THREE = """
#include <omp.h>
void scale(double *a, long n) {
    _Pragma("omp parallel")
    for (long i = omp_get_thread_num(), me = i; me < 2 && i < n; i += 2) a[i] = 2 * a[i] + 1;
}
"""


@needs("gcc")
def test_threads_without_work_take_no_turns(tmp_path: Path) -> None:
    measurement = counted(parallel(tmp_path, TWO_OF_THREE, n=100_000))
    assert measurement.flops_by_thread == (100_000, 100_000)
    assert any("2 threads take turns" in note for note in measurement.notes)


COUNTERS = """
#include <omp.h>
void scale(double *a, long n) {
    _Pragma("omp parallel")
    {
        volatile double *mine = a + %s * omp_get_thread_num();
        for (long i = 0; i < 100000; i++) *mine += 1;
    }
}
"""


@needs("gcc")
@pytest.mark.parametrize(("distance", "falsely"), [(1, True), (8, False)])
def test_counters_side_by_side_are_falsely_shared(tmp_path: Path, distance: int, falsely: bool) -> None:
    measurement = counted(parallel(tmp_path, COUNTERS % distance, n=64))
    found = [line for line in measurement.shared_lines if line.array == "a"]
    assert any(note.startswith("false sharing: 1 line of a,") for note in measurement.notes) == falsely
    assert [(line.offset, line.cores, line.false_sharing) for line in found] == (
        [(0, 3, True)] if falsely else []
    )


# ---- loops that wait for themselves ----


def longest_chain(name: str) -> LoopChain:
    (case,) = named(name).cases(size="small")
    chains = counted(case).chains
    assert chains == tuple(sorted(chains, key=lambda one: -one.demanded_cycles))
    return chains[0]


def operations(chain: LoopChain) -> list[str]:
    return [link.text.split()[0] for link in chain.links if link.cycles]


def test_the_tridiagonal_solver_waits_for_its_divisions() -> None:
    (case,) = named("thomas_naive").cases(size="small")
    down, up = counted(case).chains[:2]
    systems, length = case.params["systems"], case.params["length"]
    for chain, longest in ((down, 7), (up, 2)):
        assert chain.symbol == "thomas_naive"
        assert chain.passes * chain.flops / longest == pytest.approx(systems * length, rel=0.01)
        assert chain.entries <= systems
        alone = chain.passes * chain.cycles  # systems are long: of two of them, little runs side by side
        assert 0.75 * alone < chain.demanded_cycles < alone
    assert any("div" in text for text in operations(down))
    assert not any("div" in text for text in operations(up))
    assert down.cycles >= up.cycles + 8


def test_a_biquad_waits_for_the_sample_before() -> None:
    chain = longest_chain("biquad_naive")
    assert chain.flops == 9
    # w = x - a2 w2 - a1 w1: a fused multiply-add, or a multiplication and a subtraction
    assert {text.lstrip("v")[:4] for text in operations(chain)} <= {"fnma", "muls", "subs"}
    assert chain.cycles >= 4


@pytest.mark.parametrize("name", ["triad", "dot", "speed2_soa"])
def test_kernels_that_carry_nothing_wait_for_a_counter_or_for_few_of_many_sums(name: str) -> None:
    chain = longest_chain(name)
    assert chain.flops / chain.cycles >= 8


def test_a_recurrence_kept_in_an_array_goes_through_memory(tmp_path: Path) -> None:
    code = """
        void smooth(volatile double *x, double c, long n)
        {
            for (long i = 1; i < n; i++) x[i] += c * x[i - 1];
        }
    """
    spec = KernelSpec(
        name="smooth",
        library=LibrarySpec(path=str(shared(tmp_path, code, "-O2"))),
        symbol="smooth",
        signature="void smooth(double *x, double c, long n)",
        args=(array("x", "f64", "n"), ScalarArg("c", 0.5), ScalarArg("n", Formula("n"))),
        params={"n": (1000,)},
    )
    (case,) = spec.cases()
    measurement = counted(case)
    (chain,) = (one for one in measurement.chains if one.flops)
    assert chain.through_memory
    assert chain.passes == pytest.approx(999, abs=2)
    assert chain.flops == 2
    assert measurement.latencies is not None


def test_locked_instructions_are_counted_if_their_latency_is_not_known_here(tmp_path: Path) -> None:
    code = """
        void add(long *x, long n)
        {
            for (long i = 0; i < n; i++) __atomic_fetch_add(&x[i], 1, __ATOMIC_SEQ_CST);
        }
    """
    spec = KernelSpec(
        name="add",
        library=LibrarySpec(path=str(shared(tmp_path, code, "-O2"))),
        symbol="add",
        signature="void add(long *x, long n)",
        args=(array("x", "i64", "n"), ScalarArg("n", Formula("n"))),
        params={"n": (1000,)},
    )
    (case,) = spec.cases()
    assert counted(case).untimed_locked == (0 if "locked" in here().cycles else 1000)


# ---- strides ----


def strides(measurement: Measurement, array: str) -> list[StrideShare]:
    found = [one for one in measurement.strides if one.array == array]
    assert sum(one.share for one in found) == pytest.approx(1)
    return found


def test_arrays_of_a_triad_are_walked_in_order() -> None:
    (case,) = named("triad").cases(size="small")
    measurement = counted(case)
    for name in "abc":
        first = strides(measurement, name)[0]
        assert first.contiguous
        assert first.stride == first.bytes
        assert first.share > 0.99
    mix = measurement.access_mix
    assert mix is not None
    assert (mix.gathered, mix.scattered) == (0, 0)
    assert mix.bytes == measurement.core_l1_bytes.value
    assert counted(case, detail="flops").strides == ()  # no addresses


def test_a_walk_down_a_column_has_the_stride_of_a_row() -> None:
    (case,) = named("column_walk_padded").cases(size="small")
    (first, *_) = strides(counted(case), "a")
    assert (first.stride, first.contiguous) == (8 * case.params["ld"], False)
    assert first.share > 0.9


def test_a_table_read_through_an_index_has_no_stride() -> None:
    (case,) = named("gather").cases(size="small")
    measurement = counted(case)
    assert strides(measurement, "table")[-1].stride is None
    assert strides(measurement, "table")[-1].share > 0.9
    assert strides(measurement, "index")[0].contiguous


@needs("gcc")
@pytest.mark.parametrize("flags", [("-O1",), ("-O2", "-funroll-loops")], ids=["plain", "unrolled"])
def test_members_of_structs_have_the_stride_of_a_struct(tmp_path: Path, flags: tuple[str, ...]) -> None:
    code = """
        struct body { double x, y, z, mass; };
        double total(const struct body *bodies, long n)
        {
            double sum = 0;
            for (long i = 0; i < n; i++) sum += bodies[i].mass;
            return sum;
        }
    """
    spec = KernelSpec(
        name="total",
        library=LibrarySpec(path=str(shared(tmp_path, code, *flags))),
        symbol="total",
        signature="double total(const double *bodies, long n)",
        args=(array("bodies", "f64", "4*n"), ScalarArg("n", Formula("n"))),
        params={"n": (10_000,)},
    )
    (case,) = spec.cases()
    (first, *_) = strides(counted(case), "bodies")
    assert (first.stride, first.bytes, first.contiguous) == (32, 8, False)
    assert first.share > 0.99


@needs("gcc")
def test_gathers_are_told_apart(tmp_path: Path) -> None:
    if "AVX2" not in detect().isa:
        pytest.skip("this processor has no gathers")
    code = """
        #include <immintrin.h>
        void pick(double *out, const double *table, const int *index, long n)
        {
            for (long i = 0; i < n; i += 4)
            {
                __m128i at = _mm_loadu_si128((const __m128i *)(index + i));
                _mm256_storeu_pd(out + i, _mm256_i32gather_pd(table, at, 8));
            }
        }
    """
    spec = KernelSpec(
        name="pick",
        library=LibrarySpec(path=str(shared(tmp_path, code, "-O2", "-mavx2"))),
        symbol="pick",
        signature="void pick(double *out, const double *table, const int *index, long n)",
        args=(
            array("out", "f64", "n"),
            array("table", "f64", "n"),
            array("index", "i32", "n", "permutation"),
            ScalarArg("n", Formula("n")),
        ),
        params={"n": (4000,)},
    )
    (case,) = spec.cases()
    measurement = counted(case)
    mix = measurement.access_mix
    assert mix is not None
    assert (mix.gathered, mix.gathered_bytes) == (4000, 32_000)
    assert mix.accesses == pytest.approx(4000 + 2 * 1000, abs=5)
    assert strides(measurement, "table")[-1].stride is None
    assert strides(measurement, "table")[-1].share > 0.9


def test_the_result_says_what_the_cache_model_takes_for_granted() -> None:
    (case,) = named("triad").cases(size="small")
    (note,) = [one for one in counted(case).notes if one.startswith("caches modelled")]
    assert "random choices from seed 20260000" in note
    assert "in 2 parts, for lines of even and of odd number" in note or "in one piece" in note
    told = note.partition("caches as told by ")[2].split(", ")
    assert told[0] == detect().caches[0].source.split(";")[0]
    assert len(set(told)) == len(told)
