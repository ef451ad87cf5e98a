"""``perf stat``: real output of four machines, and what its options do to the form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput
from counteroof.importers import perf_stat
from counteroof.importers.imported import Contradiction, Options
from counteroof.results import KernelResult

# A Zen 4, AMD Ryzen 9 7900X: Gaussian elimination of 1111 equations.
ZEN4 = """\
 Performance counter stats for './ge1 1111':

         923479872      fp_ret_sse_avx_ops.all:u         #    7.830 G/sec
            117.94 msec task-clock:u                     #    0.974 CPUs utilized

       0.121088416 seconds time elapsed

       0.107258000 seconds user
       0.007661000 seconds sys
"""

# Two PMUs of a hybrid Intel client, the whole machine for a second: -x,
HYBRID_CSV = """\
32139.34,msec,cpu-clock,32139351409,100.00,32.001,CPUs utilized
6766433,,cpu_core/cycles/,16067551558,100.00,0.000,GHz
256500230,,cpu_atom/cycles/,8695757391,54.00,0.008,GHz
4688595,,cpu_core/instructions/,16067558976,100.00,0.69,insn per cycle
,16067551558,100.00,,,,TopdownL1 (cpu_core)
,,,,,nan,%  tma_backend_bound
"""

# The same machine: -j
HYBRID_JSON = """\
{"counter-value" : "18685492.000000", "unit" : "", "event" : "cpu_core/cycles/", "event-runtime" : 16061585292, "pcnt-running" : 100.00, "metric-value" : "0.000582", "metric-unit" : "GHz"}
{"counter-value" : "255620352.000000", "unit" : "", "event" : "cpu_atom/cycles/", "event-runtime" : 8690268422, "pcnt-running" : 54.00, "metric-value" : "0.007955", "metric-unit" : "GHz"}
{"counter-value" : "15489913.000000", "unit" : "", "event" : "cpu_core/instructions/", "event-runtime" : 16061582200, "pcnt-running" : 100.00, "metric-value" : "0.828981", "metric-unit" : "insn per cycle"}
{"counter-value" : "38790161.000000", "unit" : "", "event" : "cpu_atom/instructions/", "event-runtime" : 10163133324, "pcnt-running" : 63.00, "metric-value" : "2.075951", "metric-unit" : "insn per cycle"}
{"event-runtime" : 16061513607, "pcnt-running" : 100.00, "metricgroup" : "TopdownL1 (cpu_core)"}
{"metric-value" : "nan", "metric-unit" : "%  tma_backend_bound"}
"""  # noqa: E501

# A Sapphire Rapids: -j
SPR = """\
{"counter-value" : "225904.823297", "unit" : "msec", "event" : "cpu-clock", "event-runtime" : 225904323425, "pcnt-running" : 100.00, "metric-value" : "224.456872", "metric-unit" : "CPUs utilized"}
{"counter-value" : "48433482.000000", "unit" : "", "event" : "cycles", "event-runtime" : 225903792732, "pcnt-running" : 100.00, "metric-value" : "0.000214", "metric-unit" : "GHz"}
{"counter-value" : "38620409.000000", "unit" : "", "event" : "instructions", "event-runtime" : 225903657830, "pcnt-running" : 100.00, "metric-value" : "0.797391", "metric-unit" : "insn per cycle"}
"""  # noqa: E501


def read(text: str, name: str = "stat.txt", **options: Any) -> KernelResult:
    assert perf_stat.recognises(text)
    (run,) = perf_stat.read(text, Path(name), Options(**options))
    (kernel,) = run.kernels
    return kernel


def value(kernel: KernelResult, quantity: str) -> float | None:
    count = getattr(kernel.counters["perf stat"], quantity)
    found: float | None = count.value
    return found


def reason(kernel: KernelResult, quantity: str) -> str:
    return str(getattr(kernel.counters["perf stat"], quantity).reason)


def test_a_text_gives_command_time_and_flops() -> None:
    kernel = read(ZEN4)
    assert kernel.name == "./ge1 1111"
    assert kernel.seconds is not None
    assert kernel.seconds.samples == (0.121088416,)
    assert value(kernel, "flops") == 923_479_872
    assert reason(kernel, "flops") == (
        "all precisions together: the event does not tell them apart; user mode only"
    )
    assert kernel.precision is None
    assert kernel.flops.status == "imported"
    assert reason(kernel, "dram_read_bytes") == "the file has no events of the memory controllers"


def test_two_kinds_of_core_are_added_up_and_scaling_is_said() -> None:
    kernel = read(HYBRID_JSON)
    assert value(kernel, "instructions") == 15_489_913 + 38_790_161
    assert reason(kernel, "instructions") == (
        "scaled: counted 63 % of the time, too high where the program ran on the other cores; sum over "
        "cpu_atom, cpu_core"
    )
    assert value(kernel, "cycles") == 18_685_492 + 255_620_352
    assert kernel.seconds is None


def test_a_count_of_one_kind_of_core_is_not_that_of_the_program() -> None:
    kernel = read(HYBRID_CSV)
    assert value(kernel, "cycles") == 6_766_433 + 256_500_230
    assert value(kernel, "instructions") is None
    assert reason(kernel, "instructions") == "4_688_595 on cpu_core, but the file has none of cpu_atom"


@pytest.mark.parametrize(
    ("text", "seconds"), [(HYBRID_CSV, 32.13934 / 32.001), (SPR, 225.904823297 / 224.456872)]
)
def test_time_follows_from_the_processors_used(text: str, seconds: float) -> None:
    kernel = read(text)
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(seconds, rel=1e-6)


def test_threads_and_a_name_may_be_given() -> None:
    kernel = read(SPR, "spr.json", threads=224)
    assert (kernel.name, kernel.threads) == ("spr", 224)
    assert not any("threads" in note for note in kernel.counters["perf stat"].notes)
    assert any("224 processors were busy" in note for note in read(SPR).counters["perf stat"].notes)


def test_intel_events_make_flops_and_controllers_make_bytes() -> None:
    text = """\
