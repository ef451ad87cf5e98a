"""The tables of docs name all there is: keys of a spec and of results, rules, lines of a ledger, sources."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counteroof import diagnose, flop_ledger, reconcile, results, spec_file
from counteroof import spec as specs
from counteroof.catalog import kernels
from counteroof.count.base import Count
from counteroof.errors import KernelFailed
from counteroof.formula import FUNCTIONS
from counteroof.machine import file as machine_file
from counteroof.machine import peaks
from counteroof.report.columns import SOURCE_LETTERS
from counteroof.results import Results
from counteroof.spec_table import Table
from tests.test_docs import ROOT, blocks

DOCS = ROOT / "docs"


def sections(page: str) -> dict[str, str]:
    """Return the texts of a page by their headings."""
    parts = re.split(r"^#+ +(.*)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str, header: str = "") -> dict[str, list[str]]:
    """Return the cells behind the first of each row, by the first without its quotes.

    Of all tables, or of those that begin with this header.
    """
    found = {}
    inside = ""
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = ""
            continue
        inside = inside or line
        if line.startswith("| `") and inside.startswith(header):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found[name.strip("`")] = cells
    return found


KEYS = "| key | type | default |"
"""How a table of a spec's keys begins."""


class TestSpec:
    @pytest.fixture
    def asked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], set[str]]:
        """The keys that the reader knew of each table of the page's specs, with those that were there."""
        seen: dict[tuple[str, ...], set[str]] = {}
        refuse = Table.refuse_unknown

        def noted(self: Table, known: Any) -> None:
            seen.setdefault(tuple(known), set()).update(self.data)
            refuse(self, known)

        monkeypatch.setattr(Table, "refuse_unknown", noted)
        for number, block in enumerate(blocks(DOCS / "spec.md")):
            path = tmp_path / (block.file or f"{number}.toml")
            path.write_text(block.text)
            if block.language == "toml":
                specs.load(path)
        return seen

    def test_every_key_is_described_and_used_in_an_example(
        self, asked: dict[tuple[str, ...], set[str]]
    ) -> None:
        described = rows((DOCS / "spec.md").read_text(), KEYS)
        assert spec_file.KERNEL_KEYS in asked
        assert spec_file.LIBRARY_KEYS in asked
        assert spec_file.ARRAY_KEYS in asked
        for known, used in asked.items():
            assert set(known) <= described.keys()
            assert set(known) == used, f"not in an example: {known}"

    def test_no_key_is_described_that_the_reader_does_not_know(
        self, asked: dict[tuple[str, ...], set[str]]
    ) -> None:
        known = {key for keys in asked for key in keys} | {"value"}
        assert set(rows((DOCS / "spec.md").read_text(), KEYS)) <= known

    def test_every_key_has_a_type_and_a_default(self) -> None:
        for name, cells in rows((DOCS / "spec.md").read_text(), KEYS).items():
            assert len(cells) == 3, name
            assert all(cells), name

    def test_every_way_to_fill_an_array_has_its_options(self) -> None:
        kinds = rows(sections("spec.md")["Initial contents"])
        assert set(kinds) == set(specs.INITS)
        for kind, options in specs.INITS.items():
            for option, default in options.items():
                assert f"`{option}`" in kinds[kind][0]
                shown = f"`{option}` = {default}"
                assert (shown in kinds[kind][0]) == (type(default) is int), f"{kind}: {option}"

    @pytest.mark.parametrize(
        "words", [specs.DTYPES, specs.PRECISIONS, specs.ACCESSES, FUNCTIONS, specs.CACHES]
    )
    def test_every_word_that_may_be_given_is_named(self, words: tuple[str, ...]) -> None:
        page = (DOCS / "spec.md").read_text()
        for word in words:
            assert f"`{word}`" in page or f'`"{word}"`' in page


def written() -> Iterator[tuple[str, set[str]]]:
    """Give every object of a results file but the quantities, with its keys."""
    yield from ((name, keys) for name, keys, kind in _objects(Results, "") if kind is not Count)


def quantities() -> set[str]:
    """Return the names of those of a counter."""
    return {name.rpartition(".")[2] for name, _, kind in _objects(Results, "") if kind is Count}


RENAMED = {"try_": "try"}
LEFT_OUT = {"counters": {"counter", "arrays", "lines", "instruction_table"}}
"""What :func:`counteroof.results.to_json` does."""
QUANTITY = "kernels[].counters.NAME.QUANTITY"


