"""Two runs kernel by kernel: what changed, whether it is more than noise, and what forbids the comparison.

Only like is compared with like. What differs in precision, size, threads, convention or machine is refused
unless it is allowed by name; what was allowed stays in the comparison, to be printed with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from . import significance, units
from .diagnose.base import Finding
from .errors import BadInput
from .machine import replacement
from .machine.model import Machine
from .results import KernelResult, Results
from .significance import Difference
from .wording import one_of, suggest

Kind = Literal["precision", "size", "threads", "convention", "machine"]
"""In what two runs may differ so that their numbers do not compare."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SHOWN = 4
"""Mismatches of one kind that a refusal lists."""

_FLOP_CONVENTION = "FLOP convention: "


class NotComparable(BadInput):
    """Two runs differ in what must be the same; ``mismatches`` lists all of it."""

    def __init__(self, mismatches: Sequence[Mismatch]) -> None:
        self.mismatches = tuple(mismatches)
        by_kind = {kind: [one for one in mismatches if one.kind == kind] for kind in KINDS}
        texts = []
        for found in by_kind.values():
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            texts += ["; ".join(map(str, found[:SHOWN])) + more] if found else []
        kinds = ",".join(kind for kind, found in by_kind.items() if found)
        super().__init__(
            f"not comparable: {'; '.join(texts)}; allow it with --allow {kinds}, or choose kernels with "
            "--kernel"
        )


@dataclass(frozen=True)
class Mismatch:
    """One thing in which two runs differ; ``kernel`` is ``None`` if it is the machine."""

    kind: Kind
    kernel: str | None
    before: str
    after: str

    def __str__(self) -> str:
        whose = "" if self.kernel is None else f"{self.kernel}: "
        return f"{whose}{self.kind} {self.before} against {self.after}"


@dataclass(frozen=True)
class LedgerChange:
    """A line of the ledger whose bytes changed; a line that is not there has none, which is 0."""

    cause: str
    array: str | None
    before: int
    after: int


@dataclass(frozen=True)
class KernelComparison:
    """One kernel before and after.

    ``seconds`` is how its time differs, or ``None`` if a side has no samples.
    """

    before: KernelResult
    after: KernelResult
    seconds: Difference | None

    @property
    def label(self) -> str:
        """The name of the kernel; both, if they differ."""
        same = self.before.label == self.after.label
        return self.before.label if same else f"{self.before.label} / {self.after.label}"

    @property
    def verdict(self) -> str:
        """What the samples say of the time, in words."""
        if self.seconds is None:
            return "not timed"
        if not self.seconds.enough:
            return "too few samples"
        if not self.seconds.significant:
            return "no difference shown"
        return "faster" if self.seconds.ratio < 1 else "slower"

    @property
    def ledger(self) -> tuple[LedgerChange, ...]:
        """The lines between declared and actual whose bytes changed, in the ledger's order."""
        return ledger_changes(self.before, self.after)

    @property
    def findings_gone(self) -> tuple[Finding, ...]:
        """Findings whose rule no longer applies."""
        return _without(self.before.findings, self.after.findings)

    @property
    def findings_new(self) -> tuple[Finding, ...]:
        """Findings whose rule did not apply before."""
        return _without(self.after.findings, self.before.findings)


@dataclass(frozen=True)
class RunComparison:
    """Two runs: the kernels both have, those that only one has, and the mismatches that were allowed."""

    before: Results
    after: Results
    kernels: tuple[KernelComparison, ...]
    only_before: tuple[KernelResult, ...] = ()
    only_after: tuple[KernelResult, ...] = ()
    allowed: tuple[Mismatch, ...] = ()


def compare(
    before: Results, after: Results, allow: Collection[str] = (), alpha: float = significance.ALPHA
) -> RunComparison:
    """Return how the kernels of a run differ from those of an earlier one.

    Parameters
    ----------
    before, after
        The two runs. Kernels belong together by their label, or by their name where it is the only one.
    allow
        The kinds of mismatch, of ``KINDS``, in spite of which to compare.
    alpha
        Chance of calling equal times different.

    Raises
    ------
    NotComparable
        If the runs differ in what is not allowed.
    BadInput
        If no kernel is in both, or a kind is unknown.
    """
    check_kinds(allow)
    pairs, only_before, only_after = matched(before.kernels, after.kernels)
    if not pairs:
        raise BadInput(f"no kernel is in both runs: {_names(before.kernels)} against {_names(after.kernels)}")
    mismatches = [
        *machine_mismatches(before.machine, after.machine),
        *(one for pair in pairs for one in kernel_mismatches(*pair)),
    ]
    refuse(mismatches, allow)
    kernels = tuple(KernelComparison(old, new, _seconds(old, new, alpha)) for old, new in pairs)
    return RunComparison(before, after, kernels, only_before, only_after, tuple(mismatches))


def check_kinds(allow: Iterable[str]) -> None:
    """Refuse what is no kind of mismatch."""
    for kind in allow:
        if kind not in KINDS:
            raise BadInput(f"cannot allow {kind!r}{suggest(kind, KINDS)}; expected {one_of(KINDS)}")


def refuse(mismatches: Iterable[Mismatch], allow: Collection[str]) -> None:
    """Raise NotComparable if there is a mismatch that is not allowed."""
    refused = [one for one in mismatches if one.kind not in allow]
    if refused:
        raise NotComparable(refused)


Pairs = list[tuple[KernelResult, KernelResult]]


