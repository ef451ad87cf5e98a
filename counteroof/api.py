"""counteroof from Python: measure or read, and look at what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import results as results_file
from .cachesim.options import (
    CAPACITY_SOURCES,
    CapacitySource,
    FrameSource,
    ModelOptions,
    prefetchers,
    with_capacity,
    with_prefetchers,
)
from .errors import BadInput
from .results import KernelResult, Results
from .wording import suggest

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from .check import Report
    from .compare import RunComparison
    from .formula import Number
    from .inputs import Found
    from .session import Progress
    from .spec import Size


class Interrupted(KeyboardInterrupt):
    """A run was ended by Ctrl-C; ``run`` has the kernels that were finished."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(f"interrupted after {len(run)} kernels; the exception's .run has them")


class Run:
    """What one run found, kernel by kernel.

    Iterating gives the kernels; ``run["triad"]`` is one of them. Everything there is to know stands in
    ``results``.

    Attributes
    ----------
    results
        The content of the results file.
    """

    def __init__(self, results: Results) -> None:
        self.results = results

    @property
    def kernels(self) -> tuple[KernelResult, ...]:
        """The kernels, failed ones included."""
        return self.results.kernels

    @property
    def failed(self) -> tuple[KernelResult, ...]:
        """The kernels whose measurement ended early."""
        return self.results.failed

    def __len__(self) -> int:
        return len(self.results.kernels)

    def __iter__(self) -> Iterator[KernelResult]:
        return iter(self.results.kernels)

    def __getitem__(self, name: str) -> KernelResult:
        """Return the kernel of this label, or of this name if it ran at one size only.

        Raises
        ------
        BadInput
            If there is none; it is a KeyError, too.
        """
        labels: dict[str, KernelResult] = {}
        for kernel in self.kernels:
            labels.setdefault(kernel.label, kernel)
        if name in labels:
            return labels[name]
        named = [kernel for kernel in self.kernels if kernel.name == name]
        if len(named) == 1:
            return named[0]
        if named:
            found = ", ".join(kernel.label for kernel in named)
            raise NoSuchKernel(f"{name!r} ran at several sizes; choose one of {found}")
        known = ", ".join(labels) or "none"
        raise NoSuchKernel(f"no kernel {name!r}{suggest(name, labels)}; the kernels are: {known}")

    def to_frame(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return a data frame: one row a kernel, values in base units (bytes, FLOP, seconds).

        Parameters
        ----------
        columns
            Names of columns and presets, as ``counteroof table --columns help`` lists them.

        Raises
        ------
        BadInput
            If a name is none of these.
        """
        from .report import selection, table

        return table.frame(self.results, None if columns is None else selection.columns_named(columns))

    def plot(self, ax: Axes | None = None, *, panel: int = 0) -> Axes:
        """Draw the roofline and return its axes; ``ax.figure`` is the whole picture.

        Parameters
        ----------
        ax
            Axes to draw on; by default those of a new figure, which has a panel for each precision and number
            of threads.
        panel
            Which of these panels to draw on ``ax``, or to return.
        """
        from .plot import roofline

        if ax is not None:
            roofline.draw_on(ax, self.results, panel)
            return ax
        axes = [one for one in roofline.draw(self.results).axes if one.get_xscale() == "log"]
        if not 0 <= panel < len(axes):
            raise BadInput(f"no panel {panel}; the picture has {len(axes)}")
        return axes[panel]

    def explain(self, name: str) -> Text:
        """Return one kernel in full: its sentence, its numbers and their sources, ledger, findings."""
        from .report import explain

        return Text(explain.text(self[name], self.results))

    def compare(
        self, other: Run | Results | str | Path, allow: Collection[str] = (), alpha: float = 0.05
    ) -> Comparison:
        """Return how ``other``, a later run, differs from this one.

        Parameters
        ----------
        other
            A run, or the path of its results.
        allow
            Kinds of mismatch in spite of which to compare: precision, size, threads, convention, machine.
        alpha
            Chance of calling equal times different.

        Raises
        ------
        NotComparable
            If the runs differ in what is not allowed; the text says in what.
        """
        from . import compare

        return Comparison(compare.compare(self.results, results_of(other), allow, alpha))

    def check(
        self,
        against: Run | Results | str | Path,
        *,
        bytes: float = 0.01,
        time: float | None = None,
        findings: bool = False,
        allow: Collection[str] = (),
    ) -> Report:
        """Return how this run stands against a baseline; see :class:`counteroof.check.Rules`."""
        from . import check

        return check.check(self.results, results_of(against), check.Rules(bytes, time, findings), allow)

    def save(self, path: str | Path) -> None:
        """Write the results file; ``path`` holds either its old content or all of the new."""
        results_file.save(self.results, Path(path))

    def __repr__(self) -> str:
        from .report import table
        from .report.drawn import drawn

        return drawn(table.terminal(self.results, 120), 120)

    def _repr_html_(self) -> str:
        from .report import table

        return table.html(self.results)


class NoSuchKernel(BadInput, KeyError):
    """A run has no such kernel."""

    def __str__(self) -> str:  # KeyError would show it in quotes
        return str(self.args[0])


class Text(str):
    """A text that shows itself as it is, where other strings would show their quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Comparison:
    """How two runs differ, kernel by kernel; everything stands in ``found``."""

    def __init__(self, found: RunComparison) -> None:
        self.found = found

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame: one row a kernel, before and after side by side, in base units."""
        from .report import comparison, forms

        return forms.frame(comparison.grid([self.found]))

    def __repr__(self) -> str:
        from .report import comparison
        from .report.drawn import drawn

        return drawn(comparison.terminal([self.found], 120), 120)

    def _repr_html_(self) -> str:
        from .report import comparison, forms

        return comparison.document(forms.html, [self.found])


def run(
    *inputs: Any,
    kernels: Sequence[str] = (),
    size: Size = "default",
    params: Mapping[str, Number | Sequence[Number]] | None = None,
    threads: int | None = None,
    counter: str = "auto",
    events: str | Path | None = None,
    detail: str = "bytes",
    frames: FrameSource = "random",
    capacity: CapacitySource = "nominal",
    tlb: bool = False,
    reuse_distances: bool = False,
    prefetch: str | None = None,
    machine: str | Path | None = None,
    header: str | Path | None = None,
    time_limit: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure kernels and place them on this machine's roofline.

    Each kernel runs in a process of its own: one that crashes or hangs is a failed kernel of the result.

    Parameters
    ----------
    inputs
        Paths of specs, shared libraries and C files, specs of kernels, or reference functions decorated with
        :func:`counteroof.kernel`; without any, the built-in kernels.
    kernels
        Patterns such as ``"triad*"``; only kernels whose names match one are run.
    size
        ``default`` or ``small``.
    params
        Values of parameters instead of the specs'; several values make a sweep.
    threads
        Threads of every kernel, instead of the specs'.
    counter
        ``auto``, or names of counters: ``likwid``, ``perf``, ``instrument``, or several with commas between.
    events
        A file with the events of a processor that counteroof does not know.
    detail
        ``flops``, ``bytes`` or ``lines``: how much the instrumentation records.
    frames
        Where the cache model takes the arrays' pages to lie in physical memory: at ``random``, the same in
        every run; or ``pagemap``, where they are, if the system tells.
    capacity
        What the caches hold that others share: the ``nominal`` size, or what was ``measured`` of it.
    tlb
        Whether the model translates addresses, so that page walks are counted.
    reuse_distances
        Whether reuse distances are counted, by array; this takes several times as long.
    prefetch
        Hardware prefetchers that the cache model has: ``adjacent``, ``stream``, both with a comma between, or
        ``none``; by default those of the machine file, and none without.
    machine
        A machine file to use instead of this machine.
    header
        C declarations of a library without debug information.
    time_limit
        Seconds that one kernel may take at most.
    out
        A folder whose ``results.json`` is written after each kernel; by default nothing is written.
    progress
        Called with the number of kernels done, the label of the one at work, and its stage.

    Returns
    -------
    Run
        The kernels in order. Functions of a library that cannot be run without a spec are not in it.

    Raises
    ------
    BadInput
        If an input, pattern or parameter cannot be used; nothing has been run then.
    Interrupted
        On Ctrl-C, with the kernels that were finished.
    """
    from . import here
    from . import inputs as named
    from .count.select import choose

    if detail not in ("flops", "bytes", "lines"):
        raise BadInput(f"unknown detail {detail!r}; expected one of flops, bytes, lines")
    if size not in ("default", "small"):
        raise BadInput(f"unknown size {size!r}; expected default or small")
    if capacity not in CAPACITY_SOURCES:
        raise BadInput(f"unknown capacity {capacity!r}; expected one of {', '.join(CAPACITY_SOURCES)}")
    asked = ModelOptions(frames, tlb, reuse_distances)
    fetched = None if prefetch is None else prefetchers(prefetch)
    events_file = None if events is None else Path(events)
    choice = choose(counter, events_file)
    found = _found(inputs, None if header is None else Path(header))
    patterns = [kernels] if isinstance(kernels, str) else kernels
    values = {name: _several(value) for name, value in (params or {}).items()}
    cases = named.cases_of(named.select(found.kernels, patterns), size, values, threads)
    counts = sorted({case.spec.threads for case in cases})

    from .session import Settings, measure

    folder = None if out is None else Path(out)
    described, own = here.for_run(None if machine is None else Path(machine), counts)
    described = with_capacity(described, capacity)
    if fetched is not None:
        described = with_prefetchers(described, fetched)
    settings = Settings(choice, detail, time_limit, own, found.guesses, events_file, asked)
    results: Results | None = None
    try:
        for results, _ in measure(cases, described, settings, progress):
            if folder is not None:
                results_file.save(results, folder / "results.json")
    except KeyboardInterrupt:
        if results is None:
            raise
        raise Interrupted(Run(results)) from None
    if results is None:
        raise BadInput("nothing to run; name a spec, a library or a C file with at least one kernel")
    return Run(results)


def _found(inputs: Sequence[Any], header: Path | None) -> Found:
    """Return the kernels of all inputs, in their order."""
    from . import inputs as named
    from .errors import SpecError
    from .spec import KernelSpec
    from .spec_check import duplicate_problems

    if not inputs:
        from . import catalog

        return named.Found(catalog.kernels())
    found = named.Found(())
    for one in inputs:
        spec = getattr(one, "kernel_spec", one)
        if isinstance(spec, KernelSpec):
            found = replace(found, kernels=(*found.kernels, spec))
        elif isinstance(one, str | Path):
            more = named.kernels_from([Path(one)], header=header)
            found = named.Found(
                (*found.kernels, *more.kernels),
                (*found.skipped, *more.skipped),
                {**found.guesses, **more.guesses},
            )
        else:
            raise BadInput(
                f"cannot run {one!r:.80}; expected the path of a spec, a library or a C file, a KernelSpec, "
                "or a function decorated with counteroof.kernel"
            )
    problems = duplicate_problems((kernel.name for kernel in found.kernels), "the inputs", "kernel")
    if problems:
        raise SpecError(problems)
    return found


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,)


