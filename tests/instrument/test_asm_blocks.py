"""Random blocks are valid, varied and the same every time; a native run records all they do."""

from __future__ import annotations

import hashlib
import platform
import random
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("iced_x86")
if platform.machine() not in ("x86_64", "AMD64") or shutil.which("cc") is None:
    pytest.skip("needs an x86-64 processor and a C compiler", allow_module_level=True)

from iced_x86 import Code, Decoder, Instruction, MemoryOperand, OpKind, Register

from tests.instrument.asm_assembler import Assembly, Item
from tests.instrument.asm_blocks import Options, assembled, block_of, listing, random_block, shrink
from tests.instrument.asm_codes import GPR32, MNEMONICS, cpu_flags, plans, words
from tests.instrument.asm_generator import Generator
from tests.instrument.asm_image import (
    FLAGS,
    FXSAVE,
    GPR,
    GPR_NAMES,
    GPRS,
    HOST_RSP,
    MASKS,
    RSP,
    SCRATCH_BYTES,
    STACK_BYTES,
    STATE_BYTES,
    ZMM,
    Outcome,
    differences,
    random_image,
)
from tests.instrument.asm_native import HIGH, Arena, Block, native_run

pytestmark = pytest.mark.x86_64
avx512 = pytest.mark.skipif("avx512bw" not in cpu_flags(), reason="needs AVX-512")

SEEDS = range(400)
NO_FAULTS = Options(faults=0)
FAULTS = Options(faults=1, length=(1, 10))


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    arena = Arena()
    yield arena
    arena.close()


@pytest.fixture(scope="module")
def blocks(arena: Arena) -> list[Block]:
    return [random_block(seed, arena, NO_FAULTS) for seed in SEEDS]


def code_of(block: Block) -> list[Instruction]:
    """Return what a block's items are, without data, and without the code around them."""
    return [item.instruction for item in block.items if item.instruction is not None]


def register(image: bytes, name: str) -> int:
    return int(struct.unpack_from("<Q", image, GPR + 8 * GPR_NAMES.index(name))[0])


# ---- the generator -------------------------------------------------------------------------------


def test_a_seed_always_gives_the_same_block_and_image(arena: Arena) -> None:
    for seed in range(20):
        block = random_block(seed, arena)
        assert random_block(seed, arena).code == block.code
        assert random_image(seed, block) == random_image(seed, block)
    assert len({random_block(seed, arena).code for seed in range(20)}) == 20


def test_a_seed_gives_the_same_block_in_another_process(arena: Arena) -> None:
    block = random_block(7, arena)
    program = (
        "import hashlib; from tests.instrument.asm_blocks import *;"
        "b = random_block(7, Arena()); i = random_image(7, b);"
        "print(hashlib.sha256(b.code + i).hexdigest())"
    )
    root = Path(__file__).parents[2]
    got = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert got.stdout.strip() == hashlib.sha256(block.code + random_image(7, block)).hexdigest()


def test_blocks_end_without_a_fault_unless_asked_for(blocks: list[Block]) -> None:
    for block in blocks:
        outcome = native_run(block, random_image(block.seed, block))
        assert outcome.fault is None, f"seed {block.seed}:\n{listing(block)}"


def test_a_block_leaves_the_stack_as_it_found_it(blocks: list[Block]) -> None:
    for block in blocks:
        image = random_image(block.seed, block)
        outcome = native_run(block, image)
        assert register(outcome.image, "rsp") == register(image, "rsp"), block.seed


def test_running_a_block_twice_leaves_the_same(blocks: list[Block], arena: Arena) -> None:
    for block in blocks:
        image = random_image(block.seed + 1, block)
        first, second = native_run(block, image), native_run(block, image)
        assert differences(first, second, arena) == [], f"seed {block.seed}:\n{listing(block)}"


def test_blocks_differ_in_what_they_leave(blocks: list[Block]) -> None:
    outcomes = {native_run(block, random_image(block.seed, block)).image for block in blocks[:100]}
    assert len(outcomes) == 100


def test_all_instructions_of_this_processor_appear(arena: Arena) -> None:
    seen: set[str] = set()
    for seed in range(10_000, 12_000):
        seen.update(MNEMONICS[i.mnemonic] for i in code_of(random_block(seed, arena)))
    known = {name for group in plans().values() for name in group}
    assert len(known) > 450
    assert len(known & seen) > 0.95 * len(known), sorted(known - seen)


