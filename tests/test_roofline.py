"""Placement: intensity, attainable performance, what binds, and what is said when roofs do not match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counteroof.count.base import FlopClass
from counteroof.roofline import (
    Observation,
    Placement,
    choose_roof,
    comparable,
    named,
    place,
    precision_of,
    ridge,
)

from .factories import CEILINGS, N, bandwidth, compute, machine

DRAM = bandwidth("DRAM", 50)
PEAK = compute("f64 peak", 100, "f64")
ROOFS = (DRAM, PEAK)


def observed(**fields: object) -> Observation:
    values = {"seconds": 1.0, "flops": 1e9, "dram_bytes": 10e9, "precision": "f64", **fields}
    return Observation(**values)  # type: ignore[arg-type]


def test_ridge_point_is_where_the_ceilings_meet() -> None:
    assert ridge(DRAM, PEAK) == pytest.approx(2.0)
    assert choose_roof(ROOFS, "f64", 1).ridge == pytest.approx(2.0)


def test_attainable_is_the_lower_roof() -> None:
    roof = choose_roof(ROOFS, "f64", 1)
    assert roof.attainable(0.5) == pytest.approx(25e9)
    assert roof.attainable(2.0) == pytest.approx(100e9)
    assert roof.attainable(40.0) == pytest.approx(100e9)


def test_left_of_the_ridge_dram_binds() -> None:
    # 640 MB at 50 GB/s take 12.8 ms at least; 16 ms were measured
    placed = place(
        observed(seconds=0.016, flops=2 * N, dram_bytes=32 * N, declared_flops=2 * N, declared_bytes=24 * N),
        ROOFS,
    )
    assert placed == Placement(
        intensity=2 / 32,
        declared_intensity=2 / 24,
        flops_per_second=2.5e9,
        attainable=pytest.approx(3.125e9),
        fraction=pytest.approx(0.8),
        bound="dram",
        ceiling="DRAM",
        roof=50e9,
        precision="f64",
    )


def test_right_of_the_ridge_compute_binds() -> None:
    placed = place(observed(seconds=0.04, flops=2e9, dram_bytes=32e6), ROOFS)
    assert placed.intensity == pytest.approx(62.5)
    assert (placed.bound, placed.ceiling) == ("compute", "f64 peak")
    assert placed.attainable == pytest.approx(100e9)
    assert placed.fraction == pytest.approx(0.5)


def test_the_roof_has_the_kernels_precision_and_is_the_highest_of_them() -> None:
    assert place(observed(flops=1e12, precision="f32"), CEILINGS).ceiling == "f32 AVX-512 FMA"
    assert place(observed(flops=1e12, precision="f64"), CEILINGS).ceiling == "f64 AVX-512 FMA"
    assert place(observed(), CEILINGS).ceiling == "DRAM copy"


def test_the_roof_has_the_kernels_number_of_threads() -> None:
    two = (bandwidth("DRAM 2", 90, threads=2), compute("f64 peak 2", 200, "f64", threads=2))
    assert place(observed(threads=1), (*ROOFS, *two)).ceiling == "DRAM"
    placed = place(observed(threads=2), (*ROOFS, *two))
    assert placed.ceiling == "DRAM 2"
    assert placed.notes == ()


def test_a_missing_thread_count_takes_the_nearest_below_and_says_so() -> None:
    placed = place(observed(threads=4), ROOFS)
    assert placed.ceiling == "DRAM"
    assert placed.notes == (
        "ran with 4 threads, held against the DRAM bandwidth ceiling of 1",
        "ran with 4 threads, held against the f64 compute ceiling of 1",
    )


def test_another_precision_is_never_taken_for_the_roof() -> None:
    placed = place(observed(precision="f16", flops=1e12, dram_bytes=1e9), ROOFS)
    assert placed.bound == "dram"
    assert placed.notes == ("no f16 compute ceiling was measured",)


def test_a_bandwidth_without_write_allocates_is_no_roof_for_actual_bytes() -> None:
    stream = bandwidth("STREAM", 80, convention="write-allocate not counted")
    assert place(observed(), (*ROOFS, stream)).ceiling == "DRAM"
    assert place(observed(), (PEAK, stream)).notes == ("no DRAM bandwidth ceiling was measured",)


def test_a_ceiling_is_found_by_name_and_threads() -> None:
    two = bandwidth("DRAM", 90, threads=2)
    assert named((DRAM, two, PEAK), "DRAM", 1) is DRAM
    assert named((DRAM, two, PEAK), "DRAM", 2) is two
    assert named((DRAM, two, PEAK), "DRAM", 8) is two
    assert named((DRAM, two, PEAK), "L3", 1) is None


def test_non_temporal_stores_make_a_roof_too() -> None:
    streaming = bandwidth("DRAM non-temporal copy", 80, convention="non-temporal stores, no write-allocate")
    assert place(observed(), (*ROOFS, streaming)).ceiling == "DRAM non-temporal copy"


def test_no_bytes_is_no_dram_traffic_and_not_infinity() -> None:
    placed = place(observed(flops=50e9, dram_bytes=0), ROOFS)
    assert placed.no_dram_traffic
    assert placed.intensity is None
    assert placed.bound == "compute"
    assert placed.fraction == pytest.approx(0.5)
    assert placed.notes == (
        "no DRAM traffic",
        "no cache bandwidth to hold it against: compute is the only roof known",
    )


def test_negligible_bytes_are_no_dram_traffic() -> None:
    # at 50 GB/s, 49 MB take 0.098 % of a second and 51 MB 0.102 %
    assert place(observed(dram_bytes=49e6), ROOFS).no_dram_traffic
    assert place(observed(dram_bytes=49e6), ROOFS).intensity is None
    assert not place(observed(dram_bytes=51e6), ROOFS).no_dram_traffic


CACHES = (bandwidth("L1-L2", 250, level="l2"), bandwidth("L2-L3", 100, level="l3"))


def test_a_cache_level_binds_a_kernel_without_dram_traffic() -> None:
    placed = place(observed(flops=10e9, dram_bytes=0, l1_l2_bytes=75e9, l2_l3_bytes=60e9), (*ROOFS, *CACHES))
    assert (placed.bound, placed.ceiling, placed.roof) == ("l3", "L2-L3", 100e9)
    assert placed.fraction == pytest.approx(0.6)
    assert placed.notes == ("no DRAM traffic",)
    inner = place(observed(flops=10e9, dram_bytes=0, l1_l2_bytes=75e9, l2_l3_bytes=6e9), (*ROOFS, *CACHES))
    assert (inner.bound, inner.fraction) == ("l2", pytest.approx(0.3))


def test_a_cache_level_may_bind_where_little_comes_from_dram() -> None:
    # at least 0.2 s for DRAM, 0.6 s for L3, 0.3 s for L2
    moved = {"dram_bytes": 10e9, "l2_l3_bytes": 60e9, "l1_l2_bytes": 75e9}
    placed = place(observed(flops=1e9, **moved), (*ROOFS, *CACHES))
    assert placed.intensity == pytest.approx(0.1)
    assert (placed.bound, placed.fraction) == ("l3", pytest.approx(0.6))
    assert placed.attainable == pytest.approx(1e9 / 0.6)
    assert not placed.no_dram_traffic


def test_of_several_loops_the_best_is_the_roof_of_a_level() -> None:
    loops = (bandwidth("L1-L2 read", 270, level="l2"), bandwidth("L1-L2 update", 450, level="l2"))
    placed = place(observed(flops=0, dram_bytes=0, l1_l2_bytes=90e9), (*ROOFS, *loops))
    assert (placed.ceiling, placed.fraction) == ("L1-L2 update", pytest.approx(0.2))


def test_notes_on_a_cache_roof_are_those_of_the_one_that_binds() -> None:
    placed = place(observed(threads=2, dram_bytes=0, l1_l2_bytes=75e9, l2_l3_bytes=60e9), (*ROOFS, *CACHES))
    said = [note for note in placed.notes if "held against" in note]
    assert said == [
        "ran with 2 threads, held against the DRAM bandwidth ceiling of 1",
        "ran with 2 threads, held against the f64 compute ceiling of 1",
        "ran with 2 threads, held against the L3 bandwidth ceiling of 1",
    ]


def test_roofs_in_other_bytes_than_the_model_of_the_caches_are_left_out() -> None:
    victims, copies = "both ways, one line down for each line up", "both ways, write-allocate counted"
    inner = bandwidth("L1-L2 copy", 400, level="l2", convention=f"{copies}: 24 B an element")
    outer = bandwidth("L2-L3 copy", 250, level="l3", convention=f"{victims}: 32 B an element")
    everything = (*ROOFS, inner, outer)
    caches = machine().caches
    assert comparable(everything, caches) == (everything, ())
    inclusive = (*caches[:2], replace(caches[2], fill="inclusive"))
    assert comparable(everything, inclusive) == (
        (*ROOFS, inner),
        (
            f"the L3 roofs count other bytes ({victims}: 32 B an element) than the model of the caches: "
            "left out",
        ),
    )
    assert comparable(everything, caches[:2])[0] == (*ROOFS, inner)


def test_without_traffic_between_caches_compute_binds_and_no_roof_is_missed() -> None:
    caches = (bandwidth("L2", 250, level="l2"), bandwidth("L3", 100, level="l3"))
    placed = place(observed(flops=50e9, dram_bytes=0, l1_l2_bytes=0, l2_l3_bytes=0), (*ROOFS, *caches))
    assert (placed.bound, placed.notes) == ("compute", ("no DRAM traffic",))


def test_a_kernel_without_flops_has_a_share_of_the_dram_roof() -> None:
    placed = place(observed(seconds=0.5, flops=0, dram_bytes=20e9, precision="f64"), ROOFS)
    assert placed.intensity == 0
    assert placed.flops_per_second == 0
    assert placed.attainable == 0
    assert placed.fraction == pytest.approx(0.8)
    assert placed.bound == "dram"


def test_a_dot_above_its_roof_is_flagged_with_its_percentage() -> None:
    placed = place(observed(dram_bytes=53.5e9), ROOFS)
    assert placed.fraction == pytest.approx(1.07)
    assert placed.excess == pytest.approx(0.07)
    assert placed.notes == ("7.0 % above its roof (DRAM)",)
    assert place(observed(dram_bytes=50.1e9), ROOFS).excess is None


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"flops": None}, "not placed: FLOPs not available"),
        ({"dram_bytes": None}, "not placed: DRAM bytes not available"),
        ({"flops": None, "dram_bytes": None}, "not placed: FLOPs and DRAM bytes not available"),
    ],
)
def test_a_missing_count_is_not_zero(fields: dict[str, object], note: str) -> None:
    placed = place(observed(**fields), ROOFS)
    assert placed.intensity is None
    assert not placed.no_dram_traffic
    assert (placed.fraction, placed.bound, placed.attainable) == (None, None, None)
    assert placed.notes == (note,)


def test_without_time_there_is_a_place_but_no_share() -> None:
    placed = place(observed(seconds=None), ROOFS)
    assert placed.intensity == pytest.approx(0.1)
    assert placed.attainable == pytest.approx(5e9)
    assert (placed.flops_per_second, placed.fraction, placed.bound) == (None, None, "dram")


def test_without_ceilings_nothing_is_held_against_anything() -> None:
    placed = place(observed(), ())
    assert placed.intensity == pytest.approx(0.1)
    assert (placed.bound, placed.fraction) == (None, None)
    assert placed.notes[-1] == "no ceiling to hold it against"


def test_a_claim_of_no_bytes_has_no_intensity() -> None:
    assert place(observed(declared_flops=5, declared_bytes=0), ROOFS).declared_intensity is None
    assert place(observed(declared_flops=None, declared_bytes=8), ROOFS).declared_intensity is None


def test_precision_is_that_of_most_executed_flops() -> None:
    f32, f64 = FlopClass("f32", 512, "fma", 97), FlopClass("f64", 0, "add", 3)
    assert precision_of((f32,), None) == ("f32", ())
    assert precision_of((f32,), "f32") == ("f32", ())
    assert precision_of((f32, f64), "f32") == (
        "f32",
        ("3.0 % of the executed FLOPs are f64, held against the f32 roof",),
    )


def test_a_declared_precision_that_was_not_executed_is_said() -> None:
    classes = (FlopClass("f64", 512, "fma", 90), FlopClass("f32", 512, "fma", 10))
    assert precision_of(classes, "f32") == (
        "f64",
        ("declared f32, but 90 % of the executed FLOPs are f64: f64 roof",),
    )
    assert precision_of(classes, "f16") == (
        "f64",
        (
            "declared f16, but 90 % of the executed FLOPs are f64: f64 roof",
            "10 % of the executed FLOPs are f32, held against the f64 roof",
        ),
    )


def test_without_counted_flops_the_declared_precision_holds() -> None:
    outside = FlopClass("f64", 0, "max", 1000, counted=False)
    assert precision_of((), "f32") == ("f32", ())
    assert precision_of((outside,), "f32") == ("f32", ())
    assert precision_of((), None) == (None, ())
