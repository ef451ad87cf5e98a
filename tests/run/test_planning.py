"""Plans: arguments against parameters, and every mistake told before anything runs."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from counteroof.errors import KernelFailed
from counteroof.formula import Formula
from counteroof.library import parse_prototype
from counteroof.run.plan import Plan, Slot
from counteroof.run.planning import array_plan, make_plan
from counteroof.spec import (
    Argument,
    ArrayArg,
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


def plan(
    prototype: str, *args: Argument, setup: tuple[tuple[SetupCall, str], ...] = (), **fields: Any
) -> Plan:
    signatures = [parse_prototype(text) for _, text in setup] + [parse_prototype(prototype)]
    spec = KernelSpec(
        name="k",
        library=LibrarySpec(path="libk.so"),
        symbol=signatures[-1].name,
        args=args,
        params={"n": (10,)},
        setup=tuple(call for call, _ in setup),
        **fields,
    )
    return make_plan(KernelCase(spec, {"n": 10}), "/libk.so", signatures)


def slots(prototype: str, *args: Argument) -> tuple[Slot, ...]:
    return plan(prototype, *args).kernel.slots


def mistake(prototype: str, *args: Argument, **fields: Any) -> str:
    with pytest.raises(KernelFailed) as caught:
        plan(prototype, *args, **fields)
    assert caught.value.kind == "input"
    return str(caught.value)


def f64_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def test_numbers_become_the_bits_of_their_parameters_type() -> None:
    made = slots(
        "void f(int a, unsigned char b, double c, float d, size_t e, _Bool f)",
        ScalarArg("a", -1),
        ScalarArg("b", 255),
        ScalarArg("c", 2),
        ScalarArg("d", 0.5),
        ScalarArg("e", Formula("n**2")),
        ScalarArg("f", 1),
    )
    assert made == (
        Slot("int", (1 << 64) - 1),  # extended to the whole register
        Slot("int", 255),
        Slot("float", f64_bits(2.0)),
        Slot("float", 0x3F000000),  # in the low half
        Slot("int", 100),
        Slot("int", 1),
    )


@pytest.mark.parametrize(
    ("parameter", "value", "told"),
    [
        ("int x", 1 << 31, "x is int, which cannot hold 2147483648"),
        ("unsigned int x", -1, "cannot hold -1"),
        ("int x", 2.5, "2.5 is not a whole number"),
        ("unsigned char x", 256, "cannot hold 256"),
        ("float x", 1e39, "x is f32, which cannot hold 1e+39"),
        ("double **x", 1, "x is double **, and the number 1 is given"),
    ],
)
def test_number_that_does_not_fit_is_refused(parameter: str, value: float, told: str) -> None:
    message = mistake(f"void f({parameter})", ScalarArg("x", value))
    assert message.startswith("the arguments do not go with void f(")
    assert told in message


@pytest.mark.parametrize(
    ("dtype", "parameter"),
    [
        ("f64", "double *x"),
        ("f64", "const void *x"),
        ("c128", "double *x"),
        ("f32", "float _Complex *x"),
        ("i32", "unsigned int *x"),
        ("f16", "unsigned short *x"),
        ("f32", "const char *x"),
    ],
)
def test_array_may_be_passed_to_a_pointer_to_its_elements(dtype: str, parameter: str) -> None:
    assert slots(f"void f({parameter})", array("x", dtype, "n")) == (Slot("array", 0, "x"),)


@pytest.mark.parametrize(
    ("dtype", "parameter"),
    [
        ("f64", "float *x"),
        ("f32", "double *x"),
        ("f64", "long *x"),
        ("i32", "long *x"),
        ("f64", "double **x"),
    ],
)
def test_array_of_another_type_is_refused(dtype: str, parameter: str) -> None:
    assert f"array x holds {dtype}, and parameter x is" in mistake(
        f"void f({parameter})", array("x", dtype, "n")
    )


def test_array_where_a_number_is_taken_is_refused() -> None:
    assert "x is double, not a pointer" in mistake("void f(double x)", array("x", "f64", "n"))


def test_arguments_with_the_parameters_names_are_passed_by_name() -> None:
    made = slots("void f(double *a, int n)", ScalarArg("n", 3), array("a", "f64", "n"))
    assert made == (Slot("array", 0, "a"), Slot("int", 3))


def test_arguments_with_other_names_are_passed_in_their_order() -> None:
    made = slots("void f(double *x, double *y)", array("a", "f64", "n"), ArrayRef("b", "a"))
    assert made == (Slot("array", 0, "a"), Slot("array", 0, "a"))


def test_names_that_contradict_the_order_are_refused() -> None:
    message = mistake("void f(double *x, double *y)", array("y", "f64", "n"), array("z", "f64", "n"))
    assert "argument 'y' is number 1, and parameter 'y' is number 2" in message


def test_number_of_arguments_must_be_right() -> None:
    assert "1 arguments are given and 2 parameters taken" in mistake(
        "void f(int a, int b)", ScalarArg("a", 1)
    )


def test_number_for_a_pointer_is_boxed_as_its_type() -> None:
    made = plan("void f(const int *n, const double *x)", ScalarArg("n", 7), ScalarArg("x", 1.5))
    assert made.blocks == (("f.n", struct.pack("<i", 7)), ("f.x", struct.pack("<d", 1.5)))
    assert [slot.kind for slot in made.kernel.slots] == ["block", "block"]


def test_struct_has_natural_alignment() -> None:
    fields = (StructField("a", "i8", 1), StructField("b", "f64", 2), StructField("c", "i16", 3))
    made = plan("void f(const void *s)", StructArg("s", fields))
    assert made.blocks[0][1] == struct.pack("<b7xdh6x", 1, 2, 3)


def test_struct_field_that_does_not_fit_is_refused() -> None:
    assert "s.a is i8, which cannot hold 300" in mistake(
        "void f(const void *s)", StructArg("s", (StructField("a", "i8", 300),))
    )


def test_null_is_zero() -> None:
    assert slots("void f(double *x)", NullArg("x")) == (Slot("int", 0),)
    assert "x is int, not a pointer" in mistake("void f(int x)", NullArg("x"))


def test_result_of_a_setup_call_needs_its_type() -> None:
    setup = ((SetupCall("make", (), result="p"), "void *make(void)"),)
    assert plan("void f(void *p)", ResultArg("p", "p"), setup=setup).kernel.slots == (Slot("result", 0, "p"),)
    assert "p is double, and the set-up call returns pointer" in mistake(
        "void f(double p)", ResultArg("p", "p"), setup=setup
    )
    nothing = ((SetupCall("make", (), result="p"), "void make(void)"),)
    assert "make returns nothing" in mistake("void f(void *p)", ResultArg("p", "p"), setup=nothing)


def test_function_that_cannot_be_called_says_why() -> None:
    assert "f cannot be called" in mistake("void f(int a, ...)", ScalarArg("a", 1))
    assert "f cannot be called" in mistake("long double f(int a)", ScalarArg("a", 1))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (array("x", "i8", 200, "arange"), "i8 cannot hold 199, which its arange contents have"),
        (array("x", "i8", 200, "permutation"), "i8 cannot hold 199"),
        (array("x", "u8", 1, "constant", value=-1), "u8 cannot hold -1"),
        (array("x", "i32", 1, "constant", value=0.5), "i32 cannot hold 0.5"),
        (array("x", "i16", 11, "csr_indptr", rows=10, nnz_per_row=5000), "i16 cannot hold 50000"),
        (array("x", "i8", 10, "csr_indices", rows=10, cols=1000, nnz_per_row=1), "i8 cannot hold 999"),
    ],
)
def test_contents_must_fit_their_type(made: ArrayArg, told: str) -> None:
    with pytest.raises(KernelFailed, match=told):
        array_plan(made, {})


def test_cold_caches_are_part_of_the_plan() -> None:
    assert plan("void f(void)", cache="cold").cold
    assert not plan("void f(void)").cold