def test_every_plan_makes_instructions_that_can_be_encoded(arena: Arena) -> None:
    generator = Generator(1, arena, Options(), arena.base)
    generator.pins = {3: "ptr", 9: "idx", 10: "small"}  # none that an instruction writes without naming it
    for plan in (plan for group in plans().values() for by_name in group.values() for plan in by_name):
        for _ in range(20):  # AH with a REX prefix cannot be encoded
            instruction = generator.make(plan)
            assert instruction is not None
            try:
                generator.assembly.add(instruction)
                break
            except ValueError:
                continue
        else:
            pytest.fail(f"{plan.name} is never encodable")


def test_all_kinds_of_patterns_appear(arena: Arena) -> None:
    # the rarest is in one of some hundred
    blocks = [random_block(seed, arena, NO_FAULTS) for seed in range(1500)]
    code = [i for block in blocks for i in code_of(block)]
    seen = {MNEMONICS[i.mnemonic] for i in code}
    assert seen.issuperset(
        words("CALL RET JMP JRCXZ JECXZ LOOP LOOPE LOOPNE JE JNE JA JL SYSCALL CPUID XGETBV")
    )
    assert seen.issuperset(words("ENTER LEAVE PUSH POP PUSHFQ POPFQ FLDCW LDMXCSR FXSAVE64 FXRSTOR64"))
    assert seen.issuperset(
        words("MOVSB STOSD CMPSW SCASQ LODSB STD CLD DIV IDIV XLATB MASKMOVDQU CMPXCHG XADD")
    )
    assert any(i.has_rep_prefix for i in code)
    assert any(i.has_repne_prefix for i in code)
    assert any(i.has_lock_prefix for i in code)
    assert any(i.is_call_near_indirect for i in code)
    assert any(i.is_jmp_near_indirect and i.op0_kind == OpKind.MEMORY for i in code)
    assert any(i.is_jmp_near_indirect and i.op0_kind == OpKind.REGISTER for i in code)
    assert any(item.kind == "table" and item.label >= 0 for block in blocks for item in block.items)


@avx512
def test_masks_broadcasts_rounding_and_gathers_appear(blocks: list[Block]) -> None:
    code = [i for block in blocks for i in code_of(block)]
    assert any(i.op_mask and i.zeroing_masking for i in code)
    assert any(i.op_mask and not i.zeroing_masking for i in code)
    assert any(i.is_broadcast for i in code)
    assert any(i.rounding_control for i in code)
    assert any(i.suppress_all_exceptions for i in code)
    assert any(i.is_vsib and i.op_mask and i.op0_kind == OpKind.MEMORY for i in code)
    assert any(i.is_vsib and not i.op_mask for i in code)


def test_all_forms_of_addresses_appear(blocks: list[Block]) -> None:
    memory = [
        i for b in blocks for i in code_of(b) if OpKind.MEMORY in [i.op_kind(n) for n in range(i.op_count)]
    ]
    assert any(i.memory_base == Register.RIP for i in memory)
    assert any(i.memory_base == Register.EIP for i in memory)
    assert any(i.memory_base == Register.NONE and i.memory_index == Register.NONE for i in memory)
    assert any(i.memory_base == Register.NONE and i.memory_index in GPRS for i in memory)
    assert any(i.memory_base in GPRS and i.memory_index in GPRS for i in memory)
    assert any(i.memory_base == Register.RSP and i.memory_displacement >> 63 for i in memory), "the red zone"
    assert any(i.memory_base in GPR32 for i in memory)
    assert any(i.segment_prefix == Register.FS for i in memory)
    assert {1, 2, 4, 8} <= {i.memory_index_scale for i in memory if i.memory_index in GPRS}


def test_blocks_run_at_addresses_beyond_4_gib_and_in_several_slots() -> None:
    arena = Arena(HIGH, slots=4)
    try:
        placed = [random_block(seed, arena, NO_FAULTS, slot=seed) for seed in range(80)]
        assert len({block.address for block in placed}) == 4
        for block in placed:
            assert native_run(block, random_image(block.seed, block)).fault is None
    finally:
        arena.close()


def test_an_arena_does_not_map_over_what_is_there(arena: Arena) -> None:
    with pytest.raises(OSError, match="something is there already"):
        Arena(arena.base)


# ---- faults --------------------------------------------------------------------------------------


def test_blocks_that_fault_say_where_and_why(arena: Arena) -> None:
    signals = set()
    places = set()
    for seed in SEEDS:
        block = random_block(seed, arena, FAULTS)
        fault = native_run(block, random_image(seed, block)).fault
        if fault is None:
            continue
        signals.add(fault.signal)
        inside = block.start <= fault.rip <= block.address + len(block.code)
        assert inside or fault.address == fault.rip or fault.code == 128, f"seed {seed}: {fault}"
        places.update(guard for guard in arena.guards if guard <= fault.address < guard + 4096)
    assert {signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP} <= signals
    assert places == set(arena.guards)


