"""Turns instructions, labels and data into bytes at an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iced_x86 import Encoder, Instruction, Register

Kind = Literal["code", "branch", "reference", "label", "bytes", "table"]


class AssemblyError(Exception):
    """A branch that has only a short form does not reach its target."""


@dataclass(slots=True)
class Item:
    """An instruction, a label, or data between instructions."""

    kind: Kind
    instruction: Instruction | None = None
    label: int = -1
    """The label placed here, branched to, or (reference) the RIP-relative operand's target."""
    data: bytes = b""
    targets: tuple[int, ...] = ()
    """Of a table: the labels it holds, as addresses or as 32-bit distances from ``label``."""
    removable: bool = False
    """True for instructions the block makes as much sense without."""


@dataclass
class Assembly:
    """A list of items that grows; labels are numbers given by the caller.

    ``near`` is an address close to where the code will be: RIP-relative operands are tried out there.
    """

    near: int
    items: list[Item] = field(default_factory=list)
    encoder: Encoder = field(default_factory=lambda: Encoder(64))

    def add(self, instruction: Instruction, *, removable: bool = False) -> None:
        """Append an instruction; ValueError if it cannot be encoded."""
        try:
            self.encoder.encode(instruction, self.near)
        except ValueError:
            self.encoder.take_buffer()
            raise
        data = self.encoder.take_buffer()
        self.items.append(Item("code", instruction, data=data, removable=removable))

    def branch(self, code: int, label: int) -> None:
        """Append a branch or call to a label."""
        self.items.append(Item("branch", Instruction.create_branch(code, self.near), label))

    def reference(self, instruction: Instruction, label: int) -> None:
        """Append an instruction whose RIP-relative operand is a label."""
        self.items.append(Item("reference", instruction, label))

    def place(self, label: int) -> None:
        """Put a label here."""
        self.items.append(Item("label", label=label))

    def data(self, data: bytes) -> None:
        """Append bytes."""
        self.items.append(Item("bytes", data=data))

    def table(self, targets: tuple[int, ...], relative_to: int = -1) -> None:
        """Append the addresses of labels, or their 32-bit distances from another label."""
        self.items.append(Item("table", label=relative_to, targets=targets))


def assemble(items: Sequence[Item], address: int, known: Mapping[int, int]) -> bytes:
    """Return the items encoded for an address; ``known`` gives labels that lie elsewhere."""
    encoder = Encoder(64)
    while True:
        lengths = [_length(item, address, encoder) for item in items]
        labels = dict(known)
        at = address
        for item, length in zip(items, lengths, strict=True):
            if item.kind == "label":
                labels[item.label] = at
            at += length
        parts: list[bytes] = []
        at = address
        for item, length in zip(items, lengths, strict=True):
            try:
                parts.append(_encode(item, at, labels, encoder))
            except ValueError as error:
                encoder.take_buffer()
                branch = item.instruction
                if branch is None or not (branch.is_jcc_short or branch.is_jmp_short):
                    raise AssemblyError(str(error)) from error
                branch.as_near_branch()
                break
            at += length
        else:
            return b"".join(parts)


def _length(item: Item, address: int, encoder: Encoder) -> int:
    if item.kind == "table":
        return len(item.targets) * (8 if item.label < 0 else 4)
    if item.kind in ("branch", "reference"):
        assert item.instruction is not None
        if item.kind == "branch":
            item.instruction.near_branch64 = address
        else:
            item.instruction.memory_displacement = address
        encoder.encode(item.instruction, address)
        return len(encoder.take_buffer())
    return len(item.data)


def _encode(item: Item, at: int, labels: dict[int, int], encoder: Encoder) -> bytes:
    if item.kind == "table":
        if item.label < 0:
            return b"".join(labels[target].to_bytes(8, "little") for target in item.targets)
        origin = labels[item.label]
        return b"".join((labels[t] - origin).to_bytes(4, "little", signed=True) for t in item.targets)
    instruction = item.instruction
    if instruction is None:
        return item.data
    if item.kind == "branch":
        instruction.near_branch64 = labels[item.label]
    elif item.kind == "reference":
        instruction.memory_displacement = labels[item.label]
    elif instruction.memory_base not in (Register.RIP, Register.EIP):
        return item.data
    encoder.encode(instruction, at)
    return encoder.take_buffer()


def encode(code: tuple[Instruction, ...], address: int) -> bytes:
    """Return straight-line code encoded for an address."""
    encoder = Encoder(64)
    length = 0
    for instruction in code:
        length += encoder.encode(instruction, address + length)
    return encoder.take_buffer()
