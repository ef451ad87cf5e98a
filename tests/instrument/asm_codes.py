"""Which instructions a random block may contain on this processor, and how their operands are made.

Everything comes from iced-x86's own tables: an instruction is taken if this processor has it, if it neither
branches nor touches the stack or the machine's control state, and if its only memory operand is the one that
is written in it. What is left out here for its implicit operands (strings, pushes, division, gathers,
``maskmov``) has patterns of its own in ``asm_blocks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iced_x86 import (
    Code,
    CpuidFeature,
    EncodingKind,
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    MemorySizeExt,
    Mnemonic,
    OpAccess,
    OpCodeInfo,
    OpCodeOperandKind,
    OpKind,
    Register,
    RegisterExt,
)

from tests.instrument.asm_image import GPRS


@cache
def cpu_flags() -> frozenset[str]:
    """Return the instruction sets of this processor, as /proc/cpuinfo names them."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def names_of(enum: object) -> dict[int, str]:
    """Return iced's constants of one module, by value."""
    return {v: n for n, v in vars(enum).items() if n.isupper() and isinstance(v, int)}


MNEMONICS = names_of(Mnemonic)
FEATURES = names_of(CpuidFeature)
CODES = names_of(Code)
KINDS = names_of(OpCodeOperandKind)

# iced's features that /proc/cpuinfo names otherwise; None: every x86-64 processor
_FLAG_NAMES: dict[str, str | None] = {
    **dict.fromkeys(
        (
            "INTEL8086",
            "INTEL186",
            "INTEL286",
            "INTEL386",
            "INTEL486",
            "X64",
            "PAUSE",
            "MULTIBYTENOP",
            "CET_IBT",
        )
    ),
    **dict.fromkeys(("FPU287", "FPU387"), "fpu"),
    "AVX512F": "avx512f",
    "AVX512VL": "avx512vl",
    "AVX512BW": "avx512bw",
    "AVX512DQ": "avx512dq",
    "AVX512CD": "avx512cd",
    "AVX512_IFMA": "avx512ifma",
    "AVX512_VBMI": "avx512vbmi",
    "SSE3": "pni",
    "SHA": "sha_ni",
    "LZCNT": "abm",
    "CMPXCHG16B": "cx16",
    "CLFSH": "clflush",
    "PREFETCHW": "3dnowprefetch",
}


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: a list of many names in few lines."""
    return tuple(text.split())


_DENIED = frozenset(
    # the machine's control state, results that differ from run to run, or the address the code runs at
    words("LDMXCSR VLDMXCSR FLDCW FLDENV FRSTOR FNSAVE FSAVE FNSTENV FSTENV RDTSC RDTSCP RDPID RDPMC RDPRU")
    + words("RDRAND RDSEED CPUID RDGSBASE WRGSBASE WRFSBASE MONITOR MONITORX MWAIT MWAITX LAR LSL VERR VERW")
    + words("SGDT SIDT SLDT SMSW STR XGETBV XSETBV LFS LGS LSS MCOMMIT CLZERO XTEST XABORT XEND UD0 UD1 UD2")
    # implicit or unbounded memory operands, or a direction flag left behind
    + words("XLATB MASKMOVQ MASKMOVDQU VMASKMOVDQU DIV IDIV STD")
    # undocumented doubles of others
    + words("FSTPNCE UNDOC")
)

_UNALIGNED = frozenset(words("MOVUPS MOVUPD MOVDQU LDDQU PCMPESTRI PCMPESTRM PCMPISTRI PCMPISTRM"))
"""Legacy SSE instructions whose 16-byte operand may lie anywhere."""

_ALIGNED = ("VMOVAPS", "VMOVAPD", "VMOVDQA", "VMOVNT", "CMPXCHG16B", "MOVNT")

REGISTER_CLASSES: dict[str, tuple[int, int]] = {
    "XMM": (Register.XMM0, 16),
    "YMM": (Register.YMM0, 16),
    "ZMM": (Register.ZMM0, 16),
    "MM": (Register.MM0, 8),
    "K": (Register.K0, 8),
    "ST": (Register.ST0, 8),
}
"""First register and how many VEX and legacy encodings reach; EVEX reaches 32 vectors."""


def _registers(low: str, suffix: str) -> tuple[int, ...]:
    return tuple(getattr(Register, n) for n in (*words(low), *(f"R{n}{suffix}" for n in range(8, 16))))


GPR8 = _registers("AL CL DL BL SPL BPL SIL DIL", "L")
GPR8_HIGH = (Register.AH, Register.CH, Register.DH, Register.BH)
GPR16 = _registers("AX CX DX BX SP BP SI DI", "W")
GPR32 = _registers("EAX ECX EDX EBX ESP EBP ESI EDI", "D")
BY_BITS = {8: GPR8, 16: GPR16, 32: GPR32, 64: GPRS}

IMMEDIATES: dict[str, tuple[int, int]] = {
    "IMM8": (OpKind.IMMEDIATE8, 8),
    "IMM8_2ND": (OpKind.IMMEDIATE8_2ND, 8),
    "IMM8_CONST_1": (OpKind.IMMEDIATE8, 0),
    "IMM8SEX16": (OpKind.IMMEDIATE8TO16, -8),
    "IMM8SEX32": (OpKind.IMMEDIATE8TO32, -8),
    "IMM8SEX64": (OpKind.IMMEDIATE8TO64, -8),
    "IMM16": (OpKind.IMMEDIATE16, 16),
    "IMM32": (OpKind.IMMEDIATE32, 32),
    "IMM32SEX64": (OpKind.IMMEDIATE32TO64, -32),
    "IMM64": (OpKind.IMMEDIATE64, 64),
}
"""iced's operand kind, and bits: negative if signed, 0 if it is always one."""

