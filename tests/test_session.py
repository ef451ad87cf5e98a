"""The loop over kernels: what is asked of each, and what is added to its result. Nothing is run."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from counteroof import ceilings, session
from counteroof.build import KernelBuild
from counteroof.cachesim.options import ModelOptions
from counteroof.count.select import Availability, Choice
from counteroof.diagnose import claims
from counteroof.formula import Formula
from counteroof.machine.model import Machine
from counteroof.run.execute import KernelRun
from counteroof.run.outcome import Failure
from counteroof.session import Settings, measure
from counteroof.spec import Declared, KernelCase, KernelSpec, LibrarySpec
from tests import factories

ENGINE = Availability("instrument", "m:engine", "here", max_threads=1)
AUTO = Choice((ENGINE,), {"perf": "no PMU"})


def spec(name: str, threads: int = 1) -> KernelSpec:
    return KernelSpec(name=name, library=LibrarySpec(path="libf.so"), symbol=name, args=(), threads=threads)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace running: a case named ``bad`` fails, any other is counted by every task it was given."""
    calls: list[dict[str, Any]] = []

    def execute(case: KernelCase, *, tasks: tuple[str, ...], progress: Any, **options: Any) -> KernelRun:
        calls.append({"label": case.label, "tasks": tasks, **options})
        progress("check")
        if case.spec.name == "bad":
            return KernelRun(case, None, (), None, Failure("crash", "SIGSEGV"))
        build = KernelBuild("libf.so", "/usr/bin/cc", "cc 12.2", ("-O3", "-g"), "key", cached=False)
        return KernelRun(case, None, tuple(factories.triad() for _ in tasks), None, None, build=build)

    monkeypatch.setattr(session, "execute", execute)
    return calls


def run(*specs: KernelSpec, settings: Settings) -> list[session.Results]:
    cases = [case for one in specs for case in one.cases()]
    return [found for found, _ in measure(cases, factories.machine(), settings)]


def test_results_grow_by_one_kernel_at_a_time(asked: list[dict[str, Any]]) -> None:
    steps = run(spec("f"), spec("bad"), spec("g"), settings=Settings(AUTO))
    assert [[kernel.name for kernel in found.kernels] for found in steps] == [
        ["f"],
        ["f", "bad"],
        ["f", "bad", "g"],
    ]
    assert [kernel.name for kernel in steps[-1].failed] == ["bad"]


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt])
def test_what_a_dead_worker_left_is_swept_away_however_its_kernel_ended(
    monkeypatch: pytest.MonkeyPatch, ends: type[BaseException] | None
) -> None:
    seen: list[str] = []

    def execute(case: KernelCase, **options: Any) -> KernelRun:
        seen.append(case.spec.name)
        if ends is not None:
            raise ends
        return KernelRun(case, None, (), None, Failure("crash", "SIGKILL"))

    monkeypatch.setattr(session, "execute", execute)
    monkeypatch.setattr(session, "sweep", lambda: seen.append("swept"))
    with contextlib.nullcontext() if ends is None else pytest.raises(ends):
        run(spec("f"), spec("g"), settings=Settings(AUTO))
    assert seen == (["f", "swept"] if ends else ["f", "swept", "g", "swept"])


def test_settings_reach_every_kernel(asked: list[dict[str, Any]]) -> None:
    run(spec("f"), settings=Settings(AUTO, detail="flops", time_limit=7))
    (call,) = asked
    assert (call["tasks"], call["time_limit"], call["options"]["detail"]) == (("m:engine",), 7, "flops")
    assert call["options"]["machine"] == factories.machine()
    run(spec("f"), settings=Settings(AUTO, model=ModelOptions(tlb=True)))
    assert asked[-1]["options"]["model"] == ModelOptions(tlb=True)


def test_notes_say_what_was_passed_over_guessed_and_built(asked: list[dict[str, Any]]) -> None:
    (found,) = run(spec("f"), settings=Settings(AUTO, guesses={"f": "guessed: n = n", "g": "not here"}))
    assert found.kernels[0].counters["instrument"].notes[-3:] == (
        "counters passed over: perf (no PMU)",
        "guessed: n = n",
        "built by /usr/bin/cc (cc 12.2) with -O3 -g",
    )


