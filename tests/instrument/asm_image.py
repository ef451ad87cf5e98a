"""The state a block starts from and what it leaves, as bytes: made at random, and compared.

An image is a machine state (all registers), the scratch area and the stack, one after the other.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from iced_x86 import Register

if TYPE_CHECKING:
    from tests.instrument.asm_native import Arena, Block

SCRATCH_BYTES = 8192
STACK_BYTES = 8192
STACK_ROOM = 1024
"""Bytes between a block's first stack pointer and the top of the stack."""

# the state: offsets in bytes
GPR, FLAGS, HOST_RSP, HOST_MXCSR, HOST_FCW = 0, 128, 136, 144, 148
ZMM, MASKS, FXSAVE, STATE_BYTES = 192, 2240, 2304, 2816
CONSTANTS = 3072
"""Offset of the constants in the state's page: index vectors for gathers and scatters."""
INDEX_VECTORS = 8
"""Of each element size: signed 32-bit ones first, then 64-bit ones, 64 bytes each, values -64 to 63."""

IMAGE_BYTES = STATE_BYTES + SCRATCH_BYTES + STACK_BYTES

GPR_NAMES = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
GPRS = tuple(getattr(Register, name.upper()) for name in GPR_NAMES)
RSP = 4


@dataclass(frozen=True)
class Fault:
    """A signal: its number and code, the address it names and the instruction it came from."""

    signal: int
    code: int
    address: int
    rip: int


@dataclass(frozen=True)
class Outcome:
    """Everything a block left: registers and memory as an image, and the fault that ended it, if one did."""

    image: bytes
    fault: Fault | None


def random_image(seed: int, block: Block) -> bytes:
    """Return a random state, scratch area and stack that a block can start from."""
    rng = random.Random(seed)
    state = bytearray(STATE_BYTES)
    gprs = [_random_integer(rng) for _ in range(16)]
    gprs[RSP] = block.arena.rsp - 8 * rng.randrange(8)
    for number, value in block.registers:
        gprs[number] = value
    struct.pack_into("<16Q", state, GPR, *(value & (2**64 - 1) for value in gprs))
    state[FLAGS : FLAGS + 8] = (0x202 | rng.getrandbits(12) & 0x8D5).to_bytes(
        8, "little"
    )  # OF SF ZF AF PF CF
    pool = _pool()
    at = rng.randrange(len(pool) - 2048)
    state[ZMM : ZMM + 2048] = pool[at : at + 2048]
    struct.pack_into("<8Q", state, MASKS, *(_random_mask(rng) for _ in range(8)))
    at = rng.randrange(len(pool) - 512)
    state[FXSAVE : FXSAVE + 512] = pool[at : at + 512]
    # all exceptions masked; rounding, x87 precision, flush-to-zero and denormals-are-zero at random
    control = 0x7F | rng.choice((0, 0x200, 0x300)) | rng.randrange(4) << 10
    status = rng.randrange(8) << 11
    struct.pack_into("<HHBBHQQ", state, FXSAVE, control, status, rng.getrandbits(8), 0, 0, 0, 0)
    mxcsr = 0x1F80 | rng.randrange(4) << 13 | rng.choice((0, 0, 0x40, 0x8000, 0x8040)) | rng.getrandbits(6)
    struct.pack_into("<II", state, FXSAVE + 24, mxcsr, 0)
    memory = SCRATCH_BYTES + STACK_BYTES
    at = rng.randrange(len(pool) - memory)
    return bytes(state) + pool[at : at + memory]