# started on Mon Jan  5 10:00:00 2026

 Performance counter stats for 'system wide':

         1,000,000      fp_arith_inst_retired.scalar_double
         2,000,000      fp_arith_inst_retired.128b_packed_double   (49.98%)
         3,000,000      fp_arith_inst_retired.256b_packed_double   (50.02%)
                 0      fp_arith_inst_retired.512b_packed_double
            100.00 MiB  uncore_imc_0/cas_count_read/
             50.00 MiB  uncore_imc_1/cas_count_read/
             10.00 MiB  uncore_imc_0/cas_count_write/

       2.000000000 seconds time elapsed
"""
    kernel = read(text)
    assert value(kernel, "flops") == 1_000_000 + 4_000_000 + 12_000_000
    assert "scaled: counted 50 % of the time" in reason(kernel, "flops")
    assert kernel.precision == "f64"
    assert value(kernel, "dram_read_bytes") == 150 * 2**20
    assert value(kernel, "dram_write_bytes") == 10 * 2**20
    assert "of the whole machine" in reason(kernel, "dram_read_bytes")
    assert "sum over uncore_imc_0, uncore_imc_1" in reason(kernel, "dram_read_bytes")


def test_raw_counts_of_controllers_are_lines() -> None:
    kernel = read("5,,unc_m_cas_count.rd,100,100.00,,\n3,,amd_umc_0/umc_cas_cmd.wr/,100,100.00,,\n")
    assert value(kernel, "dram_read_bytes") == 5 * 64
    assert value(kernel, "dram_write_bytes") == 3 * 64


def test_channels_that_do_not_tell_reads_from_writes() -> None:
    rows = "".join(f"{n},,amd_df/dram_channel_data_controller_{n}/,9,100.00,,\n" for n in range(8))
    kernel = read(rows)
    assert kernel.dram_bytes.value == 28 * 64
    assert reason(kernel, "dram_read_bytes") == "reads and writes are counted together only"


def test_what_was_not_counted_is_unknown_and_not_0() -> None:
    text = ZEN4.replace("923479872      ", "<not counted>  ").replace("        # ", "        # ")
    kernel = read(text)
    assert value(kernel, "flops") is None
    assert "fp_ret_sse_avx_ops.all:u: not counted" in reason(kernel, "flops")
    csv = "<not supported>,,instructions,0,100.00,,\n7,,cycles,5,100.00,,\n"
    assert value(read(csv), "instructions") is None
    assert value(read(csv), "cycles") == 7


def test_means_of_several_runs() -> None:
    text = """\
 Performance counter stats for './ge1 1111' (5 runs):

       923,479,872      fp_ret_sse_avx_ops.all:u         #    7.830 G/sec      ( +-  0.00% )  (74.31%)

           0.12108 +- 0.00070 seconds time elapsed  ( +-  0.59% )
