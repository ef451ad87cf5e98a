"""A table before it has a form: headings, and rows of cells that have a value in base units and a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Value = str | int | float | bool | None


class Cell(NamedTuple):
    """One cell: what a program reads, what a person reads, and whether a person should look at it."""

    value: Value
    text: str
    strong: bool = False


class Heading(NamedTuple):
    """The head of a column: its name in data, its heading for people, whether its texts are numbers."""

    key: str
    text: str
    numeric: bool = True


@dataclass(frozen=True)
class Grid:
    """A table: each row has one cell for each heading."""

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"{len(row)} cells stand under {len(self.headings)} headings")

    def with_names_cut(self, room: int, key: str = "kernel") -> Grid:
        """Return the table with the names of a column cut in the middle, in full in a column after it.

        Without names longer than ``room``, or without such a column, it is the table as it is. Values are
        never cut.
        """
        from ..names import shortened

        at = next((i for i, heading in enumerate(self.headings) if heading.key == key), None)
        if at is None or all(len(row[at].text) <= room for row in self.rows):
            return self
        texts = [row[at].text for row in self.rows]
        cut = shortened(texts, room)
        heading = self.headings[at]
        rows = tuple(
            (*row[:at], row[at]._replace(text=cut[text]), Cell(text, text), *row[at + 1 :])
            for row, text in zip(self.rows, texts, strict=True)
        )
        full = Heading(f"full_{key}", f"{heading.text} in full", numeric=False)
        headings = (*self.headings[: at + 1], full, *self.headings[at + 1 :])
        return replace(self, headings=headings, rows=rows)


def text_row(texts: Sequence[str]) -> tuple[Cell, ...]:
    """Return a row whose values are its texts."""
    return tuple(Cell(text, text) for text in texts)
