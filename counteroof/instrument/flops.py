"""What one instruction computes: the first stage of the engine that gives an instruction a meaning.

The rules are data (``counteroof/data/flops.toml``); this module looks them up by instruction.

Two conventions. In ``arith``, counteroof's own, an instruction computes ``flops_per_lane`` on every active
lane. In ``hardware`` it counts what the processor's event counters would report, which ignores masks, adds
min and max (Intel) and leaves out x87; see :meth:`FlopRule.hardware_flops`. The table names the sources.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from iced_x86 import (
    CpuidFeature,
    EncodingKind,
    Instruction,
    MemorySize,
    MemorySizeExt,
    Mnemonic,
    OpCodeInfo,
)

if TYPE_CHECKING:
    from iced_x86 import Code_

Vendor = Literal["intel", "amd"]

TABLE = Path(__file__).resolve().parent.parent / "data" / "flops.toml"


@dataclass(frozen=True, slots=True)
class FlopRule:
    """What one execution of an instruction computes.

    A *lane* is what one bit of an AVX-512 mask governs: for most instructions an element of the result, for
    complex half precision a pair (real, imaginary), for a bf16 or integer dot product the 32-bit sum. Bit
    ``i`` of the mask governs lane ``i``, so a masked execution computes
    ``(mask & ((1 << lanes) - 1)).bit_count() * flops_per_lane``.
    """

    op: str
    """The operation's class: add, mul, fma, dot, min, convert ..."""
    precision: str
    """f16, bf16, f32, f64 or x87; int8 and int16 for the integer dot products."""
    width: int
    """Bits of the vector; 0 for scalar instructions and x87."""
    lanes: int
    """Lanes of the whole vector; 1 for scalars."""
    flops_per_lane: int
    """FLOPs of one active lane in the ``arith`` convention (operations, for integer dot products)."""
    in_total: bool
    """False for classes shown beside the FLOP total: min, compare, convert, estimates, integers ..."""
    masked: bool
    """True if an opmask register k1 to k7 decides which lanes are computed."""
    issued_flops: int
    """FLOPs with every lane active, and every product of a dot product selected."""
    intel_flops: int
    """What FP_ARITH_INST_RETIRED (times its elements) reports, whatever the mask."""
    amd_flops: int
    """What PMCx003, retired SSE/AVX FLOPs, reports."""
    assumed: tuple[Vendor, ...] = ()
    """Vendors that do not document how their counter treats this instruction."""

    @property
    def mask_lanes(self) -> int:
        """Return how many low bits of the mask register decide: the lanes."""
        return self.lanes

    def flops(self, mask: int = -1) -> int:
        """Return the ``arith`` FLOPs of one execution under ``mask``; without a mask, those of all lanes."""
        return (mask & ((1 << self.lanes) - 1)).bit_count() * self.flops_per_lane

    def hardware_flops(self, vendor: Vendor) -> int:
        """Return what the counters of ``vendor`` would report for one execution."""
        return self.intel_flops if vendor == "intel" else self.amd_flops


def rule_for(instruction: Instruction) -> FlopRule | None:
    """Return the rule of ``instruction``, or ``None`` if it computes nothing or has no rule.

    Where there is none, :func:`is_floating_point` tells which of the two.
    """
    variants = _variants(instruction.code)
    if variants is None:
        return None
    if variants.by_immediate is not None:
        return variants.by_immediate[instruction.immediate8 >> 4]
    return variants.masked if instruction.op_mask else variants.plain


def is_floating_point(instruction: Instruction) -> bool:
    """Return whether ``instruction`` computes in floating point: without a rule it has to be reported.

    False for those that only move, select or combine bits (see :func:`exceptions`).
    """
    return _is_floating_point(instruction.code)


def exceptions() -> Mapping[str, str]:
    """Return the floating-point mnemonics that compute nothing, each with what they do instead."""
    return _table().not_arithmetic


def unruled() -> Mapping[str, str]:
    """Return the floating-point mnemonics that compute but have no rule, each with the reason."""
    return _table().unruled


class _Variants(NamedTuple):
    """The rules of one iced ``Code``."""

    plain: FlopRule
    masked: FlopRule
    by_immediate: tuple[FlopRule, ...] | None
    """For dot products: by the upper half of the immediate, which selects the products."""


class _Table(NamedTuple):
    rules: Mapping[str, Mapping[str, Any]]
    not_arithmetic: Mapping[str, str]
    unruled: Mapping[str, str]


_MNEMONICS: dict[int, str] = {
    value: name for name, value in vars(Mnemonic).items() if name.isupper() and isinstance(value, int)
}

_NAMES = frozenset(_MNEMONICS.values())

# the last letters of a mnemonic: precision, bits of an element (0: scalar)
_SUFFIXES = {
    "PS": ("f32", 32),
    "PD": ("f64", 64),
    "PH": ("f16", 16),
    "SS": ("f32", 0),
    "SD": ("f64", 0),
    "SH": ("f16", 0),
}

