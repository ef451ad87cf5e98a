"""Events to FLOPs and bytes: weights, sets that are not whole, sets that say the same twice."""

from __future__ import annotations

import pytest

from counteroof.importers import events
from counteroof.importers.imported import Contradiction, Said


def counts(**values: int | None) -> dict[str, Said | None]:
    return {
        events.key(name): None if value is None else Said(value, 0, name) for name, value in values.items()
    }


INTEL_F64 = {
    "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE": 1,
    "FP_ARITH_INST_RETIRED_128B_PACKED_DOUBLE": 10,
    "FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE": 100,
    "FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE": 1000,
}


def test_elements_of_vectors_are_flops() -> None:
    found = events.flops(counts(**INTEL_F64), "f")
    assert found.said is not None
    assert found.said.value == 1 + 2 * 10 + 4 * 100 + 8 * 1000
    assert [(one.precision, one.width, one.flops) for one in found.by] == [
        ("f64", 0, 1),
        ("f64", 128, 20),
        ("f64", 256, 400),
        ("f64", 512, 8000),
    ]
    assert found.precision == "f64"
    assert found.reason == "f64 only; the file has no events of other precisions"


def test_a_name_is_the_same_for_perf_and_likwid() -> None:
    assert events.key("fp_arith_inst_retired.scalar_double") == events.key(
        "FP_ARITH_INST_RETIRED_SCALAR_DOUBLE"
    )


def test_a_set_that_is_not_whole_gives_no_flops_and_says_what_is_missing() -> None:
    some = {name: value for name, value in INTEL_F64.items() if "256B" not in name}
    found = events.flops(counts(**some), "f")
    assert found.said is None
    assert found.reason == "events are missing: FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE (Intel f64)"


def test_an_event_that_was_not_counted_is_not_0() -> None:
    found = events.flops(counts(**{**INTEL_F64, "FP_ARITH_INST_RETIRED_256B_PACKED_DOUBLE": None}), "f")
    assert found.said is None
    wide = events.flops(counts(**{**INTEL_F64, "FP_ARITH_INST_RETIRED_512B_PACKED_DOUBLE": None}), "f")
    assert wide.said is None


def test_without_the_widest_vectors_they_are_taken_as_absent_and_that_is_said() -> None:
    some = {name: value for name, value in INTEL_F64.items() if "512B" not in name}
    found = events.flops(counts(**some), "f")
    assert found.said is not None
    assert found.said.value == 421
    assert found.reason is not None
    assert "512B_PACKED_DOUBLE is not in the file and taken as 0" in found.reason


def test_precisions_add_up() -> None:
    both = {**INTEL_F64, **{name.replace("DOUBLE", "SINGLE"): value for name, value in INTEL_F64.items()}}
    found = events.flops(counts(**both), "f")
    assert found.said is not None
    assert found.said.value == 8421 + (1 + 4 * 10 + 8 * 100 + 16 * 1000)
    assert found.precision is None
    assert found.precisions == ("f64", "f32")


def test_an_event_of_all_precisions_has_none() -> None:
    found = events.flops(counts(**{"fp_ret_sse_avx_ops.all": 7}), "f")
    assert found.said is not None
    assert (found.said.value, found.precision, found.by) == (7, None, ())
    assert found.reason == "all precisions together: the event does not tell them apart"


AMD = {
    "fp_ret_sse_avx_ops.add_sub_flops": 1,
    "fp_ret_sse_avx_ops.mult_flops": 2,
    "fp_ret_sse_avx_ops.div_flops": 4,
    "fp_ret_sse_avx_ops.mac_flops": 8,
}


def test_a_total_and_its_parts_are_counted_once() -> None:
    found = events.flops(counts(**AMD, **{"fp_ret_sse_avx_ops.all": 15}), "f")
    assert found.said is not None
    assert found.said.value == 15


def test_a_total_that_is_not_the_sum_of_its_parts_is_refused() -> None:
    with pytest.raises(Contradiction, match=r"FLOPs of f is said in two ways that disagree: 16 .* and 15 "):
        events.flops(counts(**AMD, **{"fp_ret_sse_avx_ops.all": 16}), "f")


def test_a_fused_multiply_add_of_a_gpu_is_two() -> None:
    names = {
        f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum": n
        for op, n in (("add", 1), ("mul", 10), ("fma", 100))
    }
    found = events.flops(counts(**names), "f")
    assert found.said is not None
    assert found.said.value == 211
    assert [(one.op, one.flops) for one in found.by] == [("add", 1), ("mul", 10), ("fma", 200)]


def test_without_flop_events_there_are_none() -> None:
    assert events.flops(counts(instructions=5), "f").reason == "the file has no events that count FLOPs"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CAS_COUNT_RD", ("read", 64)),
        ("unc_m_cas_count.wr", ("write", 64)),
        ("umc_cas_cmd.rd", ("read", 64)),
        ("dram_channel_data_controller_7", ("both", 64)),
        ("cas_count", None),
        ("mem_access_rd", None),
    ],
)
def test_bytes_of_memory_controllers(name: str, expected: tuple[str, int] | None) -> None:
    assert events.bytes_event(name) == expected


def test_plain_counts() -> None:
    assert events.counted_as("INSTR_RETIRED_ANY") == "instructions"
    assert events.counted_as("cpu-cycles") == "cycles"
    assert events.counted_as("branches") is None


def test_no_name_stands_for_two_events() -> None:
    names = [events.key(n) for one in events.flop_sets() for event in one.events for n in event.names]
    assert len(names) == len(set(names))
