"""``counteroof table``: the table of a finished run."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE


@click.command(
    epilog="""Examples:

\b
  counteroof table
  counteroof table old/results.json --format csv > old.csv"""
)
@click.argument("results", default="counteroof-out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "csv", "json"]),
    default="text",
    show_default=True,
    help="CSV and JSON hold base units.",
)
def command(results: Path, form: str) -> int:
    """Print the table of a finished run again.

    RESULTS is a results file or the folder of a run, by default counteroof-out.
    """
    from .. import results as results_file
    from ..report import table
    from . import _files

    found = results_file.load(_files.find_results(results))
    if form == "markdown":
        click.echo(table.markdown(found), nl=False)
    elif form == "csv":
        click.echo(table.frame(found).to_csv(index=False), nl=False)
    else:
        _files.show(found, as_json=form == "json")
    return DONE