def test_a_kernel_of_two_threads_is_timed_but_not_half_counted(asked: list[dict[str, Any]]) -> None:
    (found,) = run(spec("f", threads=2), settings=Settings(AUTO))
    assert asked[0]["tasks"] == ()
    assert found.kernels[0].flops.value is None
    assert "this one has 2" in str(found.kernels[0].flops.reason)


def test_where_nothing_can_count_the_results_say_why(asked: list[dict[str, Any]]) -> None:
    nothing = Choice((), {"perf": "no PMU", "instrument": "not x86-64"})
    (found,) = run(spec("f"), settings=Settings(nothing))
    reasons = {name: one.flops.reason for name, one in found.kernels[0].counters.items()}
    assert reasons == {"perf": "no PMU", "instrument": "not x86-64"}


def test_progress_names_the_kernel_and_its_stage(asked: list[dict[str, Any]]) -> None:
    seen: list[tuple[int, str, str]] = []
    cases = [case for one in (spec("f"), replace(spec("g"), title="G")) for case in one.cases()]
    list(measure(cases, factories.machine(), Settings(AUTO), lambda *step: seen.append(step)))
    assert seen == [(0, "f", "check"), (1, "g", "check")]


def test_kernels_are_placed_again_once_the_roofs_were_measured_after_them(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([60.0, 80.0])

    def remeasure(machine: Machine, **options: Any) -> Machine:
        value = next(values)
        asked.append({"label": f"roofs {value:.0f}"})
        return replace(machine, ceilings=(factories.bandwidth("DRAM copy", value),))

    monkeypatch.setattr(ceilings, "remeasure", remeasure)
    here = factories.machine((factories.bandwidth("DRAM copy", 70),))
    cases = [case for one in (spec("f"), spec("g"), spec("h")) for case in one.cases()]
    steps = [found for found, _ in measure(cases, here, Settings(AUTO, here=here))]
    assert [call["label"] for call in asked] == ["roofs 60", "f", "g", "h", "roofs 80"]
    roofs = [[kernel.placement.roof for kernel in found.kernels if kernel.placement] for found in steps]
    # only the look before is known until the one after the last kernel
    assert roofs == [[60e9], [60e9, 60e9], [80e9, 80e9, 80e9]]
    assert [one.value for one in steps[-1].machine.ceilings] == [80e9]
    assert [(one.kernels, one.value) for one in steps[-1].roof_samples] == [(0, 60e9), (3, 80e9)]


def test_ceilings_of_another_machine_are_not_measured_between_kernels(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "remeasure", None)
    (found,) = run(spec("f"), settings=Settings(AUTO))
    assert found.machine == factories.machine()
    assert found.roof_samples == ()


def test_sizes_of_a_sweep_meet_in_what_is_said_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(case: KernelCase, **options: Any) -> KernelRun:
        counted = factories.measurement(9 * case.params.get("n", 1) - 6)
        return KernelRun(case, None, (counted,), None, None)

    monkeypatch.setattr(session, "execute", execute)
    swept = replace(spec("f"), params={"n": (10, 20, 40)}, declared=Declared(Formula("13*n")))
    *_, last = run(spec("g"), swept, settings=Settings(AUTO))
    assert [kernel.name for kernel in last.kernels] == ["g", "f", "f", "f"]
    for kernel in last.kernels[1:]:
        (finding,) = (one for one in kernel.findings if one.rule == claims.FLOPS)
        assert "9*n - 6 fits exactly, at 3 sizes" in finding.message


@pytest.mark.parametrize("which", ["own", "a file's caches", "a file's ceilings"])
def test_that_nobody_measured_the_last_cache_is_said_of_this_machines_own(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident = replace(factories.traffic("a", read=1 << 20), touched_bytes=24 << 20)

    def execute(case: KernelCase, **options: Any) -> KernelRun:
        return KernelRun(case, None, (factories.measurement(1000, (resident,)),), None, None)

    monkeypatch.setattr(session, "execute", execute)
    monkeypatch.setattr(ceilings, "remeasure", lambda machine, **_: machine)
    machine = factories.machine()
    here: Machine | None = machine
    if which == "a file's caches":
        here = replace(machine, caches=machine.caches[:2])
    elif which == "a file's ceilings":
        here = None
    cases = list(spec("f").cases())
    *_, last = (found for found, _ in measure(cases, machine, Settings(AUTO, here=here)))
    assert last.kernels[0].placement is not None
    notes = [note for note in last.kernels[0].placement.notes if "was not measured" in note]
    assert len(notes) == (which == "own")
