"""Random blocks of valid x86-64 code, for comparing an engine with the processor.

``random_block(seed, arena)`` returns a block, the same one for the same seed; ``random_image(seed, block)`` a
state it can start from; ``native_run(block, image)`` what the processor makes of it. A block is a sequence of
random instructions (``asm_codes.py``) and patterns (``asm_control.py``, ``asm_patterns.py``): loops, calls,
computed jumps, strings, gathers, stack frames. It ends by itself and writes no memory but the arena's.

To look at one: ``python -m tests.instrument.asm_blocks SEED``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache

from iced_x86 import Code, Decoder, Formatter, FormatterSyntax, Instruction

from tests.instrument import asm_faults
from tests.instrument.asm_assembler import Assembly, AssemblyError, Item, assemble, encode
from tests.instrument.asm_generator import DEFAULT, Generator, Options
from tests.instrument.asm_image import Outcome, differences, random_image
from tests.instrument.asm_native import SLOT_BYTES, Arena, Block, epilogue, native_run, prologue

__all__ = [
    "Arena",
    "Block",
    "Options",
    "Outcome",
    "block_of",
    "differences",
    "listing",
    "native_run",
    "random_block",
    "random_image",
    "shrink",
]


def random_block(seed: int, arena: Arena, options: Options = DEFAULT, slot: int = 0) -> Block:
    """Return the block of a seed, for a slot of an arena; the same for the same arguments."""
    address = arena.slot(slot)
    for attempt in range(100):
        generator = Generator(seed + (attempt << 64), arena, options, address)
        rng = generator.rng
        generator.sequence(rng.randint(*options.length))
        if rng.random() < options.faults:
            asm_faults.fault(generator)
            generator.sequence(rng.randint(0, 4))
        end = generator.label()
        generator.assembly.branch(Code.JMP_REL32_64, end)
        items = (*generator.assembly.items, *generator.tail)
        try:
            return assembled(seed, arena, address, items, end, generator.registers)
        except AssemblyError:
            continue
    raise AssemblyError(f"no block of seed {seed} could be assembled in 100 attempts")


def assembled(
    seed: int,
    arena: Arena,
    address: int,
    items: tuple[Item, ...],
    end: int,
    registers: tuple[tuple[int, int], ...],
) -> Block:
    """Return the block of some items; ``end`` is the label they leave by."""
    recorder, loader = _recorder(arena.state, address), _loader()
    entry = address + len(recorder)
    start = entry + len(loader)
    code = recorder + loader + assemble(items, start, {end: address})
    if len(code) > SLOT_BYTES:
        raise AssemblyError("the block is longer than a slot")
    return Block(seed, arena, code, address, entry, start, registers, items, end)


def block_of(code: Sequence[Instruction], arena: Arena, slot: int = 0) -> Block:
    """Return the block of hand-written straight-line code."""
    assembly = Assembly(arena.slot(slot))
    for instruction in code:
        assembly.add(instruction, removable=True)
    assembly.branch(Code.JMP_REL32_64, 1)
    return assembled(-1, arena, arena.slot(slot), tuple(assembly.items), 1, ())


def shrink(block: Block, fails: Callable[[Block], bool]) -> Block:
    """Return a smaller block that still fails: instructions that are not needed for it are taken out.

    ``fails`` runs a block and says whether it shows the failure looked for. Branches, calls and what
    patterns rely on stay, so that a shrunk block ends as surely as the first one.
    """
    size = len(block.items)
    while size:
        at = 0
        while at < len(block.items):
            part = block.items[at : at + size]
            kept = tuple(item for item in part if not item.removable)
            if len(kept) < len(part):
                items = block.items[:at] + kept + block.items[at + size :]
                smaller = assembled(block.seed, block.arena, block.address, items, block.end, block.registers)
                if fails(smaller):
                    block = smaller
                    at += len(kept)
                    continue
            at += size
        size //= 2
    return block


@cache
def _recorder(state: int, address: int) -> bytes:
    return encode(epilogue(state), address)


@cache
def _loader() -> bytes:
    return encode(prologue(), 0)


def listing(block: Block) -> str:
    """Return a block's random code in Intel syntax, with addresses."""
    formatter = Formatter(FormatterSyntax.NASM)
    decoder = Decoder(64, block.code[block.start - block.address :], ip=block.start)
    return "\n".join(f"{i.ip:x}  {formatter.format(i)}" for i in decoder)


if __name__ == "__main__":
    shown = random_block(int(sys.argv[1]), Arena())
    print(listing(shown))
    print(native_run(shown, random_image(shown.seed, shown)).fault or "ends without a fault")
