"""``counteroof report``: all files of a finished run but its results."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE


@click.command(
    epilog="""Examples:

\b
  counteroof report
  counteroof report old/results.json --out old-again"""
)
@click.argument("results", default="counteroof-out", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the files; by default beside the results.",
)
def command(results: Path, out: Path | None) -> int:
    """Write all files of a finished run again.

    RESULTS is a results file or the folder of a run, by default counteroof-out. Writes roofline.png,
    roofline.svg, table.md and report.html, which is one page that works offline: rooflines, a table to sort,
    and of every kernel its ledger, arrays, source lines, findings, and how every number was got.
    """
    from .. import results as results_file
    from . import _files

    file = _files.find_results(results)
    found = results_file.load(file)
    folder = _files.folder(out or file.parent)
    click.echo("written: " + ", ".join(map(str, _files.write_again(found, folder))))
    return DONE
