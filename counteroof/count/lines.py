"""What each instruction and each source line did: executed code with its traffic, by place.

The engine knows instructions by their address in this process. Where those lie in files is read from
``/proc/self/maps``, function and source line from the files themselves.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..library import address_to_symbol, source_line
from .base import InstructionTraffic, LineTraffic
from .flop_count import Convention

if TYPE_CHECKING:
    import iced_x86 as ix

    from ..instrument.engine import Executed

UNATTRIBUTED = "(unattributed)"
"""Stands for the code that caused what cannot be attributed."""
NO_FILE = "(code in no file)"
"""Stands for the library of code that was made at run time."""


@dataclass(frozen=True)
class Mapping:
    """A piece of a file in memory; ``base`` is the address of the file's start."""

    start: int
    end: int
    base: int
    path: str


class Places:
    """Tells where addresses of this process lie in files, as its memory is mapped now.

    Parameters
    ----------
    maps
        The text of ``/proc/self/maps``, if not that of now.
    """

    def __init__(self, maps: str | None = None) -> None:
        found = []
        bases: dict[str, int] = {}
        for line in (Path("/proc/self/maps").read_text() if maps is None else maps).splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6:
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            offset, path = int(fields[2], 16), fields[5]
            # A library's pieces follow on that of its start; a gap between them in memory need not be one in
            # the file.
            if offset == 0 or path not in bases:
                bases[path] = start - offset
            if "x" in fields[1]:
                found.append(Mapping(start, end, bases[path], path))
        self._mappings = found
        self._starts = [mapping.start for mapping in found]

    def find(self, address: int) -> tuple[str, int]:
        """Return the file of an address and the distance from where it was loaded."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._mappings[at].end:
            return NO_FILE, address
        mapping = self._mappings[at]
        return mapping.path, address - mapping.base


def instructions(
    executed: Iterable[Executed],
    origins: tuple[Sequence[int], Sequence[int]],
    convention: Convention,
    places: Places | None = None,
) -> tuple[InstructionTraffic, ...]:
    """Return what every instruction did, by library and address.

    Parameters
    ----------
    executed
        From :meth:`Engine.executed`, blocks that did not run included.
    origins
        From :meth:`CacheModel.origins`: bytes read and written by number of access.
    convention
        How FLOPs are counted.
    places
        Where the code lies in files; by default as of now.

    The last entry, with no address, has the bytes of which the cause is not known; there is none if there are
    no such bytes. So the sums are the totals of the model and of the engine.
    """
    places = places or Places()
    reads, writes = origins
    text = disassembler()
    table: dict[tuple[int, int], InstructionTraffic] = {}
    left = [sum(reads), sum(writes)]
    for item in executed:
        numbers = [number for number in item.accesses if number < len(reads)]
        read, written = sum(reads[n] for n in numbers), sum(writes[n] for n in numbers)
        left[0] -= read
        left[1] -= written
        if not item.times and not read and not written:
            continue
        counted = convention.of(item)
        key = item.instruction.ip, item.instruction.code
        before = table.get(key)
        if before is None:
            library, address = places.find(item.instruction.ip)
            place = line_of(library, address)
            before = InstructionTraffic(
                library=library,
                address=address,
                symbol=address_to_symbol(library, address),
                file=place[0] if place else None,
                line=place[1] if place else None,
                text=text(item.instruction, address),
                lanes=counted.lanes,
            )
        active = before.active_lanes
        if counted.active_lanes is not None:
            active = (active or 0) + counted.active_lanes
        table[key] = replace(
            before,
            times=before.times + item.times,
            flops=before.flops + counted.flops,
            active_lanes=active,
            dram_read_bytes=before.dram_read_bytes + read,
            dram_write_bytes=before.dram_write_bytes + written,
        )
    found = sorted(table.values(), key=lambda one: (one.library, one.address or 0))
    if any(left):
        found.append(
            InstructionTraffic(
                library=UNATTRIBUTED, address=None, dram_read_bytes=left[0], dram_write_bytes=left[1]
            )
        )
    return tuple(found)


def lines(table: Iterable[InstructionTraffic]) -> tuple[LineTraffic, ...]:
    """Return the sums over source lines, those with most DRAM bytes first.

    Inlined code belongs to the line it was written on. Code whose line is not known is put together by
    function, under the name of its library.
    """
    groups: dict[tuple[str, int | None, str | None], list[InstructionTraffic]] = defaultdict(list)
    for one in table:
        if one.file is not None and one.line is not None:
            groups[one.file, one.line, None].append(one)
        else:
            groups[one.library, None, one.symbol].append(one)
    found = [
        LineTraffic(
            file=file,
            line=line,
            symbol=_common(one.symbol for one in group),
            instructions=sum(one.times for one in group),
            flops=sum(one.flops for one in group),
            dram_read_bytes=sum(one.dram_read_bytes for one in group),
            dram_write_bytes=sum(one.dram_write_bytes for one in group),
        )
        for (file, line, _), group in groups.items()
    ]
    found.sort(
        key=lambda one: (
            -one.dram_bytes,
            -one.flops,
            -one.instructions,
            one.file,
            one.line or 0,
            one.symbol or "",
        )
    )
    return tuple(found)


def disassembler() -> Callable[[ix.Instruction, int], str]:
    """Return what gives an instruction's text, with targets of jumps as addresses in the library."""
    import iced_x86 as ix

    formatter = ix.Formatter(ix.FormatterSyntax.INTEL)
    formatter.hex_prefix, formatter.hex_suffix, formatter.uppercase_hex = "0x", "", False
    formatter.branch_leading_zeros = formatter.show_branch_size = False
    formatter.rip_relative_addresses = formatter.space_after_operand_separator = True

    def text(instruction: ix.Instruction, address: int) -> str:
        if instruction.op_count and instruction.op0_kind == ix.OpKind.NEAR_BRANCH64:
            instruction = instruction.copy()
            instruction.near_branch64 -= instruction.ip - address
        return formatter.format(instruction)

    return text


def _common(symbols: Iterable[str | None]) -> str | None:
    different = set(symbols)
    return different.pop() if len(different) == 1 else None


def line_of(library: str, address: int) -> tuple[str, int] | None:
    """Return the source line, ``None`` also for code that the compiler ascribes to no line (number 0)."""
    place = source_line(library, address)
    return place if place and place[1] else None
