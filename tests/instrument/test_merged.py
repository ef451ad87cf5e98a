"""Accesses that the cache model is told of with their neighbours leave what they leave one by one."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.cachesim.model import CacheModel, Kind
from counteroof.instrument.engine import Engine
from counteroof.machine.model import Prefetch, Stores, Tlb
from counteroof.native import ffi, lib
from tests.cachesim.simulated import all_contents, cache
from tests.compiled import needs, shared
from tests.instrument.asm_codes import cpu_flags
from tests.instrument.test_pieces import traced

pytestmark = [pytest.mark.x86_64, needs("gcc")]

VECTORS = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "bmi2"} <= cpu_flags()
BLOCKS = 24
RUNS = 2_000
SPREAD = 1 << 20
LONGEST = 6 * 40
REGISTERS = {1: "%%al", 2: "%%ax", 4: "%%eax", 8: "%%rax", 16: "%%xmm0"}
MOVES = {1: "movb", 2: "movw", 4: "movl", 8: "movq", 16: "movups"}
CACHES = [cache("L1", 4, 2), cache("L2", 16, 4, "inclusive"), cache("L3", 32, 8, "victim")]
Frame = tuple[int, Any, dict[str, np.ndarray]]


def block(seed: int) -> str:
    """Return one basic block: runs of accesses by the same registers, near to each other in any order."""
    choose = random.Random(seed)
    lines = []
    while len(lines) < choose.choice((4, 12, 40)):
        place = choose.choice(("(%0)", "(%1)", "(%1,%2)", "(%1,%2,4)"))
        kind = choose.choices(("load", "store", "mixed", "update", "odd"), (6, 3, 2, 1, 1))[0]
        near, upwards, size = choose.randrange(-64, 128), choose.random() < 0.5, 0
        for _ in range(choose.randrange(1, 7)):
            near = near + size + choose.choice((0, 0, 5)) if upwards else near + choose.randrange(-40, 41)
            size = choose.choice(list(MOVES))
            moved = [f"{MOVES[size]} {near}{place}, {REGISTERS[size]}"]
            moved.append(f"{MOVES[size]} {REGISTERS[size]}, {near}{place}")
            lines.append(
                {
                    "load": moved[0],
                    "store": moved[1],
                    "mixed": choose.choice(moved),
                    "update": f"addl $1, {near}{place}",
                    "odd": choose.choice((f"prefetcht0 {near}{place}", f"movnti %%rax, {near}{place}")),
                }[kind]
            )
    return "\\n\\t".join(lines)


def source() -> str:
    cases = "\n".join(
        f'case {i}: __asm__ volatile("{block(i)}" : : "r"(one), "r"(other), "r"(index) '
        ': "rax", "xmm0", "memory"); break;'
        for i in range(BLOCKS)
    )
    return f"""
#include <stddef.h>
struct run {{ unsigned block, one, other, index; }};
void blocks(char *to, char *from, const struct run *runs, size_t n) {{
    for (size_t i = 0; i < n; i++) {{
        char *one = to + runs[i].one, *other = from + runs[i].other;
        size_t index = runs[i].index;
        switch (runs[i].block) {{
        {cases}
        }}
    }}
}}
"""


def runs_of(moving: str) -> np.ndarray:
    """Return which blocks run, and where: how addresses lie in lines changes never, at times, or always."""
    choose = np.random.default_rng(3)
    runs = choose.integers(0, SPREAD // 256, (RUNS, 4)).astype(np.uint32) * 64
    runs[:, 0] = choose.integers(0, BLOCKS, RUNS)
    offsets = choose.integers(0, 64, (RUNS, 3)).astype(np.uint32)
    if moving != "always":
        offsets = np.repeat(offsets, RUNS if moving == "never" else RUNS // 8, axis=0)[:RUNS]
    runs[:, 1:] += offsets + LONGEST
    return runs


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory.mktemp("merged"), source(), "-O1")


def frame_of(library: Path, moving: str) -> Frame:
    arrays = {
        "to": np.zeros(SPREAD // 4 + 4096, np.uint8),
        "from": np.zeros(3 * SPREAD + 4096, np.uint8),
        "runs": runs_of(moving),
    }
    frame = ffi.new("struct run_frame *")
    for slot, array in enumerate(arrays.values()):
        frame.ints[slot] = array.ctypes.data
    frame.ints[3] = RUNS
    function = ctypes.cast(ctypes.CDLL(str(library)).blocks, ctypes.c_void_p).value or 0
    return function, frame, arrays


def compared(told: CacheModel, made: CacheModel, called: Frame) -> int:
    """Hold a model that the engine feeds to one that is told of each access; return how many were merged."""
    function, frame, arrays = called
    for model in (told, made):
        for name, array in arrays.items():
            model.add_array(name, array.ctypes.data, array.nbytes)
    with Engine("bytes", told.pointer) as engine:
        engine.call(function, frame)
        engine.drain()
        merged = int(lib.instrument_accesses_merged())
    accesses = traced(function, frame)
    assert len(accesses) > 10 * RUNS
    for address, nbytes, kind in accesses:
        made.access(address, nbytes, Kind(kind))
    assert told.totals().levels == made.totals().levels
    *of_arrays, _other = told.arrays()
    assert tuple(of_arrays) == made.arrays()[: len(of_arrays)]
    return merged


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(("moving", "least"), [("never", 4 * RUNS), ("at times", 4 * RUNS), ("always", 1)])
def test_merging_changes_nothing(library: Path, moving: str, least: int, parts: int) -> None:
    told, made = (CacheModel(CACHES, parts=parts) for _ in range(2))
    assert compared(told, made, frame_of(library, moving)) >= least * VECTORS
    if parts == 1:
        assert all_contents(told) == all_contents(made)


@pytest.mark.parametrize(
    "caches",
    [
        [cache("L1", 1, 1)],
        [cache("L1", 1, 8), cache("L2", 2, 16, "inclusive", policy="random")],
        [cache("L1", 8, 2), cache("L2", 8, 2, policy="srrip"), cache("L3", 8, 4, "inclusive", policy="qlru")],
    ],
)
def test_merging_changes_nothing_in_odd_hierarchies(library: Path, caches: list[Any]) -> None:
    told, made = (CacheModel(caches) for _ in range(2))
    assert compared(told, made, frame_of(library, "never")) >= 4 * RUNS * VECTORS


@pytest.mark.parametrize(
    "given",
    [
        {"caches": [cache("L1", 4, 4, policy="srrip"), *CACHES[1:]]},
        {"caches": [cache("L1", 4, 4, policy="bimodal"), *CACHES[1:]]},
        {"prefetch": Prefetch(adjacent=True, stream=True)},
        {"stores": Stores("always", 0.5)},
        {"tlbs": [Tlb(1, 16, 4, ("4 KiB",))]},
    ],
    ids=["srrip", "bimodal", "prefetch", "evasion", "tlb"],
)
def test_nothing_is_merged_where_a_second_ask_matters(library: Path, given: dict[str, Any]) -> None:
    told, made = (CacheModel(**{"caches": CACHES, **given}) for _ in range(2))
    assert compared(told, made, frame_of(library, "never")) == 0