# MVEX (Knights Corner), XOP and 3DNow! share mnemonics with AVX but not its meaning
_RULED_ENCODINGS = frozenset({EncodingKind.LEGACY, EncodingKind.VEX, EncodingKind.EVEX})

_X87_FEATURES = frozenset(
    {
        CpuidFeature.FPU,
        CpuidFeature.FPU287,
        CpuidFeature.FPU287XL_ONLY,
        CpuidFeature.FPU387,
        CpuidFeature.FPU387SL_ONLY,
        CpuidFeature.CYRIX_FPU,
        CpuidFeature.D3NOW,
    }
)

_FLOAT_ELEMENTS = frozenset(
    {MemorySize.FLOAT16, MemorySize.BFLOAT16, MemorySize.FLOAT32, MemorySize.FLOAT64, MemorySize.FLOAT80}
)


@cache
def _table() -> _Table:
    with TABLE.open("rb") as stream:
        raw = tomllib.load(stream)
    rules: dict[str, Mapping[str, Any]] = {}
    for entry in raw["rule"]:
        for name in _names(entry["names"]):
            if name in rules:
                raise ValueError(f"{TABLE.name}: {name} has two rules")
            rules[name] = entry
    return _Table(rules, _reasons(raw["not_arithmetic"]), _reasons(raw["unruled"]))


def _reasons(entries: list[dict[str, str]]) -> Mapping[str, str]:
    return {name: entry["reason"] for entry in entries for name in _names(entry["names"])}


def _names(text: str) -> list[str]:
    """Return the mnemonics of a table cell: words, each with its {a,b} spelled out."""
    names = [name for word in text.split() for name in _spell_out(word)]
    if strangers := [name for name in names if name not in _NAMES]:
        raise ValueError(f"{TABLE.name}: no such mnemonic: {', '.join(strangers)}")
    return names


def _spell_out(word: str) -> Iterator[str]:
    head, brace, rest = word.partition("{")
    if not brace:
        yield word
        return
    choices, _, tail = rest.partition("}")
    for choice in choices.split(","):
        for end in _spell_out(tail):
            yield head + choice + end


@cache
def _variants(code: Code_) -> _Variants | None:
    info = OpCodeInfo(code)
    if info.encoding not in _RULED_ENCODINGS or _is_string_instruction(code):
        return None
    name = _MNEMONICS[info.mnemonic]
    entry = _table().rules.get(name)
    if entry is None:
        return None
    precision, element = _SUFFIXES.get(name[-2:], ("", 0))
    precision = entry.get("precision", precision)
    element = entry.get("element", element)
    width = entry.get("width", 128 << info.l) if element else 0
    lanes = width // element if element else 1
    products = entry.get("products", 0)
    flops = 2 * products - 1 if products else entry["flops"]
    plain = FlopRule(
        op=entry["op"],
        precision=precision,
        width=width,
        lanes=lanes,
        flops_per_lane=flops,
        in_total=entry["total"],
        masked=False,
        issued_flops=lanes * flops,
        intel_flops=lanes * entry["intel"],
        amd_flops=lanes * entry["amd"],
        assumed=tuple(entry.get("assumed", ())),
    )
    masked = replace(plain, masked=True)
    if masked.amd_flops and "amd" not in masked.assumed:
        masked = replace(masked, assumed=(*masked.assumed, "amd"))
    if not products:
        return _Variants(plain, masked, None)
    # DPPS and DPPD: bits 4 and up select products; the sums join what is selected
    selected = ((half & ((1 << products) - 1)).bit_count() for half in range(16))
    by_immediate = tuple(replace(plain, flops_per_lane=max(2 * n - 1, 0)) for n in selected)
    return _Variants(plain, masked, by_immediate)


@cache
def _is_floating_point(code: Code_) -> bool:
    variants = _variants(code)
    if variants is not None:
        return not variants.plain.precision.startswith("int")
    info = OpCodeInfo(code)
    name = _MNEMONICS[info.mnemonic]
    table = _table()
    if name in table.unruled:
        return True
    if name in table.not_arithmetic or _is_string_instruction(code):
        return False
    return _looks_floating_point(code, info, name)


def _looks_floating_point(code: Code_, info: OpCodeInfo, name: str) -> bool:
    """Return whether iced's own tables take an instruction the rules do not know for floating point."""
    instruction = Instruction()
    instruction.code = code
    if _X87_FEATURES.intersection(instruction.cpuid_features()):
        return True
    if MemorySizeExt.element_type(info.memory_size) in _FLOAT_ELEMENTS:
        return True
    integer = name.startswith(("P", "VP", "K", "T", "VCOMPRESS", "VEXPAND"))
    return name[-2:] in _SUFFIXES and not integer and info.encoding != EncodingKind.LEGACY


def _is_string_instruction(code: Code_) -> bool:
    """Return whether this is a string instruction: MOVSD and CMPSD are mnemonics of two meanings."""
    instruction = Instruction()
    instruction.code = code
    return instruction.is_string_instruction
