"""Where translated code is put: memory near the original, and code being made, with jumps to link."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from ..errors import CounteroofError
from . import emit

NEAR = 0x7F000000
"""Furthest distance for a 32-bit displacement, with room for the code around it."""
REGION_BYTES = 64 << 20


@dataclass(slots=True)
class Region:
    """Executable memory, filled from its start."""

    start: int
    end: int
    position: int


@dataclass(slots=True)
class Output:
    """Code under construction at a known address."""

    address: int
    code: bytearray = field(default_factory=bytearray)
    stubs: list[tuple[int, int]] = field(default_factory=list)
    """(place of a displacement, original target) of jumps that are not linked yet."""
    borrowed: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(start, end, register, offset): where a register holds something of ours, the program's value waits at
    the offset from the GS base."""
    closed: bool = False
    """Whether the last instruction leaves the block; the record is complete before it."""
    mismatches: list[int] = field(default_factory=list)
    """Places of displacements of jumps to where the block goes if its original is another now."""
    resume: int = 0
    """Where the code goes on after a trap, if it ends in an instruction that traps behind itself."""

    @property
    def here(self) -> int:
        return self.address + len(self.code)

    def add(self, code: bytes) -> None:
        self.code += code

    def borrow(self, register: int, offset: int) -> int:
        """Emit the store of a register whose value comes back with :meth:`give_back`; return where that
        begins."""
        self.add(emit.store_gs(offset, register))
        return self.here

    def give_back(self, start: int, register: int, offset: int) -> None:
        """Emit the load of what was stored at ``start``."""
        self.add(emit.load_gs(register, offset))
        self.borrowed.append((start, self.here, register, offset))

    def jump_place(self, opcode: bytes) -> int:
        """Emit a jump with an aligned displacement still to be set; return the displacement's address."""
        place = self.here + len(opcode)
        padding = -place % 4
        self.code += emit.NOPS[padding] + opcode + b"\0\0\0\0"
        return place + padding

    def set_displacement(self, place: int, target: int) -> None:
        offset = place - self.address
        self.code[offset : offset + 4] = struct.pack("<i", target - place - 4)


class CodeCache:
    """Executable memory within reach of the code it was made from."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib
        self._regions: list[Region] = []
        self._buffer = ffi.new("uint8_t[]", 4096)

    def read(self, address: int, count: int) -> bytes:
        """Return up to ``count`` bytes of this process's code, fewer where it ends."""
        got = self._lib.instrument_read_code(address, self._buffer, min(count, 4096))
        return bytes(self._ffi.buffer(self._buffer, got))

    def region(self, near: int) -> Region:
        """Return a region with room, within reach of an address.

        Raises
        ------
        CounteroofError
            If there is no free memory so near.
        """
        for region in self._regions:
            if abs(region.start - near) < NEAR - REGION_BYTES and region.position + (1 << 20) < region.end:
                return region
        start = self._lib.instrument_map(near, REGION_BYTES)
        if not start:
            raise CounteroofError(f"no room for translated code within 2 GiB of {near:#x}")
        region = Region(start, start + REGION_BYTES, start)
        self._regions.append(region)
        return region

    def place(self, region: Region, code: bytes | bytearray) -> int:
        """Copy code to the region's next free address and return that."""
        address = region.position
        self._lib.instrument_write(address, bytes(code), len(code))
        region.position = (address + len(code) + 15) & ~15
        return address
