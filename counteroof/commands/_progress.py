"""A progress bar on standard error, and only where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """A bar on a terminal; each call shows the number done, what is at work and its stage."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=total)

    def __call__(self, done: int, label: str, stage: str, total: int | None = None) -> None:
        """Show it; ``total`` replaces the number of things to do."""
        self._progress.update(self._task, completed=done, total=total, description=f"{label}: {stage}")


@contextlib.contextmanager
def bar(total: int) -> Iterator[Bar | None]:
    """Give a bar, or ``None`` if standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, total)


@contextlib.contextmanager
def steps(title: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """Give a function to call with number done, total and what is next; ``None`` without a terminal."""
    with bar(1) as shown:
        if shown is None:
            yield None
        else:
            yield lambda done, total, text: shown(done, title, text, total)
