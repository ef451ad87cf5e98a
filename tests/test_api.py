"""counteroof from Python: what a run shows of itself, and how it is made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import counteroof
from counteroof import api, here, session
from counteroof.api import Interrupted, Run, read_results
from counteroof.cachesim.options import ModelOptions
from counteroof.compare import NotComparable
from counteroof.diagnose.base import Finding
from counteroof.errors import BadInput
from counteroof.results import Results, Seconds

from . import factories
from .factories import failed, result, results

SPEC = """
[library]
path = "libm.so.6"
[[kernel]]
name = "sqrt"
params = { n = 4 }
small = { n = 2 }
args = { x = "n" }
[[kernel]]
name = "exp"
args = { x = 1.0 }
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put results by hand in the place of measuring; returns what was asked for."""
    calls: list[dict[str, Any]] = []

    def measure(cases: Any, machine: Any, settings: Any, progress: Any) -> Iterator[tuple[Results, Any]]:
        calls.append({"labels": [case.label for case in cases], "machine": machine, "settings": settings})
        for number in range(len(cases)):
            if cases[number].spec.name == "exp" and settings.time_limit == 0.5:
                raise KeyboardInterrupt
            done = (result(case.spec.name, label=case.label) for case in cases[: number + 1])
            yield results(*done), SimpleNamespace()

    monkeypatch.setattr(session, "measure", measure)
    monkeypatch.setattr(here, "for_run", lambda file, threads: (factories.machine(), None))
    return calls


def test_importing_the_package_loads_nothing_heavy_and_names_resolve() -> None:
    code = (
        "import sys, counteroof; assert callable(counteroof.run); assert 'numpy' not in sys.modules;"
        "assert 'counteroof.api' not in sys.modules; counteroof.read_results; counteroof.Run;"
        "assert not {'pandas', 'matplotlib', 'cffi', 'iced_x86', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("first", ["", "import counteroof.run.execute;", "from counteroof.run import plan;"])
def test_run_can_be_called_whatever_was_imported_before(first: str) -> None:
    code = (
        f"{first}import counteroof, inspect;"
        "assert 'time_limit' in inspect.signature(counteroof.run).parameters;\n"
        "try: counteroof.run('no/such/file.toml')\n"
        "except counteroof.errors.BadInput as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no/such/file.toml: there is no such file" in done.stdout


def test_every_public_name_is_there() -> None:
    for name in counteroof.__all__:
        assert getattr(counteroof, name) is not None
        assert name in dir(counteroof)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        counteroof.nothing  # type: ignore[attr-defined] # noqa: B018


def test_a_run_measures_the_kernels_of_a_spec(spec: Path, asked: list[dict[str, Any]]) -> None:
    run = counteroof.run(spec)
    assert [kernel.label for kernel in run] == ["sqrt", "exp"]
    assert (len(run), run.failed) == (2, ())


def test_options_reach_what_is_measured(spec: Path, asked: list[dict[str, Any]]) -> None:
    run = counteroof.run(
        str(spec), kernels=["sq*"], params={"n": [3, 5]}, detail="flops", time_limit=7, machine=None
    )
    assert [kernel.label for kernel in run] == ["sqrt[n=3]", "sqrt[n=5]"]
    (call,) = asked
    assert (call["settings"].detail, call["settings"].time_limit) == ("flops", 7)
    assert call["settings"].model == ModelOptions()
    counteroof.run(spec, frames="pagemap", tlb=True)
    assert asked[-1]["settings"].model == ModelOptions("pagemap", tlb=True)
    counteroof.run(spec, reuse_distances=True)
    assert asked[-1]["settings"].model == ModelOptions(reuse_distances=True)
    counteroof.run(spec, kernels="sqrt", params={"n": 9})
    assert asked[-1]["labels"] == ["sqrt"]
    assert not asked[-1]["machine"].prefetch.on
    with pytest.raises(BadInput, match="what the caches hold has not been measured here"):
        counteroof.run(spec, kernels="sqrt", capacity="measured")
    counteroof.run(spec, kernels="sqrt", prefetch="stream")
    assert asked[-1]["machine"].prefetch.stream


def test_specs_and_paths_may_be_mixed(spec: Path, asked: list[dict[str, Any]]) -> None:
    (triad, *_) = counteroof.load(spec)
    run = counteroof.run(replace(triad, name="again"), spec, kernels=["again", "exp"])
    assert [kernel.name for kernel in run] == ["again", "exp"]
    with pytest.raises(BadInput, match="sqrt"):
        counteroof.run(triad, spec)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((3,), {}, "cannot run 3; expected the path of a spec"),
        (("nothing.toml",), {}, "nothing.toml: there is no such file"),
        ((), {"kernels": ["nothing*"]}, "no kernel matches 'nothing\\*'"),
        ((), {"params": {"nothing": 1}}, "no kernel has a parameter 'nothing'"),
        ((), {"detail": "all"}, "unknown detail 'all'"),
        ((), {"frames": "real"}, "unknown frames 'real'"),
        ((), {"size": "tiny"}, "unknown size 'tiny'"),
        ((), {"counter": "papi"}, "unknown counter 'papi'"),
        ((), {"prefetch": "stride"}, "unknown prefetcher 'stride'"),
        ((), {"capacity": "real"}, "unknown capacity 'real'"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    inputs: tuple[Any, ...], options: dict[str, Any], message: str, asked: list[dict[str, Any]]
) -> None:
    with pytest.raises(BadInput, match=message):
        counteroof.run(*inputs, **options)
    assert asked == []


def test_results_are_on_disk_after_every_kernel_if_asked_for(
    spec: Path, asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted) as interrupted:
        counteroof.run(spec, time_limit=0.5, out=tmp_path / "out")
    kept = interrupted.value.run
    assert [kernel.label for kernel in kept] == ["sqrt"]
    assert read_results(tmp_path / "out").results == kept.results
    assert isinstance(interrupted.value, KeyboardInterrupt)


TWO = Run(results(result("triad"), failed(), result("s", label="s[n=1]"), result("s", label="s[n=2]")))


def test_a_kernel_is_found_by_label_or_by_its_only_name() -> None:
    assert TWO["triad"].name == "triad"
    assert TWO["s[n=2]"].label == "s[n=2]"
    assert Run(results(result("s", label="s[n=1]")))["s"].label == "s[n=1]"
    with pytest.raises(KeyError, match=r"no kernel 'triat' \(did you mean 'triad'\?\); the kernels are: tri"):
        TWO["triat"]
    with pytest.raises(BadInput, match=r"'s' ran at several sizes; choose one of s\[n=1\], s\[n=2\]"):
        TWO["s"]


def test_the_frame_has_a_row_for_each_kernel_and_columns_by_name() -> None:
    assert list(TWO.to_frame()["kernel"]) == ["triad", "spoiled", "s[n=1]", "s[n=2]"]
    assert list(TWO.to_frame(["kernel", "ledger"]).columns) == ["kernel", "ledger"]
    with pytest.raises(BadInput, match="no column 'nothing'"):
        TWO.to_frame(["nothing"])


def test_the_plot_is_drawn_on_given_axes_or_new_ones() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    run = Run(results(result("triad")))
    assert run.plot(ax=axes) is axes
    assert axes.get_xscale() == "log"
    new = run.plot()
    assert new.figure is not figure
    assert new.get_xscale() == "log"
    with pytest.raises(BadInput, match="no panel 7; the picture has 1"):
        run.plot(panel=7)


def test_a_run_shows_itself_as_text_and_in_jupyter() -> None:
    text = repr(TWO)
    assert "640 MB" in text
    assert "spoiled: crash: SIGSEGV" in text
    html = TWO._repr_html_()
    assert html.startswith('<table class="counteroof">')
    assert "640 MB" in html


def test_an_explanation_has_everything_of_one_kernel() -> None:
    finding = Finding("write-allocate", "advice", "lines of a are read", "non-temporal stores", 1.33)
    text = Run(results(result(findings=(finding,)))).explain("triad")
    assert repr(text) == str(text)
    for words in (
        "intensity 0.0833 declared, 0.0625 true; 35 times left of the ridge",
        "declared: a paper",
        "+160 MB  write-allocate",
        "lines of a are read; try: non-temporal stores (up to 1.33 times as fast)",
    ):
        assert words in text
    with pytest.raises(KeyError, match="no kernel 'nothing'"):
        TWO.explain("nothing")


def test_two_runs_are_compared(tmp_path: Path) -> None:
    def timed(base: float, **fields: Any) -> Run:
        samples = tuple(base * (1 + 0.001 * i) for i in range(6))
        return Run(results(replace(result(**fields), seconds=Seconds.of(samples))))

    slow, fast = timed(1.0), timed(0.5)
    fast.save(tmp_path / "results.json")
    for other in (fast, fast.results, tmp_path, str(tmp_path / "results.json")):
        found = slow.compare(other)
        assert list(found.to_frame()["verdict"]) == ["faster"]
        assert "faster" in repr(found)
        assert "<strong>faster</strong>" in found._repr_html_()
    with pytest.raises(NotComparable, match="threads 1 against 2"):
        slow.compare(timed(1.0, threads=2))
    assert slow.compare(timed(1.0, threads=2), allow=["threads"]).found.allowed


def test_a_run_is_checked_against_a_baseline() -> None:
    run = Run(results(result()))
    assert run.check(run).ok
    more = Run(results(result(counted=factories.triad(write=9 * factories.N), ledger=())))
    assert not more.check(run).ok
    assert more.check(run, bytes=0.2).ok


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"schema": "something/1"}')
    with pytest.raises(BadInput, match="something/1"):
        read_results(tmp_path)
    assert api.results_of(TWO) is TWO.results
