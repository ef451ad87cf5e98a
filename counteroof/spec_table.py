"""One table of a spec file, read so that every mistake is noted and the reading goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import FormulaError, Problem
from .formula import Formula, Number
from .wording import show, suggest


@dataclass
class Table:
    """One table of a spec; taking a value of the wrong type notes a problem and gives the default instead."""

    data: Mapping[str, Any]
    where: str
    problems: list[Problem]

    def problem(self, key: str, found: str, expected: str) -> None:
        """Note a mistake at a key of this table."""
        self.problems.append(Problem(f"{self.where}.{key}" if key else self.where, found, expected))

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Note every key that is not known."""
        for key in self.data:
            if key not in known:
                self.problem("", f"unknown key {show(key)}{suggest(key, known)}", f"only {', '.join(known)}")

    def take(self, key: str, types: type | tuple[type, ...], expected: str) -> Any:
        """Return the value of a key if it has the type; ``None`` if it is absent or noted as a mistake."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, types) or isinstance(value, bool):
            self.problem(key, show(value), expected)
            return None
        return value

    def text(self, key: str) -> str | None:
        """Return a text."""
        value: str | None = self.take(key, str, "a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self.take(key, list, "a list of texts") or []
        if not all(isinstance(value, str) for value in values):
            self.problem(key, show(values), "a list of texts")
            return ()
        return tuple(values)

    def whole(self, key: str, default: int) -> int:
        """Return a whole number."""
        value: int | None = self.take(key, int, "a whole number")
        return default if value is None else value

    def number(self, key: str) -> float | None:
        """Return a finite number."""
        value = self.take(key, (int, float), "a number")
        if value is not None and not abs(value) < 2**63:
            self.problem(key, show(value), "a finite number")
            return None
        return None if value is None else float(value)

    def table(self, key: str) -> Table | None:
        """Return a table within this one."""
        value = self.take(key, dict, "a table")
        return None if value is None else Table(value, f"{self.where}.{key}", self.problems)

    def tables(self, key: str, expected: str) -> Iterator[Table]:
        """Give each table of a list."""
        for number, value in enumerate(self.take(key, list, expected) or [], start=1):
            if isinstance(value, dict):
                yield Table(value, f"{self.where}.{key} {number}", self.problems)
            else:
                self.problem(key, show(value), expected)

    def formula(self, key: str, expected: str = "a formula or a number") -> Formula | None:
        """Return a formula; a number is one too."""
        value = self.take(key, (str, int, float), expected)
        return None if value is None else self.parse(key, value)

    def parse(self, key: str, value: str | Number) -> Formula | None:
        """Return the formula that a text or number is, or note the problem."""
        try:
            return Formula(value if isinstance(value, str) else repr(value))
        except FormulaError as error:
            listed = isinstance(value, str) and "," in value
            several = ", or a list of them, such as ['n', 'm']" if listed else ""
            self.problem(key, str(error), f"a formula in the parameters, such as '2*n'{several}")
            return None
