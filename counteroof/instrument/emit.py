"""The few x86-64 instructions that instrumentation consists of, as bytes.

Registers are numbers in encoding order (0 is rax, 4 is rsp, 15 is r15). None of these instructions changes a
flag, except :func:`add_gs_one`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import pack

NOPS = (b"", b"\x90", b"\x66\x90", b"\x0f\x1f\x00")
"""No-operations of 0 to 3 bytes (Intel SDM volume 2, NOP: recommended multi-byte forms)."""

_kept = lru_cache(4096)
"""Translation asks for the same few instructions again and again."""


def _gs(opcode: int, register: int, offset: int) -> bytes:
    return pack(
        "<BBBBBi", 0x65, 0x48 | (register >> 3) << 2, opcode, 0x04 | (register & 7) << 3, 0x25, offset
    )


@_kept
def store_gs(offset: int, register: int) -> bytes:
    """``mov gs:[offset], register``."""
    return _gs(0x89, register, offset)


@_kept
def load_gs(register: int, offset: int) -> bytes:
    """``mov register, gs:[offset]``."""
    return _gs(0x8B, register, offset)


def load_gs_half(register: int, offset: int) -> bytes:
    """``mov register, gs:[offset]``, 32 bits, zero-extended."""
    rex = b"\x44" if register >= 8 else b""
    return b"\x65" + rex + pack("<BBBi", 0x8B, 0x04 | (register & 7) << 3, 0x25, offset)


@_kept
def store_gs_low(offset: int, register: int) -> bytes:
    """``mov dword gs:[offset], register``."""
    rex = b"\x44" if register >= 8 else b""
    return b"\x65" + rex + pack("<BBBi", 0x89, 0x04 | (register & 7) << 3, 0x25, offset)


def store_gs_address(offset: int, value: int) -> bytes:
    """``mov qword gs:[offset], value`` for any 64-bit value, in two halves."""
    low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    opcode = b"\x65\xc7\x04\x25"
    return pack("<4siI4siI", opcode, offset, low, opcode, offset + 4, high)


def store_gs_half(offset: int, value: int) -> bytes:
    """``mov dword gs:[offset], value``."""
    return pack("<4siI", b"\x65\xc7\x04\x25", offset, value)


@_kept
def pop_gs(offset: int) -> bytes:
    """``pop qword gs:[offset]``."""
    return pack("<4si", b"\x65\x8f\x04\x25", offset)


def push_gs(offset: int) -> bytes:
    """``push qword gs:[offset]``."""
    return pack("<4si", b"\x65\xff\x34\x25", offset)


@_kept
def jump_gs(offset: int) -> bytes:
    """``jmp qword gs:[offset]``."""
    return pack("<4si", b"\x65\xff\x24\x25", offset)


@_kept
def call_gs(offset: int) -> bytes:
    """``call qword gs:[offset]``."""
    return pack("<4si", b"\x65\xff\x14\x25", offset)


def add_gs_one(offset: int) -> bytes:
    """``add qword gs:[offset], 1``: for places where the flags are dead."""
    return pack("<5siB", b"\x65\x48\x83\x04\x25", offset, 1)


def _memory(reg: int, base: int, displacement: int) -> bytes:
    """ModRM, SIB and displacement of ``[base + displacement]`` with ``reg`` in the reg field."""
    sib = b"\x24" if base & 7 == 4 else b""
    if -128 <= displacement < 128:
        return bytes((0x40 | (reg & 7) << 3 | base & 7,)) + sib + pack("<b", displacement)
    return bytes((0x80 | (reg & 7) << 3 | base & 7,)) + sib + pack("<i", displacement)


@_kept
def store(base: int, displacement: int, register: int) -> bytes:
    """``mov [base + displacement], register``; the fault handler knows this form."""
    return bytes((0x48 | (register >> 3) << 2 | base >> 3, 0x89)) + _memory(register, base, displacement)


def store_immediate(base: int, displacement: int, value: int) -> bytes:
    """``mov qword [base + displacement], value`` (sign-extended 32 bits); the fault handler knows this
    form."""
    return _store_immediate(base, displacement) + pack("<i", value)


@_kept
def _store_immediate(base: int, displacement: int) -> bytes:
    return bytes((0x48 | base >> 3, 0xC7)) + _memory(0, base, displacement)


@_kept
def load(register: int, base: int, displacement: int) -> bytes:
    """``mov register, [base + displacement]``."""
    return bytes((0x48 | (register >> 3) << 2 | base >> 3, 0x8B)) + _memory(register, base, displacement)


@_kept
def move(to: int, source: int) -> bytes:
    """``mov to, source``."""
    return bytes((0x48 | (source >> 3) << 2 | to >> 3, 0x89, 0xC0 | (source & 7) << 3 | to & 7))


@_kept
def add_constant(register: int, value: int) -> bytes:
    """``lea register, [register + value]``."""
    return bytes((0x48 | (register >> 3) << 2 | register >> 3, 0x8D)) + _memory(register, register, value)


def load_immediate(register: int, value: int) -> bytes:
    """``mov register, value`` for any 64-bit value."""
    return pack("<BBQ", 0x48 | register >> 3, 0xB8 | register & 7, value & 0xFFFFFFFFFFFFFFFF)


def push_address(value: int) -> bytes:
    """Push any 64-bit value: a sign-extended push, and its upper half put right."""
    low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    if (0xFFFFFFFF if low & 0x80000000 else 0) == high:
        return pack("<BI", 0x68, low)
    return pack("<BI", 0x68, low) + pack("<4sI", b"\xc7\x44\x24\x04", high)


def store_opmask(base: int, displacement: int, mask: int, wide: bool) -> bytes:
    """``kmovq [base + displacement], k`` with AVX512BW (``wide``), else ``kmovw``."""
    return bytes((0xC4, 0xC1 | ((base >> 3) ^ 1) << 5, 0xF8 if wide else 0x78, 0x91)) + _memory(
        mask, base, displacement
    )


def jump(distance: int) -> bytes:
    """``jmp rel32``."""
    return pack("<Bi", 0xE9, distance)


def conditional_jump(condition: int, distance: int) -> bytes:
    """``jcc rel32``; ``condition`` is the hardware's number (4 is equal)."""
    return pack("<BBi", 0x0F, 0x80 | condition, distance)


def jump_if_rcx_zero(distance: int) -> bytes:
    """``jrcxz rel8``."""
    return pack("<Bb", 0xE3, distance)


def add(to: int, other: int) -> bytes:
    """``lea to, [to + other]``; ``to`` is not rsp."""
    rex = 0x48 | (to >> 3) << 2 | (to >> 3) << 1 | other >> 3
    return bytes((rex, 0x8D, 0x44 | (to & 7) << 3, (to & 7) << 3 | other & 7, 0))


_ZERO_EXTENDED = {8: b"\x48\x8b", 4: b"\x8b", 2: b"\x0f\xb7", 1: b"\x0f\xb6"}


def load_low(register: int, count: int) -> bytes:
    """Load ``count`` (1, 2, 4, 8) bytes from ``[register]`` into it, zero-extended; one of the lower eight
    but rsp and rbp."""
    return _ZERO_EXTENDED[count] + bytes((register << 3 | register,))
