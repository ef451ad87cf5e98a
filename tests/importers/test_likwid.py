"""``likwid-perfctr``: real tables of two machines, and the same as ``-O`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counteroof.count.base import Count
from counteroof.errors import BadInput
from counteroof.importers import likwid
from counteroof.importers.imported import Contradiction, Options
from counteroof.results import KernelResult, Results

# An AMD EPYC 7763, a region with the marker API, group FLOPS_DP; MERGE belongs to the counter before.
ZEN3 = """\
--------------------------------------------------------------------------------
CPU name:	AMD EPYC 7763 64-Core Processor                
CPU type:	AMD K19 (Zen3) architecture
CPU clock:	2.45 GHz
--------------------------------------------------------------------------------
Region saxpy, Group 1: FLOPS_DP
+-------------------+------------+
|    Region Info    | HWThread 0 |
+-------------------+------------+
| RDTSC Runtime [s] |   0.019639 |
|     call count    |          1 |
+-------------------+------------+

+---------------------------+---------+------------+
|           Event           | Counter | HWThread 0 |
+---------------------------+---------+------------+
|      ACTUAL_CPU_CLOCK     |  FIXC1  |   69339220 |
|    RETIRED_INSTRUCTIONS   |   PMC0  |   94703030 |
|    CPU_CLOCKS_UNHALTED    |   PMC1  |   67007110 |
| RETIRED_SSE_AVX_FLOPS_ALL |   PMC2  |      21158 |
|           MERGE           |   PMC3  |          0 |
+---------------------------+---------+------------+

