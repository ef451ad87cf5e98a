"""``counteroof plot``: the roofline of a finished run."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE


@click.command(
    epilog="""Examples:

\b
  counteroof plot
  counteroof plot old/results.json --out pictures"""
)
@click.argument("results", default="counteroof-out", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the files; by default beside the results.",
)
def command(results: Path, out: Path | None) -> int:
    """Draw the roofline of a finished run again.

    RESULTS is a results file or the folder of a run, by default counteroof-out. Writes roofline.png and
    roofline.svg.
    """
    from .. import results as results_file
    from . import _files

    file = _files.find_results(results)
    found = results_file.load(file)
    folder = _files.folder(out or file.parent)
    click.echo("written: " + ", ".join(map(str, _files.write_plot(found, folder))))
    return DONE
