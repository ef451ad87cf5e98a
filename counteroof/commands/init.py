"""``counteroof init``: a commented spec for a library."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import BadInput
from . import DONE


@click.command(
    epilog="""Examples:

\b
  counteroof init libfoo.so
  counteroof init libfoo.so --out foo.toml
  counteroof init libz.so.1                     found as the dynamic loader does"""
)
@click.argument("library", type=click.Path())
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the spec here instead of printing it.",
)
@click.option(
    "--header",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="C declarations, if there is no debug information.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(library: str, out: Path | None, header: Path | None, force: bool) -> int:
    """Write a spec for the functions of a shared library.

    The spec is commented, says what was assumed about each argument, and is meant to be edited.
    """
    from .. import files, init_spec

    text = init_spec.draft_spec(library, header=header)
    if out is None:
        click.echo(text, nl=False)
        return DONE
    if out.exists() and not force:
        raise BadInput(f"{out} exists; choose another name or replace it with --force")
    try:
        files.write_text(out, text)
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}") from None
    click.echo(f"written: {out}; fill in what each kernel declares, then: counteroof run {out}")
    return DONE
