"""FLOP rules: every floating-point instruction of iced-x86's table has one or is a named exception."""

from __future__ import annotations

import pytest

pytest.importorskip("iced_x86")

from iced_x86 import (
    Code,
    CpuidFeature,
    Decoder,
    EncodingKind,
    Instruction,
    MemorySize,
    MemorySizeExt,
    Mnemonic,
    OpCodeInfo,
    Register,
)

from counteroof.instrument import flops
from counteroof.instrument.flops import FlopRule, is_floating_point, rule_for


def names_of(enum: object) -> dict[int, str]:
    """Return iced's constants of one module, by value."""
    return {v: n for n, v in vars(enum).items() if n.isupper() and isinstance(v, int)}


CODES = names_of(Code)
MNEMONICS = names_of(Mnemonic)
MEMORY = names_of(MemorySize)
FEATURES = names_of(CpuidFeature)

# encodings no x86-64 processor of the last ten years executes, and why they have no rules
FOREIGN_ENCODINGS = {
    EncodingKind.MVEX: "Knights Corner, a coprocessor of 2012 that ran no ordinary x86-64 binary",
    EncodingKind.XOP: "AMD processors of 2011 to 2015",
    EncodingKind.D3NOW: "no processor since 2011",
}

# mnemonics that end like a floating-point instruction and are none
INTEGER_LOOKALIKES = {
    *("CCS_HASH", "CLFLUSH", "INCSSPD", "INSD", "LODSD", "LSS", "OUTSD", "PSMASH", "PUSH", "RDSSPD", "SCASD"),
    *("SEAMOPS", "STOSD", "WRSSD", "WRUSSD"),
    *("PABSD", "PMAXSD", "PMINSD", "VPABSD", "VPMAXSD", "VPMINSD", "VPCMPD", "VPCOMPRESSD"),
    *("TDPBSSD", "TDPBUSD", "VPDPBUSD", "VPDPBSSD", "VPDPWSSD", "VPDPWUSD", "VP4DPWSSD", "VPADDSETSD"),
}


def instruction(code: str, mask: int = Register.NONE) -> Instruction:
    """Return an instruction with nothing but a code and an opmask register."""
    result = Instruction()
    result.code = getattr(Code, code)
    result.op_mask = mask
    return result


def looks_floating_point(code: int) -> bool:
    """Return whether iced's table gives any hint of floating point: operand type, feature or mnemonic."""
    info = OpCodeInfo(code)
    sizes = MEMORY[info.memory_size] + MEMORY[info.broadcast_memory_size]
    if "FLOAT" in sizes or "BCD" in sizes or "FPU" in sizes:
        return True
    bare = instruction(CODES[code])
    if any(FEATURES[f].startswith(("FPU", "CYRIX_FPU", "D3NOW")) for f in bare.cpuid_features()):
        return True
    name = MNEMONICS[info.mnemonic]
    return name.endswith(("PS", "PD", "PH", "SS", "SD", "SH", "BF16")) and name not in INTEGER_LOOKALIKES


FLOATING_POINT = [code for code in CODES if looks_floating_point(code)]


def test_the_walk_sees_the_whole_table() -> None:
    assert len(CODES) > 4900
    assert len(FLOATING_POINT) > 1700


def test_every_floating_point_instruction_has_a_rule_or_is_a_named_exception() -> None:
    nameless = []
    for code in FLOATING_POINT:
        info = OpCodeInfo(code)
        name = MNEMONICS[info.mnemonic]
        bare = instruction(CODES[code])
        if rule_for(bare) is not None or name in flops.exceptions() or name in flops.unruled():
            continue
        if info.encoding in FOREIGN_ENCODINGS or bare.is_string_instruction:
            continue
        if not info.mode64 or name == "UNDOC":
            continue
        nameless.append(CODES[code])
    assert nameless == []


def test_an_instruction_is_ruled_or_excepted_or_unruled_but_not_two_of_them() -> None:
    ruled = {MNEMONICS[OpCodeInfo(c).mnemonic] for c in CODES if rule_for(instruction(CODES[c]))}
    assert ruled.isdisjoint(flops.exceptions())
    assert ruled.isdisjoint(flops.unruled())
    assert set(flops.exceptions()).isdisjoint(flops.unruled())


