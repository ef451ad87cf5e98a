"""``counteroof plot``: pictures of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import BadInput
from . import DONE

if TYPE_CHECKING:
    from ..plot.panels import Picture
    from ..results import Results

KINDS = ("roofline", "hierarchical", "cache-aware", "path", "waterfall")
STATIC = ("png", "svg", "pdf")
INTERACTIVE = ("vega-lite", "vega", "html")


@click.command(
    epilog="""Examples:

\b
  counteroof plot
  counteroof plot old/results.json --out pictures --format pdf
  counteroof plot --kind hierarchical --kernel 'gemm*'
  counteroof plot --kind waterfall --kernel triad
  counteroof plot --format html
  counteroof plot after --against before
  counteroof plot --peak-file datasheet.toml
  counteroof plot cpu-run gpu-import --out both"""
)
@click.argument("results", nargs=-1, metavar="[RESULTS]...", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="roofline",
    show_default=True,
    help="What to draw.",
)
@click.option(
    "--against",
    metavar="RESULTS",
    type=click.Path(path_type=Path),
    help="An earlier run: arrows lead from its dots to those of this one.",
)
@click.option(
    "--peak-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw dashed what this file states, such as the peaks of a datasheet; nothing is held against it.",
)
@click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Draw only kernels whose name matches; repeatable.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(STATIC + INTERACTIVE),
    help="Of the files; repeatable. By default png and svg. The last three are to zoom, point at and filter.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the files; by default beside the first results.",
)
def command(
    results: tuple[Path, ...],
    kind: str,
    against: Path | None,
    peak_file: Path | None,
    patterns: tuple[str, ...],
    formats: tuple[str, ...],
    out: Path | None,
) -> int:
    """Draw pictures of a finished run.

    RESULTS is a results file or the folder of a run, by default counteroof-out. Of several, the panels stand
    side by side. The kinds:

    \b
    roofline      FLOP/s over FLOP per byte of DRAM traffic, with an arrow from the declared position
    hierarchical  one dot for each boundary from L1 to DRAM, joined
    cache-aware   FLOP per byte that instructions load and store, under the bandwidths the core sees
    path          sizes or numbers of threads of one kernel, joined
    waterfall     the ledger, from declared to actual bytes; of more than 24 kernels several files

    The interactive formats, with every number where one points, need the extra 'interactive': vega-lite and
    vega are specifications for other tools, html is one page that works offline.
    """
    from ..machine import peaks as machine_peaks
    from . import _files

    chosen = tuple(dict.fromkeys(formats)) or ("png", "svg")
    still = tuple(form for form in chosen if form in STATIC)
    alive = tuple(form for form in chosen if form in INTERACTIVE)
    if alive and (kind != "roofline" or against is not None):
        raise BadInput(
            f"--format {alive[0]} has --kind roofline only, whose boundaries can be switched on; "
            f"for other pictures take {', '.join(STATIC)}"
        )

    if peak_file is not None and (kind != "roofline" or alive):
        other = f"--format {alive[0]}" if alive else f"--kind {kind}"
        raise BadInput(f"--peak-file draws into a roofline as {', '.join(STATIC)}, not {other}")
    peaks = None if peak_file is None else machine_peaks.load(peak_file)

    results = results or (Path("counteroof-out"),)
    if against is not None and kind != "roofline":
        raise BadInput(f"--against draws two rooflines, not --kind {kind}; leave one of the two out")
    if len(results) > 1 and (against is not None or alive):
        what = "--against" if against is not None else f"--format {alive[0]}"
        raise BadInput(f"{what} takes one run, not {len(results)}: {', '.join(map(str, results))}")
    found = [_files.load_kernels(one, patterns) for one in results]
    earlier = None if against is None else _files.load_kernels(against, ())
    written = []
    name = kind if against is None else "against"
    with _files.folder_for(out or _files.find_results(results[0]).parent) as folder:
        if kind == "waterfall":
            from ..plot import waterfall

            kernels = [kernel for run in found for kernel in waterfall.explained(run) or run.kernels]
            written += _files.drawn(folder, lambda scratch: waterfall.save(kernels, scratch, name, still))
        elif still:
            from ..plot import panels, roofline, views

            if earlier is not None:
                picture = views.overlaid(earlier, found[0], (str(against), str(results[0])))
            else:
                picture = views.beside([_picture(kind, run) for run in found], found)
            if peaks is not None:
                picture = panels.with_peaks(picture, peaks, str(peak_file))
            written += _files.drawn(folder, lambda scratch: roofline.save(picture, scratch, name, still))
        if alive:
            from ..plot import interactive

            written += _files.drawn(folder, lambda scratch: interactive.save(found[0], scratch, name, alive))
    click.echo("written: " + ", ".join(map(str, written)))
    return DONE


def _picture(kind: str, results: Results) -> Picture:
    """Return what to draw of one run."""
    from ..plot import panels, views

    makers = {
        "roofline": panels.picture,
        "hierarchical": views.hierarchical,
        "cache-aware": views.cache_aware,
        "path": views.paths,
    }
    return makers[kind](results)
