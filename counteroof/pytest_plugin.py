"""The pytest fixture ``counteroof``: kernels measured in a test suite, and held against a baseline.

pytest loads this module in every session where counteroof is installed, so it imports nothing else before a
test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .api import Run
    from .results import Results

_WRITTEN = pytest.StashKey[list[str]]()

UPDATE = "--counteroof-update"

_PATHS = ("machine", "header", "events", "out")
"""Options of a run that are paths."""


class Gate:
    """Measures kernels and holds runs against baselines; paths are relative to the test's file.

    Parameters
    ----------
    folder
        The folder of the test's file.
    update
        Whether baselines are written instead of compared.
    written
        Gets the path of each baseline that was written.
    """

    def __init__(self, folder: Path, update: bool, written: list[str]) -> None:
        self._folder = folder
        self._update = update
        self._written = written

    def run(self, *inputs: Any, **options: Any) -> Run:
        """Measure kernels; see :func:`counteroof.run`. A kernel that fails does not fail the test yet."""
        from .api import run

        found = [self._path(one) for one in inputs]
        options |= {name: self._path(options[name]) for name in _PATHS if name in options}
        return run(*found, **options)

    def _path(self, value: Any) -> Any:
        return self._folder / value if isinstance(value, str | Path) else value

    def check(
        self,
        run: Run | Results | str | Path,
        against: str | Path,
        *,
        bytes: float = 0.01,
        time: float | None = None,
        findings: bool = False,
        allow: Collection[str] = (),
    ) -> None:
        """Fail the test, with a table of what moved, unless a run holds against a baseline.

        Instrumented counts must be equal.

        Parameters
        ----------
        run
            A run, or the path of its results.
        against
            The baseline: a results file. With ``--counteroof-update`` it is written from the run.
        bytes
            Share by which DRAM bytes, and counts of hardware, may differ either way.
        time
            Share by which a kernel may be slower; ``None``: time is not looked at.
        findings
            Whether a finding that the baseline does not have fails.
        allow
            Kinds of mismatch in spite of which to check: size, threads, convention, machine.
        """
        from . import check, results
        from .api import results_of
        from .errors import BadInput
        from .report import gate

        baseline = self._folder / against
        try:
            found = results_of(self._path(run))
            if self._update:
                self._write(found, baseline)
                return
            if not baseline.exists():
                pytest.fail(f"there is no baseline {baseline}; {UPDATE} writes it", pytrace=False)
            expected = results.load(baseline)
            report = check.check(found, expected, check.Rules(bytes, time, findings), allow)
        except BadInput as error:
            pytest.fail(f"counteroof: {error}", pytrace=False)
        if not report.ok:
            pytest.fail(gate.text(report), pytrace=False)

    def _write(self, found: Results, baseline: Path) -> None:
        from . import results

        if found.failed:
            names = ", ".join(f"{one.label} ({one.error.message})" for one in found.failed if one.error)
            pytest.fail(f"no baseline is made of a run that failed: {names}", pytrace=False)
        results.save(found, baseline)
        self._written.append(str(baseline))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    group = parser.getgroup("counteroof")
    group.addoption(UPDATE, action="store_true", help="write counteroof's baselines instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the baselines that are written."""
    config.stash[_WRITTEN] = []


@pytest.fixture(scope="module")
def counteroof(request: pytest.FixtureRequest) -> Gate:
    """Measure kernels and hold them against a baseline; see :class:`Gate`."""
    update = bool(request.config.getoption(UPDATE))
    return Gate(request.path.parent, update, request.config.stash[_WRITTEN])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which baselines were written."""
    for path in config.stash[_WRITTEN]:
        terminalreporter.write_line(f"counteroof: wrote the baseline {path}")