def test_every_exception_gives_its_reason() -> None:
    assert all(flops.exceptions().values())
    assert all(flops.unruled().values())


def test_what_computes_and_has_no_rule_is_reported() -> None:
    for code in FLOATING_POINT:
        bare = instruction(CODES[code])
        name = MNEMONICS[OpCodeInfo(code).mnemonic]
        if name.startswith("VPACKSTORE") or bare.is_string_instruction:  # Knights Corner stores; MOVSD, CMPSD
            continue
        if rule_for(bare) is None and name not in flops.exceptions():
            assert is_floating_point(bare), CODES[code]


def test_other_instructions_are_not_floating_point() -> None:
    floating = set(FLOATING_POINT)
    for code in CODES:
        if code not in floating:
            assert not is_floating_point(instruction(CODES[code])), CODES[code]
            rule = rule_for(instruction(CODES[code]))
            assert rule is None or rule.op == "integer dot", CODES[code]


def test_string_instructions_are_not_mistaken_for_their_namesakes() -> None:
    for code in ("CMPSD_M32_M32", "MOVSD_M32_M32"):
        assert rule_for(instruction(code)) is None
        assert not is_floating_point(instruction(code))
    assert rule_for(instruction("CMPSD_XMM_XMMM64_IMM8")) is not None


ELEMENTS = {
    MemorySize.FLOAT16: "f16",
    MemorySize.FLOAT32: "f32",
    MemorySize.FLOAT64: "f64",
    MemorySize.BFLOAT16: "bf16",
}

# operations whose lanes are not the elements of their memory operand
OWN_LANES = {"convert", "dot", "complex mul", "complex fma"}


def test_lanes_and_precision_agree_with_the_memory_operand_iced_gives() -> None:
    """The elements of a vector in memory are the lanes, and their type is the precision."""
    checked = 0
    for code in FLOATING_POINT:
        rule = rule_for(instruction(CODES[code]))
        size = OpCodeInfo(code).memory_size
        element = MemorySizeExt.element_type(size)
        if rule is None or element not in ELEMENTS or rule.op in OWN_LANES:
            continue
        if rule.precision == "x87" or "4F" in CODES[code]:  # narrow operands; four elements for four steps
            continue
        checked += 1
        assert rule.precision == ELEMENTS[element], CODES[code]
        assert rule.lanes == MemorySizeExt.element_count(size), CODES[code]
        assert rule.width == (8 * MemorySizeExt.size(size) if rule.lanes > 1 else 0), CODES[code]
    assert checked > 600


def test_a_conversion_has_the_lanes_of_its_longer_side() -> None:
    checked = 0
    for code in FLOATING_POINT:
        rule = rule_for(instruction(CODES[code]))
        if rule is None or rule.op != "convert" or rule.precision == "x87" or "VCVTNE" in CODES[code]:
            continue
        size = OpCodeInfo(code).memory_size
        if MemorySizeExt.is_packed(size):
            checked += 1
            assert rule.lanes == MemorySizeExt.element_count(size), CODES[code]
    assert checked > 150


def test_a_lane_never_needs_more_mask_bits_than_the_vector_has_elements() -> None:
    for code in CODES:
        rule = rule_for(instruction(CODES[code], Register.K1))
        if OpCodeInfo(code).can_use_op_mask_register and rule is not None:
            assert rule.masked
            assert 1 <= rule.mask_lanes <= 64
            assert rule.flops(0) == 0
            assert rule.flops() == rule.issued_flops