def test_registers_are_recorded_as_they_were_when_the_fault_came(arena: Arena) -> None:
    guard = arena.guards[1] + 16
    load = Instruction.create_reg_mem(Code.MOV_R64_RM64, Register.RCX, MemoryOperand(Register.RBX))
    block = block_of(
        (
            Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.RAX, 5),
            Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.RBX, guard),
            load,
            Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.RAX, 6),
        ),
        arena,
    )
    image = random_image(1, block)
    outcome = native_run(block, image)
    assert outcome.fault is not None
    assert (outcome.fault.signal, outcome.fault.address) == (signal.SIGSEGV, guard)
    assert outcome.fault.rip == block.start + 20
    assert register(outcome.image, "rax") == 5
    assert register(outcome.image, "rcx") == register(image, "rcx")


def test_code_that_does_not_end_is_stopped(arena: Arena) -> None:
    items = (Item("label", label=2), Item("branch", Instruction.create_branch(Code.JMP_REL8_64, 0), 2))
    outcome = native_run(assembled(0, arena, arena.base, items, 1, ()), random_image(0, block_of((), arena)))
    assert outcome.fault is not None
    assert outcome.fault.signal == signal.SIGVTALRM


# ---- running and comparing -----------------------------------------------------------------------


def test_a_block_of_nothing_changes_nothing(arena: Arena) -> None:
    block = block_of((), arena)
    for seed in range(50):
        image = random_image(seed, block)
        outcome = native_run(block, image)
        # reserved bits of the state aside, every byte comes back
        assert differences(Outcome(patched(image, outcome.image), None), outcome, arena) == []
        assert outcome.image[ZMM:FXSAVE] == image[ZMM:FXSAVE] or "avx512bw" not in cpu_flags()
        assert outcome.image[:FLAGS] == image[:FLAGS]
        assert outcome.image[STATE_BYTES:] == image[STATE_BYTES:]


def patched(image: bytes, after: bytes) -> bytes:
    """Return an image with the bytes of FXSAVE that a processor does not give back as they were loaded."""
    result = bytearray(image)
    result[FXSAVE + 28 : FXSAVE + 32] = after[FXSAVE + 28 : FXSAVE + 32]  # MXCSR_MASK
    for i in range(8):  # bytes behind each 80-bit register
        at = FXSAVE + 32 + 16 * i
        result[at + 10 : at + 16] = after[at + 10 : at + 16]
    result[FXSAVE + 5] = after[FXSAVE + 5]
    result[FXSAVE + 160 : FXSAVE + 416] = after[FXSAVE + 160 : FXSAVE + 416]  # XMM: loaded again from ZMM
    return bytes(result)


def test_hand_made_code_does_what_it_says(arena: Arena) -> None:
    block = block_of(
        (
            Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.RAX, 0x7FFF_FFFF_FFFF_FFFF),
            Instruction.create_reg_i32(Code.ADD_RM64_IMM8, Register.RAX, 1),
        ),
        arena,
    )
    outcome = native_run(block, random_image(3, block))
    assert register(outcome.image, "rax") == 1 << 63
    flags = int.from_bytes(outcome.image[FLAGS : FLAGS + 8], "little")
    assert flags & 0x8D5 == 0x894, "overflow, sign, parity and auxiliary carry; neither zero nor carry"


@pytest.mark.parametrize("number", [n for n in range(16) if n != RSP])
def test_a_change_of_any_general_register_is_found(arena: Arena, number: int) -> None:
    nothing = block_of((), arena)
    block = block_of((Instruction.create_reg(Code.NOT_RM64, GPRS[number]),), arena)
    image = random_image(number, nothing)
    found = differences(native_run(nothing, image), native_run(block, image), arena)
    assert len(found) == 1
    assert found[0].startswith(f"{GPR_NAMES[number]}: expected ")


def spoiled(outcome: Outcome, at: int) -> Outcome:
    image = bytearray(outcome.image)
    image[at] ^= 1
    return Outcome(bytes(image), outcome.fault)


@pytest.mark.parametrize(
    ("at", "name"),
    [
        (GPR + 8 * 4, "rsp"),
        (FLAGS, "rflags"),
        (ZMM + 64 * 31 + 63, "zmm31"),
        (MASKS + 8 * 7, "k7"),
        (FXSAVE + 2, "x87 control, status, tags"),
        (FXSAVE + 24, "mxcsr"),
        (FXSAVE + 32 + 16 * 3, "st3"),
        (STATE_BYTES + 5, "scratch+0x5"),
        (STATE_BYTES + SCRATCH_BYTES + STACK_BYTES - 1, "stack+0x1fff"),
    ],
)
def test_every_part_of_the_state_is_compared(arena: Arena, at: int, name: str) -> None:
    block = block_of((), arena)
    outcome = native_run(block, random_image(5, block))
    found = differences(outcome, spoiled(outcome, at), arena)
    assert len(found) == 1
    assert found[0].startswith(name)