def _objects(kind: Any, where: str) -> Iterator[tuple[str, set[str], Any]]:
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        gone = LEFT_OUT["counters"] if where == "kernels[].counters.NAME" else set()
        fields = [field.name for field in dataclasses.fields(kind) if field.name not in gone]
        yield where, {RENAMED.get(name, name) for name in fields}, kind
        for name in fields:
            yield from _objects(hints[name], f"{where}.{name}" if where else name)
        return
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        where += "[]"
    elif where.endswith(".counters"):
        where += ".NAME"
    for one in inner:
        yield from _objects(one, where)


class TestNumbers:
    def test_every_key_of_a_results_file_is_described_and_no_other(self) -> None:
        page = {
            name.strip("`"): set(rows(text))
            for heading, text in sections("numbers.md").items()
            if heading.startswith("`")
            for name in heading.split(" and ")
        }
        page[""] = set(rows(sections("numbers.md")["At the top"])) - {"schema"}
        expected = dict(written())
        expected[QUANTITY] = {"value", "status", "source", "reason"}
        assert page == expected

    def test_quantities_are_what_the_page_marks_as_such(self) -> None:
        marked = {
            name
            for name, cells in rows(sections("numbers.md")["`kernels[].counters.NAME`"]).items()
            if cells[0].startswith("Q")
        }
        assert marked == quantities()

    def test_what_is_written_has_these_keys(self) -> None:
        from tests import factories

        data = results.to_json(factories.results(factories.result()))
        (kernel,) = data["kernels"]
        expected = dict(written())
        assert set(data) == expected[""] | {"schema"}
        assert set(kernel) == expected["kernels[]"]
        assert set(kernel["counters"]["instrument"]) == expected["kernels[].counters.NAME"]

    def test_every_line_of_a_ledger_is_described(self) -> None:
        described = set(rows(sections("numbers.md")["The ledger"]))
        assert described == {*reconcile.MEANINGS, *flop_ledger.MEANINGS}

    def test_every_source_has_its_letter(self) -> None:
        letters = {name: cells[0] for name, cells in rows(sections("numbers.md")["Sources"]).items()}
        assert letters == {"declared": "", **SOURCE_LETTERS}

    def test_every_kind_of_failure_is_described(self) -> None:
        named = set(re.findall(r"``([a-z-]+)``", KernelFailed.__doc__ or "")) - {"kind"}
        assert set(rows(sections("numbers.md")["Kernels that fail"])) == named | {"internal"}


def rule_names() -> set[str]:
    """Return the names of all rules: the texts that stand at the top of their modules."""
    names = set()
    for module in pkgutil.iter_modules(diagnose.__path__, f"{diagnose.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.isupper() and not name.startswith("_") and type(value) is str and module_of(name, module):
                names.add(value)
    return names


def module_of(name: str, module: pkgutil.ModuleInfo) -> bool:
    """Tell whether a module defines a name, and not only imports it."""
    source = Path(importlib.import_module(module.name).__file__ or "").read_text()
    return re.search(rf"^{name} = ", source, re.MULTILINE) is not None


class TestFindings:
    def test_every_rule_has_a_section(self) -> None:
        headings = set(sections("findings.md"))
        assert rule_names() <= headings, rule_names() - headings

    def test_every_section_says_what_it_rests_on_and_what_it_gains(self) -> None:
        for name in rule_names():
            text = sections("findings.md")[name]
            for word in ("**Says**", "**Evidence**", "**Gain**"):
                assert word in text, f"{name}: {word}"

    def test_every_severity_is_described(self) -> None:
        assert set(rows(sections("findings.md")["How to read a finding"])) >= set(diagnose.SEVERITIES)


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Other machines and stated peaks", {*machine_file._TOP_KEYS, *machine_file._CACHE_KEYS}),
        ("Other machines and stated peaks", {*peaks._TOP_KEYS, *peaks._KEYS} - {"ceiling"}),
    ],
)
def test_every_key_of_a_machine_file_is_described(heading: str, keys: set[str]) -> None:
    assert keys <= set(rows(sections("ceilings.md")[heading]))


def test_the_readme_knows_how_many_kernels_are_built_in() -> None:
    assert f"the {len(kernels())} built-in kernels" in " ".join((ROOT / "README.md").read_text().split())