# code, op, precision, width, lanes, FLOPs a lane, in the total, Intel, AMD; derived by hand from the manuals
BY_HAND = [
    ("ADDPS_XMM_XMMM128", "add", "f32", 128, 4, 1, True, 4, 4),
    ("ADDPD_XMM_XMMM128", "add", "f64", 128, 2, 1, True, 2, 2),
    ("ADDSS_XMM_XMMM32", "add", "f32", 0, 1, 1, True, 1, 1),
    ("ADDSD_XMM_XMMM64", "add", "f64", 0, 1, 1, True, 1, 1),
    ("VEX_VADDPS_YMM_YMM_YMMM256", "add", "f32", 256, 8, 1, True, 8, 8),
    ("EVEX_VADDPD_ZMM_K1Z_ZMM_ZMMM512B64_ER", "add", "f64", 512, 8, 1, True, 8, 8),
    ("EVEX_VADDPH_ZMM_K1Z_ZMM_ZMMM512B16_ER", "add", "f16", 512, 32, 1, True, 32, 32),
    ("EVEX_VADDSH_XMM_K1Z_XMM_XMMM16_ER", "add", "f16", 0, 1, 1, True, 1, 1),
    ("SUBPD_XMM_XMMM128", "sub", "f64", 128, 2, 1, True, 2, 2),
    ("VEX_VSUBSS_XMM_XMM_XMMM32", "sub", "f32", 0, 1, 1, True, 1, 1),
    ("EVEX_VSUBPH_XMM_K1Z_XMM_XMMM128B16", "sub", "f16", 128, 8, 1, True, 8, 8),
    ("MULSD_XMM_XMMM64", "mul", "f64", 0, 1, 1, True, 1, 1),
    ("VEX_VMULPD_YMM_YMM_YMMM256", "mul", "f64", 256, 4, 1, True, 4, 4),
    ("EVEX_VMULPS_ZMM_K1Z_ZMM_ZMMM512B32_ER", "mul", "f32", 512, 16, 1, True, 16, 16),
    ("DIVPS_XMM_XMMM128", "div", "f32", 128, 4, 1, True, 4, 4),
    ("VEX_VDIVSD_XMM_XMM_XMMM64", "div", "f64", 0, 1, 1, True, 1, 1),
    ("SQRTSD_XMM_XMMM64", "sqrt", "f64", 0, 1, 1, True, 1, 1),
    ("EVEX_VSQRTPS_YMM_K1Z_YMMM256B32", "sqrt", "f32", 256, 8, 1, True, 8, 8),
    ("ADDSUBPS_XMM_XMMM128", "addsub", "f32", 128, 4, 1, True, 4, 4),
    ("VEX_VADDSUBPD_YMM_YMM_YMMM256", "addsub", "f64", 256, 4, 1, True, 4, 4),
    ("VEX_VFMADD231PD_YMM_YMM_YMMM256", "fma", "f64", 256, 4, 2, True, 8, 8),
    ("VEX_VFMADD213SS_XMM_XMM_XMMM32", "fma", "f32", 0, 1, 2, True, 2, 2),
    ("EVEX_VFMADD132PS_ZMM_K1Z_ZMM_ZMMM512B32_ER", "fma", "f32", 512, 16, 2, True, 32, 32),
    ("EVEX_VFNMSUB231SD_XMM_K1Z_XMM_XMMM64_ER", "fma", "f64", 0, 1, 2, True, 2, 2),
    ("EVEX_VFNMADD213PH_ZMM_K1Z_ZMM_ZMMM512B16_ER", "fma", "f16", 512, 32, 2, True, 64, 64),
    ("VEX_VFMADDSUB231PS_XMM_XMM_XMMM128", "fma", "f32", 128, 4, 2, True, 8, 8),
    ("EVEX_VFMSUBADD132PD_ZMM_K1Z_ZMM_ZMMM512B64_ER", "fma", "f64", 512, 8, 2, True, 16, 16),
    ("EVEX_V4FMADDPS_ZMM_K1Z_ZMMP3_M128", "fma", "f32", 512, 16, 8, True, 128, 128),
    ("EVEX_V4FNMADDSS_XMM_K1Z_XMMP3_M128", "fma", "f32", 0, 1, 8, True, 8, 8),
    ("HADDPS_XMM_XMMM128", "hadd", "f32", 128, 4, 1, True, 4, 4),
    ("VEX_VHADDPD_YMM_YMM_YMMM256", "hadd", "f64", 256, 4, 1, True, 4, 4),
    ("HSUBPD_XMM_XMMM128", "hsub", "f64", 128, 2, 1, True, 2, 2),
    ("EVEX_VDPBF16PS_XMM_K1Z_XMM_XMMM128B32", "dot", "bf16", 128, 4, 4, True, 16, 16),
    ("EVEX_VDPBF16PS_ZMM_K1Z_ZMM_ZMMM512B32", "dot", "bf16", 512, 16, 4, True, 64, 64),
    ("EVEX_VFMULCPH_ZMM_K1Z_ZMM_ZMMM512B32_ER", "complex mul", "f16", 512, 16, 6, True, 64, 96),
    ("EVEX_VFCMULCSH_XMM_K1Z_XMM_XMMM32_ER", "complex mul", "f16", 0, 1, 6, True, 4, 6),
    ("EVEX_VFMADDCPH_XMM_K1Z_XMM_XMMM128B32", "complex fma", "f16", 128, 4, 8, True, 16, 32),
    ("EVEX_VFCMADDCSH_XMM_K1Z_XMM_XMMM32_ER", "complex fma", "f16", 0, 1, 8, True, 4, 8),
    ("FADD_ST0_STI", "add", "x87", 0, 1, 1, True, 0, 0),
    ("FSUBRP_STI_ST0", "sub", "x87", 0, 1, 1, True, 0, 0),
    ("FIMUL_M32INT", "mul", "x87", 0, 1, 1, True, 0, 0),
    ("FDIV_M64FP", "div", "x87", 0, 1, 1, True, 0, 0),
    ("FSQRT", "sqrt", "x87", 0, 1, 1, True, 0, 0),
    ("FCHS", "abs", "x87", 0, 1, 1, False, 0, 0),
    ("FCOMI_ST0_STI", "compare", "x87", 0, 1, 1, False, 0, 0),
    ("FSINCOS", "transcendental", "x87", 0, 1, 1, False, 0, 0),
    ("FPREM1", "remainder", "x87", 0, 1, 1, False, 0, 0),
    ("FILD_M64INT", "convert", "x87", 0, 1, 1, False, 0, 0),
    ("MINPS_XMM_XMMM128", "min", "f32", 128, 4, 1, False, 4, 0),
    ("EVEX_VMAXPD_ZMM_K1Z_ZMM_ZMMM512B64_SAE", "max", "f64", 512, 8, 1, False, 8, 0),
    ("EVEX_VRANGEPS_ZMM_K1Z_ZMM_ZMMM512B32_IMM8_SAE", "range", "f32", 512, 16, 1, False, 16, 0),
    ("CMPPD_XMM_XMMM128_IMM8", "compare", "f64", 128, 2, 1, False, 0, 0),
    ("EVEX_VCMPPS_KR_K1_ZMM_ZMMM512B32_IMM8_SAE", "compare", "f32", 512, 16, 1, False, 0, 0),
    ("UCOMISD_XMM_XMMM64", "compare", "f64", 0, 1, 1, False, 0, 0),
    ("EVEX_VFPCLASSPD_KR_K1_YMMM256B64_IMM8", "classify", "f64", 256, 4, 1, False, 0, 0),
    ("ROUNDSD_XMM_XMMM64_IMM8", "round", "f64", 0, 1, 1, False, 0, 0),
    ("EVEX_VRNDSCALEPS_ZMM_K1Z_ZMMM512B32_IMM8_SAE", "round", "f32", 512, 16, 1, False, 0, 0),
    ("EVEX_VREDUCESS_XMM_K1Z_XMM_XMMM32_IMM8_SAE", "reduce", "f32", 0, 1, 1, False, 0, 0),
    ("EVEX_VGETEXPPD_ZMM_K1Z_ZMMM512B64_SAE", "getexp", "f64", 512, 8, 1, False, 0, 0),
    ("EVEX_VGETMANTSS_XMM_K1Z_XMM_XMMM32_IMM8_SAE", "getmant", "f32", 0, 1, 1, False, 0, 0),
    ("EVEX_VSCALEFPS_XMM_K1Z_XMM_XMMM128B32", "scale", "f32", 128, 4, 1, False, 0, 0),
    ("EVEX_VFIXUPIMMPD_ZMM_K1Z_ZMM_ZMMM512B64_IMM8_SAE", "fixup", "f64", 512, 8, 1, False, 0, 0),
    ("RCPPS_XMM_XMMM128", "rcp", "f32", 128, 4, 1, False, 4, 0),
    ("VEX_VRSQRTSS_XMM_XMM_XMMM32", "rsqrt", "f32", 0, 1, 1, False, 1, 0),
    ("EVEX_VRCP14PD_ZMM_K1Z_ZMMM512B64", "rcp", "f64", 512, 8, 1, False, 8, 0),
    ("EVEX_VRSQRT28PS_ZMM_K1Z_ZMMM512B32_SAE", "rsqrt", "f32", 512, 16, 1, False, 16, 0),
    ("EVEX_VEXP2PD_ZMM_K1Z_ZMMM512B64_SAE", "exp2", "f64", 512, 8, 1, False, 0, 0),
    ("CVTPS2PD_XMM_XMMM64", "convert", "f64", 128, 2, 1, False, 0, 0),
    ("CVTPD2PS_XMM_XMMM128", "convert", "f32", 128, 2, 1, False, 0, 0),
    ("EVEX_VCVTPS2PD_ZMM_K1Z_YMMM256B32_SAE", "convert", "f64", 512, 8, 1, False, 0, 0),
    ("EVEX_VCVTPD2PS_YMM_K1Z_ZMMM512B64_ER", "convert", "f32", 512, 8, 1, False, 0, 0),
    ("CVTPI2PS_XMM_MMM64", "convert", "f32", 64, 2, 1, False, 0, 0),
    ("CVTTSD2SI_R64_XMMM64", "convert", "f64", 0, 1, 1, False, 0, 0),
    ("VEX_VCVTSI2SS_XMM_XMM_RM64", "convert", "f32", 0, 1, 1, False, 0, 0),
    ("VEX_VCVTPH2PS_YMM_XMMM128", "convert", "f32", 256, 8, 1, False, 0, 0),
    ("EVEX_VCVTPS2PH_YMMM256_K1Z_ZMM_IMM8_SAE", "convert", "f16", 512, 16, 1, False, 0, 0),
    ("EVEX_VCVTPH2QQ_ZMM_K1Z_XMMM128B16_ER", "convert", "f16", 512, 8, 1, False, 0, 0),
    ("EVEX_VCVTNE2PS2BF16_ZMM_K1Z_ZMM_ZMMM512B32", "convert", "bf16", 512, 32, 1, False, 0, 0),
    ("EVEX_VCVTNEPS2BF16_YMM_K1Z_ZMMM512B32", "convert", "bf16", 512, 16, 1, False, 0, 0),
    ("EVEX_VPDPBUSD_ZMM_K1Z_ZMM_ZMMM512B32", "integer dot", "int8", 512, 16, 8, False, 0, 0),
    ("VEX_VPDPWSSDS_YMM_YMM_YMMM256", "integer dot", "int16", 256, 8, 4, False, 0, 0),
]


