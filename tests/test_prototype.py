"""Signatures from prototypes and headers as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.errors import LibraryError
from counteroof.prototype import header_signatures, parse_prototype

from .compiled import needs


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        (
            "void triad(double *a, const double *b, size_t n);",
            "void triad(double *a, const double *b, size_t n)",
        ),
        ("void f(double * restrict a, float *__restrict__ b)", "void f(double *a, float *b)"),
        ('extern "C" int64_t f(int32_t n)', "int64_t f(int32_t n)"),
        ("__attribute__((noinline, nonnull(1))) int f(char *p) __attribute__((pure))", "int f(char *p)"),
        ("[[nodiscard]] int f(int n, double a[static n])", "int f(int n, double *a)"),
        ("static inline double f(double const *const x)", "double f(const double *const x)"),
        ("void f(int n, double a[n][n], double b[][4])", "void f(int n, double (*a)[], double (*b)[4])"),
        ("void f(double *, int)", "void f(double *, int)"),
        ("void f()", "void f(void)"),
        ("void f(const double &x)", "void f(const double *x)"),
        ("double complex f(float complex *z)", "double _Complex f(float _Complex *z)"),
        ("void f(/* the length */ int n) // done", "void f(int n)"),
        ("my_type *f(const other_type *p)", "my_type *f(const other_type *p)"),
        ("bool f(uint8_t *p, ssize_t n, ptrdiff_t d)", "_Bool f(uint8_t *p, ssize_t n, ptrdiff_t d)"),
        (
            "void f(int (*compare)(const void *, const void *))",
            "void f(int (*compare)(const void *, const void *))",
        ),
    ],
)
def test_prototypes_are_understood(written: str, understood: str) -> None:
    assert str(parse_prototype(written)) == understood


def test_standard_integer_types_have_their_sizes_and_signs() -> None:
    signature = parse_prototype(
        "void f(size_t a, int64_t b, uint16_t c, int8_t d, long e, unsigned short f, long long g)"
    )
    assert [(param.type.size, param.type.signed) for param in signature.params] == [
        (8, False), (8, True), (2, False), (1, True), (8, True), (2, False), (8, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "found nothing; expected one C prototype"),
        ("void a(int); void b(int)", "found 2 declarations"),
        ("int x", "declares no function"),
        ("typedef int t", "declares no function"),
        ("void broken(double *a", "is not a C prototype"),
        ("void f(std::vector<double> v)", "is not a C prototype"),
        ("axpy(double *x, n)", "is not a C prototype"),
        ("(" * 5000, "is not a C prototype"),
    ],
)
def test_bad_prototypes_are_refused_with_the_text(written: str, said: str) -> None:
    with pytest.raises(LibraryError) as caught:
        parse_prototype(written)
    assert said in str(caught.value)


HEADER = """
#ifndef KERNELS_H
#define KERNELS_H
#include <stddef.h>
#include <stdio.h>
#include "types.h"
#ifdef __cplusplus
extern "C" {
#endif
#define API __attribute__((visibility("default")))
typedef struct plan *plan_t;
typedef enum { UP, DOWN } direction;
typedef real vector[4];
struct options { int a; double b; };
API void axpy(size_t n, real a, const real *restrict x, real *restrict y);
API plan_t make_plan(int n, direction way, struct options *options);
static inline int twice(int x) { if (x) { return 2 * x; } return 0; }
int body(int x) { return x; }
API int reports(const char *format, ...), second(vector *v);
__typeof__(3) beyond_the_parser(int x);
extern int variable;
API double last(double (*f)(double));
#ifdef __cplusplus
}
#endif
#endif
"""


@pytest.fixture
def header(tmp_path: Path) -> Path:
    (tmp_path / "types.h").write_text(
        "#ifdef SINGLE\ntypedef float real;\n#else\ntypedef double real;\n#endif\n"
    )
    (tmp_path / "kernels.h").write_text(HEADER)
    return tmp_path / "kernels.h"


@needs("gcc")
def test_header_gives_the_signatures_of_its_functions(header: Path) -> None:
    found = header_signatures(header)
    assert str(found["axpy"]) == "void axpy(size_t n, real a, const real *x, real *y)"
    assert found["axpy"].params[1].type.size == 8
    assert str(found["make_plan"]) == "plan_t make_plan(int n, direction way, struct options *options)"
    assert found["make_plan"].returns.kind == "pointer"
    assert found["make_plan"].params[1].type.kind == "int"
    assert found["reports"].variadic
    assert str(found["second"]) == "int second(vector *v)"
    assert found["last"].source == "header"
    assert "body" in found
    assert not {"twice", "variable", "beyond_the_parser"} & set(found)


@needs("gcc")
def test_header_sees_the_flags_that_matter_to_the_preprocessor(header: Path) -> None:
    found = header_signatures(header, cflags=["-DSINGLE", "-fno-such-flag"], only="axpy")
    assert set(found) == {"axpy"}
    assert found["axpy"].params[1].type.size == 4


@needs("gcc")
def test_header_that_the_preprocessor_refuses(tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text('#include "not_there.h"\n')
    with pytest.raises(LibraryError, match=r"the preprocessor stopped: .*not_there\.h"):
        header_signatures(tmp_path / "bad.h")


def test_header_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="cannot be read"):
        header_signatures(tmp_path / "none.h")


def test_header_without_a_compiler_is_read_as_it_stands(
    header: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    found = header_signatures(header)
    assert str(found["make_plan"]) == "plan_t make_plan(int n, direction way, struct options *options)"
    assert str(found["last"]) == "double last(double (*f)(double))"