def differences(expected: Outcome, got: Outcome, arena: Arena) -> list[str]:
    """Return what differs, in words; registers first, then memory.

    Not compared: the flags where a fault ended the block, since an engine may count with flags that the code
    was about to overwrite; what lies below the red zone (nobody may rely on it); and the address the x87 unit
    remembers of its last instruction, which is where that instruction really ran.
    """
    if expected.fault != got.fault:
        return [f"fault: expected {expected.fault}, got {got.fault}"]
    a, b = expected.image, got.image
    if expected.fault:
        b = b[:FLAGS] + a[FLAGS : FLAGS + 8] + b[FLAGS + 8 :]
    rsp = struct.unpack_from("<Q", a, GPR + 8 * RSP)[0]
    dead = min(max(rsp - 128 - arena.stack, 0), STACK_BYTES)
    if _comparable(a, dead) == _comparable(b, dead):
        return []
    found = []
    fields = [
        *((name, GPR + 8 * i, 8) for i, name in enumerate(GPR_NAMES)),
        ("rflags", FLAGS, 8),
        *((f"zmm{i}", ZMM + 64 * i, 64) for i in range(32)),
        *((f"k{i}", MASKS + 8 * i, 8) for i in range(8)),
        ("x87 control, status, tags", FXSAVE, 6),
        ("mxcsr", FXSAVE + 24, 4),
        *((f"st{i}", FXSAVE + 32 + 16 * i, 10) for i in range(8)),
    ]
    for name, at, size in fields:
        x, y = a[at : at + size], b[at : at + size]
        if x != y:
            found.append(f"{name}: expected {x[::-1].hex()}, got {y[::-1].hex()}")
    areas = [("scratch", STATE_BYTES, SCRATCH_BYTES, 0)]
    areas.append(("stack", STATE_BYTES + SCRATCH_BYTES, STACK_BYTES, dead))
    for name, at, size, skipped in areas:
        wrong = [i for i in range(skipped, size) if a[at + i] != b[at + i]]
        if wrong:
            i = wrong[0]
            found.append(
                f"{name}+{i:#x}: expected {a[at + i]:02x}, got {b[at + i]:02x} ({len(wrong)} bytes differ)"
            )
    return found


def _comparable(image: bytes, dead: int) -> bytes:
    """Return an image without the bytes that are nobody's business."""
    x87_pointers = slice(FXSAVE + 6, FXSAVE + 24)
    host = slice(HOST_RSP, ZMM)
    stack = STATE_BYTES + SCRATCH_BYTES
    return (
        image[: host.start]
        + image[host.stop : x87_pointers.start]
        + image[x87_pointers.stop : FXSAVE + 416]
        + image[STATE_BYTES:stack]
        + image[stack + dead :]
    )


_INTEGERS = (
    0,
    1,
    2,
    7,
    8,
    31,
    32,
    63,
    64,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
)


def _random_integer(rng: random.Random) -> int:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(_INTEGERS) * rng.choice((1, -1))
    if kind == 1:
        return rng.choice((2**63, 2**63 - 1, -1, 2**32, 2**32 - 1))
    return rng.getrandbits(64) >> rng.randrange(64)


def _random_mask(rng: random.Random) -> int:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice((0, 2**64 - 1))
    if kind == 1:
        return (1 << rng.randrange(64)) - 1
    return rng.getrandbits(64)


@cache
def _pool() -> bytes:
    """Return random bytes and floating-point values of all kinds, for vectors and memory."""
    rng = random.Random(20)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-310, -1e-310, 5e-324, 1e308, -1e308, float("inf"), float("-inf")]
    special += [float("nan"), 1e-40, 65504.0, 2.0**31, 2.0**63, 3.0, 1e15 + 0.5]
    parts: list[bytes] = []
    while sum(map(len, parts)) < 1 << 18:
        kind = rng.randrange(5)
        if kind == 0:
            parts.append(rng.randbytes(64))
        elif kind == 1:
            parts.append(struct.pack("<8d", *(rng.choice(special) for _ in range(8))))
        elif kind == 2:
            parts.append(struct.pack("<8d", *(rng.uniform(-100, 100) for _ in range(8))))
        elif kind == 3:
            parts.append(struct.pack("<16f", *(rng.uniform(-1e4, 1e4) for _ in range(16))))
        else:
            parts.append(struct.pack("<16i", *(rng.choice(_INTEGERS[:14]) for _ in range(16))))
    return b"".join(parts)


def index_vectors() -> tuple[bytes, int]:
    rng = random.Random(8)
    data = struct.pack(
        f"<{16 * INDEX_VECTORS}i", *(rng.randrange(-64, 64) for _ in range(16 * INDEX_VECTORS))
    )
    data += struct.pack(f"<{8 * INDEX_VECTORS}q", *(rng.randrange(-64, 64) for _ in range(8 * INDEX_VECTORS)))
    return data, len(data)