"""
    kernel = read(text)
    assert value(kernel, "flops") == 923_479_872
    assert "scaled: counted 74 % of the time" in reason(kernel, "flops")
    assert kernel.seconds is not None
    assert kernel.seconds.median == 0.12108
    assert "means of 5 runs" in kernel.counters["perf stat"].notes
    csv = "923479872,,fp_ret_sse_avx_ops.all:u,0.04%,117940000,100.00,7.830,G/sec\n"
    assert value(read(csv), "flops") == 923_479_872


@pytest.mark.parametrize(
    "text",
    [
        "CPU0,10,,instructions,5,100.00,,\nCPU1,32,,instructions,5,100.00,,\n",
        "S0-D0-C0,1,10,,instructions,5,100.00,,\nS0-D0-C1,1,32,,instructions,5,100.00,,\n",
        "     1.000,10,,instructions,5,100.00,,\n     2.000,32,,instructions,5,100.00,,\n",
        "42;;instructions;5;100.00;;\n",
        '{"cpu" : "0", "counter-value" : "10.0", "event" : "instructions"}\n'
        '{"cpu" : "1", "counter-value" : "32.0", "event" : "instructions"}\n',
        " Performance counter stats for 'system wide':\n\n"
        "CPU0     10      instructions\nCPU1     32      instructions\n",
        " Performance counter stats for 'x':\n\n     42      instructions:u   #  1,2  insn per cycle\n",
    ],
)
def test_processors_cores_intervals_and_separators(text: str) -> None:
    assert value(read(text), "instructions") == 42


def test_intervals_end_with_the_time() -> None:
    kernel = read("1.000,10,,instructions,5,100.00,,\n2.001,32,,instructions,5,100.00,,\n")
    assert kernel.seconds is not None
    assert kernel.seconds.median == 2.001


# perf 6.1 on a virtual machine without counters, with -I 100, -r 3 (as text and with -x\;) and -a -A.
INTERVALS = """\
#           time             counts unit events
     0.100224380               1.03 msec task-clock                       #    0.010 CPUs utilized
     0.100224380                 76      page-faults                      #   74.002 K/sec
     0.100224380    <not supported>      instructions
     0.100224380          100224380 ns   duration_time                    #   97.589 G/sec
     0.200596639      <not counted> msec task-clock
     0.200596639      <not counted>      page-faults
     0.200596639    <not supported>      instructions
     0.200596639          100372259 ns   duration_time                    #    0.000 /sec
"""
REPEATED = """\
 Performance counter stats for 'true' (3 runs):

              0.66 msec task-clock                       #    0.561 CPUs utilized            ( +-  1.65% )
   <not supported>      instructions
           1109474 ns   duration_time                    #    1.711 G/sec                    ( +-  5.71% )

         0.0011679 +- 0.0000633 seconds time elapsed  ( +-  5.42% )
"""
REPEATED_CSV = """\
0.56;msec;task-clock;6.81%;555073;100.00;0.502;CPUs utilized
<not supported>;;instructions;0.00%;0;100.00;;
1005941;ns;duration_time;9.78%;1005941;100.00;1.677;G/sec
"""
EVERY_CPU = """\
CPU0,102.23,msec,task-clock,102232000,100.00,1.000,CPUs utilized
CPU1,102.25,msec,task-clock,102248173,100.00,1.000,CPUs utilized
CPU0,<not supported>,,instructions,0,100.00,,
CPU1,<not supported>,,instructions,0,100.00,,
CPU0,102239077,ns,duration_time,102239077,100.00,1.000,G/sec
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(INTERVALS, 0.200596639), (REPEATED, 0.0011679), (REPEATED_CSV, 0.001005941), (EVERY_CPU, 0.102239077)],
)
def test_time_of_intervals_repeats_and_processors(text: str, seconds: float) -> None:
    kernel = read(text)
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(seconds)
    assert value(kernel, "instructions") is None
    assert reason(kernel, "instructions") == "instructions: not supported"


def test_several_objects_on_a_line() -> None:
    # perf 6.1 with -M memory_bandwidth_total
    text = (
        '{"counter-value" : "1117309.000000", "unit" : "", "event" : "UNC_M_CAS_COUNT.RD", '
        '"pcnt-running" : 100.00, "metric-value" : 124.961911, "metric-unit" : "MB/s  bandwidth_read"} '
        '{"metric-value" : 237.237504, "metric-unit" : "MB/s  memory_bandwidth_total"} {"counter-value" : '
        '"1002140370.000000", "unit" : "ns", "event" : "duration_time", "pcnt-running" : 100.00}\n'
    )
    kernel = read(text)
    assert value(kernel, "dram_read_bytes") == 1_117_309 * 64
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(1.00214037)


