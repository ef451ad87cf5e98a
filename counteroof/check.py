"""A run held against a baseline: what may not move, by how much, and what did.

Counts that are exact must be equal; counts of hardware and bytes may move within a tolerance; time is looked
at only if asked for, and then only a significant slowdown fails. A number that the baseline has and the run
lacks fails: what cannot be seen has not been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from . import significance, units
from .compare import (
    Mismatch,
    check_kinds,
    kernel_mismatches,
    ledger_changes,
    machine_mismatches,
    matched,
    refuse,
)
from .count.base import Count, FlopClass
from .errors import BadInput
from .results import KernelResult, Results

State = Literal["held", "moved", "failed", "new"]
"""``moved``: beyond what is allowed; ``failed``: the run has no number; ``new``: no such kernel before."""

BYTES_TOLERANCE = 0.01
"""Share by which bytes, and counts of hardware, may differ unless said otherwise."""

SLACK_BYTES = 4096
"""Bytes by which bytes may always differ: a page's worth of lines that lie elsewhere in the next run."""

_EXACT = ("instrumented", "modelled")


@dataclass(frozen=True)
class Rules:
    """What is allowed to move.

    Attributes
    ----------
    bytes
        Share of the baseline by which bytes, and counts of hardware, may differ either way.
    time
        Share of the baseline's time by which a kernel may be slower; ``None``: time is not looked at.
    findings
        Whether a finding that the baseline does not have fails.
    alpha
        Chance of calling equal times different.
    """

    bytes: float = BYTES_TOLERANCE
    time: float | None = None
    findings: bool = False
    alpha: float = significance.ALPHA


@dataclass(frozen=True)
class Item:
    """One quantity of one kernel against its baseline; ``before`` and ``after`` are texts with units."""

    kernel: str
    quantity: str
    state: State
    before: str
    after: str
    allowed: str
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether it does not fail the check."""
        return self.state in ("held", "new")


@dataclass(frozen=True)
class Report:
    """All that was looked at, kernel by kernel, and the mismatches that were allowed."""

    items: tuple[Item, ...]
    baseline: Results
    results: Results
    rules: Rules
    allowed: tuple[Mismatch, ...] = ()

    @property
    def bad(self) -> tuple[Item, ...]:
        """What fails the check."""
        return tuple(item for item in self.items if not item.ok)

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.bad


def check(
    results: Results, baseline: Results, rules: Rules | None = None, allow: Collection[str] = ()
) -> Report:
    """Return how a run stands against a baseline.

    Parameters
    ----------
    results, baseline
        The run, and the earlier one that says how it must be.
    rules
        What may move.
    allow
        The kinds of mismatch, of :data:`counteroof.compare.KINDS`, in spite of which to check. A kernel that
        executes another precision has moved; it is no mismatch.

    Raises
    ------
    NotComparable
        If the runs differ in size, threads, convention, or what of the machine decides over the counts.
    BadInput
        If the baseline has nothing that could be checked.
    """
    rules = rules or Rules()
    check_kinds(allow)
    pairs, gone, new = matched(baseline.kernels, results.kernels)
    mismatches = [
        *machine_mismatches(baseline.machine, results.machine, counts_only=rules.time is None),
        *(
            one
            for old, now in pairs
            if now.error is None
            for one in kernel_mismatches(old, now)
            if one.kind != "precision"
        ),
    ]
    refuse(mismatches, allow)
    items = [item for old, now in pairs for item in _kernel(old, now, rules)]
    items += [
        Item(old.label, "run", "failed", "measured", units.MISSING, "measured", "not in this run")
        for old in gone
    ]
    if not items:
        raise BadInput(
            "the baseline has no kernel with a number that could be checked; make it from a run that counted"
        )
    items += [
        Item(now.label, "run", "new", units.MISSING, "measured", "", "not in the baseline") for now in new
    ]
    return Report(tuple(items), baseline, results, rules, tuple(mismatches))


def _kernel(old: KernelResult, now: KernelResult, rules: Rules) -> Iterator[Item]:
    """Give what is checked of one kernel: only what its baseline has."""
    if old.error is not None:
        return
    if now.error is not None:
        message = f"{now.error.kind}: {now.error.message}"
        yield Item(now.label, "run", "failed", "measured", now.error.kind, "measured", message)
        return
    if old.checked:
        held = now.checked is True
        after = {True: "agrees", False: "differs", None: "not checked"}[now.checked]
        yield Item(now.label, "result", "held" if held else "moved", "agrees", after, "agrees")
    if (placed := _executed(old)) is not None:
        yield _same(now.label, "precision", placed, _executed(now) or units.MISSING)
    yield from _counts(old, now, rules)
    yield from _bytes(old, now, rules)
    if rules.time is not None and old.seconds is not None:
        yield _time(old, now, rules)
    if rules.findings:
        rules_before = {one.rule for one in old.findings}
        fresh = [one for one in now.findings if one.rule not in rules_before and one.severity != "note"]
        after = ", ".join(one.rule for one in fresh) or "none"
        message = "; ".join(one.message for one in fresh)
        yield Item(now.label, "new findings", "moved" if fresh else "held", "none", after, "none", message)


def _executed(kernel: KernelResult) -> str | None:
    return kernel.placement.precision if kernel.placement is not None else None


def _same(kernel: str, quantity: str, before: str, after: str, message: str = "") -> Item:
    return Item(kernel, quantity, "held" if before == after else "moved", before, after, "exactly", message)


def _counts(old: KernelResult, now: KernelResult, rules: Rules) -> Iterator[Item]:
    """Give the counts by the counter that delivered the baseline's FLOPs."""
    for quantity, name in (
        ("FLOPs", "flops"),
        ("issued FLOPs", "issued_flops"),
        ("instructions", "instructions"),
    ):
        before, after = _count(old, name), _count(now, name)
        if before is None or before.value is None:
            continue
        if after is None or after.value is None:
            yield _missing(now.label, quantity, before.value, after)
        elif before.status in _EXACT and after.status in _EXACT:
            yield _same(now.label, quantity, f"{before.value:_}", f"{after.value:_}")
        else:
            yield _near(now.label, quantity, before.value, after.value, rules.bytes, 0, units.count)
    classes = _classes(old)
    if classes:
        found = _classes(now)
        moved = [key for key in dict.fromkeys((*classes, *found)) if classes.get(key) != found.get(key)]
        message = "; ".join(f"{key}: {classes.get(key, 0):_} to {found.get(key, 0):_}" for key in moved)
        state: State = "moved" if moved else "held"
        before_text, after_text = (_kinds(kinds) for kinds in (classes, found))
        yield Item(now.label, "FLOPs by kind", state, before_text, after_text, "exactly", message)


