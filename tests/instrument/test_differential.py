"""Random code, native and translated: every register, flag, mask and byte of memory must be the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counteroof.instrument.engine import Engine
from counteroof.instrument.translate import Detail
from tests.instrument.asm_blocks import (
    Arena,
    Options,
    differences,
    listing,
    native_run,
    random_block,
    random_image,
)
from tests.instrument.asm_native import recorded_signals

pytestmark = pytest.mark.x86_64

BLOCKS = 1500
FAULTS = 400
BLOCKS_AN_ENGINE = 500
"""The code cache is given back with the engine."""


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    arena = Arena()
    yield arena
    arena.close()


def wrong(arena: Arena, detail: Detail, seeds: range, options: Options, told: bool = True) -> Iterator[str]:
    """Yield what some random blocks left that translation changes; each is put where the one before was.

    ``told``: the engine is told so. Else it has to notice, and ends up checking blocks whenever they run.
    """
    with recorded_signals(), Engine(detail) as engine:
        for seed in seeds:
            block = random_block(seed, arena, options)
            image = random_image(seed, block)
            expected = native_run(block, image)
            if told:
                engine.forget()
            got = native_run(block, image, entry=engine.entry(block.entry), signals=False)
            found = differences(expected, got, arena)
            if found:
                yield f"seed {seed}, {expected.fault}\n{listing(block)}\n" + "\n".join(found)


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_translated_blocks_leave_what_native_ones_leave(arena: Arena, detail: Detail) -> None:
    for first in range(0, BLOCKS, BLOCKS_AN_ENGINE):
        seeds = range(first, first + BLOCKS_AN_ENGINE)
        assert not next(wrong(arena, detail, seeds, Options(faults=0)), None)


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_faults_show_the_original_address_and_registers(arena: Arena, detail: Detail) -> None:
    assert not next(wrong(arena, detail, range(FAULTS), Options(faults=1, length=(1, 20))), None)


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_blocks_that_are_written_over_others_are_what_runs(arena: Arena, detail: Detail) -> None:
    assert not next(wrong(arena, detail, range(300), Options(faults=0.2), told=False), None)