def test_narrow_blanks_between_thousands() -> None:
    text = ZEN4.replace("923479872", "923\u202f479\u202f872")
    assert value(read(text), "flops") == 923_479_872


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (ZEN4, ZEN4.replace("0.974 CPUs", "0.500 CPUs"), "the time of ./ge1 1111 is said in two ways"),
        (
            SPR,
            SPR + SPR.splitlines()[2].replace("38620409", "38620408"),
            "instructions of spr is said in two ways",
        ),
        (
            HYBRID_CSV,
            HYBRID_CSV + "6766434,,cpu_core/cycles/,16067551558,100.00,0.000,GHz\n",
            "cpu_core/cycles/ of spr is said in two ways that disagree: 6_766_433 and 6_766_434",
        ),
    ],
)
def test_what_is_said_in_two_ways_that_disagree_is_refused(old: str, new: str, message: str) -> None:
    read(old, "spr.json")
    with pytest.raises(Contradiction, match=message):
        read(new, "spr.json")


def test_the_same_said_twice_is_no_contradiction() -> None:
    assert value(read(SPR + SPR.splitlines()[2] + "\n"), "instructions") == 38_620_409


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPR.replace('"38620409.000000"', '"many"'), "instructions has the value 'many'"),
        (SPR.replace('"38620409.000000"', '"-5"'), "instructions has the value '-5'"),
        (SPR.replace("100.00", "250.00"), "was counted 250.0 % of the time"),
        (SPR[:-30], "not JSON"),
        (ZEN4.replace("923479872", "923.479.872"), "the value '923.479.872'"),
        (ZEN4 + ZEN4, "2 outputs of perf stat; import one at a time"),
        (" Performance counter stats for 'x':\n\n  1.0 seconds time elapsed\n", "has no counts"),
        (ZEN4.replace("0.121088416", "0,121088416"), "found '117.94' where times have a decimal comma"),
    ],
)
def test_damaged_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace(".", r"\.")):
        read(text)


GERMAN = """
 Performance counter stats for './ge1 1.111':

       923.479.872      fp_ret_sse_avx_ops.all:u         #    7,830 G/sec     ( +-  0,01% )  (66,67%)
            117,94 msec task-clock:u                     #    0,974 CPUs utilized

       0,121088416 seconds time elapsed
"""


def test_a_text_with_decimal_commas_has_the_same_numbers() -> None:
    kernel = read(GERMAN)
    assert value(kernel, "flops") == 923_479_872
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(0.121088416)
    assert kernel.name == "./ge1 1.111"
    assert "scaled: counted 67 % of the time" in str(kernel.flops.reason)


def test_intervals_with_decimal_commas_add_up() -> None:
    text = "".join(f"     {n},000123456      1.000.000      fp_ret_sse_avx_ops.all:u\n" for n in (1, 2))
    kernel = read(text)
    assert value(kernel, "flops") == 2_000_000
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(2.000123456)


def test_csv_and_json_with_decimal_commas_have_the_same_numbers() -> None:
    csv = (
        "923479872;;fp_ret_sse_avx_ops.all:u;117940000;66,67;7,830;G/sec\n"
        "117,94;msec;task-clock:u;117940000;100,00;0,974;CPUs utilized\n"
    )
    json_ = (
        '{"counter-value" : "923479872,000000", "unit" : "", "event" : "fp_ret_sse_avx_ops.all:u", '
        '"event-runtime" : 117940000, "pcnt-running" : 66,67, "metric-value" : "7,830000"}\n'
        '{"counter-value" : "117,940000", "unit" : "msec", "event" : "task-clock:u", '
        '"event-runtime" : 117940000, "pcnt-running" : 100,00, "metric-value" : "0,974000", '
        '"metric-unit" : "CPUs utilized"}\n'
    )
    for text, name in ((csv, "a.csv"), (json_, "a.json")):
        kernel = read(text, name)
        assert value(kernel, "flops") == 923_479_872
        assert "scaled: counted 67 % of the time" in str(kernel.flops.reason)
        assert kernel.seconds is not None
        assert kernel.seconds.median == pytest.approx(0.11794 / 0.974, rel=1e-3)


def test_decimal_commas_between_commas_are_refused_not_guessed() -> None:
    text = (
        "923479872,,fp_ret_sse_avx_ops.all:u,117940000,100.00,7.830,G/sec\n"
        "117,94,msec,task-clock:u,117940000,100.00,0.974,CPUs utilized\n"
    )
    # the second line alone would be 94 ms in an interval of 117 s
    kernel = read(text, "a.csv")
    assert value(kernel, "flops") == 923_479_872
    assert kernel.seconds is None
    with pytest.raises(BadInput, match="no line of perf stat -x"):
        perf_stat.read(text.replace("100.00", "100,00"), Path("a.csv"), Options())
