"""The ledger: declared bytes, one line a cause, actual bytes, adding up as integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counteroof import reconcile
from counteroof.count.base import OTHER, WALKS, ArrayTraffic, Count, Measurement
from counteroof.reconcile import LedgerLine, disagreements, ledger

from .factories import N, measurement, modelled, traffic, triad


def plain(lines: tuple[LedgerLine, ...]) -> list[tuple[str, int | None, str | None]]:
    return [(line.cause, line.bytes, line.array) for line in lines]


def test_triad_with_ordinary_stores_differs_by_its_write_allocates() -> None:
    assert plain(ledger(24 * N, triad())) == [
        ("declared", 480_000_000, None),
        ("write-allocate", 160_000_000, "a"),
        ("modelled", 640_000_000, None),
        ("actual", 640_000_000, None),
    ]


def test_lines_beyond_the_formula_are_moved_but_not_in_it() -> None:
    columns = measurement(1000, (traffic("a", read=64_000),))
    assert plain(ledger(8_000, columns))[1:-2] == [("moved but not in the formula", 56_000, None)]


def test_a_working_set_in_cache_is_in_the_formula_but_not_moved() -> None:
    resident = measurement(2000, (traffic("a"), traffic("b"), traffic("c")))
    assert plain(ledger(24_000, resident)) == [
        ("declared", 24_000, None),
        ("in the formula but not moved", -24_000, None),
        ("modelled", 0, None),
        ("actual", 0, None),
    ]


def test_page_walks_are_other_data_with_a_line_of_their_own() -> None:
    arrays = (traffic("a", read=64_000), traffic("(other)", read=128), traffic("(page walks)", read=640))
    assert plain(ledger(64_000, measurement(1, arrays)))[1:-2] == [
        ("stack, tables and other data", 128, None),
        ("stack, tables and other data", 640, "(page walks)"),
    ]


def test_with_touched_lines_known_what_stayed_in_cache_has_its_array() -> None:
    def reach(read: int, write: int, allocate: int = 0) -> dict[str, int]:
        return {
            "touched_read_bytes": read,
            "touched_write_bytes": write,
            "first_write_allocate_bytes": allocate,
        }

    arrays = (
        traffic("a", read=700, write=800, allocate=700, **reach(0, 1000, 700)),
        traffic("b", read=900, **reach(1000, 0)),
    )
    assert plain(ledger(1500, measurement(1, arrays)))[1:-2] == [
        ("touched but not in the formula", 500, None),
        ("write-allocate", 700, "a"),
        ("stayed in cache", -200, "a"),
        ("stayed in cache", -100, "b"),
    ]


def test_unused_parts_of_lines_and_the_causes_of_repeated_fetches_have_lines_of_their_own() -> None:
    # 8 of every 64 bytes loaded, the lines read four times: twice for want of room, once for want of ways
    strided = traffic(
        "m",
        read=4 * 6400,
        unique_read_bytes=6400,
        first_write_allocate_bytes=0,
        touched_read_bytes=6400,
        touched_write_bytes=0,
        touched_bytes=800,
        unused_bytes=5600,
        again_capacity_bytes=2 * 6400,
        again_conflict_bytes=6400,
    )
    assert plain(ledger(700, measurement(1, (strided,))))[1:-2] == [
        ("touched but not in the formula", 100, None),
        ("unused part of fetched lines", 5600, "m"),
        ("fetched again: capacity", 12800, "m"),
        ("fetched again: conflict", 6400, "m"),
    ]


def test_repeated_fetches_and_writes_have_lines_of_their_own() -> None:
    arrays = (
        traffic("x", read=500, unique_read_bytes=200),
        traffic("y", read=100, write=350, unique_write_bytes=100),
        traffic("(other)", read=64, write=128),
    )
    assert plain(ledger(400, measurement(1, arrays)))[1:-2] == [
        ("fetched again", 300, "x"),
        ("written back more than once", 250, "y"),
        ("stack, tables and other data", 192, None),
    ]


def test_lines_that_were_in_cache_at_first_and_fetched_later_are_fetched_again() -> None:
    # 1000 bytes stored to while still in cache from the call before, of which 300 were read back later
    work = traffic(
        "work",
        read=350,
        write=1000,
        unique_read_bytes=300,
        touched_read_bytes=0,
        touched_write_bytes=1000,
        first_write_allocate_bytes=0,
    )
    assert plain(ledger(1000, measurement(1, (work,))))[1:-2] == [("fetched again", 350, "work")]


def test_write_allocates_of_repeated_fetches_count_as_fetched_again() -> None:
    # 100 bytes of lines, each fetched for a store three times
    stores = traffic("a", read=300, write=300, allocate=300, unique_read_bytes=100, unique_write_bytes=100)
    assert plain(ledger(100, measurement(1, (stores,))))[1:-2] == [
        ("write-allocate", 100, "a"),
        ("fetched again", 200, "a"),
        ("written back more than once", 200, "a"),
    ]


def test_a_first_fetch_of_unknown_kind_is_not_called_a_write_allocate() -> None:
    # read in one sweep and stored to in a later one, or half of it stored to and the other half read twice
    update = traffic("a", read=200, write=100, allocate=100, unique_read_bytes=100)
    assert plain(ledger(200, measurement(1, (update,))))[1:-2] == [
        ("in the formula but not moved", -100, None),
        ("first fetch: read or write-allocate, not told apart", 100, "a"),
        ("fetched again", 100, "a"),
    ]
    known = traffic(
        "a", read=200, write=100, allocate=100, unique_read_bytes=100, first_write_allocate_bytes=0
    )
    assert plain(ledger(200, measurement(1, (known,))))[1:-2] == [("fetched again", 100, "a")]


def test_without_a_claim_the_lines_lead_from_nothing() -> None:
    lines = plain(ledger(None, triad()))
    assert lines == [
        ("declared", None, None),
        ("moved but not in the formula", 480_000_000, None),
        ("write-allocate", 160_000_000, "a"),
        ("modelled", 640_000_000, None),
        ("actual", 640_000_000, None),
    ]


def test_unavailable_bytes_leave_a_claim_and_an_unknown() -> None:
    assert plain(ledger(480, measurement(5))) == [("declared", 480, None), ("actual", None, None)]
    assert plain(ledger(None, None)) == [("declared", None, None), ("actual", None, None)]
    half = measurement(5, (traffic("a", read=64),), dram_write_bytes=modelled(None))
    assert plain(ledger(480, half)) == [("declared", 480, None), ("actual", None, None)]


def test_what_hardware_counts_beyond_the_model_is_unexplained_even_if_it_is_nothing() -> None:
    counted = Count(655_000_000, "counted", "amd_umc")
    assert plain(ledger(24 * N, triad(), counted))[-3:] == [
        ("modelled", 640_000_000, None),
        ("unexplained", 15_000_000, None),
        ("actual", 655_000_000, None),
    ]
    exact = ledger(24 * N, triad(), Count(640_000_000, "counted", "amd_umc"))
    assert ("unexplained", 0, None) in plain(exact)


def test_hardware_alone_explains_nothing() -> None:
    assert plain(ledger(100, None, Count(130, "counted", "imc"))) == [
        ("declared", 100, None),
        ("unexplained", 30, None),
        ("actual", 130, None),
    ]


def test_traffic_without_arrays_is_not_told_apart() -> None:
    assert plain(ledger(100, measurement(1, read=90, write=30)))[1:-2] == [("not told apart", 20, None)]


def test_totals_beyond_the_arrays_are_not_attributed() -> None:
    lines = ledger(100, measurement(1, (traffic("a", read=100),), read=130))
    assert plain(lines)[1:-2] == [("not attributed to any array", 30, None)]


def test_fractional_declarations_are_rounded_once() -> None:
    assert plain(ledger(99.6, measurement(1, (traffic("a", read=100),)))) == [
        ("declared", 100, None),
        ("modelled", 100, None),
        ("actual", 100, None),
    ]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_declaration_that_is_not_finite_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ledger(number, triad())


def test_every_cause_has_a_meaning() -> None:
    causes = {
        value for name, value in vars(reconcile).items() if name.isupper() and isinstance(value, str)
    } - {OTHER, WALKS}
    assert causes == set(reconcile.MEANINGS)


sizes = st.integers(0, 2**50)
maybe = st.none() | sizes
names = st.sampled_from(["a", "b", "(other)"])
any_traffic = st.builds(ArrayTraffic, names, maybe, sizes, sizes, sizes, sizes, sizes, maybe, maybe, maybe)
any_count = st.one_of(
    sizes.map(modelled),
    st.just(modelled(None)),
    st.floats(0, 1e18).map(lambda value: Count(value, "scaled", "perf")),
)


@st.composite
def any_measurement(draw: st.DrawFn) -> Measurement:
    arrays = tuple(draw(st.lists(any_traffic, max_size=4)))
    fields = {}
    if draw(st.booleans()):
        fields = {"dram_read_bytes": draw(any_count), "dram_write_bytes": draw(any_count)}
    return measurement(1, arrays, **fields)


@given(st.none() | sizes | st.floats(0, 1e18), st.none() | any_measurement(), st.none() | any_count)
def test_the_lines_add_up_exactly_whatever_was_measured(
    declared: float | None, explained: Measurement | None, counted: Count | None
) -> None:
    lines = ledger(declared, explained, counted)
    assert reconcile.check(lines) is None
    actual = lines[-1].bytes
    steps = [line.bytes for line in lines if not line.total]
    assert all(isinstance(step, int) for step in steps)
    if actual is not None:
        assert (lines[0].bytes or 0) + sum(step for step in steps if step is not None) == actual


@st.composite
def plausible_traffic(draw: st.DrawFn) -> ArrayTraffic:
    """Traffic as a real cache can produce it, every kind of fetch known."""
    first_load, first_store = draw(sizes), draw(sizes)
    again_load, again_store = draw(sizes), draw(sizes)
    stored, stored_again, wasted = draw(sizes), draw(sizes), draw(sizes)
    return ArrayTraffic(
        draw(st.sampled_from(["a", "b", "c"])),
        None,
        dram_read_bytes=first_load + first_store + again_load + again_store + wasted,
        dram_write_bytes=stored + stored_again,
        write_allocate_bytes=first_store + again_store,
        unique_read_bytes=first_load + first_store,
        unique_write_bytes=stored,
        first_write_allocate_bytes=first_store,
        touched_read_bytes=first_load + draw(sizes),
        touched_write_bytes=stored + draw(sizes),
        prefetched_bytes=wasted + draw(sizes),
        prefetched_unused_bytes=wasted,
    )


def test_lines_prefetched_and_never_used_have_a_line_with_their_array() -> None:
    array = traffic(
        "a",
        1000,
        unique_read_bytes=600,
        first_write_allocate_bytes=0,
        touched_read_bytes=600,
        touched_write_bytes=0,
        unused_bytes=0,
        again_capacity_bytes=100,
        again_conflict_bytes=0,
        prefetched_bytes=500,
        prefetched_unused_bytes=300,
    )
    lines = ledger(600, measurement(1, (array,)))
    assert reconcile.check(lines) is None
    assert [(line.cause, line.bytes, line.array) for line in lines] == [
        ("declared", 600, None),
        ("fetched again: capacity", 100, "a"),
        ("prefetched, never used", 300, "a"),
        ("modelled", 1000, None),
        ("actual", 1000, None),
    ]


@given(sizes, st.lists(plausible_traffic(), min_size=1, max_size=3))
def test_of_real_traffic_only_stays_and_overclaims_are_negative(
    declared: int, arrays: list[ArrayTraffic]
) -> None:
    for line in ledger(declared, measurement(1, tuple(arrays))):
        assert line.bytes is not None
        negative = {reconcile.STAYED, reconcile.UNTOUCHED, reconcile.NOT_MOVED}
        assert (line.bytes < 0) == (line.cause in negative) or line.total


def test_a_doctored_ledger_does_not_check() -> None:
    lines = list(ledger(24 * N, triad()))
    assert reconcile.check(lines) is None
    lines[1] = LedgerLine("write-allocate", 160_000_001, "a")
    assert reconcile.check(lines) == (
        "the lines before 'modelled' add up to 640000001, but it says 640000000"
    )
    assert "begins with 'declared'" in (reconcile.check(lines[1:]) or "")
    assert reconcile.check([lines[0], LedgerLine("write-allocate", None), lines[-1]]) == (
        "'write-allocate' has no bytes"
    )


def test_hardware_and_engine_stand_side_by_side_with_their_distance() -> None:
    engine = triad(hardware_flops=40_000_000)
    counted = Count(41_000_000, "counted", "event"), Count(640_000_000, "counted", "event")
    hardware = measurement(counted[0], counter="perf", dram_bytes=counted[1])
    assert disagreements([hardware, engine]) == (
        "FLOPs, as this processor's counters have them: perf 4.1e+07, instrument 4e+07: +2.5%",
        "DRAM bytes: perf 6.4e+08, instrument 6.4e+08: equal",
    )


def test_one_counter_alone_disagrees_with_nobody() -> None:
    assert disagreements([triad(hardware_flops=1)]) == ()
    assert disagreements([measurement(counter="perf")]) == ()
