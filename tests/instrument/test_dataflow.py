"""The longest chain from pass to pass of hand-written loops, against what the latencies add up to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import iced_x86 as ix
import pytest

from counteroof.instrument.dataflow import FARTHEST, Chain, chain
from counteroof.instrument.latencies import Latencies
from tests.compiled import needs

pytestmark = [pytest.mark.x86_64, needs("gcc", "objcopy")]

MADE_UP = Latencies(
    "made up",
    "for tests",
    100,
    {
        "int": 1, "int_mul": 3, "int_div": 40, "move": 0, "vector": 1, "add": 5, "mul": 7, "fma": 9,
        "div_f32": 20, "div_f64": 30, "div_f64_256": 35, "sqrt": 50, "min": 2, "convert": 6, "round": 8,
        "estimate": 4, "load": 100, "load_vector": 200, "forward": 1000, "forward_vector": 2000,
        "locked": 3000,
    },
)  # fmt: skip


Longest = Callable[[str], Chain | None]


def assembled(folder: Path, text: str) -> list[ix.Instruction]:
    """Return the instructions of a text in the syntax of Intel."""
    source, machine, code = folder / "loop.s", folder / "loop.o", folder / "loop.bin"
    source.write_text(".intel_syntax noprefix\n" + text.replace(";", "\n") + "\n")
    subprocess.run(["gcc", "-c", str(source), "-o", str(machine)], check=True, timeout=60)
    subprocess.run(["objcopy", "-O", "binary", str(machine), str(code)], check=True, timeout=60)
    return list(ix.Decoder(64, code.read_bytes(), ip=0x10000))


@pytest.fixture
def longest(tmp_path: Path) -> Longest:
    """Return what gives the longest chain of a text."""

    def of(text: str) -> Chain | None:
        return chain(assembled(tmp_path, text), MADE_UP)

    return of


def cycles(of: Longest, text: str) -> Fraction | None:
    found = of(text)
    return None if found is None else found.cycles


COUNT = "add rcx, 8; cmp rcx, rdx; jne 0"


def test_a_counter_alone_takes_one_cycle(longest: Longest) -> None:
    assert cycles(longest, COUNT) == 1


def test_a_pass_that_carries_nothing_has_no_chain(longest: Longest) -> None:
    assert longest("mov rax, rbx; add rax, 1; vmovsd xmm0, [rax]") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("vaddsd xmm0, xmm0, [rax + rcx]", 5),  # the load is not waited for: its address is early
        ("addss xmm0, xmm1", 5),
        ("vmulpd ymm0, ymm0, ymm1", 7),
        ("vfmadd231pd ymm0, ymm1, ymm2", 9),
        ("vfmadd231pd zmm0, zmm1, zmm2", 9),
        ("vdivss xmm0, xmm1, xmm0", 20),
        ("vdivsd xmm0, xmm1, xmm0", 30),
        ("vdivpd ymm0, ymm1, ymm0", 35),
        ("vdivpd zmm0, zmm1, zmm0", 30),  # no entry of its own
        ("sqrtsd xmm0, xmm0", 50),
        ("vmaxps xmm0, xmm0, xmm1", 2),
        ("cvtsd2ss xmm0, xmm0", 6),
        ("vxorps xmm0, xmm0, xmm1", 1),
        ("imul rax, rbx", 3),
        ("adc rax, rbx; adc rdi, rsi", 2),  # through the carry
        ("vaddsd xmm0, xmm0, xmm1; vmovapd xmm2, xmm0; vmovapd xmm0, xmm2", 5),  # moves cost nothing
    ],
)
def test_one_operation_after_the_other(longest: Longest, body: str, expected: int) -> None:
    counted = COUNT if "adc" not in body else "lea rcx, [rcx + 8]"
    assert cycles(longest, f"{body}; {counted}") == expected


def test_chain_of_a_biquad_is_a_subtraction_and_a_multiplication(longest: Longest) -> None:
    # w = x - a2 w2 - a1 w1; w2 = w1; w1 = w
    body = """
        vmulss xmm2, xmm10, xmm1; vmovss xmm3, [rax + rcx]; vsubss xmm3, xmm3, xmm2
        vmulss xmm4, xmm11, xmm0; vsubss xmm5, xmm3, xmm4
        vmovss [rbx + rcx], xmm5; vmovaps xmm1, xmm0; vmovaps xmm0, xmm5
    """
    found = longest(f"{body.strip()}; {COUNT}")
    assert found
    assert found.cycles == 7 + 5
    assert found.passes == 1
    assert not found.through_memory
    assert [cost for _, cost in found.links] == [7, 5, 0]


def test_unrolled_loops_are_as_long_as_all_their_parts(longest: Longest) -> None:
    one = "vaddsd xmm0, xmm0, [rax]"
    assert cycles(longest, f"{'; '.join([one] * 4)}; {COUNT}") == 4 * 5


def test_sums_side_by_side_are_not_added_up(longest: Longest) -> None:
    sums = "; ".join(f"vfmadd231pd ymm{n}, ymm8, ymm9" for n in range(8))
    found = longest(f"{sums}; {COUNT}")
    assert found
    assert found.cycles == 9
    assert len(found.links) == 1


def test_values_that_take_turns_count_over_all_the_passes_of_a_turn(longest: Longest) -> None:
    # a becomes b times something, b becomes a plus something: 12 cycles every two passes
    found = longest(f"vmulsd xmm2, xmm1, xmm5; vaddsd xmm1, xmm0, xmm5; vmovapd xmm0, xmm2; {COUNT}")
    assert found
    assert found.cycles == Fraction(12, 2)
    assert found.passes == 2


def test_what_is_written_anew_ends_a_chain(longest: Longest) -> None:
    assert cycles(longest, f"vaddsd xmm0, xmm0, xmm1; vxorpd xmm0, xmm0, xmm0; {COUNT}") == 1
    assert cycles(longest, f"vaddsd xmm0, xmm0, xmm1; vmovsd xmm0, [rax]; {COUNT}") == 1


def test_a_conversion_waits_for_the_rest_of_its_register(longest: Longest) -> None:
    assert cycles(longest, f"cvtsi2sd xmm0, rax; {COUNT}") == 6


def test_pointers_that_are_loaded_by_themselves_wait_for_the_load(longest: Longest) -> None:
    assert cycles(longest, "mov rax, [rax + 8]; test rax, rax; jne 0") == 100
    # the loaded value is an operand: its address is early
    assert cycles(longest, f"add rax, [rbx + rcx]; {COUNT}") == 1


# ---- through memory ----


def test_an_element_that_is_loaded_after_it_was_stored(longest: Longest) -> None:
    # x[i] = x[i - 1] * c
    found = longest("vmulsd xmm0, xmm1, [rax - 8]; vmovsd [rax], xmm0; add rax, 8; cmp rax, rdx; jne 0")
    assert found
    assert found.cycles == 2000 + 7
    assert found.through_memory


def test_an_element_of_some_passes_before_has_its_share(longest: Longest) -> None:
    def of(passes: int) -> Fraction | None:
        body = f"vmulsd xmm0, xmm1, [rax - {8 * passes}]; vmovsd [rax], xmm0"
        return cycles(longest, f"{body}; add rax, 8; cmp rax, rdx; jne 0")

    assert of(3) == Fraction(2000 + 7, 3)
    assert of(FARTHEST) == Fraction(2000 + 7, FARTHEST)
    assert of(FARTHEST + 1) == 1  # said to be so


def test_a_part_of_what_was_stored(longest: Longest) -> None:
    body = "vmovsd xmm0, [rax - 24]; vaddpd ymm0, ymm0, ymm1; vmovupd [rax], ymm0"
    assert cycles(longest, f"{body}; add rax, 32; cmp rax, rdx; jne 0") == 2000 + 5
    body = body.replace("- 24", "- 36")  # the store of the pass before does not cover it
    assert cycles(longest, f"{body}; add rax, 32; cmp rax, rdx; jne 0") == 1


def test_a_number_kept_in_memory(longest: Longest) -> None:
    assert cycles(longest, f"add qword ptr [rsp + 8], 3; {COUNT}") == 1000 + 1
    assert cycles(longest, f"vaddsd xmm0, xmm1, [rsp + 8]; vmovsd [rsp + 8], xmm0; {COUNT}") == 2000 + 5
    assert cycles(longest, f"vaddsd xmm0, xmm1, [rip + 64]; {COUNT}") == 1


def test_the_last_store_before_a_load_counts(longest: Longest) -> None:
    body = "vaddsd xmm0, xmm1, [rsp + 8]; vmovsd [rsp + 8], xmm0; vmovsd [rsp + 8], xmm3"
    assert cycles(longest, f"{body}; {COUNT}") == 1


def test_stores_by_another_expression_are_not_seen(longest: Longest) -> None:
    body = "vmulsd xmm0, xmm1, [rax - 8]; vmovsd [rbx], xmm0; add rbx, 8; add rax, 8"
    assert cycles(longest, f"{body}; cmp rax, rdx; jne 0") == 1


def test_rows_a_step_in_a_register_apart(longest: Longest) -> None:
    # rax runs over rows rsi apart, rbx is a row behind it: lea takes it from rax
    body = "lea rbx, [rax + rsi]; vmulsd xmm0, xmm1, [rax]; vmovsd [rbx], xmm0; mov rax, rbx"
    assert cycles(longest, f"{body}; cmp rax, rdx; jne 0") == 2000 + 7


def test_calls_hide_what_comes_through_them(longest: Longest) -> None:
    assert cycles(longest, "vaddsd xmm0, xmm0, xmm1; call 0; sub rbx, 1; jne 0") == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # whatever their addresses
        ("lock add [rax + rcx], rbx", 3000),
        ("lock add [rax + rcx], rbx; lock inc qword ptr [rbp + rcx]", 6000),
        # an exchange with memory is locked without a prefix
        ("xchg [rax + rcx], rbx; mov rbx, rcx", 3000),
        ("xchg rax, rbx", 1),
        ("add [rax + rcx], rbx", 1),
    ],
)
def test_locked_instructions_wait_for_each_other(longest: Longest, body: str, expected: int) -> None:
    assert cycles(longest, f"{body}; {COUNT}") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("lock add [rax + rcx], rbx", 1),
        # the register is added up in memory, and comes back
        ("lock xadd [rax], rbx", 1),
        ("lock xadd [rax], rbx; add rsi, 1; imul rsi, rdi", 4),
    ],
)
def test_locked_instructions_of_unknown_latency_are_in_no_chain(
    tmp_path: Path, body: str, expected: int
) -> None:
    cycles = {kind: number for kind, number in MADE_UP.cycles.items() if kind != "locked"}
    found = chain(assembled(tmp_path, f"{body}; {COUNT}"), replace(MADE_UP, cycles=cycles))
    assert found is not None
    assert found.cycles == expected
