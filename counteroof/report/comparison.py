"""A comparison of two runs as a table: before above after on the terminal, side by side in documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .. import names, units
from ..compare import KernelComparison, LedgerChange, RunComparison
from ..results import KernelResult
from . import forms
from .columns import BY_KEY
from .forms import aligned, escaped, printable
from .grid import Cell, Grid, Heading
from .table import NAME_ROOM, hanging, run_title

if TYPE_CHECKING:
    from rich.console import RenderableType

QUANTITIES = (
    ("seconds", "time"),
    ("executed_flops", "FLOPs"),
    ("actual_bytes", "bytes"),
    ("intensity", "FLOP/B"),
    ("flops_per_second", "GFLOP/s"),
    ("fraction", "of roof"),
    ("bound", "bound"),
)
"""What is shown before and after: columns of a run's table, and their headings here."""

MOVED_ROOF = 0.05
"""From this difference on, a roof that both runs are held against is said to be another."""

_EXPENDABLE = ("flops_per_second", "bound", "intensity")
"""Columns that a narrow terminal does without, in this order; every other form has them."""

_LEAST_NAME = 16
"""Characters of a name below which a column is left out instead."""

NEGLIGIBLE = 0.001
"""Share of the actual bytes below which a change of a ledger line is not printed (data forms have all)."""


def grid(comparisons: Sequence[RunComparison]) -> Grid:
    """Return the comparisons as one table, values in base units, kernels of one side alone at the end."""
    several = len(comparisons) > 1
    headings = [Heading("kernel", "kernel", False), *([Heading("run", "run", False)] if several else [])]
    for key, text in QUANTITIES:
        numeric = BY_KEY[key].numeric
        headings += [
            Heading(f"{key}_before", f"{text} before", numeric),
            Heading(f"{key}_after", "after", numeric),
        ]
        if key == "seconds":
            headings += [
                Heading("seconds_ratio", "ratio", True),
                Heading("seconds_low", "from", True),
                Heading("seconds_high", "to", True),
                Heading("p", "p", True),
                Heading("verdict", "verdict", False),
            ]
    headings += [
        Heading("ledger", "ledger lines that changed", False),
        Heading("findings_gone", "findings gone", False),
        Heading("findings_new", "findings new", False),
    ]
    rows = []
    plain = names.all_readable(label for comparison in comparisons for label in _labels(comparison))
    for number, comparison in enumerate(comparisons, 1):
        run = [_word(f"{number}: {comparison.after.created}")] if several else []
        rows += [
            (_word(plain[one.label]), *run, *_cells(one.before, one.after, one), *_said(one))
            for one in comparison.kernels
        ]
        for before, after in _alone(comparison):
            label = plain[before.label if before is not None else _label(after)]
            cells = (_word(label), *run, *_cells(before, after, None), _word(None), _word(None), _word(None))
            rows.append(cells)
    return Grid(tuple(headings), tuple(rows))


def _alone(comparison: RunComparison) -> Iterator[tuple[KernelResult | None, KernelResult | None]]:
    yield from ((kernel, None) for kernel in comparison.only_before)
    yield from ((None, kernel) for kernel in comparison.only_after)


def _labels(comparison: RunComparison) -> Iterator[str]:
    yield from (one.label for one in comparison.kernels)
    yield from (kernel.label for kernel in (*comparison.only_before, *comparison.only_after))


def _label(kernel: KernelResult | None) -> str:
    return "" if kernel is None else kernel.label


def _cells(
    before: KernelResult | None, after: KernelResult | None, pair: KernelComparison | None
) -> list[Cell]:
    cells: list[Cell] = []
    for key, _ in QUANTITIES:
        column = BY_KEY[key]
        cells += [
            Cell(None, units.MISSING) if kernel is None else Cell(column.value(kernel), column.text(kernel))
            for kernel in (before, after)
        ]
        if key == "seconds":
            cells += _time(before, pair)
    return cells


def _time(before: KernelResult | None, pair: KernelComparison | None) -> list[Cell]:
    if pair is None:
        return [_number(None), _number(None), _number(None), _number(None), _word(_side(before))]
    found = pair.seconds
    if found is None:
        return [_number(None), _number(None), _number(None), _number(None), _word(pair.verdict)]
    return [
        Cell(found.ratio, units.ratio(found.ratio), found.significant),
        _number(found.low),
        _number(found.high),
        Cell(found.p, f"{found.p:.2g}"),
        Cell(pair.verdict, pair.verdict, found.significant),
    ]


