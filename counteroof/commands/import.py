"""``counteroof import``: other tools' output as results."""

from __future__ import annotations

from pathlib import Path

import click

from . import DONE


@click.command(
    epilog="""Examples:

\b
  perf stat -j -e fp_ret_sse_avx_ops.all ./prog 2> stat.json && counteroof import stat.json
  likwid-perfctr -C 0 -g MEM_DP -m -O ./prog > likwid.csv && counteroof import likwid.csv
  ncu --csv --page raw --set roofline ./prog > ncu.csv && counteroof import ncu.csv --out gpu
  counteroof import benchmarks.jsonl --kind carm
  counteroof table counteroof-out gpu

Kinds: perf-stat, likwid, likwid-marker, ncu, carm. What a file does not say stays unknown, with
the reason; what it says in two ways that disagree is refused."""
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kind", metavar="KIND", help="Kind of file; by default it is recognised.")
@click.option("--name", help="Name of the kernel, where the file has none.")
@click.option("--threads", type=click.IntRange(1, 1_000_000), help="Threads, where the file does not say.")
@click.option(
    "--events", default="", metavar="NAME[,NAME]", help="Counters of a LIKWID marker file, in order."
)
@click.option(
    "--machine",
    "machine_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Machine file whose ceilings to hold the kernels against.",
)
@click.option(
    "--out",
    metavar="DIR",
    default="counteroof-import",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for the files; with several machines in FILE, a folder in it for each.",
)
def command(
    file: Path,
    kind: str | None,
    name: str | None,
    threads: int | None,
    events: str,
    machine_file: Path | None,
    out: Path,
) -> int:
    """Turn the output of perf stat, LIKWID, Nsight Compute or CARM into results.

    Writes results.json, table.md and the pictures of a run, and prints the table. Other commands take the
    folder as they take that of a run, so kernels of two machines stand in one table.
    """
    from .. import importers
    from ..importers.imported import Options
    from ..machine import store
    from . import _files

    machine = None if machine_file is None else store.load(machine_file)
    runs = importers.read(file, kind, Options(name, threads, _files.listed(events), machine))
    folder = _files.folder(out)
    folders = [folder] if len(runs) == 1 else [folder / one for one in _files.folder_names(runs)]
    written = []
    for run, place in zip(runs, folders, strict=True):
        written += _files.write(run, _files.folder(place))
    _files.print_table(runs)
    click.echo("written: " + ", ".join(map(str, written)))
    return DONE
