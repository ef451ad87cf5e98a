"""Types as C writes them, and which functions can be called."""

from __future__ import annotations

import pytest

from counteroof.prototype import parse_prototype
from counteroof.signature import CType, array_of, disagreement, function_type, pointer_to

DOUBLE = CType("float", 8, True, text="double")


def test_pointers_are_written_as_c_writes_them() -> None:
    assert str(pointer_to(DOUBLE)) == "double *"
    assert str(pointer_to(DOUBLE.as_const())) == "const double *"
    assert str(pointer_to(pointer_to(DOUBLE).as_const())) == "double *const *"
    assert str(pointer_to(array_of(DOUBLE, 3))) == "double (*)[3]"
    assert str(array_of(array_of(DOUBLE, 3), 2)) == "double [2][3]"
    assert (
        str(pointer_to(function_type(DOUBLE, [DOUBLE, pointer_to(DOUBLE)]))) == "double (*)(double, double *)"
    )


def test_signature_prints_as_a_prototype_that_reads_back_the_same() -> None:
    text = "const double *f(double (*g)(double), const float (*m)[4], char **names, unsigned long n)"
    signature = parse_prototype(text)
    assert str(signature) == text
    assert parse_prototype(str(signature)) == signature
    assert str(parse_prototype("void f(void)")) == "void f(void)"


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("double", "f64"), ("float", "f32"), ("_Float16", "f16"), ("long double", None), ("char", "i8"),
        ("unsigned char", "u8"), ("short", "i16"), ("unsigned", "u32"), ("long", "i64"), ("size_t", "u64"),
        ("bool", "u8"), ("double complex", "c128"), ("float complex", "c64"), ("void", None),
        ("struct s", None), ("enum e", "u32"),
    ],
)  # fmt: skip
def test_element_types_have_the_names_specs_use(written: str, dtype: str | None) -> None:
    target = parse_prototype(f"void f({written} *a)").params[0].type.pointee
    assert target is not None
    assert target.dtype == dtype


def test_array_of_two_floats_is_a_complex_number_and_longer_ones_are_not() -> None:
    assert array_of(DOUBLE, 2).dtype == "c128"
    assert array_of(DOUBLE, 3).dtype == "f64"


@pytest.mark.parametrize(
    ("prototype", "reason"),
    [
        ("void f(struct point p)", "argument 1 (p) is the struct point by value"),
        ("void f(int a, union u b)", "argument 2 (b) is the union u by value"),
        ("int f(const char *format, ...)", "a variable number of arguments (...)"),
        ("void f(double complex z)", "a complex number by value (double _Complex)"),
        ("float complex f(void)", "it returns a complex number by value"),
        (
            "void f(long double x)",
            "a long double by value, which does not fit a floating-point register",
        ),
        ("long double f(double x)", "it returns a long double by value"),
        ("struct point f(void)", "it returns the struct point by value"),
        ("void f(__int128 x)", "a signed __int128 by value, which takes two registers"),
        ("void f(blasint n)", "of an unknown type (blasint)"),
        ("void f(" + ", ".join(f"int a{i}" for i in range(39)) + ")", "33 on the stack"),
    ],
)
def test_functions_that_cannot_be_called_say_why(prototype: str, reason: str) -> None:
    unsupported = parse_prototype(prototype).unsupported
    assert unsupported is not None
    assert reason in unsupported


@pytest.mark.parametrize(
    "prototype",
    [
        "void f(void)",
        "double f(float a, _Float16 b, enum e c, bool d, const unknown_t *p, struct s *q, double complex *z)",
        "void *f(" + ", ".join(f"int a{i}" for i in range(38)) + ")",
    ],
)
def test_functions_that_can_be_called(prototype: str) -> None:
    assert parse_prototype(prototype).unsupported is None


@pytest.mark.parametrize(
    ("claimed", "actual", "difference"),
    [
        ("void f(const double *x, int n)", "int f(double *x, size_t n)", None),
        ("void f(double *x)", "void f(double *x, int n)", "1 parameters against 2"),
        ("void f(float x)", "void f(double x)", "parameter 1 is float against double"),
        ("void f(double *x, int a)", "void f(double *x, double a)", "parameter 2 is int against double"),
        ("float f(void)", "double f(void)", "the returned value is float against double"),
    ],
)
def test_signatures_disagree_only_where_registers_differ(
    claimed: str, actual: str, difference: str | None
) -> None:
    assert disagreement(parse_prototype(claimed), parse_prototype(actual)) == difference
