"""Other pictures than the classic one, as data: levels of the hierarchy, two runs, paths through sizes.

Each function takes results and returns a :class:`~counteroof.plot.panels.Picture`; nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from .. import units
from ..count.base import Count, unavailable
from ..errors import BadInput
from ..machine.boundary import Boundary, boundaries
from ..machine.model import Ceiling, Machine
from ..results import KernelResult, Results
from ..roofline import choose_roof, comparable, dram_ceilings
from .panels import (
    SHARES,
    Dot,
    Level,
    Panel,
    Picture,
    dot_of,
    group_of,
    highest_first,
    label,
    listed,
    panel_title,
    picture,
    readable,
    remarks,
    shortened,
    spread,
    subtitle,
    title,
    usual_first,
)

LEVELS: tuple[Level, ...] = ("l1", "l2", "l3", "dram")

_FIELDS: Mapping[Level, str] = {"l1": "core_l1_bytes", "l2": "l1_l2_bytes", "l3": "l2_l3_bytes"}

_STREAMS = {"read": "r", "copy": "rw", "triad": "rrw", "update": "u", "copy NT": "rn", "triad NT": "rrn"}
"""What the loops of the bandwidth ceilings do for each element, by their mix (``csrc/ceilings``)."""

_CHANGED = 0.02
"""Roofs of two runs closer than this share are one line."""


def level_bytes(kernel: KernelResult, level: Level) -> Count:
    """Return the bytes that crossed the boundary above a level in one call.

    Those of the cache model come first, since the roofs of caches count as it does.
    """
    if level == "dram":
        return kernel.dram_bytes
    counts: list[Count] = [getattr(one, _FIELDS[level]) for one in kernel.counters.values()]
    counts.sort(key=lambda count: (count.value is None, count.status != "modelled"))
    return counts[0] if counts else unavailable("none", "no counter was run")


def hierarchical(results: Results) -> Picture:
    """Return the picture of intensities at every boundary: up to four dots a kernel, joined by a line.

    A dot stands on the slope of the level that holds it back.
    """
    results = readable(results)

    def dot(kernel: KernelResult, key: int) -> Dot | None:
        flops = kernel.flops.value
        if kernel.seconds is None or not flops:
            return None
        found = []
        for level in LEVELS:
            moved = level_bytes(kernel, level).value
            if level == "dram" and kernel.placement is not None and kernel.placement.no_dram_traffic:
                continue
            if moved:
                found.append((level, flops / moved))
        if not found:
            return None
        *others, (level, intensity) = found
        return Dot(
            key,
            kernel.label,
            label(kernel),
            intensity,
            flops / kernel.seconds.median,
            None,
            kernel.placement.bound if kernel.placement is not None else None,
            spread(kernel),
            level,
            tuple(others),
        )

    ceilings, left_out = comparable(results.machine.ceilings, results.machine.caches)
    panels = _panels(results, dot, lambda threads: _highest_by_level(ceilings, threads))
    return Picture(
        f"Hierarchical {_lower(title(results))}",
        subtitle(results),
        panels,
        (*remarks(results), *_without(results, panels), *left_out),
        x_label="FLOP per byte across each boundary",
        slopes_apart=True,
    )


def cache_aware(results: Results) -> Picture:
    """Return the cache-aware picture: FLOP per byte the core asks for, under the bandwidths the core sees.

    The bandwidth of each level is that of the fastest loop, in bytes loaded and stored by its instructions
    (Ilic, Pratas and Sousa, 2014).
    """
    results = readable(results)

    def dot(kernel: KernelResult, key: int) -> Dot | None:
        flops, moved = kernel.flops.value, level_bytes(kernel, "l1").value
        if kernel.seconds is None or not flops or not moved:
            return None
        bound = kernel.placement.bound if kernel.placement is not None else None
        performance = flops / kernel.seconds.median
        return Dot(key, kernel.label, label(kernel), flops / moved, performance, None, bound, spread(kernel))

    def slopes(threads: int) -> list[Ceiling]:
        seen = [one for ceiling in results.machine.ceilings if (one := at_core(ceiling, results.machine))]
        return _highest_by_level(seen, threads)

    panels = _panels(results, dot, slopes)
    return Picture(
        f"Cache-aware {_lower(title(results))}",
        subtitle(results),
        panels,
        (*remarks(results), *_without(results, panels)),
        x_label="FLOP per byte loaded or stored by instructions",
        slopes_apart=True,
    )


def at_core(ceiling: Ceiling, machine: Machine) -> Ceiling | None:
    """Return a bandwidth ceiling in bytes that instructions load and store; ``None`` if that cannot be told.

    Non-temporal stores are left out: they are another way to memory than the caches.
    """
    streams = _STREAMS.get(ceiling.mix)
    crossing = next((one for one in boundaries(machine.caches) if one.level == ceiling.level), None)
    if ceiling.kind != "bandwidth" or streams is None or crossing is None or "n" in streams:
        return None
    if ceiling.convention.rpartition(":")[0] != crossing.convention:
        return None
    core = Boundary("l1", "core-L1", "core")
    ratio = core.element_bytes(streams) / crossing.element_bytes(streams)
    return replace(
        ceiling,
        value=ceiling.value * ratio,
        median=ceiling.median * ratio,
        samples=tuple(sample * ratio for sample in ceiling.samples),
        convention=f"{core.convention}: {core.element_bytes(streams)} B an element {ceiling.mix}",
    )


def beside(pictures: Sequence[Picture], runs: Sequence[Results]) -> Picture:
    """Return one picture with the panels of several runs side by side, all with the same axes.

    A panel's title begins with its machine; two runs of one machine are told apart by when they were.
    """
    if len(pictures) == 1:
        return pictures[0]
    machines = [run.machine.name for run in runs]
    heads = [
        name if machines.count(name) == 1 else f"{name}, {run.created}"
        for name, run in zip(machines, runs, strict=True)
    ]
    pairs = list(zip(heads, pictures, strict=True))
    return replace(
        pictures[0],
        title="Rooflines: " + "; ".join(dict.fromkeys(machines)),
        subtitle=SHARES,
        panels=tuple(
            replace(panel, title=f"{head}: {panel.title}") for head, one in pairs for panel in one.panels
        ),
        remarks=tuple(f"{head}: {remark}" for head, one in pairs for remark in one.remarks),
        slopes_apart=any(one.slopes_apart for one in pictures),
    )


def overlaid(before: Results, after: Results, names: tuple[str, str] = ("before", "after")) -> Picture:
    """Return the picture of two runs: hollow where a kernel was, filled where it is, an arrow between.

    Kernels are the same if label, sizes, precision, threads and the state of the caches are. The roofs are
    those of ``after``; the two that form the roof of ``before`` are dotted where they differ by over 2 %.

    Raises
    ------
    BadInput
        If no kernel is in both.
    """
    before, after = readable(before), readable(after)
    earlier = {_identity(kernel): kernel for kernel in before.kernels}
    shown, missing, both = picture(after), [], 0
    panels = []
    for panel in shown.panels:
        dots = []
        for dot in panel.dots:
            kernel = after.kernels[dot.key]
            old = earlier.get(_identity(kernel))
            then = dot_of(old, dot.key) if old is not None else None
            if old is None or then is None:
                missing.append(shortened(kernel.label))
                dots.append(replace(dot, origin=None))
                continue
            both += 1
            text = f"{shortened(kernel.label)}  {units.ratio(_speed_up(old, kernel))}x"
            dots.append(replace(dot, origin=(then.intensity, then.flops_per_second), text=text))
        kernels = [after.kernels[dot.key] for dot in panel.dots]
        old_roofs = _changed(before, panel, *group_of(kernels[0])) if kernels else ()
        panels.append(replace(panel, dots=tuple(dots), before=old_roofs))
    if not both:
        raise BadInput(
            f"{names[0]} and {names[1]} have no kernel in common that both can place "
            f"({_some(before)}; {_some(after)}); take runs of the same kernels at the same sizes"
        )
    later = {_identity(kernel) for kernel in after.kernels}
    gone = [shortened(one.label) for key, one in earlier.items() if key not in later]
    here, there = (f"{run.machine.name} ({run.machine.cpu})" for run in (after, before))
    notes = [f"{names[0]} was on another machine: {there}."] if here != there else []
    notes += [f"Only in {names[1]}: {listed(missing)}."] if missing else []
    notes += [f"Only in {names[0]}: {listed(gone)}."] if gone else []
    return replace(
        shown,
        title=f"{shown.title}, {names[0]} and {names[1]}",
        subtitle=shown.subtitle.replace(SHARES, f"2.00x: half the time of {names[0]}"),
        panels=tuple(panels),
        remarks=(*shown.remarks, *notes),
        hollow=f"hollow: {names[0]}; arrow: to {names[1]}",
    )


def paths(results: Results) -> Picture:
    """Return the picture whose kernels of one name are joined in the order of their sizes and threads.

    A panel has one precision; its roofs are those of every number of threads in it.

    Raises
    ------
    BadInput
        If no kernel was run with more than one size or number of threads.
    """
    results = readable(results)
    groups: dict[str, dict[str, list[tuple[KernelResult, Dot]]]] = {}
    for key, kernel in enumerate(results.kernels):
        if (dot := dot_of(kernel, key)) is not None:
            precision = group_of(kernel)[0]
            groups.setdefault(precision, {}).setdefault(kernel.name, []).append((kernel, dot))
    if not any(len(same) > 1 for names in groups.values() for same in names.values()):
        raise BadInput(
            "no kernel has more than one size or number of threads, so there is no path; "
            "run a sweep, such as --set n=1000,10000,100000"
        )
    panels = []
    for precision, names in sorted(groups.items(), key=lambda item: usual_first((item[0], 1))):
        counts = sorted({kernel.threads for same in names.values() for kernel, _ in same})
        dots: list[Dot] = []
        lines = []
        for same in names.values():
            same.sort(key=lambda one: (one[0].threads, *_numbers(one[0])))
            dots += _along([kernel for kernel, _ in same], [dot for _, dot in same])
            if len(same) > 1:
                lines.append(tuple(dot.key for _, dot in same))
        slopes, flats, notes = _roofs_of(results.machine.ceilings, precision, counts)
        heading = panel_title(precision, counts[-1], notes)
        if len(counts) > 1:
            heading = heading.replace(f"{counts[-1]} threads", f"{counts[0]} to {counts[-1]} threads", 1)
        panels.append(Panel(heading, tuple(dots), slopes, flats, paths=tuple(lines)))
    return Picture(
        title(results),
        subtitle(results).replace(SHARES, "lines: from small to large, from few threads to many"),
        tuple(panels),
        tuple(remarks(results)),
        slopes_apart=len({one.threads for panel in panels for one in panel.bandwidths}) > 1,
    )


def _along(kernels: Sequence[KernelResult], dots: Sequence[Dot]) -> list[Dot]:
    """Return the dots of one kernel, the first with its name, all with what differs between them."""
    varied = sorted({name for kernel in kernels for name in kernel.params})
    varied = [name for name in varied if len({kernel.params.get(name) for kernel in kernels}) > 1]
    threads = len({kernel.threads for kernel in kernels}) > 1
    found = []
    for number, (kernel, dot) in enumerate(zip(kernels, dots, strict=True)):
        parts = [f"{name}={_size(kernel.params.get(name))}" for name in varied]
        parts += [f"{kernel.threads} thread{'s' if kernel.threads > 1 else ''}"] if threads else []
        words = ", ".join(parts) if parts else ""
        text = (
            shortened(words) if number and words else " ".join(filter(None, (shortened(kernel.name), words)))
        )
        found.append(replace(dot, text=text, origin=None))
    return found


def _size(value: float | int | None) -> str:
    """Return a size in full if it is short: 4096 and 4097 are not the same to a cache."""
    if isinstance(value, int) and abs(value) < 10**7:
        return str(value)
    return units.count(value)


def _speed_up(before: KernelResult, after: KernelResult) -> float | None:
    if before.seconds is None or after.seconds is None:
        return None
    return before.seconds.median / after.seconds.median


def _numbers(kernel: KernelResult) -> tuple[float, ...]:
    return tuple(value for _, value in sorted(kernel.params.items()))


def _roofs_of(
    ceilings: Sequence[Ceiling], precision: str, counts: Iterable[int]
) -> tuple[tuple[Ceiling, ...], tuple[Ceiling, ...], tuple[str, ...]]:
    """Return the DRAM and compute roofs of each number of threads, highest first, and what does not match."""
    slopes: dict[tuple[str, int], Ceiling] = {}
    flats: dict[tuple[str, int], Ceiling] = {}
    notes: dict[str, None] = {}
    for count in counts:
        roof = choose_roof(ceilings, precision, count)
        for found, ceiling in ((slopes, roof.bandwidth), (flats, roof.compute)):
            if ceiling is not None:
                found[ceiling.name, ceiling.threads] = ceiling
        notes |= dict.fromkeys(roof.notes)
    if len(slopes) == 1:  # then there is room for the lower ceilings
        (one,) = slopes.values()
        slopes = {(c.name, c.threads): c for c in dram_ceilings(ceilings) if c.threads == one.threads}
    if len(flats) == 1:
        (one,) = flats.values()
        flats = {
            (c.name, c.threads): c
            for c in ceilings
            if (c.kind, c.precision, c.threads) == ("compute", precision, one.threads) and not c.special
        }
    return highest_first(slopes.values()), highest_first(flats.values()), tuple(notes)


def _panels(
    results: Results,
    dot: Callable[[KernelResult, int], Dot | None],
    slopes: Callable[[int], Sequence[Ceiling]],
) -> tuple[Panel, ...]:
    """Return a panel for each precision and number of threads, with these slopes and its compute ceilings."""
    groups: dict[tuple[str, int], list[Dot]] = {}
    for key, kernel in enumerate(results.kernels):
        if (one := dot(kernel, key)) is not None:
            groups.setdefault(group_of(kernel), []).append(one)
    if not groups:
        raise BadInput("no kernel has what this picture needs: FLOPs, a time, and bytes of a cache")
    panels = []
    for (precision, threads), dots in sorted(groups.items(), key=lambda item: usual_first(item[0])):
        classic = choose_roof(results.machine.ceilings, precision, threads)
        computes = [
            one
            for one in results.machine.ceilings
            if classic.compute is not None
            and (one.kind, one.precision, one.threads) == ("compute", precision, classic.compute.threads)
            and not one.special
        ]
        heading = panel_title(precision, threads, classic.notes)
        panels.append(Panel(heading, tuple(dots), highest_first(slopes(threads)), highest_first(computes)))
    return tuple(panels)


def _highest_by_level(ceilings: Sequence[Ceiling], threads: int) -> list[Ceiling]:
    """Return the highest bandwidth of each level, of this number of threads or the next lower one."""
    found = []
    for level in LEVELS:
        of_level = [one for one in ceilings if one.kind == "bandwidth" and one.level == level]
        if level == "dram":
            of_level = list(dram_ceilings(of_level))
        counts = {one.threads for one in of_level}
        if not counts:
            continue
        nearest = max((count for count in counts if count <= threads), default=min(counts))
        found.append(max((one for one in of_level if one.threads == nearest), key=lambda one: one.value))
    return found


def _without(results: Results, panels: Sequence[Panel]) -> list[str]:
    """Return a line for the kernels that the classic picture has and these panels have not, and why."""
    there = {dot.key for panel in panels for dot in panel.dots}
    missing = [
        f"{shortened(kernel.label)} ({level_bytes(kernel, 'l1').reason})"
        for key, kernel in enumerate(results.kernels)
        if key not in there and dot_of(kernel, key) is not None
    ]
    return [f"Not placed: {listed(missing)}."] if missing else []


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _identity(kernel: KernelResult) -> tuple[object, ...]:
    return (kernel.label, tuple(sorted(kernel.params.items())), kernel.cache, *group_of(kernel))


def _some(results: Results) -> str:
    names = [shortened(kernel.label) for kernel in results.kernels]
    return ", ".join(names[:4]) + (" ..." if len(names) > 4 else "") if names else "no kernels"


def _changed(before: Results, panel: Panel, precision: str, threads: int) -> tuple[Ceiling, ...]:
    """Return the roofs of ``before`` that differ from those of the panel."""
    roof = choose_roof(before.machine.ceilings, precision, threads)
    pairs = ((roof.bandwidth, panel.bandwidths), (roof.compute, panel.computes))
    return tuple(
        old
        for old, new in pairs
        if old is not None and (not new or abs(old.value / new[0].value - 1) > _CHANGED)
    )
