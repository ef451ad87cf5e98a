"""Whether hardware counters can be had, and the reason in words when not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from counteroof.count import perf_probe
from counteroof.count.perf_probe import SOFTWARE, EventProbe, reason


def test_a_probe_ends_with_a_value_or_an_error_never_both() -> None:
    for result in perf_probe.probe():
        assert (result.value is None) == (result.error is not None)


def test_an_event_that_every_kernel_has_is_counted_or_refused_as_forbidden() -> None:
    task_clock = 1
    result = perf_probe._probe("task clock", SOFTWARE, task_clock)
    assert result.works or result.error in (errno.EACCES, errno.EPERM, errno.ENOSYS)


@pytest.mark.parametrize(
    ("probe", "level", "root", "text"),
    [
        (EventProbe("cycles", 0), 2, False, "cycles can be opened but stay at 0"),
        (EventProbe("cycles", None, errno.ENOENT), 2, False, "the kernel has no PMU for cycles"),
        (EventProbe("cycles", None, errno.EOPNOTSUPP), 2, False, "the kernel has no PMU for cycles"),
        (EventProbe("cycles", None, errno.ENOSYS), None, False, "this kernel has no perf_event_open"),
        (EventProbe("cycles", None, errno.EACCES), 4, False, "(perf_event_paranoid is 4, needs 2 or less)"),
        (EventProbe("cycles", None, errno.EPERM), 4, True, "seccomp"),
        (EventProbe("cycles", None, errno.EMFILE), 2, False, "Too many open files"),
    ],
)
def test_the_reason_is_given_in_words(
    monkeypatch: pytest.MonkeyPatch, probe: EventProbe, level: int | None, root: bool, text: str
) -> None:
    monkeypatch.setattr(perf_probe, "paranoid", lambda: level)
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    assert text in reason(probe)


def test_counting_needs_cycles_and_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    works, fails = EventProbe("cycles", 10), EventProbe("instructions", None, errno.ENOENT)
    monkeypatch.setattr(perf_probe, "probe", lambda: (works, fails))
    assert perf_probe.hardware_counters() == (
        False,
        "the kernel has no PMU for instructions (most virtual machines have none)",
    )
    monkeypatch.setattr(perf_probe, "probe", lambda: (works, EventProbe("instructions", 20)))
    assert perf_probe.hardware_counters()[0]


def test_a_kernel_without_the_setting_or_the_folder_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(perf_probe, "PARANOID", tmp_path / "none")
    monkeypatch.setattr(perf_probe, "DEVICES", tmp_path / "none")
    assert perf_probe.paranoid() is None
    assert perf_probe.pmus() == ()