def matched(
    before: Sequence[KernelResult], after: Sequence[KernelResult]
) -> tuple[Pairs, tuple[KernelResult, ...], tuple[KernelResult, ...]]:
    """Return the kernels that belong together, and those of either side that have no counterpart."""
    by_label = {kernel.label: kernel for kernel in reversed(after)}
    partner = {id(old): by_label[old.label] for old in before if old.label in by_label}
    taken = {id(new) for new in partner.values()}
    left_before = [old for old in before if id(old) not in partner]
    left_after = [new for new in after if id(new) not in taken]
    for old in left_before:
        same = [new for new in left_after if new.name == old.name]
        if len(same) == 1 and sum(other.name == old.name for other in left_before) == 1:
            partner[id(old)] = same[0]
            taken.add(id(same[0]))
    pairs = [(old, partner[id(old)]) for old in before if id(old) in partner]
    only_before = tuple(old for old in before if id(old) not in partner)
    return pairs, only_before, tuple(new for new in after if id(new) not in taken)


def kernel_mismatches(before: KernelResult, after: KernelResult) -> Iterator[Mismatch]:
    """Give what forbids to compare two results of a kernel."""
    label = before.label
    if before.precision != after.precision and None not in (before.precision, after.precision):
        yield Mismatch("precision", label, str(before.precision), str(after.precision))
    if dict(before.params) != dict(after.params):
        yield Mismatch("size", label, _size(before), _size(after))
    if before.threads != after.threads:
        yield Mismatch("threads", label, str(before.threads), str(after.threads))
    if before.cache != after.cache:
        yield Mismatch("convention", label, f"{before.cache} caches", f"{after.cache} caches")
    for quantity, old, new in (
        ("FLOPs", before.flops, after.flops),
        ("bytes", before.dram_bytes, after.dram_bytes),
    ):
        if None in (old.value, new.value):
            continue
        ways = [_way(kernel, quantity) for kernel in (before, after)]
        if ways[0] != ways[1]:
            yield Mismatch("convention", label, f"{quantity} {ways[0]}", f"{quantity} {ways[1]}")


def machine_mismatches(before: Machine, after: Machine, *, counts_only: bool = False) -> Iterator[Mismatch]:
    """Give in what two machines differ that matters; with ``counts_only`` not what matters for time alone.

    Counts depend on the instruction sets, which choose the code that runs, and bytes on the caches.
    """
    if not counts_only and before.name != after.name:
        yield Mismatch("machine", None, before.name, after.name)
    elif not counts_only and before.cpu != after.cpu:
        yield Mismatch("machine", None, before.cpu, after.cpu)
    if before.architecture != after.architecture:
        yield Mismatch("machine", None, before.architecture, after.architecture)
    if before.isa != after.isa:
        yield Mismatch("machine", None, "/".join(before.isa) or "no ISA", "/".join(after.isa) or "no ISA")
    caches = [
        tuple(
            f"{cache.name} {units.binary_bytes(cache.bytes)} {cache.ways}-way "
            f"{cache.line_bytes} B {cache.fill} {replacement.text(cache.policy)}"
            + (" hashed" if cache.hashed else "")
            for cache in machine.caches
        )
        for machine in (before, after)
    ]
    for index in range(max(map(len, caches))):
        old, new = (one[index] if index < len(one) else "no more caches" for one in caches)
        if old != new:
            yield Mismatch("machine", None, old, new)


def ledger_changes(before: KernelResult, after: KernelResult) -> tuple[LedgerChange, ...]:
    """Return the ledger lines that changed; none if a side has no ledger."""
    if not before.ledger or not after.ledger:
        return ()
    sums: list[dict[tuple[str, str | None], int]] = []
    for ledger in (before.ledger, after.ledger):
        lines: dict[tuple[str, str | None], int] = {}
        for line in ledger:
            if not line.total:
                key = (line.cause, line.array)
                lines[key] = lines.get(key, 0) + (line.bytes or 0)
        sums.append(lines)
    old, new = sums
    changes = (LedgerChange(*key, old.get(key, 0), new.get(key, 0)) for key in dict.fromkeys((*old, *new)))
    return tuple(change for change in changes if change.before != change.after)


def _without(some: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    rules = {one.rule for one in others}
    # that a kernel is fine is no finding that comes or goes
    return tuple(one for one in some if one.rule not in rules and one.severity != "note")


def _seconds(before: KernelResult, after: KernelResult, alpha: float) -> Difference | None:
    if before.seconds is None or after.seconds is None:
        return None
    return significance.compare(before.seconds.samples, after.seconds.samples, alpha)


def _way(kernel: KernelResult, quantity: str) -> str:
    """Return how a quantity was counted: by what, and for FLOPs by which convention."""
    chosen = kernel.chosen.flops if quantity == "FLOPs" else kernel.chosen.bytes
    count = kernel.flops if quantity == "FLOPs" else kernel.dram_bytes
    way = f"{count.status} by {chosen}"
    notes = kernel.counters[chosen].notes if chosen is not None else ()
    said = [note.removeprefix(_FLOP_CONVENTION) for note in notes if note.startswith(_FLOP_CONVENTION)]
    return f"{way}, {said[0]}" if said and quantity == "FLOPs" else way


def _size(kernel: KernelResult) -> str:
    return ", ".join(f"{name}={value}" for name, value in kernel.params.items()) or "no parameters"


def _names(kernels: Sequence[KernelResult]) -> str:
    names = [kernel.label for kernel in kernels]
    shown = ", ".join(names[: 2 * SHOWN]) or "nothing"
    return shown + (f" and {len(names) - 2 * SHOWN} more" if len(names) > 2 * SHOWN else "")
