"""What instructions load and store, one instruction at a time."""

from __future__ import annotations

import iced_x86 as ix
import pytest

from counteroof.count.core_bytes import core_bytes
from counteroof.instrument.engine import Executed

pytestmark = pytest.mark.x86_64


def ran(code: str, times: int = 1, active: int | None = None) -> Executed:
    return Executed(ix.Decoder(64, bytes.fromhex(code)).decode(), times, active)


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("48 8b 07", 8),  # mov rax, [rdi]
        ("89 07", 4),  # mov [rdi], eax
        ("48 01 07", 16),  # add [rdi], rax: read and written
        ("50", 8),  # push rax
        ("62 f1 fd 48 10 07", 64),  # vmovupd zmm0, [rdi]
        ("62 f1 fd 48 2b 07", 64),  # vmovntpd [rdi], zmm0
        ("62 f1 fd 58 58 07", 8),  # vaddpd zmm0, zmm0, [rdi]{1to8}
        ("0f 18 0f", 0),  # prefetcht0 [rdi]
        ("48 8d 07", 0),  # lea rax, [rdi]
        ("48 01 d8", 0),  # add rax, rbx
    ],
)
def test_bytes_of_one_instruction(code: str, moved: int) -> None:
    found = core_bytes([ran(code, 3)])
    assert (found.value, found.status, found.reason) == (3 * moved, "instrumented", None)


def test_what_did_not_run_moves_nothing() -> None:
    assert core_bytes([ran("48 8b 07", 0), ran("f3 a4", 0)]).value == 0


def test_lanes_that_a_mask_switches_off_move_nothing_where_they_are_counted() -> None:
    found = core_bytes([ran("62 f1 fd 49 58 07", 2, active=5)])  # vaddpd zmm0{k1}, zmm0, [rdi]
    assert (found.value, found.reason) == (5 * 8, None)


def test_lanes_that_are_not_counted_make_an_upper_bound_that_says_so() -> None:
    load = ran("62 f1 fd c9 10 07")  # vmovupd zmm0{k1}{z}, [rdi]
    gather = ran("62 f2 fd 49 92 04 cf")  # vgatherdpd zmm0{k1}, [rdi+ymm1*8]
    for one in (load, gather):
        found = core_bytes([one, ran("62 f1 fd 48 10 07", 3)])
        assert found.value == 64 + 3 * 64
        assert found.reason == (
            "upper bound: 25 % are of masked or gathered accesses, taken with all lanes active"
        )


def test_repeated_string_instructions_have_no_length_so_there_is_no_number() -> None:
    found = core_bytes([ran("f3 a4", 2), ran("48 8b 07")])  # rep movsb
    assert found.value is None
    assert found.reason is not None
    assert "rep movsb" in found.reason
    assert "(2)" in found.reason