FIXED: dict[str, int] = {name: getattr(Register, name) for name in ("AL", "AX", "EAX", "RAX", "CL", "ST0")}


@dataclass(frozen=True)
class Operand:
    """How one operand of an instruction is made."""

    kind: str
    """gpr8, gpr16, gpr32, gpr64, a key of REGISTER_CLASSES, pair (of masks), immediate, fixed, or memory."""
    written: bool
    read: bool
    memory: bool = False
    """A register operand that may be memory instead."""
    value: int = 0
    """A fixed register, or iced's kind of an immediate."""
    bits: int = 0


@dataclass(frozen=True)
class Plan:
    """One instruction code and all that is needed to make random instructions of it."""

    code: int
    name: str
    group: str
    """integer, x87, mmx, sse, avx or avx512."""
    operands: tuple[Operand, ...]
    implicit: tuple[int, ...]
    """Numbers of the general registers it writes without naming them."""
    size: int
    """Bytes of the memory operand; 0 if unknown or none."""
    broadcast_size: int
    """Bytes of a broadcast memory operand; 0: cannot broadcast."""
    alignment: int
    """What the address of the memory operand must be a multiple of."""
    maskable: bool
    needs_mask: bool
    zeroing: bool
    rounding: bool
    sae: bool
    lock: bool
    unique: bool
    """The destination must differ from the other registers."""
    vectors: int
    """How many vector registers the encoding reaches."""
    index: str = ""
    """Of gathers and scatters: XMM, YMM or ZMM."""
    index_bits: int = 0
    accesses: bool = True
    """False if the memory operand is only an address: lea, nop."""

    @property
    def has_memory(self) -> bool:
        """Return whether it can have a memory operand."""
        return any(operand.memory or operand.kind == "memory" for operand in self.operands)


@cache
def plans() -> dict[str, dict[str, tuple[Plan, ...]]]:
    """Return the plans of this processor: by group, then by mnemonic."""
    found: dict[str, dict[str, list[Plan]]] = {}
    for code in CODES:
        plan = _plan(code)
        if plan is not None and not plan.index:
            found.setdefault(plan.group, {}).setdefault(plan.name, []).append(plan)
    return {group: {name: tuple(p) for name, p in by_name.items()} for group, by_name in found.items()}


@cache
def indexed_plans() -> tuple[Plan, ...]:
    """Return the plans of gathers and scatters."""
    return tuple(plan for code in CODES if (plan := _plan(code)) is not None and plan.index)


def _supported(features: list[str]) -> bool:
    flags = cpu_flags()
    for feature in features:
        flag = _FLAG_NAMES.get(feature, feature.lower())
        if flag is not None and flag not in flags:
            return False
    return True


@cache
def _plan(code: int) -> Plan | None:
    info = OpCodeInfo(code)
    name = MNEMONICS[info.mnemonic]
    bare = Instruction()
    bare.code = code
    if (
        not info.is_instruction
        or not info.mode64
        or not info.cpl3
        or info.is_privileged
        or info.fwait
        or info.is_reserved_nop
        or info.encoding not in (EncodingKind.LEGACY, EncodingKind.VEX, EncodingKind.EVEX)
        or bare.flow_control != FlowControl.NEXT
        or bare.is_stack_instruction
        or bare.is_string_instruction
        or bare.is_save_restore_instruction
        or name in _DENIED
        or not _supported([FEATURES[feature] for feature in bare.cpuid_features()])
    ):
        return None
    kinds = [KINDS[kind] for kind in info.op_kinds()]
    if kinds.count("IMM8") == 2:
        kinds[-1] = "IMM8_2ND"
    accesses = _accesses(code, kinds)
    if accesses is None:
        return None
    operands = []
    for kind, access in zip(kinds, accesses.operands, strict=True):
        operand = _operand(kind, access)
        if operand is None:
            return None
        operands.append(operand)
    vsib = next((kind for kind in kinds if "VSIB" in kind), "")
    size = MemorySizeExt.size(info.memory_size)
    return Plan(
        code=code,
        name=name,
        group=_group(code, info, kinds),
        operands=tuple(operands),
        implicit=accesses.implicit,
        size=64 if "PREFETCH" in name or name.startswith("CL") else size,
        broadcast_size=MemorySizeExt.size(info.broadcast_memory_size) if info.can_broadcast else 0,
        alignment=_alignment(name, info, kinds, size),
        maskable=info.can_use_op_mask_register,
        needs_mask=info.require_op_mask_register,
        zeroing=info.can_use_zeroing_masking,
        rounding=info.can_use_rounding_control,
        sae=info.can_suppress_all_exceptions,
        lock=info.can_use_lock_prefix,
        unique=info.requires_unique_reg_nums or info.requires_unique_dest_reg_num,
        vectors=32 if info.encoding == EncodingKind.EVEX else 16,
        index={"X": "XMM", "Y": "YMM", "Z": "ZMM"}[vsib[-1]] if vsib else "",
        index_bits=int(vsib[-3:-1]) if vsib else 0,
        accesses=accesses.memory,
    )