def _count(kernel: KernelResult, name: str) -> Count | None:
    if kernel.chosen.flops is None:
        return None
    count: Count = getattr(kernel.counters[kernel.chosen.flops], name)
    return count


def _classes(kernel: KernelResult) -> dict[str, int]:
    """Return the FLOPs of each kind by its name; none if a counter has no exact ones."""
    if kernel.chosen.flops is None or kernel.flops.status not in _EXACT:
        return {}
    found: dict[str, int] = {}
    for one in kernel.counters[kernel.chosen.flops].flops_by:
        found[_kind(one)] = found.get(_kind(one), 0) + one.flops
    return found


def _kind(one: FlopClass) -> str:
    width = f"{one.width}-bit" if one.width else "scalar"
    return f"{one.precision} {width} {one.op}"


def _kinds(kinds: Collection[str]) -> str:
    return f"{len(kinds)} kind{'s' * (len(kinds) != 1)}"


def _bytes(old: KernelResult, now: KernelResult, rules: Rules) -> Iterator[Item]:
    if old.chosen.bytes is None:
        return
    before = old.counters[old.chosen.bytes]
    after = now.counters[now.chosen.bytes] if now.chosen.bytes is not None else None
    changes = ledger_changes(old, now)
    words = "; ".join(
        f"{one.cause}{f' ({one.array})' if one.array else ''} {units.signed_bytes(one.after - one.before)}"
        for one in changes
    )
    for quantity, name in (("DRAM read", "dram_read_bytes"), ("DRAM written", "dram_write_bytes")):
        expected: Count = getattr(before, name)
        found: Count | None = None if after is None else getattr(after, name)
        if expected.value is None:
            continue
        if found is None or found.value is None:
            yield _missing(now.label, quantity, expected.value, found or now.dram_bytes)
            continue
        item = _near(
            now.label, quantity, expected.value, found.value, rules.bytes, SLACK_BYTES, units.byte_count
        )
        yield item if item.ok or not words else _with_message(item, words)


def _with_message(item: Item, message: str) -> Item:
    return Item(item.kernel, item.quantity, item.state, item.before, item.after, item.allowed, message)


def _near(
    kernel: str,
    quantity: str,
    before: float,
    after: float,
    share: float,
    slack: int,
    text: Callable[[float | None], str],
) -> Item:
    allowed = f"within {units.percent(share)}" + (f" and {units.byte_count(slack)}" if slack else "")
    held = abs(after - before) <= share * before + slack
    texts = text(before), text(after)
    if not held and texts[0] == texts[1]:
        texts = f"{before:_}", f"{after:_}"
    return Item(kernel, quantity, "held" if held else "moved", *texts, allowed)


def _missing(kernel: str, quantity: str, before: float, after: Count | None) -> Item:
    reason = after.reason if after is not None and after.reason else "nothing counted it"
    return Item(kernel, quantity, "failed", units.count(before), units.MISSING, "a number", reason)


def _time(old: KernelResult, now: KernelResult, rules: Rules) -> Item:
    assert old.seconds is not None
    assert rules.time is not None
    before = units.seconds(old.seconds.median)
    allowed = f"at most {units.percent(rules.time)} slower"
    if now.seconds is None:
        return Item(now.label, "time", "failed", before, units.MISSING, allowed, "not timed")
    found = significance.compare(old.seconds.samples, now.seconds.samples, rules.alpha)
    after = units.seconds(now.seconds.median)
    if not found.enough:
        message = (
            f"{len(old.seconds.samples)} and {len(now.seconds.samples)} samples can show no difference at "
            f"p < {rules.alpha:g}"
        )
        return Item(now.label, "time", "failed", before, after, allowed, message)
    slower = found.significant and found.ratio > 1 + rules.time
    message = f"{units.ratio(found.ratio)} times the time, p = {found.p:.2g}"
    return Item(now.label, "time", "moved" if slower else "held", before, after, allowed, message)
