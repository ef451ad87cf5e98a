"""``counteroof table``: the table of finished runs."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE

FORMATS = ("text", "markdown", "csv", "latex", "html", "json")


@click.command(
    epilog="""Examples:

\b
  counteroof table
  counteroof table old/results.json --format csv > old.csv
  counteroof table --format latex --columns performance-report > table.tex
  counteroof table cpu-run gpu-import --columns kernel,intensity,performance,fraction
  counteroof table --columns findings
  counteroof table --explain triad

A column is one of those that --columns help lists; presets stand for several: usual,
performance-report, findings, data, all."""
)
@click.argument("results", nargs=-1, metavar="[RESULTS]...", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="CSV and JSON hold base units.",
)
@click.option(
    "--columns",
    metavar="NAME[,NAME]",
    help="Columns and presets, in this order; 'help' lists them.",
)
@click.option(
    "--explain",
    metavar="NAME",
    help="Print one kernel in full instead: numbers, their sources, ledger, findings.",
)
def command(results: tuple[Path, ...], form: str, columns: str | None, explain: str | None) -> int:
    """Print the table of a finished run again.

    RESULTS is a results file or the folder of a run, by default counteroof-out. Of several, the kernels stand
    in one table.
    """
    from .. import results as results_file
    from ..api import Run
    from ..report import selection, table
    from . import _files

    if columns == "help":
        click.echo("\n".join(selection.listing()))
        return DONE
    keys = None if columns is None else selection.columns_named(_files.listed(columns))
    paths = results or (Path("counteroof-out"),)
    runs = [results_file.load(_files.find_results(path)) for path in paths]
    if explain is not None:
        for run in runs:
            click.echo(Run(run).explain(explain), nl=False)
    elif form == "text":
        _files.print_table(runs, keys)
    else:
        click.echo(getattr(table, form)(runs, keys), nl=False)
    return DONE
