"""LIKWID in its own process: what its groups say, and that nothing it does to its process reaches ours."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from counteroof.count import likwid_client
from counteroof.count.base import Measurement
from counteroof.count.events import builtin
from counteroof.count.likwid import available
from counteroof.count.likwid_client import Likwid, LikwidFailed
from counteroof.count.likwid_groups import Counting
from counteroof.reconcile import dram_bytes

STUB = str(Path(__file__).with_name("likwid_stub"))
CALLS = 10


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", STUB)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


def measured(cpu: str, monkeypatch: pytest.MonkeyPatch, sockets: tuple[int, int] = (0, 1)) -> Measurement:
    monkeypatch.setenv("LIKWID_STUB", f"works:{cpu}")
    made: list[int] = []

    def call(calls: int) -> float:
        made.append(calls)
        return 0.5

    with Likwid([0, 1]) as started:
        found = Counting(started, sockets, CALLS, call).measurement()
    assert set(made) <= {CALLS}
    return found


def test_flops_are_the_rates_of_all_processors_times_the_time_of_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measured("CLX", monkeypatch)
    assert found.flops.value == round((400 + 600 + 10) * 1e6 * 0.5 / CALLS)
    assert found.flops.source == "LIKWID FLOPS_DP, FLOPS_SP"
    assert [(one.precision, one.width, one.flops) for one in found.flops_by] == [
        ("f64", None, 50_000_000),
        ("f32", None, 500_000),
    ]
    assert found.instructions.value == 300


def test_bytes_are_read_and_written_volumes_of_each_socket_less_what_others_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measured("CLX", monkeypatch)
    # idle: 0.1 GB in 0.5 s on the first socket, none on the second
    assert found.dram_read_bytes.value == (6e9 - 0.1e9) / CALLS
    assert found.dram_write_bytes.value == (1.5e9 - 0.1e9) / CALLS
    assert any("taken off: 2e+07 bytes a call" in note for note in found.notes)


def test_a_socket_with_two_processors_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("CLX", monkeypatch, sockets=(0, 0))
    assert found.dram_read_bytes.value == (4e9 - 0.1e9) / CALLS


def test_groups_with_the_same_events_are_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("zen3", monkeypatch)
    assert found.flops.value == 200 * 1e6 * 0.5 / CALLS
    assert found.flops_by == ()  # precisions are not told apart
    assert "group FLOPS_SP has the events of FLOPS_DP and was not added to it" in found.notes


def test_two_groups_that_share_the_channels_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("zen3", monkeypatch)
    assert dram_bytes(found).value == 2 * (3e9 - 0.1e9) / CALLS
    assert found.dram_read_bytes.value is None


def test_a_group_known_to_be_wrong_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("zen2", monkeypatch)
    assert found.flops.value is not None
    assert found.dram_read_bytes.value is None
    assert "wrong factor" in (found.dram_read_bytes.reason or "")


def test_a_processor_without_groups_has_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("plain", monkeypatch)
    assert found.flops.reason == "LIKWID has no group for FLOPs on A plain processor"
    assert dram_bytes(found).value is None
    answer = available()
    assert not answer.usable
    assert "for neither FLOPs nor memory" in answer.reason


def test_what_likwid_could_not_read_is_unavailable_and_not_0(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("blind", monkeypatch)
    assert found.flops.value is None
    assert found.flops.reason == "LIKWID has no value of 'DP [MFLOP/s]' of the group FLOPS_DP"
    assert dram_bytes(found).value is None
    assert "no value of 'Memory read data volume [GBytes]'" in (found.dram_read_bytes.reason or "")


def test_memory_that_never_moved_is_not_believed_and_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("dead", monkeypatch)
    assert dram_bytes(found).value is None
    assert "nothing at all was counted in 0.5 s" in (found.dram_read_bytes.reason or "")


def test_fewer_flops_than_a_right_result_needs_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:dead")
    with Likwid([0, 1]) as started:
        found = Counting(started, [0, 1], CALLS, lambda calls: 0.5, needed=1e9).measurement()
    assert found.flops.value is None
    assert "not believed: 100000 FLOPs were counted" in (found.flops.reason or "")
    assert found.flops_by == ()


def test_without_a_group_the_processors_own_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:plain")
    facts = [*builtin().events("intel_fp_arith_256")]
    runs: list[int] = []

    def call(calls: int) -> float:
        runs.append(calls)
        return 0.5

    with Likwid([0, 1]) as started:
        found = Counting(started, [0, 0], CALLS, call).measurement(facts=facts)
    assert len(runs) == 2  # six events on four counters
    assert found.flops.value == (1 + 1 + 2 + 4 + 4 + 8) * 3000 / CALLS
    assert [(one.precision, one.flops) for one in found.flops_by] == [("f64", 2100), ("f32", 3900)]
    with Likwid([0, 1]) as started:
        found = Counting(started, [0, 0], CALLS, call).measurement(
            facts=[*builtin().events("amd_flops_zen23")]
        )
    assert "does not take FP_RET_SSE_AVX_OPS_ALL:PMC0" in (found.flops.reason or "")


def test_what_liblikwid_prints_is_taken_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:CLX")
    answer = available()
    assert answer.usable
    assert answer.quantities == {"FLOPs", "bytes"}
    assert answer.reason == "A CLX processor: groups FLOPS_DP, FLOPS_SP, MEM"


@pytest.mark.parametrize(
    ("mode", "parts"),
    [
        ("exits", ("LIKWID ended its process with status 1: ", "Failed to execute likwid-accessD")),
        ("refuses", ("LIKWID could not be started: ", "Cannot get access to MSRs.")),
    ],
)
def test_when_liblikwid_gives_up_its_message_is_shown_and_we_live(
    monkeypatch: pytest.MonkeyPatch, mode: str, parts: tuple[str, str]
) -> None:
    monkeypatch.setenv("LIKWID_STUB", mode)
    answer = available()
    assert not answer.usable
    assert answer.reason.startswith(parts[0])
    assert parts[1] in answer.reason


def test_a_process_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "hangs")
    monkeypatch.setattr(likwid_client, "ANSWER_SECONDS", 0.2)
    with pytest.raises(LikwidFailed, match=r"gave no answer for 0\.2 s"):
        Likwid([0])


def test_an_unknown_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKWID_STUB", "works:CLX")
    with Likwid([0]) as started, pytest.raises(LikwidFailed, match="does not take NONSENSE"):
        started.add("NONSENSE")


def test_processes_and_descriptors_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for mode in ("works:CLX", "exits"):
        monkeypatch.setenv("LIKWID_STUB", mode)
        available()
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_pylikwid_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert available().reason == "pylikwid is not installed (docs/counters.md has the commands)"