@pytest.mark.parametrize("expected", BY_HAND, ids=lambda row: row[0])
def test_rules_match_what_was_derived_by_hand(expected: tuple[object, ...]) -> None:
    code, op, precision, width, lanes, per_lane, in_total, intel, amd = expected
    rule = rule_for(instruction(str(code)))
    assert rule is not None
    assert (rule.op, rule.precision, rule.width, rule.lanes) == (op, precision, width, lanes)
    assert (rule.flops_per_lane, rule.in_total) == (per_lane, in_total)
    assert rule.issued_flops == rule.lanes * rule.flops_per_lane
    assert (rule.hardware_flops("intel"), rule.hardware_flops("amd")) == (intel, amd)
    assert not rule.masked


def dot_product(code: str, immediate: int) -> FlopRule:
    rule = rule_for(
        Instruction.create_reg_reg_i32(getattr(Code, code), Register.XMM1, Register.XMM2, immediate)
    )
    assert rule is not None
    return rule


@pytest.mark.parametrize(
    ("immediate", "flops"), [(0xF1, 7), (0xFF, 7), (0x71, 5), (0x31, 3), (0x11, 1), (0x01, 0), (0x91, 3)]
)
def test_dpps_counts_the_products_its_immediate_selects_and_the_sums_that_join_them(
    immediate: int, flops: int
) -> None:
    rule = dot_product("DPPS_XMM_XMMM128_IMM8", immediate)
    assert rule.flops() == flops
    assert rule.issued_flops == 7
    assert rule.hardware_flops("intel") == 8  # two a single-precision element, whatever the immediate


