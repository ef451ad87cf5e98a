"""README and docs: commands run, specs load, examples in Python run, links lead somewhere.

A page is gone through from top to bottom in a folder of its own. What a fenced block is says its first line:

- any language with ``file=NAME``: the block becomes this file;
- ``sh``: its lines are commands, which must succeed; with ``fails``, end with exit code 1;
- ``sh not run: REASON``: what a test cannot do; options and arguments are still checked;
- ``toml``: a spec (which must load, and with ``run`` be measured), or with ``machine``, ``peaks`` or
  ``events`` such a file;
- ``python``: runs;
- ``text``: something printed; ``c`` without a file: something to read.

Kernels are run at their small sizes, with ceilings made by hand and timed once. A finished run of the default
name is there, made by hand as well.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

import counteroof
from counteroof import spec as specs
from counteroof.commands import COMMANDS, _machine, main
from counteroof.count import events
from counteroof.machine import file as machine_file
from counteroof.machine import peaks, store
from counteroof.pytest_plugin import Gate
from counteroof.results import save
from counteroof.run import execute
from counteroof.run.timing import Settings
from tests import factories
from tests.compiled import needs

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
WORDS = {
    "sh": ("not run:", "fails"),
    "toml": ("run", "machine", "peaks", "events"),
    "python": (),
    "text": (),
    "c": (),
}
"""Languages, and what may stand behind them besides ``file=NAME``."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    info: str
    text: str

    @property
    def file(self) -> str | None:
        found = re.search(r"\bfile=(\S+)$", self.info)
        return found[1] if found else None

    @property
    def kind(self) -> str:
        """What stands before the file's name."""
        return re.sub(r"\s*\bfile=\S+$", "", self.info)

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        before, mark, reason = self.info.partition("not run:")
        return reason.strip() if mark and not before else None

    @property
    def lines(self) -> list[str]:
        """Its commands."""
        joined = self.text.replace("\\\n", " ")
        return [line for line in map(str.strip, joined.splitlines()) if line and not line.startswith("#")]

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, one.start()) + 1, one["language"], one["info"].strip(), one["text"])
        for one in FENCE.finditer(text)
    ]


def commands(line: str) -> Iterator[list[str]]:
    """Give the commands of a line that are joined by ``&&``."""
    words: list[str] = []
    for word in shlex.split(line, comments=True):
        if word == "&&":
            yield words
            words = []
        else:
            words.append(word)
    yield words


ALL = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    for block in blocks(page):
        assert block.language in WORDS, block
        known = block.kind in ("", *WORDS[block.language])
        assert known or (block.language == "sh" and block.reason), f"{block}: {block.info}"
    assert page.read_text().count("\n```") == 2 * len(blocks(page)), "a fence that is not closed"
    loose = re.findall(r"^ {4,}(?:counteroof|python|pip|sudo) .*", FENCE.sub("", page.read_text()), re.M)
    assert not loose, f"commands outside of fenced blocks: {loose}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", page.read_text())):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}"


def anchors(path: Path) -> set[str]:
    """Return the anchors that a Markdown viewer gives the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def test_the_readme_links_every_page_and_picture() -> None:
    text = (ROOT / "README.md").read_text()
    for path in (ROOT / "docs").iterdir():
        if path.suffix == ".md":
            assert f"](docs/{path.name})" in text, path.name
        else:
            assert any(path.name in page.read_text() for page in PAGES), f"{path.name} is shown nowhere"


def test_the_readme_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()[:2]
    scripts = [line.split()[0] for line in lines]
    assert scripts == ["scripts/demo.sh", "scripts/test.sh"]
    assert all((ROOT / path).is_file() for path in scripts)


def test_every_command_is_shown_and_may_be_written_so() -> None:
    """Also those that are not run: options, choices and numbers of arguments are what the commands take."""
    shown = set()
    for block in ALL:
        if block.language != "sh":
            continue
        for words in (words for line in block.lines for words in commands(line)):
            if words[0] == "python" and not words[1].startswith("-"):
                assert (ROOT / words[1]).is_file(), block
            if words[0] != "counteroof":
                continue
            shown.add(words[1])
            parse(words[1:], block)
    assert shown >= set(COMMANDS)


OTHERS = {"--hook", "--engine", "--small-pages", "--leave-one-out", "--counteroof-update"}
"""Options of pyperf, pytest and our scripts that pages name."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_within_sentences_exist(page: Path) -> None:
    every = {option for name in COMMANDS for option in options(name)}
    for text in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text())):
        words = text.split()
        named = [word.partition("=")[0].strip("'\"") for word in words if word.startswith("--")]
        if words[0] == "counteroof" and len(words) > 1:
            assert words[1] in (*COMMANDS, "COMMAND"), text
            known = options(words[1]) if words[1] in COMMANDS else {"--help"}
            assert set(named) <= known, text
        elif words[0] in named:
            assert set(named) <= every | OTHERS, text


