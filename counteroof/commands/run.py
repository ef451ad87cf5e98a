"""``counteroof run``: measure kernels, write the files, print the table."""

from __future__ import annotations

from pathlib import Path

import click

from ..cachesim.options import (
    CAPACITY_SOURCES,
    FRAME_SOURCES,
    CapacitySource,
    FrameSource,
    ModelOptions,
    prefetchers,
    with_capacity,
    with_prefetchers,
)
from ..errors import BadInput
from . import DONE, FAILED, INTERRUPTED


@click.command(
    epilog="""Examples:

\b
  counteroof run                                the built-in kernels
  counteroof run kernels.toml --kernel 'tri*'   some kernels of a spec
  counteroof run libfoo.so                      what a library's debug information allows
  counteroof run foo.c --set n=1000,100000      a C file, at two sizes
  counteroof run foo.c --detail lines           bytes and FLOPs of each source line
  counteroof run --explain triad                one kernel in full after the table

Exit codes: 0 all kernels measured, 1 a kernel failed, 2 bad input, 130 interrupted
(what was finished is written).""",
)
@click.argument("inputs", nargs=-1, metavar="[SPEC|LIB|C FILE]...", type=click.Path())
@click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Run only kernels whose name matches; repeatable.",
)
@click.option(
    "--size",
    type=click.Choice(["default", "small"]),
    default="default",
    show_default=True,
    help="Small fits into the caches.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE[,VALUE]",
    help="Replace a parameter; several values make a sweep. Repeatable.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Threads of every kernel, instead of the spec's.",
)
@click.option(
    "--counter",
    default="auto",
    show_default=True,
    metavar="auto|NAME[,NAME]",
    help="What counts: likwid, perf, instrument.",
)
@click.option(
    "--events",
    "events_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Counter events of your own, in the form of counteroof/data/events.",
)
@click.option(
    "--detail",
    type=click.Choice(["flops", "bytes", "lines"]),
    default="bytes",
    show_default=True,
    help="How much the instrumentation records: FLOPs alone, bytes too, or both by source line.",
)
@click.option(
    "--frames",
    type=click.Choice(FRAME_SOURCES),
    default="random",
    show_default=True,
    help="Where modelled arrays lie in memory: at random, alike in every run, or where they really do.",
)
@click.option(
    "--capacity",
    type=click.Choice(CAPACITY_SOURCES),
    default="nominal",
    show_default=True,
    help="What modelled caches hold that others share: what their label says, or what was measured.",
)
@click.option("--tlb", is_flag=True, help="Translate addresses in the cache model, and count page walks.")
@click.option(
    "--reuse-distances", is_flag=True, help="Count the lines between accesses of the same line; takes long."
)
@click.option(
    "--prefetch",
    metavar="NAME[,NAME]",
    help="Hardware prefetchers to model: adjacent, stream; none is the default without a machine file.",
)
@click.option(
    "--machine",
    "machine_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Machine description to use instead of this machine's.",
)
@click.option(
    "--header",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="C declarations of a library without debug information.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest time for one kernel.",
)
@click.option(
    "--out",
    metavar="DIR",
    default="counteroof-out",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for the files.",
)
@click.option(
    "--explain",
    metavar="NAME",
    help="Print one kernel in full after the table: numbers, their sources, ledger, findings.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON and nothing else.")
def command(
    inputs: tuple[str, ...],
    patterns: tuple[str, ...],
    size: str,
    settings: tuple[str, ...],
    threads: int | None,
    counter: str,
    events_file: Path | None,
    detail: str,
    frames: FrameSource,
    capacity: CapacitySource,
    tlb: bool,
    reuse_distances: bool,
    prefetch: str | None,
    machine_file: Path | None,
    header: Path | None,
    time_limit: float | None,
    out: Path,
    explain: str | None,
    as_json: bool,
) -> int:
    """Measure kernels and place them on this machine's roofline.

    Without arguments, the built-in kernels. Each kernel runs in a process of its own; its result is checked
    before it is counted and timed. The files results.json, table.md, roofline.png, roofline.svg and
    report.html go into a folder, and into its folder pyperf the timings as pyperf reads them.
    """
    from typing import cast

    from .. import inputs as named
    from ..count.select import choose
    from ..spec import Size
    from ..wording import suggest
    from . import _files, _machine, _progress

    choice = choose(counter, events_file)
    fetched = None if prefetch is None else prefetchers(prefetch)
    overrides = dict(named.parse_setting(setting) for setting in settings)
    if inputs:
        found = named.kernels_from([named.located(text) for text in inputs], header=header)
    else:
        from .. import catalog

        found = named.Found(catalog.kernels())
    cases = named.cases_of(named.select(found.kernels, patterns), cast(Size, size), overrides, threads)
    known = {name for case in cases for name in (case.label, case.spec.name)}
    if explain is not None and explain not in known:
        raise BadInput(f"no kernel {explain!r} to explain{suggest(explain, known)} in this run")
    for line in named.skipped_in_words(found.skipped):
        click.echo(line, err=True)
    for note in choice.passed_over.items() if not choice.counters else ():
        click.echo(f"nothing can be counted with {note[0]}: {note[1]}", err=True)

    from ..report.explain import text
    from ..session import Settings, measure  # after the input is known to be good: this loads a good deal

    with _files.folder_for(out) as folder:
        machine, here = _machine.for_run(machine_file, sorted({case.spec.threads for case in cases}))
        machine = with_capacity(machine, capacity)
        if fetched is not None:
            machine = with_prefetchers(machine, fetched)

    model = ModelOptions(frames, tlb, reuse_distances)
    asked = Settings(choice, detail, time_limit, here, found.guesses, events_file, model)
    results, interrupted = None, False
    with _progress.bar(len(cases)) as progress:
        try:
            for results, run in measure(cases, machine, asked, progress):
                _files.save_results(results, folder)
                _files.save_timing(run, folder)
        except KeyboardInterrupt:
            interrupted = True
    if results is None:
        click.echo(f"counteroof: interrupted; none of {len(cases)} kernels was measured", err=True)
        return INTERRUPTED
    written = _files.write(results, folder)
    _files.show(results, as_json=as_json)
    if not as_json:
        for kernel in results.kernels if explain is not None else ():
            if explain in (kernel.label, kernel.name):
                click.echo("\n" + text(kernel, results), nl=False)
        click.echo("written: " + ", ".join(str(path) for path in written))
    if interrupted:
        left = len(cases) - len(results.kernels)
        click.echo(f"counteroof: interrupted; {left} of {len(cases)} kernels were not measured", err=True)
        return INTERRUPTED
    return FAILED if results.failed else DONE
