"""Every recorded address, size and kind is what the processor, run in single steps, is seen to access."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

import pytest
from iced_x86 import (
    Code,
    Instruction,
    MemorySizeExt,
    OpCodeInfo,
    OpKind,
    Register,
)

from counteroof.instrument.engine import Engine
from tests.instrument.asm_blocks import (
    Arena,
    Options,
    block_of,
    listing,
    native_run,
    random_block,
    random_image,
)
from tests.instrument.asm_codes import BY_BITS, REGISTER_CLASSES, Plan, cpu_flags, plans
from tests.instrument.asm_image import GPR, MASKS, SCRATCH_BYTES
from tests.instrument.asm_oracle import Surroundings, accesses
from tests.instrument.asm_records import blame, expected, recorded, surroundings
from tests.instrument.asm_steps import Steps, run_in_steps

pytestmark = pytest.mark.x86_64

BLOCKS = 200


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    arena = Arena()
    yield arena
    arena.close()


@pytest.fixture(scope="module")
def around() -> Surroundings:
    return surroundings()


@pytest.mark.parametrize("options", [Options(faults=0), Options(faults=0, patterns=0.6)])
def test_recorded_accesses_are_those_of_single_steps(
    arena: Arena, around: Surroundings, options: Options
) -> None:
    with Engine("bytes") as engine:
        for seed in range(BLOCKS):
            block = random_block(seed, arena, options)
            image = random_image(seed, block)
            steps = run_in_steps(block, image)
            assert not steps.fault
            got = recorded(engine, block, image)
            assert got == expected(steps, around), (
                f"seed {seed}, {blame(steps, around, got)}\n{listing(block)}"
            )


def executions(steps: Steps) -> Counter[int]:
    """Return how often each instruction ran, by address; a repeated string instruction once for all its
    iterations."""
    counts: Counter[int] = Counter()
    previous = None
    for step in steps.steps:
        instruction = step.instruction
        repeated = instruction.is_string_instruction and (
            instruction.has_rep_prefix or instruction.has_repne_prefix
        )
        if not (repeated and instruction.ip == previous):
            counts[instruction.ip] += 1
        previous = instruction.ip
    return counts


@pytest.mark.parametrize("detail", ["flops", "bytes"])
def test_instructions_are_counted_as_often_as_they_run(arena: Arena, detail: str) -> None:
    with Engine(detail) as engine:
        for seed in range(BLOCKS, BLOCKS + 150):
            block = random_block(seed, arena, Options(faults=0))
            image = random_image(seed, block)
            steps = run_in_steps(block, image)
            engine.forget()
            engine.reset()
            native_run(block, image, entry=engine.entry(block.entry), signals=False)
            counts: Counter[int] = Counter()
            for item in engine.executed():
                if item.instruction.ip >= block.start:
                    counts[item.instruction.ip] += item.times
            assert counts == executions(steps), f"seed {seed}\n{listing(block)}"


# ---- which elements a masked instruction accesses ----------------------------------------------------------


def masked(plan: Plan, mask: int, *, broadcast: bool) -> Instruction:
    """Return an instruction of a plan with memory at [rax] and the mask in k1."""
    instruction = Instruction()
    instruction.code = plan.code
    for i, operand in enumerate(plan.operands):
        if operand.kind == "memory" or operand.memory:
            instruction.set_op_kind(i, OpKind.MEMORY)
        elif operand.kind == "immediate":
            instruction.set_op_kind(i, operand.value)
            instruction.set_immediate_i32(i, 1)
        elif operand.kind.startswith("gpr"):
            instruction.set_op_register(i, BY_BITS[int(operand.kind[3:])][10])
        else:
            instruction.set_op_register(i, REGISTER_CLASSES[operand.kind][0] + 3 + i)
    instruction.op_mask = Register.K1
    instruction.is_broadcast = broadcast
    instruction.memory_base = Register.RAX
    return instruction


@pytest.mark.skipif("avx512bw" not in cpu_flags(), reason="needs AVX-512")
def test_the_processor_faults_exactly_where_masked_accesses_are_expected(
    arena: Arena, around: Surroundings
) -> None:
    low, high = arena.scratch, arena.scratch + SCRATCH_BYTES
    nothing = block_of([Instruction.create(Code.NOPD)], arena)
    image = bytearray(random_image(1, nothing))
    wrong = []
    for plan in (by_name[-1] for group in plans().values() for by_name in group.values()):
        if not (plan.maskable and plan.has_memory):
            continue
        half = plan.size // 2
        element = MemorySizeExt.element_size(OpCodeInfo(plan.code).memory_size)
        for broadcast in (False, True) if plan.broadcast_size else (False,):
            lanes = plan.size // (plan.broadcast_size or element or plan.size)
            places = [high + 64] if broadcast or plan.alignment > 1 or half < 1 else [high - half, low - half]
            for address in places:
                for mask in (0, (1 << lanes // 2) - 1, (1 << lanes) - (1 << lanes // 2)):
                    instruction = masked(plan, mask, broadcast=broadcast)
                    struct.pack_into("<Q", image, GPR, address)
                    struct.pack_into("<Q", image, MASKS + 8, mask)
                    steps = run_in_steps(block_of([instruction], arena), bytes(image))
                    wanted = accesses(steps.steps[0], around)
                    outside = any(a < low or a + size > high for a, size, _ in wanted)
                    if outside != bool(steps.fault):
                        wrong.append(f"{instruction} at {address:#x}, k1 {mask:#x}: {wanted}, {steps.fault}")
    # A masked store of part of a vector writes active elements only, but its address is checked as a whole.
    assert [text for text in wrong if not text.startswith("vextract")] == []
