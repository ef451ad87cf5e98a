"""Two runs kernel by kernel: what belongs together, what is refused, what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counteroof.compare import KINDS, LedgerChange, NotComparable, compare
from counteroof.diagnose.base import Finding
from counteroof.errors import BadInput
from counteroof.results import KernelResult, Results, Seconds

from . import factories
from .factories import counted_by_hardware, failed, measurement, results, traffic, triad

N = 20_000_000


def result(name: str = "triad", **fields: Any) -> KernelResult:
    """Return a result; ``samples`` are its seconds, as they are."""
    made = factories.result(name, **{key: value for key, value in fields.items() if key != "samples"})
    return replace(made, seconds=fields["samples"]) if "samples" in fields else made


def timed(base: float) -> Seconds:
    return Seconds.of(tuple(base * (1 + 0.01 * i) for i in range(6)))


def test_a_faster_kernel_is_called_so_with_its_ratio() -> None:
    (one,) = compare(results(result(samples=timed(1.0))), results(result(samples=timed(0.5)))).kernels
    assert one.verdict == "faster"
    assert one.seconds is not None
    assert one.seconds.ratio == pytest.approx(0.5)
    assert one.seconds.p < 0.01


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (timed(1.0), timed(2.0), "slower"),
        (timed(1.0), timed(1.001), "no difference shown"),
        (Seconds.of((1.0, 1.1)), Seconds.of((2.0, 2.1)), "too few samples"),
        (None, timed(1.0), "not timed"),
    ],
)
def test_verdicts(before: Seconds | None, after: Seconds | None, verdict: str) -> None:
    (one,) = compare(results(result(samples=before)), results(result(samples=after))).kernels
    assert one.verdict == verdict


def test_the_threshold_is_the_callers() -> None:
    runs = results(result(samples=timed(1.0))), results(result(samples=timed(0.5)))
    (one,) = compare(*runs, alpha=0.001).kernels
    assert one.verdict == "too few samples"


CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "precision": ({}, {"precision": "f32"}, "triad: precision f64 against f32"),
    "size": ({}, {"params": {"n": 1000}}, "triad: size n=20000000 against n=1000"),
    "threads": ({}, {"threads": 2}, "triad: threads 1 against 2"),
    "convention": ({}, {"cache": "cold"}, "triad: convention warm caches against cold caches"),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_unlike_kernels_are_refused_unless_allowed(kind: str) -> None:
    old, new, text = CHANGED[kind]
    before, after = results(result(**old)), results(result(**new))
    with pytest.raises(NotComparable) as refused:
        compare(before, after)
    assert text in str(refused.value)
    assert f"--allow {kind}" in str(refused.value)
    with pytest.raises(NotComparable):
        compare(before, after, allow=set(KINDS) - {kind})
    found = compare(before, after, allow=[kind])
    assert [str(one) for one in found.allowed] == [text]


def test_flops_of_two_conventions_are_refused() -> None:
    before = results(result(counted=triad(notes=("FLOP convention: arith",))))
    after = results(result(counted=triad(notes=("FLOP convention: hardware",))))
    with pytest.raises(NotComparable, match="FLOPs instrumented by instrument, arith against FLOPs"):
        compare(before, after)


def test_modelled_bytes_are_no_match_for_counted_ones() -> None:
    with pytest.raises(NotComparable, match="bytes modelled by instrument against bytes counted by perf"):
        compare(results(result()), results(result(counted=counted_by_hardware())))


def test_another_machine_is_refused_with_what_differs() -> None:
    before, after = results(result()), results(result())
    caches = after.machine.caches
    small = (*caches[:2], replace(caches[2], bytes=16 * 2**20))
    for machine, text in (
        (replace(after.machine, name="another"), "machine 2-core Zen 5 VM against another"),
        (
            replace(after.machine, caches=small),
            "machine L3 32 MiB 16-way 64 B victim lru hashed against L3 16 MiB",
        ),
        (replace(after.machine, caches=caches[:2]), "victim lru hashed against no more caches"),
        (replace(after.machine, isa=("SSE",)), "machine SSE/AVX2/AVX-512 against SSE"),
    ):
        with pytest.raises(NotComparable) as refused:
            compare(before, replace(after, machine=machine))
        assert text in str(refused.value)
        compare(before, replace(after, machine=machine), allow=["machine"])


def test_ceilings_and_memory_may_differ() -> None:
    after = results(result(), ceilings=())
    compare(results(result()), replace(after, machine=replace(after.machine, memory_bytes=1)))


def test_a_precision_that_is_not_known_is_no_mismatch() -> None:
    compare(results(result(precision=None)), results(result()))


def test_many_mismatches_make_one_line() -> None:
    before = results(*(result(f"k{i}") for i in range(50)))
    after = results(*(result(f"k{i}", threads=2) for i in range(50)))
    with pytest.raises(NotComparable) as refused:
        compare(before, after)
    assert str(refused.value).count("\n") == 0
    assert "and 46 more" in str(refused.value)
    assert len(refused.value.mismatches) == 50


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"cannot allow 'treads' \(did you mean 'threads'\?\)"):
        compare(results(result()), results(result()), allow=["treads"])


def test_kernels_belong_together_by_label_then_by_name() -> None:
    before = results(
        result("a"),
        result("b", label="b[n=1]"),
        result("s", label="s[n=1]"),
        result("s", label="s[n=2]"),
        result("x"),
    )
    after = results(result("y"), result("b", label="b[n=2]"), result("s", label="s[n=2]"), result("a"))
    found = compare(before, after)
    assert [(one.before.label, one.after.label) for one in found.kernels] == [
        ("a", "a"),
        ("b[n=1]", "b[n=2]"),
        ("s[n=2]", "s[n=2]"),
    ]
    assert [one.label for one in found.kernels] == ["a", "b[n=1] / b[n=2]", "s[n=2]"]
    assert [kernel.label for kernel in found.only_before] == ["s[n=1]", "x"]
    assert [kernel.label for kernel in found.only_after] == ["y"]


def test_runs_without_a_common_kernel_are_refused() -> None:
    with pytest.raises(BadInput, match="no kernel is in both runs: a, b against c"):
        compare(results(result("a"), result("b")), results(result("c")))
    with pytest.raises(BadInput, match="a against nothing"):
        compare(results(result("a")), results())


def test_ledger_lines_that_changed_are_told_by_cause_and_array() -> None:
    repaired = measurement(
        2 * N,
        (traffic("a", write=8 * N, size=8 * N), traffic("b", read=8 * N), traffic("c", read=8 * N)),
    )
    (one,) = compare(results(result()), results(result(counted=repaired))).kernels
    assert one.ledger == (LedgerChange("write-allocate", "a", 8 * N, 0),)


def test_without_a_ledger_nothing_is_said_of_it() -> None:
    (one,) = compare(results(result()), results(result(ledger=()))).kernels
    assert one.ledger == ()


def test_findings_gone_and_new_are_told_by_rule() -> None:
    def finding(rule: str) -> Finding:
        return Finding(rule, "advice", f"{rule} message", "", None)

    before = results(result(findings=(finding("stride"), finding("division"))))
    after = results(result(findings=(finding("division"), finding("page-faults"))))
    (one,) = compare(before, after).kernels
    assert [found.rule for found in one.findings_gone] == ["stride"]
    assert [found.rule for found in one.findings_new] == ["page-faults"]


def test_failed_kernels_are_compared_as_far_as_they_go() -> None:
    whole: Results = results(failed("triad"))
    (one,) = compare(whole, whole).kernels
    assert one.verdict == "not timed"
    assert one.ledger == ()
