"""``counteroof compare``: what changed between runs."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE

FORMATS = ("text", "markdown", "csv", "latex", "html", "json")


@click.command(
    epilog="""Examples:

\b
  counteroof compare before after
  counteroof compare before/results.json after/results.json --kernel 'triad*'
  counteroof compare one-thread two-threads --allow threads
  counteroof compare base first second --format csv > changes.csv"""
)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B [C]...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--allow",
    default="",
    metavar="KIND[,KIND]",
    help="Compare in spite of a different precision, size, threads, convention or machine.",
)
@click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Compare only kernels whose name matches; repeatable.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.05,
    show_default=True,
    help="Chance of calling equal times different.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="CSV and JSON hold base units.",
)
def command(
    before: Path, after: tuple[Path, ...], allow: str, patterns: tuple[str, ...], alpha: float, form: str
) -> int:
    """Compare runs kernel by kernel: time, FLOPs, bytes, ledger, findings.

    A, B and so on are results files or folders of runs; each is compared with A. Times differ only if their
    samples do, by a rank test. What differs in precision, size, threads, convention or machine is refused
    unless it is allowed.
    """
    from .. import compare
    from ..report import comparison as shown
    from ..report import forms
    from . import _files

    kinds = _files.listed(allow)
    base, *others = (_files.load_kernels(path, patterns) for path in (before, *after))
    found = [compare.compare(base, other, kinds, alpha) for other in others]
    if form == "text":
        _files.print_wide(lambda width: shown.terminal(found, width))
    elif form == "markdown":
        click.echo(shown.markdown(found), nl=False)
    elif form in ("latex", "html"):
        click.echo(shown.document(getattr(forms, form), found), nl=False)
    else:
        click.echo(getattr(forms, form)(shown.grid(found)), nl=False)
    return DONE