def options(name: str) -> set[str]:
    """Return the options of a command."""
    command: click.Command = importlib.import_module(f"counteroof.commands.{name}").command
    return {text for one in command.params for text in (*one.opts, *one.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_may_be_written_so(name: str) -> None:
    command: click.Command = importlib.import_module(f"counteroof.commands.{name}").command
    examples = re.findall(r"^  (\S.*?)(?:  +.*)?$", command.epilog or "", re.MULTILINE)
    shown = [words for line in examples for words in commands(line) if words[0] == "counteroof"]
    assert any(words[1] == name for words in shown)
    for words in shown:
        parse(words[1:], name)


def parse(words: list[str], block: Block | str) -> None:
    """Fail if a command does not take these options."""
    name, *arguments = words
    assert name in COMMANDS, f"{block}: no command {name}"
    command: click.Command = importlib.import_module(f"counteroof.commands.{name}").command
    arguments = arguments[: arguments.index(">")] if ">" in arguments else arguments
    try:
        command.make_context(name, arguments)
    except click.ClickException as error:
        if "does not exist" not in str(error):  # other files than the page's own
            pytest.fail(f"{block}: {' '.join(words)}: {error}")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a run and ceilings made by hand, and time quickly."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    by_hand = factories.machine()
    monkeypatch.setattr(_machine, "with_ceilings", lambda *given, **options: by_hand)
    save(factories.results(factories.result("triad")), folder / "counteroof-out" / "results.json")
    quick = Settings(processes=1, values=3, warmups=1, loops=1)
    monkeypatch.setattr(execute, "settings_for", lambda *given: quick)
    store.save(by_hand, tmp_path / "machine.json")
    small_run = functools.partial(counteroof.run, size="small", machine=tmp_path / "machine.json")
    monkeypatch.setattr(counteroof, "run", small_run)
    monkeypatch.setattr(Gate, "run", lambda self, *inputs, **options: small_run(*inputs))
    return tmp_path / "machine.json"


def needed(page: Path) -> bool:
    return any(block.language in ("sh", "python", "toml") for block in blocks(page))


@pytest.mark.x86_64
@needs("cc")
@pytest.mark.parametrize("page", [page for page in PAGES if needed(page)], ids=lambda page: page.name)
def test_what_a_page_shows_works(page: Path, beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "shown"}
    for number, block in enumerate(blocks(page)):
        if block.reason is not None or block.language in ("text",):
            continue
        if block.file is not None:
            Path(block.file).write_text(block.text)
        if block.language == "sh":
            for line in block.lines:
                for words in commands(line):
                    run(words, beside, block, expected=1 if block.kind == "fails" else 0)
        elif block.language == "toml":
            path = Path(block.file or f"shown-{number}.toml")
            path.write_text(block.text)
            read(path, block)
            if block.kind == "run":
                run(["counteroof", "run", str(path)], beside, block)
        elif block.language == "python" and block.file is None:
            exec(compile(block.text, str(block), "exec"), names)
    for name, function in names.items():
        if name.startswith("test_"):  # of the reader's own suite, with the package's fixture
            function(Gate(Path(), update=False, written=[]))


def read(path: Path, block: Block) -> None:
    """Have a file read by its reader."""
    if block.kind == "machine":
        assert machine_file.load(path, factories.machine()).caches
    elif block.kind == "peaks":
        peaks.load(path)
    elif block.kind == "events":
        assert events.with_file(path)
    else:
        for kernel in specs.load(path):
            assert kernel.cases()


def run(words: list[str], machine: Path, block: Block, expected: int = 0) -> None:
    """Run a command as a shell would, small."""
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], words[-1]
    printed = io.StringIO()
    if words[0] == "counteroof":
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(small(words[1:], machine))
    else:
        assert shutil.which(words[0]), f"{block}: there is no {words[0]} here"
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        code = done.returncode
        printed.write(done.stdout + done.stderr)
    assert code == expected, f"{block}: {' '.join(words)}\n{printed.getvalue()}"
    if target is not None:
        Path(target).write_text(printed.getvalue())


def small(arguments: list[str], machine: Path) -> list[str]:
    """Return the arguments of a run for kernels that fit into a cache, with ceilings that are there."""
    if arguments[0] != "run":
        return arguments
    inputs = [Path(one) for one in arguments[1:] if one.endswith((".toml", ".py"))]
    guessed = any(one.endswith((".c", ".so")) for one in arguments[1:])
    if not inputs and not guessed and "--kernel" not in arguments:
        arguments = [*arguments, "--kernel", "triad"]
    if guessed or all(kernel.small for path in inputs for kernel in specs.load(path)):
        arguments = [*arguments, "--size", "small"]
    if "--machine" not in arguments:
        arguments = [*arguments, "--machine", str(machine)]
    return arguments
