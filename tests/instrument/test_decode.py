"""Original code to blocks."""

from __future__ import annotations

import pytest

pytest.importorskip("iced_x86")

from counteroof.instrument.decode import Reader

START = 0x1000


class Code:
    """Code in memory, of single-byte instructions (``push``) up to a ``ret``."""

    def __init__(self, count: int) -> None:
        self.bytes = bytearray(b"\x50" * count + b"\xc3")

    def read(self, address: int, count: int) -> bytes:
        return bytes(self.bytes[address - START : address - START + count])


def test_what_a_block_was_cut_off_begins_the_next_one_and_is_not_decoded_again():
    reader = Reader(Code(40).read, 0)
    block = reader.block(START)
    first = reader.cut(block, 25)
    rest = reader.block(START + 25)
    assert [instruction.ip for instruction in first.instructions] == list(range(START, START + 25))
    assert all(one is other for one, other in zip(rest.body, block.body[25:], strict=True))
    assert (rest.address, rest.closed, rest.next_address) == (START + 25, True, START + 41)


def test_what_a_block_was_cut_off_is_decoded_again_if_it_has_changed_or_the_next_begins_elsewhere():
    code = Code(40)
    reader = Reader(code.read, 0)
    reader.cut(reader.block(START), 25)
    code.bytes[30] = 0x51
    assert reader.block(START + 25).body[5].code == b"\x51"
    reader.cut(reader.block(START), 25)
    assert reader.block(START + 26).instructions[0].ip == START + 26
