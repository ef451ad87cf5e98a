"""Which arguments are guessed for a function, and which functions are left out."""

from __future__ import annotations

import pytest

from counteroof.assume import NotGuessable, assumptions, guess_kernel
from counteroof.prototype import parse_prototype
from counteroof.signature import CType, Member, Param, Signature, array_of, pointer_to
from counteroof.spec import KernelSpec, LibrarySpec

LIBRARY = LibrarySpec(path="/lib/libk.so")
DOUBLE = CType("float", 8, True, text="double")
INT = CType("int", 4, True, text="int")
VOID = CType("void", text="void")


def guess(prototype: str) -> KernelSpec:
    signature = parse_prototype(prototype)
    return guess_kernel(signature, signature.name, LIBRARY)


def reason(prototype: str) -> str:
    with pytest.raises(NotGuessable) as caught:
        guess(prototype)
    return str(caught.value)


def test_length_and_arrays_share_one_parameter() -> None:
    kernel = guess("void triad(double *a, const double *b, const double *c, double s, size_t n)")
    assert assumptions(kernel) == (
        "a is an array of n f64 (random)",
        "b is an array of n f64 (random, only read)",
        "c is an array of n f64 (random, only read)",
        "s = 1.0",
        "n = n",
    )
    assert kernel.params == {"n": (4_000_000,)}
    assert kernel.small == {"n": 10_000}
    assert kernel.precision == "f64"
    assert kernel.declared.flops is None


@pytest.mark.parametrize(
    "name",
    [
        "n", "N", "len", "length", "size", "count", "num", "nelem", "n_points", "npoints",
        "nbodies", "num_items", "data_len", "bufsize", "elements", "samples", "nnz", "rows", "n_",
    ],
)  # fmt: skip
def test_names_of_sizes_become_the_parameter(name: str) -> None:
    assert assumptions(guess(f"void f(float *a, long {name})"))[1] == f"{name} = n"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("int incx", "1"), ("int stride", "1"), ("int nsteps", "1"), ("int iterations", "1"),
        ("int ntimes", "1"), ("int threads", "1"), ("bool fast", "1"), ("int lda", "n"),
        ("int stop", "n"), ("int start", "0"), ("int offset", "0"), ("enum order o", "0"),
        ("float alpha", "1.0"), ("unsigned char size", "1"), ("double n", "1.0"), ("int i", "1"),
    ],
)  # fmt: skip
def test_other_numbers_have_harmless_values(parameter: str, value: str) -> None:
    name = parameter.split()[-1]
    assert assumptions(guess(f"void f(float *a, int len, {parameter})"))[2] == f"{name} = {value}"


@pytest.mark.parametrize(
    ("sizes", "extent"),
    [
        ("int n", "n"),
        ("int rows, int cols", "n**2"),
        ("int nx, int ny, int nz", "n**3"),
        ("int m, int n, int k, int lda", "n**2"),
        ("int M, int N, int K", "n**2"),
        ("int n, int incx, int nsteps", "n"),
        ("double alpha", "n"),
    ],
)
def test_arrays_are_large_enough_for_all_sizes_together(sizes: str, extent: str) -> None:
    assert assumptions(guess(f"void f(double *a, {sizes})"))[0] == f"a is an array of {extent} f64 (random)"


@pytest.mark.parametrize(
    ("pointer", "words"),
    [
        ("float *", "n f32 (random)"),
        ("const float *", "n f32 (random, only read)"),
        ("double complex *", "n c128 (random)"),
        ("unsigned char *", "n u8 (random)"),
        ("const char *", "n i8 (zeros, only read)"),
        ("int *", "n i32 (zeros)"),
        ("const size_t *", "n u64 (zeros, only read)"),
        ("void *", "n u8 (random)"),
    ],
)
def test_contents_of_arrays_follow_their_types(pointer: str, words: str) -> None:
    assert assumptions(guess(f"void f({pointer}a, float *b, size_t n)"))[0] == f"a is an array of {words}"