+----------------------+------------+
|        Metric        | HWThread 0 |
+----------------------+------------+
|  Runtime (RDTSC) [s] |     0.0196 |
|          CPI         |     0.7075 |
|     DP [MFLOP/s]     |     1.0774 |
+----------------------+------------+
"""  # noqa: W291

# An Intel Xeon Gold 6246 with a GPU: a region on each, tables without blank lines between.
CASCADE_LAKE = """\
CPU name:	Intel(R) Xeon(R) Gold 6246 CPU @ 3.30GHz
CPU type:	Intel Cascadelake SP processor
Region saxpy_cpu, Group 1: FLOPS_SP
+-------------------+------------+
|    Region Info    | HWThread 0 |
+-------------------+------------+
| RDTSC Runtime [s] |   0.090796 |
|     call count    |          1 |
+-------------------+------------+
+------------------------------------------+---------+------------+
|                   Event                  | Counter | HWThread 0 |
+------------------------------------------+---------+------------+
|             INSTR_RETIRED_ANY            |  FIXC0  |   59866700 |
|           CPU_CLK_UNHALTED_CORE          |  FIXC1  |  344927500 |
| FP_ARITH_INST_RETIRED_128B_PACKED_SINGLE |   PMC0  |          0 |
|    FP_ARITH_INST_RETIRED_SCALAR_SINGLE   |   PMC1  |        111 |
| FP_ARITH_INST_RETIRED_256B_PACKED_SINGLE |   PMC2  |   25000000 |
| FP_ARITH_INST_RETIRED_512B_PACKED_SINGLE |   PMC3  |          0 |
+------------------------------------------+---------+------------+
+----------------------+------------+
|        Metric        | HWThread 0 |
+----------------------+------------+
|  Runtime (RDTSC) [s] |     0.0908 |
|     SP [MFLOP/s]     |  2202.7354 |
|   AVX SP [MFLOP/s]   |  2202.7341 |
+----------------------+------------+
Region saxpy_gpu, Group 1: FLOPS_SP
+-------------------+----------+
|    Region Info    |   GPU 0  |
+-------------------+----------+
| RDTSC Runtime [s] | 0.010824 |
|     call count    |        1 |
+-------------------+----------+
+----------------------------------------------------+---------+-----------+
|                        Event                       | Counter |   GPU 0   |
+----------------------------------------------------+---------+-----------+
| SMSP_SASS_THREAD_INST_EXECUTED_OP_FADD_PRED_ON_SUM |   GPU0  |         0 |
| SMSP_SASS_THREAD_INST_EXECUTED_OP_FMUL_PRED_ON_SUM |   GPU1  |         0 |
| SMSP_SASS_THREAD_INST_EXECUTED_OP_FFMA_PRED_ON_SUM |   GPU2  | 100000000 |
+----------------------------------------------------+---------+-----------+
+---------------------+------------+
|        Metric       |    GPU 0   |
+---------------------+------------+
| Runtime (RDTSC) [s] |     0.0108 |
|     SP [MFLOP/s]    | 18477.1502 |
+---------------------+------------+
"""

# An Intel Xeon Gold 6132, one core of each socket: an older LIKWID, which prints "Core"; reduced.
SKYLAKE = """\
--------------------------------------------------------------------------------
CPU name:	Intel(R) Xeon(R) Gold 6132 CPU @ 2.60GHz
CPU type:	Intel Skylake SP processor
CPU clock:	2.59 GHz
--------------------------------------------------------------------------------
Region Setup, Group 1: MEM_DP
+-------------------+----------+----------+
|    Region Info    |  Core 0  |  Core 14 |
+-------------------+----------+----------+
| RDTSC Runtime [s] | 7.848168 | 7.848194 |
|     call count    |        2 |        2 |
+-------------------+----------+----------+
+------------------------------------------+---------+-------------+-------------+
|                   Event                  | Counter |    Core 0   |   Core 14   |
+------------------------------------------+---------+-------------+-------------+
|             INSTR_RETIRED_ANY            |  FIXC0  | 21093680000 | 19260230000 |
|              PWR_PKG_ENERGY              |   PWR0  |    246.4139 |    216.7717 |
| FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE |   PMC0  |      761098 |           0 |
|    FP_ARITH_INST_RETIRED_SCALAR_DOUBLE   |   PMC1  |  5774999000 |  5626934000 |
| FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE |   PMC2  |      402100 |           0 |
| FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE |   PMC3  |     8148557 |           0 |
|               CAS_COUNT_RD               | MBOX0C0 |     4828935 |     3516342 |
|               CAS_COUNT_WR               | MBOX0C1 |     9720440 |     4682268 |
|               CAS_COUNT_RD               | MBOX1C0 |     5575262 |     3516446 |
|               CAS_COUNT_WR               | MBOX1C1 |    10575930 |     4682242 |
|               CAS_COUNT_RD               | MBOX2C0 |     4820838 |     3519059 |
|               CAS_COUNT_WR               | MBOX2C1 |     9720271 |     4684474 |
|               CAS_COUNT_RD               | MBOX3C0 |     4339612 |     3355839 |
|               CAS_COUNT_WR               | MBOX3C1 |     9782633 |     4648751 |
|               CAS_COUNT_RD               | MBOX4C0 |     4287617 |     3358448 |
|               CAS_COUNT_WR               | MBOX4C1 |     9685919 |     4652427 |
|               CAS_COUNT_RD               | MBOX5C0 |     4256381 |     3353432 |
|               CAS_COUNT_WR               | MBOX5C1 |     9620484 |     4646876 |
+------------------------------------------+---------+-------------+-------------+
+-----------------------------------------------+---------+-------------+-------------+-------------+--------------+
|                     Event                     | Counter |     Sum     |     Min     |     Max     |      Avg     |
+-----------------------------------------------+---------+-------------+-------------+-------------+--------------+
|             INSTR_RETIRED_ANY STAT            |  FIXC0  | 40353910000 | 19260230000 | 21093680000 |  20176955000 |
|               CAS_COUNT_RD STAT               | MBOX5C0 |     7609813 |     3353432 |     4256381 | 3.804906e+06 |
+-----------------------------------------------+---------+-------------+-------------+-------------+--------------+
+-----------------------------------+-----------+-----------+
|               Metric              |   Core 0  |  Core 14  |
+-----------------------------------+-----------+-----------+
|        Runtime (RDTSC) [s]        |    7.8482 |    7.8482 |
|            DP [MFLOP/s]           |  744.5455 |  716.9718 |
|          AVX DP [MFLOP/s]         |    8.5111 |         0 |
|  Memory read bandwidth [MBytes/s] |  229.2195 |  168.1472 |
|  Memory read data volume [GBytes] |    1.7990 |    1.3197 |
| Memory write bandwidth [MBytes/s] |  481.9932 |  228.3086 |
| Memory write data volume [GBytes] |    3.7828 |    1.7918 |
|    Memory bandwidth [MBytes/s]    |  711.2127 |  396.4559 |
|    Memory data volume [GBytes]    |    5.5817 |    3.1115 |
| L3|MEM evict data volume [GBytes] |    5.5817 |    3.1115 |
|       Operational intensity       |    1.0469 |    1.8085 |
+-----------------------------------+-----------+-----------+
"""  # noqa: E501

# Two threads, two groups, ten calls; in the form of -O.
CSV = """\
STRUCT,Info,3,,
CPU name:,Intel(R) Xeon(R) Platinum 8360Y,,,
CPU type:,Intel Icelake SP processor,,,
CPU clock:,2.394356000 GHz,,,
TABLE,Region triad,Group 1 Raw,FLOPS_DP,4
Region Info,HWThread 0,HWThread 1,,
RDTSC Runtime [s],2.000000,1.900000,,
call count,10,10,,
Event,Counter,HWThread 0,HWThread 1,
INSTR_RETIRED_ANY,FIXC0,1000,2000,
FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE,PMC0,0,0,
FP_ARITH_INST_RETIRED_SCALAR_DOUBLE,PMC1,0,40,
FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE,PMC2,0,0,
FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE,PMC3,5000000,5000000,
TABLE,Region triad,Group 1 Raw STAT,FLOPS_DP,4
Event,Counter,Sum,Min,Max
INSTR_RETIRED_ANY STAT,FIXC0,3000,1000,2000
TABLE,Region triad,Group 1 Metric,FLOPS_DP,2
Metric,HWThread 0,HWThread 1,,
Runtime (RDTSC) [s],2.0000,1.9000,,
DP [MFLOP/s],20,21.0527,,
TABLE,Region triad,Group 2 Raw,MEM,4
Region Info,HWThread 0,HWThread 1,,
RDTSC Runtime [s],2.100000,2.000000,,
call count,10,10,,
Event,Counter,HWThread 0,HWThread 1,
CAS_COUNT_RD,MBOX0C0,1000000,0,
CAS_COUNT_WR,MBOX0C1,500000,0,
CAS_COUNT_RD,MBOX1C0,1000000,0,
CAS_COUNT_WR,MBOX1C1,500000,0,
TABLE,Region triad,Group 2 Metric,MEM,2
Metric,HWThread 0,HWThread 1,,
Runtime (RDTSC) [s],2.1000,2.0000,,
Memory read data volume [GBytes],0.1280,0,,
Memory data volume [GBytes],0.1920,0,,
"""


def read(text: str, **options: Any) -> list[Results]:
    assert likwid.recognises(text)
    return likwid.read(text, Path("run.txt"), Options(**options))


def only(text: str, **options: Any) -> KernelResult:
    (run,) = read(text, **options)
    (kernel,) = run.kernels
    return kernel


def value(kernel: KernelResult, quantity: str) -> float | None:
    found: float | None = getattr(kernel.counters["likwid-perfctr"], quantity).value
    return found


def test_events_of_a_region_are_its_counts() -> None:
    (run,) = read(ZEN3)
    assert (run.machine.name, run.machine.cpu) == (
        "AMD EPYC 7763 64-Core Processor",
        "AMD K19 (Zen3) architecture",
    )
    (kernel,) = run.kernels
    assert (kernel.name, kernel.threads) == ("saxpy", 1)
    assert kernel.seconds is not None
    assert kernel.seconds.samples == (0.019639,)
    assert value(kernel, "flops") == 21158
    assert value(kernel, "instructions") == 94_703_030
    assert value(kernel, "cycles") == 67_007_110
    assert value(kernel, "dram_read_bytes") is None


def test_an_amd_group_named_dp_counts_every_precision() -> None:
    kernel = only(ZEN3)
    assert kernel.precision is None
    assert kernel.flops.reason == "all precisions together: the event does not tell them apart"


def test_a_gpu_among_cpu_regions_is_a_machine_of_its_own() -> None:
    cpu, gpu = read(CASCADE_LAKE)
    assert [kernel.name for kernel in cpu.kernels] == ["saxpy_cpu"]
    assert [kernel.name for kernel in gpu.kernels] == ["saxpy_gpu"]
    assert value(cpu.kernels[0], "flops") == 8 * 25_000_000 + 111
    assert value(gpu.kernels[0], "flops") == 2 * 100_000_000
    assert gpu.machine.name == "GPU 0 beside Intel(R) Xeon(R) Gold 6246 CPU @ 3.30GHz"
    assert "the file does not name the GPU" in gpu.machine.notes[1]
    assert {kernel.precision for kernel in (*cpu.kernels, *gpu.kernels)} == {"f32"}


def test_csv_of_two_groups_gives_flops_bytes_and_time_of_one_call() -> None:
    kernel = only(CSV)
    assert (kernel.name, kernel.threads, kernel.precision) == ("triad", 2, "f64")
    assert value(kernel, "flops") == (8 * 10_000_000 + 40) / 10
    assert value(kernel, "instructions") == 300
    assert value(kernel, "dram_read_bytes") == 2_000_000 * 64 / 10
    assert value(kernel, "dram_write_bytes") == 1_000_000 * 64 / 10
    assert kernel.dram_bytes.value == 3_000_000 * 64 / 10
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(0.2)
    notes = kernel.counters["likwid-perfctr"].notes
    assert "mean of 10 calls" in notes
    assert "the groups were measured one after the other; FLOPs are of FLOPS_DP, time of FLOPS_DP" in notes


def test_groups_of_two_precisions_add_up_and_of_the_same_do_not() -> None:
    single = CSV.partition("TABLE,Region triad,Group 2 Raw")[0].replace("Group 1", "Group 3")
    single = single.replace("DOUBLE", "SINGLE").replace("FLOPS_DP", "FLOPS_SP")
    single = single.replace("DP [MFLOP/s],20,21.0527,,", "SP [MFLOP/s],40,42.1054,,")
    kernel = only(CSV + single)
    doubles, singles = (8 * 10_000_000 + 40) / 10, (16 * 10_000_000 + 40) / 10
    assert value(kernel, "flops") == doubles + singles
    assert kernel.flops.reason == "f64 and f32 only; the file has no events of other precisions"
    assert kernel.precision == "f32"  # that of most of them
    assert value(kernel, "dram_read_bytes") == 2_000_000 * 64 / 10
    again = CSV.partition("TABLE,Region triad,Group 2 Raw")[0].replace("Group 1", "Group 3")
    assert value(only(CSV + again), "flops") == doubles


def test_two_sockets_of_an_older_version() -> None:
    kernel = only(SKYLAKE)
    assert (kernel.name, kernel.threads, kernel.precision) == ("Setup", 2, "f64")
    flops = 2 * 761_098 + 5_774_999_000 + 5_626_934_000 + 4 * 402_100 + 8 * 8_148_557
    assert value(kernel, "flops") == flops / 2
    assert value(kernel, "dram_read_bytes") == 64 * (28_108_645 + 20_619_566) / 2
    assert value(kernel, "dram_write_bytes") == 64 * (59_105_677 + 27_997_038) / 2
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(7.848194 / 2)


def test_volumes_serve_where_the_events_are_unknown() -> None:
    unknown = CSV.replace("CAS_COUNT", "UNKNOWN_EVENT")
    kernel = only(unknown)
    assert value(kernel, "dram_read_bytes") == pytest.approx(0.128e9 / 10)
    assert value(kernel, "dram_write_bytes") is None
    assert kernel.dram_bytes.value == pytest.approx(0.192e9 / 10)


def test_a_rate_serves_where_the_events_are_unknown() -> None:
    text = ZEN3.replace("RETIRED_SSE_AVX_FLOPS_ALL", "SOME_NEW_EVENT_OF_A_CPU  ")
    kernel = only(text)
    assert value(kernel, "flops") == pytest.approx(21158, rel=1e-4)
    assert str(kernel.flops.reason).startswith("of a rate as printed")


def test_threads_that_call_a_region_differently_are_taken_together() -> None:
    kernel = only(CSV.replace("call count,10,10,,", "call count,10,5,,"))
    assert value(kernel, "flops") == 8 * 10_000_000 + 40
    notes = kernel.counters["likwid-perfctr"].notes
    assert "the threads called the region 5, 10 times: one call is all of them together" in notes


def test_without_regions_the_program_is_the_kernel() -> None:
    text = ZEN3.replace("Region saxpy, Group 1", "Group 1")
    table = text.index("+-------------------+------------+\n|    Region Info")
    text = text[:table] + text[text.index("+---------------------------+") :]
    kernel = only(text, name="./saxpy")
    assert kernel.name == "./saxpy"
    assert kernel.seconds is not None
    assert kernel.seconds.median == 0.0196
    assert "one call is the whole measurement" in kernel.counters["likwid-perfctr"].notes


def test_a_dash_is_no_count() -> None:
    kernel = only(ZEN3.replace("     21158 |", "         - |"))
    assert value(kernel, "flops") == pytest.approx(21158, rel=1e-4)  # of the rate
    text = ZEN3.replace("     21158 |", "       nan |").replace("     1.0774 |", "          - |")
    assert value(only(text), "flops") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ZEN3.replace("1.0774", "1.1774"), "FLOPs of saxpy, group FLOPS_DP is said in two ways"),
        (
            ZEN3.replace("0.0196 |", "0.0296 |"),
            "the time of saxpy, group FLOPS_DP on HWThread 0 is said in two",
        ),
        (CASCADE_LAKE.replace("25000000", "35000000"), "FLOPs of saxpy_cpu, group FLOPS_SP"),
        (CASCADE_LAKE.replace("18477.1502", "9238.5751"), "FLOPs of saxpy_gpu, group FLOPS_SP"),
        (CSV.replace("FIXC0,3000", "FIXC0,4000"), "INSTR_RETIRED_ANY of triad, group FLOPS_DP"),
        (CSV.replace("[GBytes],0.1280", "[GBytes],0.2280"), "Memory read data volume of triad, group MEM"),
        (ZEN3 + ZEN3.replace("94703030", "94703031"), "RETIRED_INSTRUCTIONS:PMC0 of saxpy, group FLOPS_DP"),
        (ZEN3 + CASCADE_LAKE, "the CPU name of run.txt is said in two ways"),
    ],
)
def test_what_is_said_in_two_ways_that_disagree_is_refused(text: str, message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        read(text)


def test_the_same_said_twice_is_no_contradiction() -> None:
    assert value(only(ZEN3 + ZEN3), "flops") == 21158


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ZEN3.replace("94703030", "many"), "found 'many' for RETIRED_INSTRUCTIONS"),
        (ZEN3.replace("94703030", "-1"), "found '-1' for RETIRED_INSTRUCTIONS"),
        (ZEN3.replace("PMC0  |   94703030 |", "PMC0  |"), "has 2 cells under 3 headings"),
        (ZEN3.replace("HWThread 0", "Thing 0"), "found the column 'Thing 0'"),
        ("Group 1: FLOPS_DP\n", "has no table with values"),
    ],
)
def test_damaged_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(text)


def test_a_sum_over_threads_of_which_one_was_not_counted_is_not_known() -> None:
    text = """\
CPU name:	Intel(R) Xeon(R) Gold 6246 CPU @ 3.30GHz
Group 1: FLOPS_DP
+------------------------------------------+---------+------------+------------+
|                   Event                  | Counter | HWThread 0 | HWThread 1 |
+------------------------------------------+---------+------------+------------+
| FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE |   PMC0  |          0 |          0 |
|    FP_ARITH_INST_RETIRED_SCALAR_DOUBLE   |   PMC1  |        100 |        100 |
| FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE |   PMC2  |       1000 |        {}  |
| FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE |   PMC3  |          0 |          0 |
|               CAS_COUNT_RD               | MBOX0C0 |       5000 |          - |
+------------------------------------------+---------+------------+------------+
"""

    def flops(other: str) -> Count:
        (run,) = likwid.read(text.format(other), Path("two.txt"), Options())
        (kernel,) = run.kernels
        assert kernel.counters["likwid-perfctr"].dram_read_bytes.value == 5000 * 64
        return kernel.flops

    assert flops("1000").value == 2 * 100 + 2 * 4 * 1000
    lost = flops("-")
    assert lost.value is None
    assert "FP_ARITH_INST_RETIRED" in str(lost.reason)