@dataclass(frozen=True)
class _Accesses:
    operands: tuple[tuple[bool, bool], ...]
    implicit: tuple[int, ...]
    memory: bool


_READS = (OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
_WRITES = (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)


def _accesses(code: int, kinds: list[str]) -> _Accesses | None:
    """Return what a code reads and writes; None if it has memory operands beside the one written in it.

    Found on a sample whose named registers are R8 to R12, so that all others are implicit.
    """
    sample = Instruction()
    sample.code = code
    named = []
    for i, kind in enumerate(kinds):
        if kind in FIXED:
            sample.set_op_register(i, FIXED[kind])
        elif kind in IMMEDIATES:
            sample.set_op_kind(i, IMMEDIATES[kind][0])
        elif kind.startswith("MEM"):
            sample.set_op_kind(i, OpKind.MEMORY)
            sample.memory_base = Register.R13
            if "VSIB" in kind:
                sample.memory_index = Register.XMM15
        elif kind.startswith(("R8_", "R16_", "R32_", "R64_")):
            bits = kind.partition("_")[0]
            sample.set_op_register(
                i, getattr(Register, {"R8": "R8L", "R16": "R8W", "R32": "R8D", "R64": "R8"}[bits]) + i
            )
            named.append(Register.R8 + i)
        else:
            sample.set_op_register(i, Register.XMM8 + i)
    info = InstructionInfoFactory().info(sample)
    accesses = [getattr(info, f"op{i}_access") for i in range(len(kinds))]
    implicit = []
    for used in info.used_registers():
        full = RegisterExt.full_register(used.register)
        if full in GPRS and full not in named and used.access in _WRITES:
            implicit.append(GPRS.index(full))
        if RegisterExt.is_segment_register(used.register) and used.access in _WRITES:
            return None
    memory = info.used_memory()
    explicit = any(kind.startswith("MEM") for kind in kinds)
    if len(memory) > explicit and "VSIB" not in "".join(kinds):
        return None
    operands = tuple((access in _READS, access in _WRITES) for access in accesses)
    address_only = MNEMONICS[OpCodeInfo(code).mnemonic] in ("LEA", "NOP")
    return _Accesses(operands, tuple(implicit), not address_only)


def _operand(kind: str, access: tuple[bool, bool]) -> Operand | None:
    read, written = access
    if kind in FIXED:
        return Operand("fixed", written, read, value=FIXED[kind])
    if kind in IMMEDIATES:
        value, bits = IMMEDIATES[kind]
        return Operand("immediate", False, True, value=value, bits=bits)
    if kind == "MEM_OFFS":
        return Operand("memory", written, read, value=1)
    if kind == "MEM" or kind.startswith("MEM_VSIB"):
        return Operand("memory", written, read)
    if kind == "KP1_REG":
        return Operand("pair", written, read)
    head, _, tail = kind.partition("_")
    if head in ("R8", "R16", "R32", "R64") and tail in ("REG", "RM", "VVVV", "OPCODE", "OR_MEM"):
        return Operand(f"gpr{head[1:]}", written, read, memory=tail == "OR_MEM")
    if head == "STI":
        return Operand("ST", written, read)
    if head in REGISTER_CLASSES and tail in ("REG", "RM", "VVVV", "OPCODE", "OR_MEM", "IS4"):
        return Operand(head, written, read, memory=tail == "OR_MEM")
    return None


def _group(code: int, info: OpCodeInfo, kinds: list[str]) -> str:
    if info.encoding == EncodingKind.EVEX:
        return "avx512"
    text = " ".join(kinds)
    if "K_" in text:
        return "avx512"
    if any(kind.partition("_")[0] in ("XMM", "YMM") for kind in kinds) or MNEMONICS[info.mnemonic].startswith(
        "VZERO"
    ):
        return "avx" if info.encoding == EncodingKind.VEX else "sse"
    if "MM_" in text:
        return "mmx"
    bare = Instruction()
    bare.code = code
    return "x87" if any(FEATURES[f].startswith("FPU") for f in bare.cpuid_features()) else "integer"


def _alignment(name: str, info: OpCodeInfo, kinds: list[str], size: int) -> int:
    if name.startswith(_ALIGNED):
        return size if size in (16, 32, 64) else 1
    vector = any(kind.startswith("XMM") for kind in kinds)
    if info.encoding == EncodingKind.LEGACY and vector and size == 16 and name not in _UNALIGNED:
        return 16
    return 1