def read_results(path: str | Path) -> Run:
    """Return the run in a results file, or in the folder of a run.

    Raises
    ------
    BadInput
        If the file cannot be read; as ResultsError with all mistakes if it is not what the schema asks for.
    """
    return Run(results_of(path))


def import_results(
    path: str | Path,
    kind: str | None = None,
    *,
    name: str | None = None,
    threads: int | None = None,
    events: Sequence[str] = (),
    machine: str | Path | None = None,
) -> tuple[Run, ...]:
    """Return what another tool's file says: one run for each machine or device in it.

    Parameters
    ----------
    path
        Output of perf stat, likwid-perfctr, LIKWID's marker API, Nsight Compute or CARM.
    kind
        One of :data:`counteroof.importers.KINDS`; by default it is recognised.
    name, threads, events
        What the file does not say: the kernel's name, its threads, the counters of a marker file in order.
    machine
        A machine file whose ceilings to hold the kernels against.

    Raises
    ------
    BadInput
        If the file cannot be used; as :class:`counteroof.importers.imported.Contradiction` if it says
        something in two ways that disagree.
    """
    from . import importers
    from .importers.imported import Options
    from .machine import store

    described = None if machine is None else store.load(Path(machine))
    options = Options(name, threads, tuple(events), described)
    return tuple(Run(found) for found in importers.read(Path(path), kind, options))


def results_of(run: Run | Results | str | Path) -> Results:
    """Return the results of a run, or of a file or folder."""
    if isinstance(run, Run):
        return run.results
    if isinstance(run, Results):
        return run
    path = Path(run)
    return results_file.load(path / "results.json" if path.is_dir() else path)
