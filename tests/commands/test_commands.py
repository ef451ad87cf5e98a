"""The command line as a whole: help, exit codes, and bad input that ends with one clear message."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from counteroof import __version__
from counteroof.commands import BAD_INPUT, COMMANDS, DONE, FAILED, INTERRUPTED, _files, cli, main
from counteroof.count import select
from counteroof.count.select import Availability
from counteroof.errors import BadInput, CounteroofError, MachineError
from tests import factories

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
    assert len(streams.err.splitlines()) == 1


def test_a_command_line_that_is_wrong_names_the_help_of_its_command(capsys: Captured) -> None:
    assert main(["run", "--size", "tiny"]) == BAD_INPUT
    assert capsys.readouterr().err == (
        "counteroof run: invalid value for '--size': 'tiny' is not one of 'default', 'small'; "
        "counteroof run --help has all of it\n"
    )


def test_a_machine_file_that_is_none_is_told_what_one_is_and_no_folder_is_made(
    tmp_path: Path, capsys: Captured
) -> None:
    file, spec = tmp_path / "machine.txt", tmp_path / "k.c"
    file.write_text("Skylake\n")
    spec.write_text("void f(double *x, long n) { x[n - 1] = 0; }")
    out = tmp_path / "new" / "out"
    assert main(["run", str(spec), "--machine", str(file), "--out", str(out)]) == BAD_INPUT
    assert "a TOML file with [[cache]] entries of level, size and ways" in capsys.readouterr().err
    assert not out.parent.exists()


def test_a_folder_that_was_there_stays_whatever_the_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput), _files.folder_for(tmp_path / "a" / "b"):
        raise BadInput("wrong")
    assert not (tmp_path / "a").exists()
    (tmp_path / "kept").mkdir()
    with pytest.raises(BadInput), _files.folder_for(tmp_path / "kept" / "b"):
        raise BadInput("wrong")
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_a_folder_that_holds_something_stays(tmp_path: Path) -> None:
    def written_before_it_was_known() -> None:
        with _files.folder_for(tmp_path / "full") as folder:
            (folder / "results.json").touch()
            raise BadInput("wrong")

    with pytest.raises(BadInput):
        written_before_it_was_known()
    assert (tmp_path / "full" / "results.json").exists()


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


def test_a_kernel_is_chosen_by_its_label_though_a_pattern_would_read_its_brackets_as_a_set(
    tmp_path: Path,
) -> None:
    kernels = [factories.result("walk", label=f"walk[n={n}]") for n in (100, 1)]
    path = _files.save_results(factories.results(*kernels), tmp_path)
    chosen = _files.load_kernels(path, ["walk[n=100]"])
    assert [one.label for one in chosen.kernels] == ["walk[n=100]"]
    assert len(_files.load_kernels(path, ["walk*"]).kernels) == 2
