"""The pytest fixture, in test suites of its own: what holds passes, what moved fails with the table."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from counteroof import results as results_file
from counteroof.count.base import Count

from . import factories

pytest_plugins = ["pytester"]

SUITE = """
def test_kernels(counteroof):
    counteroof.check("now.json", against="baseline.json")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a test file, where only the plugin itself is loaded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (pytester.path / "suite").mkdir()
    (pytester.path / "suite" / "test_it.py").write_text(SUITE)
    return pytester


def save(suite: pytest.Pytester, name: str, *, more_flops: int = 0, threads: int = 1) -> None:
    counted = replace(factories.triad(), flops=Count(2 * factories.N + more_flops, "instrumented", "engine"))
    run = factories.results(factories.result(counted=counted, threads=threads))
    results_file.save(run, suite.path / "suite" / name)


def pytest_run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("-p", "counteroof.pytest_plugin", *options)


def test_a_run_that_holds_passes(suite: pytest.Pytester) -> None:
    save(suite, "now.json")
    save(suite, "baseline.json")
    pytest_run(suite).assert_outcomes(passed=1)


def test_one_flop_more_fails_with_the_table_and_no_traceback(suite: pytest.Pytester) -> None:
    save(suite, "now.json", more_flops=1)
    save(suite, "baseline.json")
    result = pytest_run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["triad*FLOPs*moved*40_000_000*40_000_001*exactly"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_without_a_baseline_it_fails_and_says_how_to_make_one(suite: pytest.Pytester) -> None:
    save(suite, "now.json")
    result = pytest_run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["there is no baseline *baseline.json; --counteroof-update writes it"])


def test_the_option_writes_the_baseline(suite: pytest.Pytester) -> None:
    save(suite, "now.json", more_flops=1)
    save(suite, "baseline.json")
    result = pytest_run(suite, "--counteroof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["counteroof: wrote the baseline *baseline.json"])
    pytest_run(suite).assert_outcomes(passed=1)


def test_no_baseline_is_made_of_a_failed_run(suite: pytest.Pytester) -> None:
    results_file.save(factories.results(factories.failed()), suite.path / "suite" / "now.json")
    result = pytest_run(suite, "--counteroof-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no baseline is made of a run that failed: spoiled (SIGSEGV)"])
    assert not (suite.path / "suite" / "baseline.json").exists()


def test_unlike_runs_fail_with_what_differs(suite: pytest.Pytester) -> None:
    save(suite, "now.json", threads=2)
    save(suite, "baseline.json")
    result = pytest_run(suite)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["counteroof: not comparable: triad: threads 1 against 2;*"])


def test_kernels_are_run_by_the_fixture_with_paths_relative_to_the_test(suite: pytest.Pytester) -> None:
    (suite.path / "suite" / "test_it.py").write_text(
        "import pytest\n"
        "def test_kernels(counteroof):\n"
        "    with pytest.raises(ValueError, match='suite/kernels.toml: there is no such file'):\n"
        "        counteroof.run('kernels.toml')\n"
    )
    pytest_run(suite).assert_outcomes(passed=1)


def test_the_package_announces_the_fixture_to_pytest() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module = importlib.import_module(project["entry-points"]["pytest11"]["counteroof"])
    assert callable(module.counteroof)


def test_the_plugin_loads_nothing_before_it_is_used(suite: pytest.Pytester) -> None:
    (suite.path / "suite" / "test_it.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert 'counteroof.pytest_plugin' in sys.modules\n"
        "    assert not {'counteroof.results', 'numpy', 'pandas'} & set(sys.modules)\n"
    )
    pytest_run(suite).assert_outcomes(passed=1)
