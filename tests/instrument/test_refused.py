"""What a container or a hardened system may refuse: the engine does without, or says so before it counts."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import pytest

from counteroof.errors import CounteroofError
from counteroof.instrument.engine import Engine
from tests.compiled import needs, shared

from .programs import Ran, address_of, call_frame, in_process

pytestmark = [pytest.mark.x86_64, needs("gcc")]

CODE = """
static int worked;
long work(long n) { worked++; return n * n; }
long run(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += work(i); return sum + worked; }
"""
MMAP, CLONE, PROCESS_VM_READV, CLONE3 = 9, 56, 310, 435
WRITE_AND_EXECUTE = 6

LOAD, AND, JUMP_IF_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
"""Codes of linux/bpf_common.h: BPF_LD | BPF_W | BPF_ABS, BPF_ALU | BPF_AND | BPF_K, and so on."""
ALLOW, NOT_PERMITTED = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM
NUMBER, THIRD_ARGUMENT = 0, 32  # offsets in struct seccomp_data


def refuse(call: int, protection: int | None = None) -> None:
    """Have a system call fail with EPERM in this process from now on, mmap if it asks for all of a
    protection."""
    steps = [(LOAD, 0, 0, NUMBER)]
    if protection is None:
        steps += [(JUMP_IF_EQUAL, 0, 1, call)]
    else:
        steps += [(JUMP_IF_EQUAL, 0, 4, call), (LOAD, 0, 0, THIRD_ARGUMENT), (AND, 0, 0, protection)]
        steps += [(JUMP_IF_EQUAL, 0, 1, protection)]
    steps += [(RETURN, 0, 0, NOT_PERMITTED), (RETURN, 0, 0, ALLOW)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(filters)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.addressof(program), 0, 0)):
        # PR_SET_NO_NEW_PRIVS; PR_SET_SECCOMP with SECCOMP_MODE_FILTER
        if libc.prctl(*(ctypes.c_ulong(one) for one in arguments)):
            raise OSError(ctypes.get_errno(), "no seccomp filters here")


def counted(path: Path, *refused: tuple[int, int | None]) -> Ran:
    """Return what a call under the engine returns, and the executions of instructions by offset."""

    def work() -> Ran:
        library = ctypes.CDLL(str(path))
        function = address_of(library, "run")
        for call, protection in refused:
            refuse(call, protection)
        with Engine("flops") as engine:
            value, _ = engine.call(function, call_frame([100]))
            return Ran(value, counts={one.instruction.ip - function: one.times for one in engine.executed()})

    return in_process(work)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return shared(tmp_path, CODE, "-O1", "-fno-inline")


def test_code_is_read_another_way_where_process_vm_readv_is_refused(library: Path) -> None:
    plain, found = counted(library), counted(library, (PROCESS_VM_READV, None))
    assert found == plain
    assert max(plain.counts.values()) == 100


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ([(MMAP, WRITE_AND_EXECUTE)], "may not have memory that is both written and executed"),
        ([(CLONE, None), (CLONE3, None)], "the engine's threads could not be made"),
    ],
)
def test_what_it_cannot_do_without_is_told_at_the_start(
    library: Path, refused: list[tuple[int, int | None]], says: str
) -> None:
    error = counted(library, *refused).error
    assert error.startswith("CounteroofError")
    assert says in error


def test_without_proc_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: not os.fspath(path).startswith("/proc") and exists(path))
    with pytest.raises(CounteroofError, match="needs /proc: it is not mounted here"):
        Engine("flops")