def _side(before: KernelResult | None) -> str:
    return "only after" if before is None else "only before"


def _number(value: float | None) -> Cell:
    return Cell(value, units.ratio(value))


def _word(text: str | None) -> Cell:
    return Cell(text, text or units.MISSING)


def _said(one: KernelComparison) -> list[Cell]:
    ledger = "; ".join(map(ledger_text, one.ledger)) or None
    gone = ", ".join(finding.rule for finding in one.findings_gone) or None
    new = ", ".join(finding.rule for finding in one.findings_new) or None
    return [_word(ledger), _word(gone), _word(new)]


def ledger_text(change: LedgerChange) -> str:
    """Return a changed ledger line in words: ``write-allocate (a): 160 MB to 0 B``."""
    array = f" ({change.array})" if change.array is not None else ""
    before, after = units.byte_count(change.before), units.byte_count(change.after)
    by = "" if before != after else f", {units.signed_bytes(change.after - change.before)}"
    return f"{change.cause}{array}: {before} to {after}{by}"


def sections(comparison: RunComparison) -> list[tuple[str, list[str]]]:
    """Return what stands under a comparison: titles and their lines, those without lines left out."""
    plain = names.all_readable(one.label for one in comparison.kernels)
    ledger, findings = [], []
    for one in comparison.kernels:
        label = plain[one.label]
        whole = max((one.before.dram_bytes.value or 0, one.after.dram_bytes.value or 0))
        weight = max(NEGLIGIBLE * whole, 1)
        ledger += [
            f"{label}: {ledger_text(change)}"
            for change in one.ledger
            if abs(change.after - change.before) >= weight
        ]
        findings += [f"{label}: gone: {finding.message}" for finding in one.findings_gone]
        findings += [f"{label}: new: {finding.message}" for finding in one.findings_new]
    alone = [f"only before: {kernel.label}" for kernel in comparison.only_before]
    alone += [f"only after: {kernel.label}" for kernel in comparison.only_after]
    failed = [
        f"{_label(kernel)} {when}: {kernel.error.kind}: {kernel.error.message}"
        for one in comparison.kernels
        for when, kernel in (("before", one.before), ("after", one.after))
        if kernel.error is not None
    ]
    found = [
        ("compared in spite of", [str(one) for one in comparison.allowed]),
        ("failed", failed),
        ("ledger lines that changed", ledger),
        ("findings", findings),
        ("without a counterpart", alone),
        ("how to read it", reading(comparison)),
    ]
    return [(title, lines) for title, lines in found if lines]


def reading(comparison: RunComparison) -> list[str]:
    """Return how the verdicts were got."""
    alphas = {one.seconds.alpha for one in comparison.kernels if one.seconds is not None}
    lines = [f"before: {run_title(comparison.before)}", f"after: {run_title(comparison.after)}"]
    for alpha in alphas:
        lines.append(
            f"ratio = time after over before, with its {100 * (1 - alpha):g} % interval; faster and slower: "
            f"the samples differ by Mann and Whitney's test at p < {alpha:g}"
        )
    lines += _roofs(comparison)
    if any(one.seconds is not None and one.seconds.significant for one in comparison.kernels):
        lines.append(
            "the samples of a busier machine differ, too: repeat both runs by turns before believing a small "
            "difference"
        )
    if any(one.verdict == "too few samples" for one in comparison.kernels):
        lines.append("too few samples = no result of the test could be below that p")
    return lines


def _roofs(comparison: RunComparison) -> list[str]:
    """Return one line for each roof that was another in the two runs: shares of it do not compare."""
    moved: dict[str, list[tuple[float, float]]] = {}
    for one in comparison.kernels:
        old, new = one.before.placement, one.after.placement
        if old is None or new is None or old.roof is None or new.roof is None or old.ceiling != new.ceiling:
            continue
        if abs(new.roof / old.roof - 1) > MOVED_ROOF:
            rate = "compute" if new.bound == "compute" else "bandwidth"
            moved.setdefault(f"{rate} {new.ceiling}", []).append((old.roof, new.roof))
    lines = []
    for name, values in moved.items():
        kind, _, ceiling = name.partition(" ")
        text = units.flop_rate if kind == "compute" else units.bandwidth
        befores, afters = ({text(value) for value in side} for side in zip(*values, strict=True))
        before, after = (" or ".join(sorted(side)) for side in (befores, afters))
        lines.append(f"the roof {ceiling} was {before} before and {after} after: shares of it moved with it")
    return lines