@pytest.mark.parametrize(("immediate", "flops"), [(0x31, 3), (0xF1, 3), (0x21, 1), (0xC1, 0)])
def test_dppd_looks_at_two_bits_of_the_immediate(immediate: int, flops: int) -> None:
    rule = dot_product("DPPD_XMM_XMMM128_IMM8", immediate)
    assert rule.flops() == flops
    assert rule.hardware_flops("intel") == 4


def test_vdpps_on_ymm_is_two_dot_products() -> None:
    rule = rule_for(
        Instruction.create_reg_reg_reg_i32(
            Code.VEX_VDPPS_YMM_YMM_YMMM256_IMM8, Register.YMM1, Register.YMM2, Register.YMM3, 0xF1
        )
    )
    assert rule is not None
    assert (rule.lanes, rule.flops(), rule.issued_flops, rule.hardware_flops("intel")) == (2, 14, 14, 16)


def test_a_mask_counts_only_the_lanes_it_leaves_on() -> None:
    fma = rule_for(instruction("EVEX_VFMADD231PD_ZMM_K1Z_ZMM_ZMMM512B64_ER", Register.K3))
    assert fma is not None
    assert fma.masked
    assert fma.flops(0b1010_0001) == 6
    assert fma.flops(0xFFFF_FF00) == 0, "bits beyond the lanes decide nothing"
    assert fma.issued_flops == 16
    assert fma.hardware_flops("intel") == 16, "the event counts instructions of a width"


