"""The compiler's work: kernels meant to be vectorised are, at the full width; naive ones are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from counteroof.catalog import kernels
from counteroof.catalog.variant import available_levels, library_path

pytestmark = [pytest.mark.x86_64]
iced = pytest.importorskip("iced_x86", reason="only x86-64 code can be decoded")

WIDTHS = {"v2": 128, "v3": 256, "v4": 512}
LEVELS = [level for level in available_levels() if level in WIDTHS]

VECTORISED = [
    "vector_add",
    "triad",
    "dot",
    "squared_norm",
    "softmax",
    "matmul",
    "gemm_tuned",
    "stencil7",
    "fft",
    "nbody",
    "thomas_interleaved",
    "sobel_motion",
    "biquad_interleaved",
    "depthwise3x3",
    "crank_nicolson",
    "speed2_soa",
]
SCALAR = ["gemm_naive", "thomas_naive", "biquad_naive", "column_sum"]


@cache
def functions(level: str) -> dict[int, tuple[str, bytes]]:
    """Name and machine code of every function of a kernel library, by address."""
    from elftools.elf.elffile import ELFFile

    with library_path(level).open("rb") as file:
        elf = ELFFile(file)
        if "GCC" not in elf.get_section_by_name(".comment").data().decode(errors="replace"):
            pytest.skip("built by another compiler than GCC, whose choices these are")
        text = elf.get_section_by_name(".text")
        start, code = text["sh_addr"], text.data()
        return {
            symbol["st_value"]: (symbol.name, code[symbol["st_value"] - start :][: symbol["st_size"]])
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
        }


def instructions(level: str, name: str) -> Iterator[Any]:
    """The kernel's instructions, and those of the functions of the library that it calls."""
    known = functions(level)
    waiting = [address for address, (function, _) in known.items() if function == name]
    assert len(waiting) == 1
    seen: set[int] = set()
    while waiting:
        address = waiting.pop()
        seen.add(address)
        for instruction in iced.Decoder(64, known[address][1], ip=address):
            yield instruction
            target = instruction.near_branch_target
            if target in known and target not in seen and target not in waiting:
                waiting.append(target)


def arithmetic(level: str, name: str) -> Counter[tuple[str, int]]:
    """How many instructions of each operation and width (0: scalar) do arithmetic."""
    from counteroof.instrument.flops import rule_for

    rules = map(rule_for, instructions(level, name))
    return Counter((rule.op, rule.width) for rule in rules if rule and rule.in_total)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", VECTORISED)
def test_kernel_is_vectorised_at_full_width(name: str, level: str) -> None:
    widths = {width for _, width in arithmetic(level, name)}
    assert WIDTHS[level] in widths
    assert widths <= {WIDTHS[level], 0}  # whole vectors, and what is left one by one


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SCALAR)
def test_naive_kernel_is_scalar(name: str, level: str) -> None:
    assert {width for _, width in arithmetic(level, name)} == {0}


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "v2"])
@pytest.mark.parametrize("name", ["triad", "dot", "gemm_tuned", "depthwise3x3"])
def test_multiply_adds_are_fused_where_the_level_can(name: str, level: str) -> None:
    assert {op for op, width in arithmetic(level, name) if width} == {"fma"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [kernel.symbol for kernel in kernels()])
def test_kernel_calls_nothing_outside_its_library(name: str, level: str) -> None:
    for instruction in instructions(level, name):
        if instruction.flow_control == iced.FlowControl.CALL:
            assert instruction.near_branch_target in functions(level)
        assert instruction.flow_control != iced.FlowControl.INDIRECT_CALL


@pytest.mark.parametrize("level", LEVELS)
def test_only_the_nontemporal_copy_has_nontemporal_stores(level: str) -> None:
    stores = {iced.Mnemonic.MOVNTPD, iced.Mnemonic.VMOVNTPD}
    with_stores = {
        name
        for name, code in functions(level).values()
        if any(instruction.mnemonic in stores for instruction in iced.Decoder(64, code))
    }
    assert with_stores == {"copy_nontemporal"}
