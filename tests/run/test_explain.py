"""Words for a death: records made by hand, no process runs."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counteroof.run import explain as words
from counteroof.run.arrays import GUARD
from counteroof.run.explain import explain, signal_name
from counteroof.run.outcome import failure_of
from counteroof.run.record import Death, Mapped, Recorder, make_record, read_record
from counteroof.run.supervise import Ended

PAGE = 4096
BASE = 0x7F00_0000_0000


def region(name: str, number: int, size: int, access: str | None = None) -> dict[str, Any]:
    pages = -(-size // PAGE) * PAGE
    first = BASE + number * 16 * GUARD
    return {
        "name": name,
        "start": first + pages - size,
        "bytes": size,
        "first_page": first,
        "page_bytes": pages,
        "dtype": "f64",
        "access": access,
    }


A, B = region("a", 0, 8000), region("b", 1, 800, "read")
SEGV = Death(
    phase="call",
    detail="f",
    signal=signal.SIGSEGV,
    code=1,
    address=0,
    instruction=0,
    stack_pointer=0x7FFF_0000_0000,
    access="write",
    stack=(),
    maps=(Mapped(0x7FFE_FF80_0000, 0x7FFF_0100_0000, False, 0, "[stack]"),),
    library="/lib.so",
    regions=(A, B),
)


def told(address: int, access: str = "write", code: int = 1) -> tuple[str, str]:
    return explain(replace(SEGV, address=address, access=access, code=code), signal.SIGSEGV)


def test_addresses_next_to_arrays() -> None:
    end = A["start"] + 8000
    assert told(end + 16) == (
        "out-of-bounds",
        "SIGSEGV: wrote just past the end of a (8000 bytes of f64), 16 bytes beyond it",
    )
    assert "read past the end of a (8000 bytes of f64), 800 bytes beyond it" in told(end + 800, "read")[1]
    assert "wrote just before the start of b (800 bytes of f64), 8 bytes before it" in told(B["start"] - 8)[1]
    assert "accessed just past the end of a" in told(end, "")[1]


def test_addresses_in_arrays() -> None:
    kind, text = told(B["start"] + 20)
    assert kind == "out-of-bounds"
    assert 'wrote element 2 of b, which is declared access = "read"' in text
    assert told(A["start"] + 8)[0] == "crash"


def test_addresses_far_from_arrays() -> None:
    beyond = A["first_page"] + A["page_bytes"] + GUARD + 4096
    assert told(beyond)[0] == "out-of-bounds"
    assert "past the end of a" in told(beyond)[1]
    assert told(0x5000_0000_0000) == (
        "crash",
        "SIGSEGV: wrote address 0x500000000000, which is in none of the arrays",
    )
    assert "a null pointer" in told(16)[1]


def test_addresses_in_files() -> None:
    """Text and constants of a library: near arrays, and yet not beyond one of them."""
    lib = Mapped(B["start"] + 64 * GUARD, B["start"] + 65 * GUARD, False, 0, "/lib.so")
    death = replace(SEGV, address=lib.start + 8, maps=(*SEGV.maps, lib))
    said = f"SIGSEGV: wrote address {lib.start + 8:#x}, in lib.so, which may not be written there"
    assert explain(death, signal.SIGSEGV) == ("crash", said)
    said = explain(replace(death, access="execute"), signal.SIGSEGV)[1]
    assert "in lib.so, which may not be executed there" in said


LIB, LIBC = Mapped(0x10000, 0x20000, True, 0, "/lib.so"), Mapped(0x30000, 0x40000, True, 0, "/libc.so")
PYTHON = Mapped(0x50000, 0x60000, True, 0, "/libpython3.so")


def test_a_call_that_never_returns_at_the_end_of_the_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """``before`` and ``f`` both end so; the stack has the address of ``f`` and what its call would return
    to."""
    symbols = {0x0FFF: "before", 0x1000: "f", 0x1FFF: "f", 0x2000: "next"}
    monkeypatch.setattr(words, "_symbol", lambda path, offset: symbols.get(offset))
    monkeypatch.setattr(words, "_follows_call", lambda mapped, address: True)
    death = replace(SEGV, maps=(LIB, LIBC), instruction=0x30010, stack=(0x11000, 0x12000))
    assert words.location(death) == "in 0x10 of libc.so, called from f of lib.so"


def test_where_the_engine_was_at_the_time_limit_is_no_news_of_the_kernel() -> None:
    death = replace(SEGV, maps=(PYTHON,), instruction=0x50010)
    assert "did it overwrite memory that is not its own?" in words.location(death)
    assert words.location(replace(death, signal=signal.SIGXCPU)) == ""


def test_stack_overflow() -> None:
    low = SEGV.maps[0].start
    overflow = replace(SEGV, address=low - 8, stack_pointer=low - 8)
    assert "the stack overflowed" in explain(overflow, signal.SIGSEGV)[1]


def test_faults_without_an_address() -> None:
    assert "an address no process can have" in told(0, code=0x80)[1]
    assert "sent by a process" in told(0, code=0)[1]


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (signal.SIGFPE, 1, "SIGFPE: integer division by zero"),
        (signal.SIGFPE, 3, "SIGFPE: floating-point division by zero"),
        (signal.SIGILL, 2, "SIGILL: an instruction this processor does not have"),
        (signal.SIGABRT, -6, "SIGABRT: abort()"),
        (signal.SIGTRAP, 1, "SIGTRAP"),
    ],
)
def test_other_signals(number: int, code: int, text: str) -> None:
    assert explain(replace(SEGV, signal=number, code=code), number)[1].startswith(text)


def test_signal_that_was_not_recorded_is_only_named() -> None:
    assert explain(replace(SEGV, signal=0), signal.SIGSEGV) == ("crash", "SIGSEGV")
    assert explain(replace(SEGV, signal=0), signal.SIGKILL) == ("crash", "SIGKILL (out of memory?)")
    assert signal_name(200) == "signal 200"


def test_record_comes_back_as_it_was_noted(tmp_path: Path) -> None:
    make_record(tmp_path)
    recorder = Recorder(tmp_path)
    recorder.note("call", "x" * 1000)
    recorder.layout("/lib.so", [A])
    death = read_record(tmp_path)
    assert death.phase == "call"
    assert death.detail == "x" * 447
    assert (death.signal, death.library, death.regions) == (0, "/lib.so", (A,))


def outcome(folder: Path, ended: Ended, phase: str = "call", finished: bool = False) -> str:
    make_record(folder)
    Recorder(folder).note(phase, "f")
    failure = failure_of(folder, ended, "failure.json", 5, finished)
    return "" if failure is None else f"{failure.kind}: {failure.message}"


def test_end_without_a_result_is_an_exit(tmp_path: Path) -> None:
    ended = Ended(0, False, "bye\n", 1)
    assert outcome(tmp_path, ended) == (
        "exit: the call of f ended the process with status 0 (exit); its last output: 'bye'"
    )
    assert outcome(tmp_path, ended, finished=True) == ""
    assert outcome(tmp_path, ended, "done").startswith(
        "internal: the worker ended with status 0 and no result"
    )


def test_told_failure_goes_before_everything(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"kind": "setup", "message": "no memory"}')
    assert outcome(tmp_path, Ended(-11, False, "", 1)) == "setup: no memory"


def test_half_written_failure_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"kind": "set')
    assert outcome(tmp_path, Ended(-11, False, "", 1)) == "crash: the call of f was ended by SIGSEGV"


def test_time_limit_is_told_with_what_to_do(tmp_path: Path) -> None:
    text = outcome(tmp_path, Ended(-9, True, "", 5))
    assert text.startswith("timeout: the call of f was still running when its 5 s were over; raise the limit")
