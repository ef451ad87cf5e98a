"""Random code, native and translated: every register, flag, mask and byte of memory must be the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counteroof.instrument.engine import Engine
from tests.instrument.asm_blocks import (
    Arena,
    Options,
    differences,
    listing,
    native_run,
    random_block,
    random_image,
)

pytestmark = pytest.mark.x86_64

BLOCKS = 1500
BLOCKS_AN_ENGINE = 500
"""The code cache is given back with the engine."""


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    arena = Arena()
    yield arena
    arena.close()


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_translated_blocks_leave_what_native_ones_leave(arena: Arena, detail: str) -> None:
    for first in range(0, BLOCKS, BLOCKS_AN_ENGINE):
        with Engine(detail) as engine:
            for seed in range(first, first + BLOCKS_AN_ENGINE):
                block = random_block(seed, arena, Options(faults=0.0))
                image = random_image(seed, block)
                expected = native_run(block, image)
                engine.forget()  # the slot holds another block than before
                got = native_run(block, image, entry=engine.entry(block.entry), signals=False)
                assert not differences(expected, got, arena), f"seed {seed}\n{listing(block)}"
