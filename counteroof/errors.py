"""The exceptions a caller may catch; every stage raises these and never prints or exits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class CounteroofError(Exception):
    """Base of everything counteroof raises on purpose."""


class BadInput(CounteroofError, ValueError):
    """What the user gave cannot be used; the command line exits with 2.

    The text says what was found, what was expected and what to try.
    """


class FormulaError(BadInput):
    """A formula is not plain arithmetic, names an unknown parameter, or has no value."""


@dataclass(frozen=True)
class Problem:
    """One mistake in an input file: where it is, what is there, what was expected."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}; expected {self.expected}"


class SpecError(BadInput):
    """A spec has mistakes; ``problems`` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ResultsError(BadInput):
    """A results file is not what its schema asks for; ``problems`` lists all mistakes."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class MachineFileError(BadInput):
    """A machine file has mistakes; ``problems`` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class LibraryError(BadInput):
    """A shared library cannot be used: not ELF, wrong architecture, missing symbol or dependency."""


class BuildError(BadInput):
    """A C compiler refused the sources, or there is none."""


class MachineError(CounteroofError):
    """A fact about this machine could not be had, and the work cannot go on without it."""


class KernelFailed(CounteroofError):
    """One kernel's measurement ended; the others go on.

    ``kind`` is one of ``crash``, ``timeout``, ``exit``, ``out-of-bounds``, ``wrong-result``,
    ``unsupported`` (an instruction the engine cannot run), ``engine`` (other results under it than natively),
    ``setup`` (arrays, memory, a failed set-up call), ``input`` (the library or the spec of this kernel cannot
    be used).
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)