def test_what_lies_below_the_red_zone_is_not_compared_but_the_red_zone_is(arena: Arena) -> None:
    block = block_of((), arena)
    image = random_image(5, block)
    outcome = native_run(block, image)
    red_zone = STATE_BYTES + SCRATCH_BYTES + register(image, "rsp") - 128 - arena.stack
    assert differences(outcome, spoiled(outcome, red_zone), arena)
    assert not differences(outcome, spoiled(outcome, red_zone - 1), arena)
    assert not differences(outcome, spoiled(outcome, HOST_RSP), arena)


def test_a_different_fault_is_a_difference(arena: Arena) -> None:
    block = block_of((Instruction.create(Code.UD2),), arena)
    outcome = native_run(block, random_image(5, block))
    assert outcome.fault is not None
    assert outcome.fault.signal == signal.SIGILL
    assert differences(outcome, Outcome(outcome.image, None), arena)[0].startswith("fault: expected Fault(")


SLIPS = {
    "flags": Instruction.create_reg_reg(Code.CMP_RM64_R64, Register.RAX, Register.RBX),
    "red zone": Instruction.create_mem_i32(Code.MOV_RM64_IMM32, MemoryOperand(Register.RSP, displ=-64), 7),
    "register": Instruction.create_reg(Code.NOT_RM64, Register.R11),  # a pointer so becomes one nothing is at
    "ymm": Instruction.create(Code.VEX_VZEROUPPER),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_one_slip_of_an_engine_is_found_by_a_few_blocks(blocks: list[Block], arena: Arena, slip: str) -> None:
    """Something the code still needs is spoiled once, at a random place: half the blocks and more tell."""
    if slip == "ymm" and "avx" not in cpu_flags():
        pytest.skip("needs AVX")
    wrong = Assembly(arena.base)
    wrong.add(SLIPS[slip])
    found = tried = 0
    for block in blocks[:100]:
        places = [i for i, item in enumerate(block.items) if item.removable]
        if not places:
            continue
        at = random.Random(block.seed).choice(places)
        items = (*block.items[:at], *wrong.items, *block.items[at:])
        spoilt = assembled(block.seed, arena, block.address, items, block.end, block.registers)
        image = random_image(block.seed, block)
        tried += 1
        found += bool(differences(native_run(block, image), native_run(spoilt, image), arena))
    assert tried > 80
    assert found > tried / 2


def test_an_image_can_be_loaded_and_read_back_without_running(arena: Arena) -> None:
    block = block_of((), arena)
    image = random_image(9, block)
    arena.load(image)
    assert arena.image() == image


def test_another_entry_point_can_be_run_in_place_of_the_block() -> None:
    """As an engine does with its translation; here it is that of a block that does something else."""
    arena = Arena(HIGH, slots=2)
    try:
        block = block_of((), arena)
        other = block_of((Instruction.create_reg(Code.NOT_RM64, Register.RBX),), arena, slot=1)
        arena.place(other)
        image = random_image(1, block)
        expected = native_run(block, image)
        assert native_run(block, image, entry=block.entry, signals=False) == expected
        found = differences(expected, native_run(block, image, entry=other.entry), arena)
        assert [line.partition(":")[0] for line in found] == ["rbx"]
    finally:
        arena.close()


def test_shrinking_keeps_what_fails_and_drops_the_rest(arena: Arena) -> None:
    block = random_block(11, arena, Options(faults=0, patterns=0, length=(30, 30)))
    guilty = block.items[17].data

    def fails(candidate: Block) -> bool:
        return guilty in [item.data for item in candidate.items]

    small = shrink(block, fails)
    assert [item.data for item in small.items if item.removable] == [guilty]
    assert native_run(small, random_image(1, small)).fault is None


def test_a_listing_shows_the_random_code(arena: Arena) -> None:
    block = block_of((Instruction.create_reg_reg(Code.XOR_R32_RM32, Register.EAX, Register.EAX),), arena)
    lines = listing(block).splitlines()
    assert lines[0].split(None, 1)[1] == "xor eax,eax"
    assert lines[1].split(None, 1)[1].startswith("jmp")
    assert next(iter(Decoder(64, block.code, ip=block.address))).ip == block.address