def test_a_masked_scalar_counts_or_does_not() -> None:
    add = rule_for(instruction("EVEX_VADDSS_XMM_K1Z_XMM_XMMM32_ER", Register.K1))
    assert add is not None
    assert (add.flops(0b1), add.flops(0b10)) == (1, 0)


def test_a_complex_pair_has_one_mask_bit() -> None:
    fma = rule_for(instruction("EVEX_VFMADDCPH_ZMM_K1Z_ZMM_ZMMM512B32_ER", Register.K1))
    assert fma is not None
    assert fma.mask_lanes == 16
    assert fma.flops(0b11) == 16


def test_a_bf16_dot_product_has_one_mask_bit_per_sum() -> None:
    dot = rule_for(instruction("EVEX_VDPBF16PS_ZMM_K1Z_ZMM_ZMMM512B32", Register.K1))
    assert dot is not None
    assert dot.mask_lanes == 16
    assert dot.flops(0x8001) == 8


def test_a_broadcast_operand_does_not_change_the_lanes() -> None:
    # vaddps zmm1, zmm2, dword ptr [rax]{1to16}
    broadcast = Decoder(64, bytes.fromhex("62f16c585808")).decode()
    assert broadcast.is_broadcast
    rule = rule_for(broadcast)
    assert rule is not None
    assert rule.lanes == 16


def test_the_same_instruction_gives_the_same_object() -> None:
    """The lookup is a cache hit: rules are made once per code."""
    code = "VEX_VFMADD231PS_YMM_YMM_YMMM256"
    assert rule_for(instruction(code)) is rule_for(instruction(code))


def assumed(code: str, mask: int = Register.NONE) -> tuple[str, ...]:
    rule = rule_for(instruction(code, mask))
    assert rule is not None
    return rule.assumed


def test_undocumented_hardware_counts_are_marked() -> None:
    add = "EVEX_VADDPS_ZMM_K1Z_ZMM_ZMMM512B32_ER"
    assert assumed(add) == ()
    assert assumed(add, Register.K1) == ("amd",)
    assert assumed("HADDPS_XMM_XMMM128") == ("amd",)
    assert assumed("EVEX_VFMADDCSH_XMM_K1Z_XMM_XMMM32_ER") == ("intel", "amd")


def test_bitwise_logic_moves_and_shuffles_are_exceptions_and_not_reported() -> None:
    for code in ("XORPS_XMM_XMMM128", "MOVAPD_XMM_XMMM128", "SHUFPS_XMM_XMMM128_IMM8", "FLD_M64FP"):
        assert rule_for(instruction(code)) is None
        assert not is_floating_point(instruction(code))


def test_arithmetic_without_a_rule_is_floating_point_and_says_why() -> None:
    for code, name in (("VEX_TDPBF16PS_TMM_TMM_TMM", "TDPBF16PS"), ("D3NOW_PFADD_MM_MMM64", "PFADD")):
        assert rule_for(instruction(code)) is None
        assert is_floating_point(instruction(code))
        assert flops.unruled()[name]


def test_a_mistake_in_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such mnemonic: VADDPQ"):
        flops._names("VADDP{S,Q}")
