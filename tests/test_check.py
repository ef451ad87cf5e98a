"""A run against a baseline: every number that moves fails, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof.check import Report, Rules, check
from counteroof.compare import NotComparable
from counteroof.count.base import Count, FlopClass, unavailable
from counteroof.diagnose.base import Finding
from counteroof.errors import BadInput
from counteroof.results import KernelResult, Seconds

from . import factories
from .factories import counted_by_hardware, failed, measurement, modelled, result, results, traffic, triad

N = factories.N


def report(after: KernelResult, before: KernelResult | None = None, rules: Rules | None = None) -> Report:
    return check(results(after), results(before or result()), rules)


def moved(found: Report) -> list[tuple[str, str]]:
    return [(item.quantity, item.state) for item in found.bad]


def timed(base: float, count: int = 6) -> KernelResult:
    return replace(result(), seconds=Seconds.of(tuple(base * (1 + 0.001 * i) for i in range(count))))


def test_the_same_run_holds_and_says_what_was_looked_at() -> None:
    found = report(result())
    assert found.ok
    assert [(item.quantity, item.allowed) for item in found.items] == [
        ("result", "agrees"),
        ("precision", "exactly"),
        ("FLOPs", "exactly"),
        ("issued FLOPs", "exactly"),
        ("instructions", "exactly"),
        ("FLOPs by kind", "exactly"),
        ("DRAM read", "within 1.0 % and 4.10 kB"),
        ("DRAM written", "within 1.0 % and 4.10 kB"),
    ]


@pytest.mark.parametrize("by", [-1, 1])
def test_one_flop_more_or_less_fails(by: int) -> None:
    found = report(result(counted=replace(triad(), flops=Count(2 * N + by, "instrumented", "engine"))))
    assert moved(found) == [("FLOPs", "moved")]
    (item,) = found.bad
    assert (item.kernel, item.before, item.after) == ("triad", "40_000_000", f"{2 * N + by:_}")


@pytest.mark.parametrize(
    ("field", "quantity"), [("issued_flops", "issued FLOPs"), ("instructions", "instructions")]
)
def test_every_exact_count_is_held(field: str, quantity: str) -> None:
    counted = replace(triad(), **{field: Count(7, "instrumented", "engine")})
    assert moved(report(result(counted=counted))) == [(quantity, "moved")]


def test_flops_of_another_kind_fail_even_if_their_sum_is_the_same() -> None:
    scalar = replace(triad(), flops_by=(FlopClass("f64", 0, "add", N), FlopClass("f64", 512, "fma", N)))
    (item,) = report(result(counted=scalar)).bad
    assert item.quantity == "FLOPs by kind"
    assert item.message == "f64 512-bit fma: 40_000_000 to 20_000_000; f64 scalar add: 0 to 20_000_000"


def test_another_executed_precision_has_moved_and_is_not_refused() -> None:
    found = report(result(precision="f32", counted=triad(precision="f32")))
    assert moved(found) == [("precision", "moved"), ("FLOPs by kind", "moved")]


@pytest.mark.parametrize(
    ("factor", "state"), [(1.0, "held"), (1.009, "held"), (0.991, "held"), (1.011, "moved"), (0.989, "moved")]
)
def test_bytes_may_differ_by_their_tolerance_either_way(factor: float, state: str) -> None:
    read = round(24 * N * factor)
    found = report(result(counted=triad(read=read), ledger=()))
    (item,) = (item for item in found.items if item.quantity == "DRAM read")
    assert item.state == state


def test_the_tolerance_of_bytes_is_the_callers() -> None:
    after = result(counted=triad(write=round(8 * N * 1.05)), ledger=())
    assert moved(report(after)) == [("DRAM written", "moved")]
    assert report(after, rules=Rules(bytes=0.06)).ok


@pytest.mark.parametrize(("read", "held"), [(4096, True), (4160, False)])
def test_from_no_bytes_only_a_page_may_come(read: int, held: bool) -> None:
    before = result(counted=measurement(5, (traffic("a"),)), declared=None)
    after = result(counted=measurement(5, (traffic("a", read=read),)), declared=None)
    assert report(after, before).ok is held


def test_bytes_that_moved_are_explained_by_the_ledger() -> None:
    repaired = measurement(
        2 * N, (traffic("a", write=8 * N, size=8 * N), traffic("b", read=8 * N), traffic("c", read=8 * N))
    )
    (item,) = report(result(counted=repaired)).bad
    assert (item.quantity, item.before, item.after) == ("DRAM read", "480 MB", "320 MB")
    assert item.message == "write-allocate (a) -160 MB"


def test_a_difference_too_small_to_see_is_printed_in_full() -> None:
    after = result(counted=triad(read=24 * N + 100), ledger=())
    found = check(results(after), results(result()), Rules(bytes=0))
    assert found.ok  # within the slack
    after = result(counted=triad(read=24 * N + 5000), ledger=())
    (item,) = check(results(after), results(result()), Rules(bytes=0)).bad
    assert (item.before, item.after) == ("480_000_000", "480_005_000")


def test_counts_of_hardware_have_a_tolerance() -> None:
    before = result(counted=counted_by_hardware())
    near = result(counted=counted_by_hardware(flops=Count(2 * N + 1000, "counted", "core events")))
    far = result(counted=counted_by_hardware(flops=Count(3 * N, "counted", "core events")))
    assert report(near, before).ok
    assert moved(report(far, before)) == [("FLOPs", "moved")]


def test_a_number_that_the_run_lacks_fails_with_its_reason() -> None:
    lost = triad(dram_read_bytes=unavailable("cache model", "--detail flops records no addresses"))
    found = report(result(counted=lost, ledger=()))
    assert moved(found) == [("DRAM read", "failed")]
    assert found.bad[0].message == "--detail flops records no addresses"


def test_a_number_that_the_baseline_lacks_is_not_looked_at() -> None:
    before = result(counted=triad(dram_read_bytes=modelled(None), dram_write_bytes=modelled(None)), ledger=())
    found = report(result(), before)
    assert found.ok
    assert not any("DRAM" in item.quantity for item in found.items)


def test_a_kernel_that_failed_fails_with_its_reason() -> None:
    found = report(failed("triad"))
    assert [(item.quantity, item.state, item.message) for item in found.bad] == [
        ("run", "failed", "crash: SIGSEGV")
    ]


def test_a_wrong_or_unchecked_result_fails() -> None:
    assert moved(report(result(checked=False))) == [("result", "moved")]
    assert moved(report(result(checked=None))) == [("result", "moved")]
    assert report(result(checked=None), result(checked=None)).ok


def test_a_kernel_that_is_gone_fails_and_a_new_one_does_not() -> None:
    found = check(results(result("a"), result("c")), results(result("a"), result("b")))
    assert [(item.kernel, item.quantity, item.state) for item in found.bad] == [("b", "run", "failed")]
    assert [item.kernel for item in found.items if item.state == "new"] == ["c"]


def test_a_baseline_with_nothing_to_check_is_refused() -> None:
    for baseline in (results(), results(failed())):
        with pytest.raises(BadInput, match="the baseline has no kernel with a number"):
            check(results(result(), failed()), baseline)


UNLIKE: list[dict[str, Any]] = [{"params": {"n": 1}}, {"threads": 2}, {"cache": "cold"}]


@pytest.mark.parametrize("fields", UNLIKE)
def test_unlike_runs_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(NotComparable):
        report(result(**fields))


def test_of_the_machine_only_what_decides_over_counts_matters_without_time() -> None:
    before, after = results(result()), results(result())
    other = replace(after, machine=replace(after.machine, name="a runner", cpu="another"))
    assert check(other, before).ok
    with pytest.raises(NotComparable, match="a runner"):
        check(other, before, Rules(time=0.1))
    shrunk = replace(after, machine=replace(after.machine, caches=after.machine.caches[:1]))
    with pytest.raises(NotComparable, match="no more caches"):
        check(shrunk, before)
    found = check(shrunk, before, allow=["machine"])
    assert next(str(one) for one in found.allowed).startswith("machine L2 1 MiB")


def test_time_is_looked_at_only_if_asked_for() -> None:
    assert report(timed(2.0), timed(1.0)).ok
    assert moved(report(timed(2.0), timed(1.0), Rules(time=0.1))) == [("time", "moved")]


@pytest.mark.parametrize(
    ("factor", "count", "state"),
    [
        (1.05, 6, "held"),  # slower, and significant, but within the tolerance
        (1.2, 6, "moved"),
        (0.5, 6, "held"),
        (1.2, 2, "failed"),  # two samples can show nothing
    ],
)
def test_only_a_significant_slowdown_beyond_the_tolerance_fails(
    factor: float, count: int, state: str
) -> None:
    found = report(timed(factor, count), timed(1.0, count), Rules(time=0.1))
    (item,) = (item for item in found.items if item.quantity == "time")
    assert item.state == state


def test_a_slowdown_that_noise_explains_holds() -> None:
    noisy = replace(result(), seconds=Seconds.of((1.0, 1.0, 1.6, 1.0, 1.7, 1.5)))
    base = replace(result(), seconds=Seconds.of((1.0, 1.2, 1.3, 1.01, 1.4, 0.9)))
    assert report(noisy, base, Rules(time=0.0)).ok


def test_a_kernel_that_lost_its_time_fails() -> None:
    found = report(result(seconds=None), timed(1.0), Rules(time=0.1))
    assert ("time", "failed") in moved(found)


def test_new_findings_fail_only_if_asked_for() -> None:
    finding = Finding("stride", "advice", "b is strided", "", None)
    after = result(findings=(finding,))
    assert report(after).ok
    (item,) = report(after, rules=Rules(findings=True)).bad
    assert (item.quantity, item.after, item.message) == ("new findings", "stride", "b is strided")
    assert report(after, after, Rules(findings=True)).ok
