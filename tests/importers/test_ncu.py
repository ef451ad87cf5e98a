"""Nsight Compute: a real long table, and raw pages with what the roofline sections collect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counteroof.errors import BadInput
from counteroof.importers import ncu
from counteroof.importers.imported import Contradiction, Options
from counteroof.results import KernelResult, Results

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
LONG = f'{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value"'


def row(
    metric: str, unit: str, value: str, ident: int = 0, kernel: str = "saxpy(float, const float *)"
) -> str:
    """Return a row of the long form."""
    return (
        f'"{ident}","58960","roofline_profiler.exe","127.0.0.1","{kernel}","1","7","(256, 1, 1)",'
        f'"(65536, 1, 1)",'
        f'"0","12.0","Command line profiler metrics","{metric}","{unit}","{value}"'
    )


# saxpy on an RTX 5070, from GPU-Roofline-Profiler of Olajide Badejo, reduced.
NOISE = """\
\ufeff==PROF== Connected to process 58960 (C:\\gpu\\build\\roofline_profiler.exe)
==PROF== Disconnected from process 58960
device: NVIDIA GeForce RTX 5070 (sm_120), 48 SMs, 2.625 GHz
  measured   : 34.32 TFLOP/s, 595.2 GB/s
"""
SAXPY = (
    NOISE
    + "\n".join(
        [
            LONG,
            row("dram__bytes_op_read.sum", "byte", "134,221,568"),
            row("dram__bytes_op_write.sum", "byte", "43,631,104"),
            row("gpu__time_duration.sum", "ns", "292,928"),
            row("lts__t_sector_hit_rate.pct", "%", "33.26"),
            row("smsp__thread_inst_executed_per_inst_executed.ratio", "", "32"),
        ]
    )
    + "\n"
)
FLOPS = "\n".join(
    row(f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum", "inst", value)
    for op, value in (("add", "0"), ("mul", "0"), ("fma", "16,777,216"))
)

RAW_NAMES = (
    *("device__attribute_display_name", "dram__bytes.sum.peak_sustained", "dram__bytes_read.sum"),
    *("dram__bytes_write.sum", "dram__cycles_elapsed.avg.per_second", "gpu__time_duration.sum"),
    *(
        "sm__cycles_elapsed.avg.per_second",
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    ),
    *(
        "smsp__cycles_elapsed.avg.per_second",
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed",
    ),
    *(
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed",
    ),
)
RAW_UNITS = (
    *("", "byte/cycle", "Mbyte", "Mbyte", "Ghz", "usecond", "Ghz", "inst/cycle", "cycle/nsecond"),
    *("inst/cycle",) * 3,
)
RAW_VALUES = ("A100", "1,280", "134.22", "67.11", "1.50", "160.00", "1.40", "6,912", "1.40", "0", "0", "75")


def raw(*launches: tuple[str, ...], names: tuple[str, ...] = RAW_NAMES) -> str:
    """Return a raw page; each launch gives its values."""

    def line(first: str, values: tuple[str, ...]) -> str:
        fixed = (
            f'"{first}","1","app","h","saxpy","1","7","(256, 1, 1)","(65536, 1, 1)","0","8.0"'
            if first
            else ",".join(['""'] * 11)
        )
        return ",".join([fixed, *(f'"{value}"' for value in values)])

    head = ",".join([HEAD, *(f'"{name}"' for name in names)])
    rows = [line(str(index), values) for index, values in enumerate(launches)]
    return "\n".join([head, line("", RAW_UNITS[: len(names)]), *rows]) + "\n"


def read(text: str) -> list[Results]:
    assert ncu.recognises(text)
    return ncu.read(text, Path("ncu.csv"), Options())


def only(text: str) -> KernelResult:
    (run,) = read(text)
    (kernel,) = run.kernels
    return kernel


def value(kernel: KernelResult, quantity: str) -> Any:
    return getattr(kernel.counters["ncu"], quantity).value


def test_a_long_table_below_noise_with_separators_of_thousands() -> None:
    (run,) = read(SAXPY)
    (kernel,) = run.kernels
    assert run.machine.name == "GPU 0, compute capability 12.0"
    assert kernel.name == "saxpy(float, const float *)"
    assert value(kernel, "dram_read_bytes") == 134_221_568
    assert value(kernel, "dram_write_bytes") == 43_631_104
    assert "still dirty in L2" in str(kernel.counters["ncu"].dram_write_bytes.reason)
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(292_928e-9)
    assert kernel.params == {"blocks": 65536, "threads_per_block": 256}


def test_without_flop_metrics_flops_are_unknown_and_what_to_collect_is_said() -> None:
    kernel = only(SAXPY)
    assert kernel.flops.value is None
    assert "collect them with --metrics or --section SpeedOfLight_RooflineChart" in str(kernel.flops.reason)
    assert kernel.placement is not None
    assert kernel.placement.intensity is None


def test_a_fused_multiply_add_is_two_flops() -> None:
    kernel = only(SAXPY + FLOPS + "\n")
    assert value(kernel, "flops") == 2 * 16_777_216
    assert kernel.precision == "f32"
    assert kernel.placement is not None
    assert kernel.placement.intensity == pytest.approx(2 * 16_777_216 / (134_221_568 + 43_631_104))


def test_flops_of_a_set_that_is_not_whole_are_unknown() -> None:
    kernel = only(SAXPY + FLOPS.splitlines()[2] + "\n")
    assert kernel.flops.value is None
    assert "op_fadd_pred_on.sum" in str(kernel.flops.reason)


def test_precisions_are_kept_apart_and_added_up() -> None:
    double = FLOPS.replace("op_f", "op_d").replace("16,777,216", "1,000")
    kernel = only(SAXPY + FLOPS + "\n" + double + "\n")
    assert value(kernel, "flops") == 2 * 16_777_216 + 2000
    classes = {one.precision: one.flops for one in kernel.counters["ncu"].flops_by if one.op == "fma"}
    assert classes == {"f64": 2000, "f32": 2 * 16_777_216}


def test_tensor_cores_are_named_as_not_counted() -> None:
    tensor = row("sm__inst_executed_pipe_tensor.sum", "inst", "4,096")
    notes = only(SAXPY + tensor + "\n").counters["ncu"].notes
    assert "tensor cores were used (sm__inst_executed_pipe_tensor.sum); their FLOPs are not counted" in notes


def test_a_raw_page_gives_rates_peaks_and_the_device() -> None:
    (run,) = read(raw(RAW_VALUES))
    (kernel,) = run.kernels
    assert run.machine.name == "A100, compute capability 8.0"
    assert value(kernel, "flops") == pytest.approx(2 * 75 * 1.4e9 * 160e-6)
    assert kernel.dram_bytes.value == pytest.approx(201.33e6)
    roofs = {one.name: one for one in run.machine.ceilings}
    assert roofs["DRAM peak"].value == pytest.approx(1280 * 1.5e9)
    assert roofs["f32 FMA peak"].value == pytest.approx(2 * 6912 * 1.4e9)
    assert all(one.peak for one in roofs.values())
    assert {one.clock_hz for one in roofs.values()} == {1.4e9}
    assert kernel.placement is not None
    assert kernel.placement.bound == "dram"
    assert kernel.placement.fraction == pytest.approx(201.33e6 / 160e-6 / (1280 * 1.5e9))


def renamed(old: str, new: str) -> tuple[str, ...]:
    return tuple(new if name == old else name for name in RAW_NAMES)


def test_the_derived_metrics_of_the_roofline_sections_are_a_rate_and_a_peak() -> None:
    ffma = "__sass_thread_inst_executed_op_ffma_pred_on"
    rate = renamed(f"smsp{ffma}.sum.per_cycle_elapsed", f"derived__smsp{ffma}_x2")
    assert value(only(raw(RAW_VALUES, names=rate)), "flops") == pytest.approx(75 * 1.4e9 * 160e-6)
    (run,) = read(raw(RAW_VALUES, names=renamed(f"sm{ffma}.sum.peak_sustained", f"derived__sm{ffma}_x2")))
    assert run.kernels[0].flops.value == pytest.approx(2 * 75 * 1.4e9 * 160e-6)
    assert run.machine.ceilings[1].value == pytest.approx(6912 * 1.4e9)


def test_cycles_serve_where_there_is_no_duration() -> None:
    names = renamed("gpu__time_duration.sum", "sm__cycles_elapsed.avg")
    values = tuple("224,000" if one == "160.00" else one for one in RAW_VALUES)
    units = ["cycle" if one == "usecond" else one for one in RAW_UNITS]
    text = raw(values, names=names).replace('"usecond"', f'"{units[5]}"')
    kernel = only(text)
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(224_000 / 1.4e9)


def test_bytes_of_the_caches() -> None:
    more = row("lts__t_bytes.sum", "Mbyte", "300.00") + "\n" + row("l1tex__t_bytes.sum", "Mbyte", "400.00")
    kernel = only(SAXPY + more + "\n")
    assert value(kernel, "l1_l2_bytes") == 300_000_000
    assert value(kernel, "core_l1_bytes") == 400_000_000


def test_two_names_of_one_count_must_agree() -> None:
    older = FLOPS.replace("smsp__", "sm__")
    assert value(only(f"{SAXPY}{FLOPS}\n{older}\n"), "flops") == 2 * 16_777_216
    with pytest.raises(Contradiction, match=r"ffma_pred_on\.sum of saxpy"):
        read(f"{SAXPY}{FLOPS}\n{older.replace('16,777', '17,777')}\n")


def test_every_launch_is_held_against_its_own_clock() -> None:
    slow = tuple("0.75" if number == 4 else one for number, one in enumerate(RAW_VALUES))
    (run,) = read(raw(RAW_VALUES, slow))
    assert [kernel.label for kernel in run.kernels] == ["saxpy[1]", "saxpy[2]"]
    fast_share, slow_share = (kernel.placement.fraction for kernel in run.kernels if kernel.placement)
    assert fast_share is not None
    assert slow_share == pytest.approx(2 * fast_share)
    assert max(one.value for one in run.machine.ceilings if one.kind == "bandwidth") == pytest.approx(
        1280 * 1.5e9
    )


def test_bytes_that_are_not_told_apart() -> None:
    text = "\n".join(
        [LONG, row("dram__bytes.sum", "Mbyte", "201.33"), row("gpu__time_duration.sum", "us", "160")]
    )
    kernel = only(text)
    assert kernel.dram_bytes.value == pytest.approx(201.33e6)
    assert value(kernel, "dram_read_bytes") is None


def test_what_is_not_available_is_unknown() -> None:
    kernel = only(SAXPY.replace("134,221,568", "n/a"))
    assert value(kernel, "dram_read_bytes") is None
    assert value(kernel, "dram_write_bytes") == 43_631_104


def test_two_devices_are_two_runs() -> None:
    other = row("gpu__time_duration.sum", "ns", "100", ident=1).replace('"0","12.0"', '"1","9.0"')
    assert [run.machine.name for run in read(SAXPY + other + "\n")] == [
        "GPU 0, compute capability 12.0",
        "GPU 1, compute capability 9.0",
    ]


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("byte", 1),
        ("Kbyte", 1e3),
        ("Mbyte", 1e6),
        ("Gbyte/second", 1e9),
        ("usecond", 1e-6),
        ("us", 1e-6),
        ("ns", 1e-9),
        ("cycle/nsecond", 1e9),
        ("Ghz", 1e9),
        ("hz", 1),
        ("", 1),
        ("%", 1),
        ("Mbyte/furlong", None),
    ],
)
def test_units(unit: str, factor: float | None) -> None:
    assert ncu._factor(unit) == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SAXPY + row("gpu__time_duration.sum", "ns", "292,929") + "\n", "gpu__time_duration.sum of saxpy"),
        (SAXPY + row("dram__bytes_read.sum", "Mbyte", "150.00") + "\n", "DRAM read of saxpy"),
        (SAXPY + row("dram__bytes.sum", "Mbyte", "300.00") + "\n", "DRAM bytes of saxpy"),
        (
            SAXPY + row("dram__bytes_op_read.sum.per_second", "Gbyte/second", "100") + "\n",
            "dram__bytes_op_read.sum of",
        ),
        (SAXPY + row("x", "", "1", kernel="other") + "\n", "launch 0 of ncu.csv is said in two ways"),
    ],
)
def test_what_is_said_in_two_ways_that_disagree_is_refused(text: str, message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        read(text)


def test_a_rate_that_agrees_with_its_sum_is_no_contradiction() -> None:
    rate = row("dram__bytes_op_read.sum.per_second", "Gbyte/second", "458.21")
    assert value(only(SAXPY + rate + "\n"), "dram_read_bytes") == 134_221_568


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SAXPY.replace("134,221,568", "134.221.568"),
            "is '134.221.568' 'byte'; expected a number such as 1,234.5",
        ),
        (SAXPY.replace('"ns"', '"furlong"'), "expected a number such as 1,234.5 in a unit"),
        (SAXPY.rstrip("\n")[:-20], "is the file whole"),
        (LONG + "\n", "has no launch of a kernel"),
        (SAXPY + SAXPY, "holds several tables"),
    ],
)
def test_damaged_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(text)


def detail(section: str, label: str, unit: str, value: str) -> str:
    """Return a row of the details page."""
    return row(label, unit, value).replace("Command line profiler metrics", section)


def test_the_details_page_has_labels_of_one_name_in_several_sections() -> None:
    page = [
        LONG,
        detail("GPU Speed Of Light Throughput", "Memory Throughput", "%", "55.20"),
        detail("GPU Speed Of Light Throughput", "Duration", "ms", "1.50"),
        detail("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "426.90"),
        detail("Memory Workload Analysis", "Mem Busy", "%", "31.1"),
        detail("Compute Workload Analysis", "Mem Busy", "%", "12.0"),
    ]
    kernel = only("\n".join(page))
    assert kernel.seconds is not None
    assert kernel.seconds.median == pytest.approx(1.5e-3)
    assert kernel.dram_bytes.value == pytest.approx(640.35e6)


@pytest.mark.parametrize("name", ["dram__bytes_op_read.sum", "gpu__time_duration.sum"])
def test_a_number_without_its_unit_is_refused(name: str) -> None:
    unit = "byte" if "byte" in name else "ns"
    text = SAXPY.replace(f'"{name}","{unit}"', f'"{name}",""')
    assert text != SAXPY
    with pytest.raises(BadInput, match=name.replace(".", r"\.")):
        read(text)
    without = raw(RAW_VALUES).splitlines()
    del without[1]
    with pytest.raises(BadInput, match="in a unit such as byte"):
        read("\n".join(without))
