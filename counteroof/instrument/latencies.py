"""Cycles from the operands of an instruction to its result, by microarchitecture.

The numbers are data (``counteroof/data/latencies.toml``); this module finds an instruction's class.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iced_x86 import Instruction, Mnemonic, OpKind, Register

from .decode import _mnemonics
from .flops import FlopRule, rule_for

TABLE = Path(__file__).resolve().parent.parent / "data" / "latencies.toml"

CLASSES = {
    "add": "add",
    "sub": "add",
    "addsub": "add",
    "hadd": "add",
    "hsub": "add",
    "mul": "mul",
    "fma": "fma",
    "complex mul": "mul",
    "complex fma": "fma",
    "dot": "fma",
    "integer dot": "fma",
    "div": "div",
    "sqrt": "sqrt",
    "min": "min",
    "max": "min",
    "compare": "min",
    "range": "min",
    "convert": "convert",
    "round": "round",
    "reduce": "round",
    "rcp": "estimate",
    "rsqrt": "estimate",
    "exp2": "estimate",
    "scale": "add",
}
"""From an operation of the FLOP rules to a class of latencies; others count one cycle."""

_MULTIPLICATIONS = frozenset((Mnemonic.IMUL, Mnemonic.MUL, Mnemonic.MULX))
_DIVISIONS = frozenset((Mnemonic.DIV, Mnemonic.IDIV))
_MOVES = frozenset((Mnemonic.MOV, Mnemonic.MOVZX)) | _mnemonics(
    "MOVAP", "MOVUP", "MOVDQA", "MOVDQU", "VMOVAP", "VMOVUP", "VMOVDQ"
)
_LOADS = (
    _MOVES
    | _mnemonics("MOVSX", "MOVNT", "VMOVNT", "VBROADCAST", "VPBROADCAST", "LDDQU", "VLDDQU")
    | {
        getattr(Mnemonic, name)
        for prefix in ("", "V")
        for name in (f"{prefix}MOV{x}" for x in ("SS", "SD", "D", "Q"))
    }
)
"""What has nothing to do beside a load or store."""
_STACK = frozenset((Mnemonic.PUSH, Mnemonic.POP, Mnemonic.CALL, Mnemonic.RET))


@dataclass(frozen=True)
class Latencies:
    """Latencies of one microarchitecture, in cycles.

    Attributes
    ----------
    name
        The microarchitecture, or what stands for one that is not known.
    known
        How the numbers are known, with their sources.
    window
        Instructions in flight at most.
    cycles
        By class, see the table.
    """

    name: str
    known: str
    window: int
    cycles: Mapping[str, int]

    def of(self, instruction: Instruction) -> int:
        """Return the cycles from the register operands to the result."""
        rule = rule_for(instruction)
        if rule is not None:
            return self._of_rule(rule)
        mnemonic = instruction.mnemonic
        if mnemonic in _STACK:  # the stack pointer is followed ahead of execution
            return 0
        if mnemonic in _LOADS and OpKind.MEMORY in (instruction.op0_kind, instruction.op1_kind):
            return 0
        if mnemonic in _MOVES:
            return self.cycles["move"]
        if mnemonic in _MULTIPLICATIONS:
            return self.cycles["int_mul"]
        if mnemonic in _DIVISIONS:
            return self.cycles["int_div"]
        return 1

    def locked(self, instruction: Instruction) -> int | None:
        """Return the cycles a locked instruction takes, beside which no other runs; 0 of one that is not.

        ``None`` if they are not known of the processor.
        """
        memory = OpKind.MEMORY in (instruction.op0_kind, instruction.op1_kind)
        exchanges = instruction.mnemonic == Mnemonic.XCHG and memory  # locked, with or without the prefix
        return self.cycles.get("locked") if instruction.has_lock_prefix or exchanges else 0

    def load(self, instruction: Instruction) -> int:
        """Return the cycles from an address to what the instruction loads from there."""
        return self.cycles["load_vector" if _is_vector(instruction) else "load"]

    def forward(self, instruction: Instruction) -> int:
        """Return the cycles from a value that is stored to what the instruction loads of it."""
        return self.cycles["forward_vector" if _is_vector(instruction) else "forward"]

    def _of_rule(self, rule: FlopRule) -> int:
        kind = CLASSES.get(rule.op)
        if kind is None:
            return 1
        keys = (f"{kind}_{rule.precision}_{rule.width}", f"{kind}_{rule.precision}", kind)
        return next((self.cycles[key] for key in keys if key in self.cycles), 1)


def _is_vector(instruction: Instruction) -> bool:
    return any(
        instruction.op_kind(number) == OpKind.REGISTER
        and Register.XMM0 <= instruction.op_register(number) <= Register.ZMM31
        for number in range(instruction.op_count)
    )


def latencies_of(microarchitecture: str | None) -> Latencies:
    """Return the latencies of a microarchitecture as ``data/machines`` names it.

    For one that is not in the table, or ``None``: the shortest of all that are.
    """
    known = _entries()
    found = known.get(microarchitecture or "")
    return _shortest() if found is None else found


def here() -> Latencies:
    """Return the latencies of the processor that runs this."""
    from ..machine import policy, topology

    entry = policy.microarchitecture(topology.identity())
    return latencies_of(entry.name if entry else None)


@cache
def _entries() -> Mapping[str, Latencies]:
    with TABLE.open("rb") as stream:
        raw = tomllib.load(stream)
    found = {}
    for entry in raw["microarchitecture"]:
        sources = "; ".join(raw["sources"][name] for name in entry["sources"])
        for name in entry["names"]:
            found[name] = Latencies(name, f"published: {sources}", entry["window"], entry["cycles"])
    return found


@cache
def _shortest() -> Latencies:
    entries = _entries().values()
    keys = {key for entry in entries for key in entry.cycles}
    cycles = {key: min(entry.cycles[key] for entry in entries if key in entry.cycles) for key in keys}
    cycles.pop("locked", None)  # it is known of too few to be the shortest
    window = max(entry.window for entry in entries)
    return Latencies("any processor", "assumed: the shortest of all in the table", window, cycles)
