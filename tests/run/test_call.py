"""Calls through the frame, against ctypes as the oracle."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Any

import pytest

from counteroof.build import compile_sources, find_compiler
from counteroof.formula import Formula
from counteroof.native import ffi, lib
from counteroof.run.live import LiveCall
from counteroof.run.plan import Call, Plan
from counteroof.run.prepare import PreparedCall, bind
from counteroof.spec import (
    Argument,
    ArrayRef,
    KernelCase,
    KernelSpec,
    LibrarySpec,
    NullArg,
    ResultArg,
    ScalarArg,
    SetupCall,
    StructArg,
    StructField,
    array,
)

from .conftest import Case

C_TYPES: dict[str, Any] = {
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
FUNCTIONS = 40


def prepare(case: KernelCase) -> PreparedCall:
    return PreparedCall(case, bind(case).plan)


def signatures(count: int) -> list[tuple[str, list[str]]]:
    """Return return types and parameter types of functions with up to 20 mixed arguments."""
    dice = random.Random(7)
    made = []
    for number in range(count):
        kinds = (
            list(C_TYPES) if number % 4 else ["float", "double"]
        )  # some with more than 8 in floating point
        made.append((dice.choice(list(C_TYPES)), [dice.choice(kinds) for _ in range(number % 20)]))
    return made


def source(functions: list[tuple[str, list[str]]]) -> str:
    """Return C functions that store each argument in 8 bytes of ``out``, and return the last one of them."""
    text = "#include <stdint.h>\n#include <string.h>\n"
    for number, (returns, types) in enumerate(functions):
        params = ", ".join(["unsigned char *out", *(f"{ctype} a{i}" for i, ctype in enumerate(types))])
        stores = " ".join(f"memcpy(out + {8 * i}, &a{i}, sizeof a{i});" for i in range(len(types)))
        result = f"({returns})a{len(types) - 1}" if types else "42"
        text += f"{returns} f{number}({params}) {{ (void)out; {stores} return {result}; }}\n"
    return text


def value(ctype: str, dice: random.Random) -> float:
    if ctype in ("float", "double"):
        return dice.randrange(-(1 << 20), 1 << 20) / 1024
    bits = ctypes.sizeof(C_TYPES[ctype]) * 8
    return dice.randrange(0, 100) if ctype[0] == "u" and dice.random() < 0.5 else _extreme(ctype, bits, dice)


def _extreme(ctype: str, bits: int, dice: random.Random) -> int:
    low, high = (0, (1 << bits) - 1) if ctype[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return dice.choice([low, high, dice.randrange(low, high)])


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> str:
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("generated")
    (folder / "functions.c").write_text(source(signatures(FUNCTIONS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        return compile_sources(LibrarySpec(sources=(str(folder / "functions.c"),), cflags=("-O2", "-g"))).path


def test_arguments_of_every_type_arrive_in_registers_and_on_the_stack(generated: str) -> None:
    dice = random.Random(8)
    oracle = ctypes.CDLL(generated)
    compared = on_stack = 0
    for number, (returns, types) in enumerate(signatures(FUNCTIONS)):
        values = [value(ctype, dice) for ctype in types]
        if values and returns not in ("float", "double") and types[-1] in ("float", "double"):
            values[-1] = dice.randrange(0, 100)  # the conversion of other values is undefined in C
        function = getattr(oracle, f"f{number}")
        function.restype = C_TYPES[returns]
        function.argtypes = [ctypes.c_char_p, *(C_TYPES[ctype] for ctype in types)]
        expected = ctypes.create_string_buffer(8 * max(len(types), 1))
        result = function(expected, *values)

        args: tuple[Argument, ...] = (array("out", "u8", 8 * max(len(types), 1)),)
        args += tuple(ScalarArg(f"a{i}", one) for i, one in enumerate(values))
        library = LibrarySpec(path=generated)
        case = KernelCase(KernelSpec(name="f", library=library, symbol=f"f{number}", args=args), {})
        prepared = prepare(case)
        assert prepared.call() == result, (returns, types, values)
        assert bytes(prepared.arrays["out"]) == expected.raw, (types, values)
        prepared.check_guards()
        on_stack += prepared.frame.stack_words > 0
        compared += 1
        prepared.free()
    assert compared == FUNCTIONS
    assert on_stack > 10


def test_returned_values_have_their_type(case: Case) -> None:
    assert prepare(case("minus_three", ())).call() == -3
    assert prepare(case("lowest_byte", (ScalarArg("x", 0x1FE),))).call() == 0xFE
    floats = (array("a", "f32", "n", "constant", value=0.1), ScalarArg("n", Formula("n")))
    single = prepare(case("sum32", floats, n=1))
    assert single.call() == pytest.approx(0.1, rel=1e-7)
    assert single.typed(single.call()).dtype == "float32"
    pointer = prepare(case("address_of", (array("a", "f64", "n"),)))
    assert pointer.call() == pointer.spans[0].start
    assert prepare(case("add_one")).call() is None


def test_number_passed_by_pointer_as_fortran_does(case: Case) -> None:
    args = (array("a", "f64", "n", "arange"), ScalarArg("n", Formula("n")), ScalarArg("factor", 2.5))
    prepared = prepare(case("fortran_scale", args))
    prepared.call()
    assert list(prepared.arrays["a"]) == [2.5 * i for i in range(10)]


def test_struct_is_laid_out_as_c_does_and_null_is_null(case: Case) -> None:
    fields = (
        StructField("rows", "i32", Formula("n")),
        StructField("weight", "f64", 0.5),
        StructField("flag", "i8", -7),
        StructField("columns", "i64", 1 << 40),
    )
    prepared = prepare(case("use_struct", (StructArg("s", fields), NullArg("nothing"))))
    assert prepared.call() == 10 * 0.5 - 7 + (1 << 40)


def test_result_of_a_setup_call_is_passed_as_returned(case: Case, tmp_path: Path) -> None:
    setup = (
        SetupCall("half_of", (ScalarArg("x", 5),), result="half"),
        SetupCall("minus_three", (), result="three"),
    )
    args = (array("a", "f64", "n"), ResultArg("x", "half"))
    prepared = prepare(case("store_float", args, setup=setup))
    prepared.call()
    assert prepared.arrays["a"][0] == 2.5


def test_one_array_may_be_passed_twice(case: Case) -> None:
    args = (array("a", "f64", "n", "constant", value=2), ArrayRef("b", "a"), ScalarArg("n", Formula("n")))
    assert prepare(case("dot", args)).call() == 40


def test_refill_gives_the_first_contents_again(case: Case) -> None:
    prepared = prepare(case("add_one"))
    before = prepared.arrays["a"].copy()
    prepared.call()
    assert (prepared.arrays["a"] == before + 1).all()
    prepared.refill()
    assert (prepared.arrays["a"] == before).all()


def test_loop_calls_as_often_as_asked(case: Case) -> None:
    prepared = prepare(case("add_one", (array("a", "f64", "n"), ScalarArg("n", Formula("n")))))
    assert prepared.seconds(1000) > 0
    assert (prepared.arrays["a"] == 1000).all()


def test_cold_loop_calls_as_often_as_asked(case: Case) -> None:
    prepared = prepare(case("add_one", (array("a", "f64", "n"), ScalarArg("n", Formula("n"))), cache="cold"))
    assert prepared.seconds(3) > 0
    assert (prepared.arrays["a"] == 3).all()


def test_loop_serves_functions_with_stack_arguments(generated: str) -> None:
    calls = [types for _, types in signatures(FUNCTIONS)]
    most = max(range(FUNCTIONS), key=lambda number: len(calls[number]))
    args = (array("out", "u8", 8 * 20), *(ScalarArg(f"a{i}", 1) for i in range(len(calls[most]))))
    spec = KernelSpec(name="f", library=LibrarySpec(path=generated), symbol=f"f{most}", args=args)
    assert prepare(KernelCase(spec, {})).seconds(10) > 0


def test_missing_function_names_the_library(kernels: LibrarySpec) -> None:
    plan = Plan("x", kernels.path or "", (), (), (), Call("no_such", (), "void"), False)
    with pytest.raises(Exception, match="no_such"):
        LiveCall(plan)


def test_f32_result_is_converted_exactly() -> None:
    assert ffi.sizeof("struct run_frame") == 8 * 8 + 8 * 8 + 8 * 32 + 8
    assert lib.run_int_registers() in (6, 8)
