"""The files of a run: where they go, and what each command writes or prints of them."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import files, jsonio
from .. import results as results_file
from ..errors import BadInput
from ..results import KernelResult, Results

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..run.execute import KernelRun

RESULTS = "results.json"
TIMINGS = "pyperf"


def folder(path: Path) -> Path:
    """Return the output folder, made if need be; BadInput if it cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        scratch = path / ".counteroof-writable"
        scratch.touch()
        scratch.unlink()
    except OSError as error:
        raise BadInput(
            f"cannot write into {path}: {error.strerror}; choose another folder with --out"
        ) from None
    return path


@contextlib.contextmanager
def folder_for(path: Path) -> Iterator[Path]:
    """Give the output folder while what goes into it is made; bad input leaves none that was not there."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    yielded = folder(path)
    try:
        yield yielded
    except BadInput:
        with contextlib.suppress(OSError):  # it holds something already
            for one in made:
                one.rmdir()
        raise


def find_results(path: Path) -> Path:
    """Return the results file that a user means: the file itself, or that of an output folder."""
    return path / RESULTS if path.is_dir() else path


def save_results(results: Results, path: Path) -> Path:
    """Write the results file of an output folder, in one step."""
    results_file.save(results, path / RESULTS)
    return path / RESULTS


def save_timing(run: KernelRun, path: Path) -> Path | None:
    """Write pyperf's own file of a kernel, if it was timed; ``python -m pyperf`` reads it."""
    if run.timing is None:
        return None
    file = path / TIMINGS / f"{run.case.label}.json"
    jsonio.write_file(file, dict(run.timing.pyperf_json))
    return file


def write(results: Results, path: Path) -> list[Path]:
    """Write every file of a run into its folder and return their paths."""
    return [save_results(results, path), *write_again(results, path)]


def write_again(results: Results, path: Path) -> list[Path]:
    """Write what follows from the results into the folder: pictures first, since they are waited for."""
    return [*write_plot(results, path), write_table(results, path), write_report(results, path)]


def write_report(results: Results, path: Path) -> Path:
    """Write the report page."""
    from ..report import html

    return html.save(results, path / "report.html")


def write_table(results: Results, path: Path) -> Path:
    """Write the Markdown table."""
    from ..report import table

    file = path / "table.md"
    files.write_text(file, table.markdown(results))
    return file


def write_plot(results: Results, path: Path) -> list[Path]:
    """Write the roofline picture in each format."""
    from ..plot import roofline

    return drawn(path, lambda scratch: roofline.save(results, scratch))


def drawn(path: Path, save: Callable[[Path], Iterable[Path]]) -> list[Path]:
    """Have pictures saved in a scratch folder, then put each, whole, into ``path``, and return them there."""
    with tempfile.TemporaryDirectory(prefix=".counteroof-", dir=path) as scratch:
        return [files.move(file, path / file.name) for file in save(Path(scratch))]


def show(results: Results, *, as_json: bool = False) -> None:
    """Print the table, or the results as JSON and nothing else."""
    if as_json:
        click.echo(json.dumps(results_file.to_json(results), indent=1, allow_nan=False))
        return
    print_table([results])


def print_table(runs: Sequence[Results], keys: Sequence[str] | None = None) -> None:
    """Print the table of runs."""
    from ..report import table

    print_wide(lambda width: table.terminal(runs, width, keys))


def print_wide(drawn: Callable[[int], RenderableType]) -> None:
    """Print what is drawn for the width of the terminal; what is wider than that is not cut."""
    from rich.console import Console

    width = shutil.get_terminal_size((120, 40)).columns
    Console(width=width).print(drawn(width), soft_wrap=True)


def listed(text: str) -> tuple[str, ...]:
    """Return the words of a list such as ``size,threads``."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def load_kernels(path: Path, patterns: Sequence[str]) -> Results:
    """Return the results in a file or folder, only those kernels whose names or labels match a pattern.

    Raises
    ------
    BadInput
        If the file is none, or a pattern matches none of its kernels.
    """
    file = find_results(path)
    found = results_file.load(file)
    for pattern in patterns:
        if not any(_matches(kernel, pattern) for kernel in found.kernels):
            known = ", ".join(kernel.label for kernel in found.kernels[:40]) or "none"
            raise BadInput(f"no kernel of {file} matches {pattern!r}; the kernels are: {known}")
    kernels = (
        kernel
        for kernel in found.kernels
        if not patterns or any(_matches(kernel, pattern) for pattern in patterns)
    )
    return dataclasses.replace(found, kernels=tuple(kernels))


def _matches(kernel: KernelResult, pattern: str) -> bool:
    # a label has brackets, which a pattern takes for a set of characters
    return pattern == kernel.label or any(
        fnmatch.fnmatchcase(name, pattern) for name in (kernel.name, kernel.label)
    )


def folder_names(runs: Sequence[Results]) -> list[str]:
    """Return a name for a folder of each run, after its machine, all different."""
    names: list[str] = []
    for run in runs:
        words = re.sub(r"[^A-Za-z0-9]+", "-", run.machine.name).strip("-").lower()[:40] or "machine"
        name, number = words, 2
        while name in names:
            name, number = f"{words}-{number}", number + 1
        names.append(name)
    return names
