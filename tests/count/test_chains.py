"""What chains demand of a call: the overlap of loops that begin anew, and whose thread counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import iced_x86 as ix
import pytest

from counteroof.count.chains import demanded, loop_chains, loops, untimed_locked
from counteroof.instrument.latencies import Latencies
from counteroof.instrument.paths import LoopPath

pytestmark = pytest.mark.x86_64

WINDOW = 100


def path(passes: int, entries: int, length: int = 10) -> LoopPath:
    return LoopPath((ix.Instruction.create(ix.Code.NOPD),) * length, passes, entries, (0x100,))


def test_one_long_run_waits_for_every_pass() -> None:
    assert demanded(path(1_000_000, 1), 4, WINDOW) == pytest.approx(4_000_000, rel=1e-4)


def test_of_runs_as_long_as_the_window_two_overlap() -> None:
    # 10 passes of 10 instructions: while one is in flight there is room for as many of the next
    assert demanded(path(1000, 100), 4, WINDOW) == pytest.approx(4000 / 2)


def test_of_single_passes_as_many_overlap_as_there_is_room_for() -> None:
    assert demanded(path(1000, 1000), 4, WINDOW) == pytest.approx(4000 / 11)


def block(address: int) -> Any:
    """Return a block that adds to a sum and jumps back to itself."""
    code = bytes.fromhex("f20f58c1 75fa".replace(" ", ""))  # addsd xmm0, xmm1; jne
    return SimpleNamespace(instructions=tuple(ix.Decoder(64, code, ip=address)))


def test_the_thread_that_executed_most_counts() -> None:
    counts = [[10, 0, 1], [4000, 90, 1], [50, 60, 1]]
    engine: Any = SimpleNamespace(
        blocks=(block(0x1000), block(0x2000), block(0x3000)),
        threads=3,
        block_counts=lambda thread: counts[thread],
    )
    assert [(one.addresses, one.passes) for one in loops(engine)] == [((0x1000,), 4000), ((0x2000,), 90)]


def test_the_loop_that_demands_most_comes_first_with_the_links_of_its_chain() -> None:
    latencies = Latencies("made up", "for tests", WINDOW, {"add": 5})
    few, many = (
        LoopPath(block(address).instructions, passes, 1, (address,))
        for address, passes in ((0x1000, 10), (0x2000, 30))
    )
    first, second = loop_chains([few, many], latencies)
    assert (first.passes, second.passes) == (30, 10)
    assert first.flops == 1
    assert first.cycles == 5
    assert [(link.text, link.cycles) for link in first.links] == [("addsd xmm0, xmm1", 5)]


def test_locked_instructions_are_counted_where_their_latency_is_not_known() -> None:
    locked, plain = (
        next(iter(ix.Decoder(64, bytes.fromhex(code)))) for code in ("f0480110", "480110")
    )  # add [rax], rdx
    ran: list[Any] = [
        SimpleNamespace(instruction=locked, times=5),
        SimpleNamespace(instruction=plain, times=90),
    ]
    unknown, known = (Latencies("made up", "for tests", WINDOW, cycles) for cycles in ({}, {"locked": 9}))
    assert untimed_locked(ran, unknown) == 5
    assert untimed_locked(ran, known) == 0
