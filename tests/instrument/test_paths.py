"""Loops found from how often blocks ran, on blocks written by hand."""

from __future__ import annotations

import iced_x86 as ix
import pytest

from counteroof.instrument.paths import hot_paths

pytestmark = pytest.mark.x86_64

Block = tuple[tuple[ix.Instruction, ...], int]


def block(at: int, times: int, *code: str, to: int | None = None) -> Block:
    """Return a block of nops and perhaps an instruction that leaves it, at a made-up address."""
    instructions = []
    for what in ("nop", *code):
        if what == "nop":
            made = ix.Instruction.create(ix.Code.NOPD)
        elif what == "ret":
            made = ix.Instruction.create(ix.Code.RETNQ)
        else:
            codes = {"jne": ix.Code.JNE_REL32_64, "jmp": ix.Code.JMP_REL32_64, "call": ix.Code.CALL_REL32_64}
            assert to is not None
            made = ix.Instruction.create_branch(codes[what], to)
        made.len = 4
        made.ip = at + 4 * len(instructions)
        instructions.append(made)
    return tuple(instructions), times


def heads(blocks: list[Block]) -> list[tuple[int, int, int, int]]:
    """Return address, passes, entries and blocks of each loop."""
    return [(p.instructions[0].ip, p.passes, p.entries, len(p.addresses)) for p in hot_paths(blocks)]


def test_a_block_that_jumps_to_itself() -> None:
    before, loop, after = block(0x100, 3), block(0x104, 300, "jne", to=0x104), block(0x10C, 3, "ret")
    assert heads([before, loop, after]) == [(0x104, 300, 3, 1)]


def test_blocks_in_a_row_make_one_pass() -> None:
    # 0x100 falls through into the loop, whose second block was cut off the first
    blocks = [block(0x100, 2), block(0x104, 50), block(0x108, 50, "jne", to=0x104), block(0x110, 2, "ret")]
    (path,) = hot_paths(blocks)
    assert [instruction.ip for instruction in path.instructions] == [0x104, 0x108, 0x10C]
    assert (path.passes, path.entries, path.addresses) == (50, 2, (0x104, 0x108))


def test_of_two_ways_the_more_frequent_one() -> None:
    blocks = [
        block(0x100, 1),
        block(0x104, 100, "jne", to=0x118),
        block(0x10C, 30, "jmp", to=0x11C),
        block(0x118, 70),
        block(0x11C, 100, "jne", to=0x104),
        block(0x124, 1, "ret"),
    ]
    (path,) = hot_paths(blocks)
    assert [instruction.ip for instruction in path.instructions] == [0x104, 0x108, 0x118, 0x11C, 0x120]
    assert path.passes == 70


def test_the_inner_loop_goes_first_and_the_outer_one_is_none_of_its_own() -> None:
    blocks = [
        block(0x100, 1),
        block(0x104, 10),
        block(0x108, 1000, "jne", to=0x108),
        block(0x110, 10, "jne", to=0x104),
        block(0x118, 1, "ret"),
    ]
    assert heads(blocks) == [(0x108, 1000, 10, 1)]


def test_calls_come_back() -> None:
    blocks = [
        block(0x100, 1),
        block(0x104, 40, "call", to=0x200),
        block(0x10C, 40, "jne", to=0x104),
        block(0x114, 1, "ret"),
        block(0x200, 40, "ret"),
    ]
    assert heads(blocks) == [(0x104, 40, 1, 2)]


def test_code_without_a_loop_and_loops_that_hardly_ran() -> None:
    assert heads([block(0x100, 5, "ret")]) == []
    rare = [block(0x200, 1), block(0x204, 4, "jne", to=0x204), block(0x20C, 1, "ret")]
    assert heads([block(0x100, 10_000, "ret"), *rare]) == []


def test_blocks_that_were_translated_twice_are_one() -> None:
    loop = block(0x104, 60, "jne", to=0x104)
    again = block(0x104, 40, "jne", to=0x104)
    assert heads([block(0x100, 1), loop, again, block(0x10C, 1, "ret")]) == [(0x104, 100, 1, 1)]