def test_inner_extents_of_arrays_are_kept() -> None:
    assert (
        assumptions(guess("void f(const double (*a)[4], int n)"))[0]
        == "a is an array of n x 4 f64 (random, only read)"
    )
    assert (
        assumptions(guess("void f(float (*a)[2][3], int n)"))[0] == "a is an array of n x 2 x 3 f32 (random)"
    )
    assert assumptions(guess("void f(double (*z)[2], int n)"))[0] == "z is an array of n c128 (random)"


def struct(*types: CType, size: int) -> Signature:
    members = tuple(Member(f"m{i}", ctype, 0) for i, ctype in enumerate(types))
    target = CType("struct", size, text="struct s", members=members)
    return Signature("f", VOID, (Param("p", pointer_to(target)), Param("n", INT)))


def test_struct_of_equal_members_is_an_array_of_them() -> None:
    kernel = guess_kernel(struct(DOUBLE, DOUBLE, DOUBLE, size=24), "f", LIBRARY)
    assert assumptions(kernel)[0] == "p is an array of n x 3 f64 (random)"
    assert kernel.precision == "f64"


@pytest.mark.parametrize(
    "signature",
    [
        struct(DOUBLE, INT, size=16),
        struct(DOUBLE, DOUBLE, size=24),
        struct(pointer_to(DOUBLE), size=8),
        struct(array_of(DOUBLE, 4), size=32),
        struct(size=8),
    ],
)
def test_other_structs_are_left_to_their_author(signature: Signature) -> None:
    with pytest.raises(NotGuessable, match="p, a pointer to struct s, whose contents only its author knows"):
        guess_kernel(signature, "f", LIBRARY)


@pytest.mark.parametrize(
    ("prototype", "said"),
    [
        ("double f(double x)", "takes no arrays"),
        ("void f(void)", "takes no arrays"),
        ("int f(const char *name, int n)", "takes only text"),
        ("int f(double *a, ...)", "cannot be called: it takes a variable number of arguments"),
        ("void f(struct s x, double *a)", "cannot be called: argument 1 (x) is the struct s by value"),
        ("double *f(double *a, int n)", "returns a pointer"),
        ("void f(double *a, double (*g)(double), int n)", "takes g, a callback"),
        ("void f(double **a, int n)", "takes a, a pointer to pointers"),
        ("void f(FILE *out, double *a, int n)", "takes out, a pointer to FILE"),
        ("void f(plan_t *plan, double *a, int n)", "takes plan, a pointer to the unknown type plan_t"),
        ("void f(void *p)", "takes p, a void pointer, and no size"),
        ("void f(long double *x, int n)", "a pointer to long double, which no array of a spec can hold"),
        ("void f(double (*a)[n], int n)", "whose inner extent varies"),
        (
            "void f(float *x, int batch_size, int rows, int cols, int depth)",
            "has 4 sizes (batch_size, rows, cols, depth)",
        ),
        ("int main(int argc, char **argv)", "is not a kernel"),
    ],
)
def test_functions_that_cannot_be_guessed_say_why(prototype: str, said: str) -> None:
    assert said in reason(prototype)


def test_unnamed_and_repeated_parameters_get_names_of_their_own() -> None:
    signature = parse_prototype("void f(double *, int, double *n, int len)")
    kernel = guess_kernel(signature, "f", LIBRARY)
    assert [arg.name for arg in kernel.args] == ["arg0", "arg1", "n", "len"]
    assert kernel.params == {"n_": (4_000_000,)}
    same = Signature("f", VOID, (Param("a", pointer_to(DOUBLE)), Param("a", INT), Param("return", INT)))
    assert [arg.name for arg in guess_kernel(same, "f", LIBRARY).args] == ["a", "a_", "return_"]


def test_mixed_precisions_are_left_open() -> None:
    assert guess("void f(const float *a, double *b, int n)").precision is None
    assert guess("void f(const float *a, int *b, double s, int n)").precision == "f32"
    assert guess("void f(float complex *a, int n)").precision == "f32"
