"""``counteroof machine``: measure and show this machine's ceilings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import BadInput
from . import DONE

if TYPE_CHECKING:
    from ..machine.model import Machine


@click.command(
    epilog="""Examples:

\b
  counteroof machine
  counteroof machine --threads 1 --threads 2 --out machine.json
  counteroof machine --quick --json
  counteroof machine --mix 2:1
  counteroof machine --pictures roofs
  counteroof machine --show"""
)
@click.option(
    "--threads",
    "threads",
    type=click.IntRange(1, 4096),
    multiple=True,
    default=(1,),
    show_default=True,
    metavar="N",
    help="Measure with N threads; repeatable.",
)
@click.option(
    "--mix",
    "ratios",
    multiple=True,
    metavar="L:S",
    help="Measure bandwidths of L loads to S stores too; repeatable.",
)
@click.option(
    "--quick/--full",
    "quick",
    default=False,
    help="With few samples of each ceiling, in seconds; or (the default) with many, with a sweep over sizes "
    "that shows what the caches hold, random and strided loads, small pages, more threads and remote memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the machine file instead of text.")
@click.option("--show", is_flag=True, help="Show what is known and measure nothing.")
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the machine file here too."
)
@click.option(
    "--pictures",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw the roofs alone, and what the caches hold, into this folder.",
)
def command(
    threads: tuple[int, ...],
    ratios: tuple[str, ...],
    quick: bool,
    as_json: bool,
    show: bool,
    out: Path | None,
    pictures: Path | None,
) -> int:
    """Measure this machine's ceilings.

    They are kept for later runs, until the machine changes.
    """
    from .. import ceiling_jobs
    from ..machine import store, topology
    from . import _machine

    ceiling_jobs.mixes_of(ratios)  # a mistake is said before anything is measured
    if show:
        machine = _machine.known()
    else:
        machine = _machine.with_ceilings(
            topology.detect(), sorted(set(threads)), again=True, ratios=ratios, quick=quick, access=not quick
        )
    if as_json:
        click.echo(json.dumps(store.to_json(store.record(machine)), indent=2))
    else:
        click.echo(machine.name)
        for line in _machine.description(machine):
            click.echo(f"  {line}")
    if out is not None:
        try:
            store.save(machine, out)
        except OSError as error:
            raise BadInput(f"cannot write {out}: {error.strerror}") from None
        click.echo(f"written: {out}", err=as_json)
    if pictures is not None:
        click.echo("written: " + ", ".join(map(str, _draw(machine, pictures))), err=as_json)
    return DONE


def _draw(machine: Machine, folder: Path) -> list[Path]:
    """Draw the roofs without kernels, and the sweep if there is one; return the files."""
    from datetime import UTC, datetime

    from .. import __version__
    from ..plot import roofline, sweep
    from ..results import Results
    from . import _files

    roofs = Results(datetime.now(UTC).isoformat(timespec="seconds"), __version__, machine, ())
    folder = _files.folder(folder)
    written = list(_files.drawn(folder, lambda scratch: roofline.save(roofs, scratch, "roofs")))
    if machine.sweep:
        formats = roofline.USUAL
        written += _files.drawn(folder, lambda scratch: sweep.save(machine, scratch, "sweep", formats))
    return written
