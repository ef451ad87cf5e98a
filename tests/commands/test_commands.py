"""The command line as a whole: help, exit codes, and bad input that ends with one clear message."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from counteroof import __version__
from counteroof.commands import BAD_INPUT, COMMANDS, DONE, FAILED, INTERRUPTED, cli, main
from counteroof.count import select
from counteroof.count.select import Availability
from counteroof.errors import BadInput, CounteroofError, MachineError

Captured = pytest.CaptureFixture[str]


def commands() -> list[click.Command]:
    return [importlib.import_module(f"counteroof.commands.{name}").command for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: Captured) -> None:
    assert main([name, "--help"]) == DONE
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"counteroof {name}" in text.partition("Example")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    command = importlib.import_module(f"counteroof.commands.{name}").command
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_their_help_says(name: str) -> None:
    command = importlib.import_module(f"counteroof.commands.{name}").command
    assert command.help.splitlines()[0] == COMMANDS[name]


def test_every_module_of_a_command_is_in_the_list() -> None:
    folder = Path(cli.callback.__code__.co_filename).parent  # type: ignore[union-attr]
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == set(COMMANDS)


def test_the_version_is_the_packages(capsys: Captured) -> None:
    assert main(["--version"]) == DONE
    assert __version__ in capsys.readouterr().out


def test_no_command_shows_the_help_and_is_bad_input(capsys: Captured) -> None:
    assert main([]) == BAD_INPUT
    assert "Commands:" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from counteroof.commands import main; main(['--help']);"
        "heavy = {'numpy', 'pandas', 'rich', 'matplotlib', 'seaborn', 'cffi', 'pyperf', 'iced_x86'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rum"], "no command 'rum' (did you mean 'run'?)"),
        (["run", "--sise", "small"], "--size"),
        (["run", "--size", "tiny"], "'tiny' is not one of"),
        (["run", "--threads", "0"], "--threads"),
        (["run", "--time-limit", "0"], "--time-limit"),
        (["run", "--events", "no/such/events.toml"], "the events file no/such/events.toml cannot be read"),
        (["run", "--counter", "papi"], "unknown counter 'papi'"),
        (["run", "--set", "n"], "expected a parameter and its value, such as n=1000"),
        (["run", "no/such/kernels.toml"], "no/such/kernels.toml: there is no such file"),
        (["run", "no/such/libfoo.so"], "no/such/libfoo.so: there is no such file"),
        (["init", "no/such/libfoo.so"], "no/such/libfoo.so"),
        (["init"], "LIBRARY"),
        (["table", "no/such/results.json"], "no/such/results.json"),
        (["plot", "no/such/results.json"], "no/such/results.json"),
        (["report", "no/such/folder"], "no/such/folder"),
        (["machine", "--threads", "x"], "--threads"),
    ],
)
def test_bad_input_ends_with_2_and_one_clear_message(args: list[str], message: str, capsys: Captured) -> None:
    assert main(args) == BAD_INPUT
    streams = capsys.readouterr()
    assert message in streams.err
    assert streams.out == ""
    assert "Traceback" not in streams.err


def test_all_mistakes_of_a_spec_are_listed(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text("[library]\npath = 'libm.so.6'\n[[kernel]]\nname = 'sqrt'\nthreads = 0\ncache = 'hot'\n")
    assert main(["run", str(path)]) == BAD_INPUT
    assert capsys.readouterr().err.splitlines() == [
        "counteroof: 2 mistakes",
        f"  {path}: kernel sqrt.cache: found 'hot'; expected one of warm, cold",
        f"  {path}: kernel sqrt.threads: found 0; expected a number of threads from 1 to 4096",
    ]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BadInput("found 3; expected 4"), BAD_INPUT, "counteroof: found 3; expected 4\n"),
        (MachineError("no caches found"), FAILED, "counteroof: no caches found\n"),
        (CounteroofError("something"), FAILED, "counteroof: something\n"),
        (
            OSError(28, "No space left on device", "out/table.md"),
            FAILED,
            "counteroof: out/table.md: No space left on device\n",
        ),
        (KeyboardInterrupt(), INTERRUPTED, "counteroof: interrupted\n"),
    ],
)
def test_errors_become_texts_and_exit_codes(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fail(**unused: object) -> None:
        raise error

    monkeypatch.setattr("counteroof.capabilities.survey", fail)
    assert main(["doctor"]) == code
    assert capsys.readouterr().err.lstrip("\n") == text


@pytest.mark.parametrize("name", ["perf", "likwid"])
def test_a_counter_that_is_not_here_ends_with_2_and_its_reason(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    none = {name: lambda events_file: Availability(name, None, "the PMU is gone")}
    monkeypatch.setattr(select, "COUNTERS", {**select.COUNTERS, **none})
    assert main(["run", "--counter", name]) == BAD_INPUT
    assert f"counter {name} cannot be used: the PMU is gone" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = "from counteroof.commands import main; import sys; sys.exit(main(['run', '--help']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=30)
    assert errors == b""