def terminal(comparisons: Sequence[RunComparison], width: int) -> RenderableType:
    """Return the comparisons as something a rich console prints in ``width`` columns."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for number, comparison in enumerate(comparisons, 1):
        if len(comparisons) > 1:
            parts += [Text(""), Text(f"{number} of {len(comparisons)}", style="bold")]
        head, body = _stacked(comparison, width)
        parts.append(Text("\n".join(head), style="bold", no_wrap=True, overflow="ignore"))
        rows = Text(no_wrap=True, overflow="ignore")
        for at, (text, one) in enumerate(zip(body, comparison.kernels, strict=True)):
            style = {"slower": "red", "faster": "green"}.get(one.verdict)
            rows.append("\n" if at else "")
            rows.append(text, style=style)
        parts.append(rows)
        for title, lines in sections(comparison):
            listing = "\n".join(hanging(printable(line), width) for line in lines)
            parts += [Text(""), Text(title, style="bold"), Text(listing, no_wrap=True)]
    return Group(*parts)


def _stacked(comparison: RunComparison, width: int) -> tuple[list[str], list[str]]:
    """Return head and rows; what does not fit the width is left out, the least telling column first."""
    plain = names.all_readable(one.label for one in comparison.kernels)
    labels = [printable(plain[one.label]) for one in comparison.kernels]
    least = min(max(map(len, labels), default=0), _LEAST_NAME)
    shown = [(key, text) for key, text in QUANTITIES if key != "seconds"]
    columns = {key: [_pair(key, one) for one in comparison.kernels] for key, _ in QUANTITIES}
    verdicts = [_verdict(one) for one in comparison.kernels]
    for key in (*_EXPENDABLE, None):
        headings = ["time\nbefore\nafter", "ratio\nverdict", *(f"{text}\nbefore\nafter" for _, text in shown)]
        numeric = [True, False, *(BY_KEY[name].numeric for name, _ in shown)]
        cells = [columns["seconds"], verdicts, *(columns[name] for name, _ in shown)]
        rows = [[column[at] for column in cells] for at in range(len(labels))]
        room = width - len(aligned(headings, numeric, rows, 2)[0][-1]) - 2
        if room >= least or key is None:
            break
        shown = [(name, text) for name, text in shown if name != key]
    cut = names.shortened(labels, max(room, 10))
    whole = [[cut[label], *row] for label, row in zip(labels, rows, strict=True)]
    return aligned(["kernel", *headings], [False, *numeric], whole, 2)


def _pair(key: str, one: KernelComparison) -> str:
    text: Callable[[KernelResult], str] = BY_KEY[key].text
    if key == "intensity":
        return "\n".join(text(side).replace("no DRAM traffic", "no DRAM") for side in (one.before, one.after))
    return "\n".join(printable(text(side)) for side in (one.before, one.after))


def _verdict(one: KernelComparison) -> str:
    if one.seconds is None:
        return f"{units.MISSING}\n{one.verdict}"
    found = one.seconds
    interval = "" if found.low is None else f" ({units.ratio(found.low)} to {units.ratio(found.high)})"
    return f"{units.ratio(found.ratio)}{interval}\n{one.verdict}"


def markdown(comparisons: Sequence[RunComparison]) -> str:
    """Return the comparisons as Markdown."""
    tail: list[str] = []
    for number, comparison in enumerate(comparisons, 1):
        which = f" ({number})" if len(comparisons) > 1 else ""
        for title, lines in sections(comparison):
            tail += ["", f"## {title.capitalize()}{which}", "", *(f"- {escaped(line)}" for line in lines)]
    table = forms.markdown(grid(comparisons).with_names_cut(NAME_ROOM))
    return "\n".join(["# Comparison", "", *table, *tail]) + "\n"


def document(form: Callable[..., str], comparisons: Sequence[RunComparison]) -> str:
    """Return the comparisons as LaTeX or HTML, by the function of :mod:`.forms` for it."""
    notes = [line for one in comparisons for title, lines in sections(one) for line in lines]
    table = grid(comparisons).with_names_cut(NAME_ROOM)
    return form(table, "Comparison of runs", dict.fromkeys(notes))
