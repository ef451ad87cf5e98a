"""Signatures and source lines from the debug information of GCC and Clang."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from counteroof.library import open_library
from counteroof.signature import Signature

from .compiled import COMPILERS, link, needs, shared

pytestmark = needs("gcc", "objcopy")

KERNELS = """
#include <stddef.h>
#include <stdint.h>
typedef double real; typedef real vector[4]; enum mode { OFF = -1, ON };
struct node { struct node *next; double value; int flag : 3; int32_t count; };
typedef struct node node_t; union either { int a; double b; }; struct opaque;
void triad(double *restrict a, const double *b, const volatile double *const c, double s, size_t n)
{ a[n] = b[n] + s * c[n]; }
float dot(const float *x, const float *y, int32_t n) { return x[n] * y[n]; }
void shapes(vector *v, double m[][8], int n, double vla[n][n], char **names)
{ v[0][0] = m[0][1] + vla[1][1] + names[0][0]; }
int small(enum mode m, _Bool b, unsigned char c, short s, long long l) { return m + b + c + s + l; }
double structs(node_t *p, const struct node *q, union either *u, struct opaque *o)
{ return p->value + q->value + u->b; }
double by_value(struct node p) { return p.value; }
long double wide(long double x) { return x; }
double _Complex turned(double _Complex z) { return z; }
double callback(double (*f)(double, void *), void *context) { return f(1.0, context); }
int prints(const char *format, ...) { return format[0]; }
typedef double v4 __attribute__((vector_size(32)));
v4 vectors(v4 x) { return x + x; }
void unused(int a, double b, float *c) { }
"""

EXPECTED = {
    "by_value": "double by_value(struct node p)",
    "callback": "double callback(double (*f)(double, void *), void *context)",
    "dot": "float dot(const float *x, const float *y, int32_t n)",
    "prints": "int prints(const char *format, ...)",
    "shapes": "void shapes(vector *v, double (*m)[8], int n, double (*vla)[], char **names)",
    "structs": "double structs(node_t *p, const struct node *q, union either *u, struct opaque *o)",
    "triad": "void triad(double *a, const double *b, const double *const c, double s, size_t n)",
    "turned": "double _Complex turned(double _Complex z)",
    "unused": "void unused(int a, double b, float *c)",
    "vectors": "v4 vectors(v4 x)",
    "wide": "long double wide(long double x)",
}

TWO = """void scale(double *a, unsigned long n) { a[n] *= 2; }
void twice(double *a) { scale(a, 1); scale(a, 2); }
"""


def signature(path: Path, symbol: str) -> Signature:
    found = open_library(path).signature(symbol)
    assert found is not None, open_library(path).no_signature(symbol)
    return found


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_signatures_are_those_of_the_source(tmp_path: Path, compiler: str, version: int) -> None:
    opened = open_library(shared(tmp_path, KERNELS, f"-gdwarf-{version}", compiler=compiler))
    assert opened.debug_info
    assert {name: str(opened.signature(name)) for name in EXPECTED} == EXPECTED
    small = opened.signature("small")
    assert small is not None
    assert [(param.type.kind, param.type.size, param.type.signed) for param in small.params] == [
        ("int", 4, True), ("bool", 1, False), ("int", 1, False), ("int", 2, True), ("int", 8, True),
    ]  # fmt: skip
    assert small.source == "debug info"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_members_of_a_struct_that_is_pointed_to_are_known(tmp_path: Path, compiler: str) -> None:
    target = signature(shared(tmp_path, KERNELS, "-g", compiler=compiler), "structs").params[0].type.pointee
    assert target is not None
    assert target.size == 24
    # The bit-field has no address of its own.
    assert [(member.name, str(member.type), member.offset) for member in target.members] == [
        ("next", "struct node *", 0), ("value", "double", 8), ("count", "int32_t", 20),
    ]  # fmt: skip


@pytest.mark.parametrize("compiler", COMPILERS)
def test_unsupported_arguments_are_recognised(tmp_path: Path, compiler: str) -> None:
    opened = open_library(shared(tmp_path, KERNELS, "-g", compiler=compiler))
    refused = [name for name in opened.functions if (found := opened.signature(name)) and found.unsupported]
    assert refused == ["by_value", "prints", "turned", "vectors", "wide"]


def test_old_style_definition_receives_float_as_double(tmp_path: Path) -> None:
    path = shared(tmp_path, "float f(a, b) float a; int b; { return a + b; }", "-g", "-std=gnu89")
    assert str(signature(path, "f")) == "float f(double a, int b)"


@pytest.mark.parametrize(
    "flags",
    [
        ("-O2", "-flto"),
        ("-O2", "-freorder-blocks-and-partition"),
        ("-gz=zlib",),
        ("-fdebug-types-section",),
        ("-gdwarf64",),
    ],
    ids=" ".join,
)
def test_less_usual_ways_of_writing_debug_information(tmp_path: Path, flags: tuple[str, ...]) -> None:
    code = (
        "#include <stdlib.h>\n"
        + TWO
        + "void rare(double *a, long n) { if (__builtin_expect(n < 0, 0)) abort(); a[n] = 1; }"
    )
    path = shared(tmp_path, code, "-g", *flags)
    assert str(signature(path, "scale")) == "void scale(double *a, long unsigned int n)"
    assert str(signature(path, "rare")) == "void rare(double *a, long int n)"


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=needs("clang++"))])
@needs("g++")
def test_cpp_functions_in_namespaces_and_classes(tmp_path: Path, compiler: str) -> None:
    code = """
    namespace deep { namespace er { double f(const double &x, int n) { return x * n; } } }
    struct grid { double at(long i) const; double *data; };
    double grid::at(long i) const { return data[i]; }
    template <class T> void fill(T *a, T v) { *a = v; }
    template void fill<float>(float *, float);
    extern "C" void plain(double *a) { *a = 0; }
    """
    path = shared(tmp_path, code, "-g", compiler=compiler)
    assert str(signature(path, "_ZN4deep2er1fERKdi")) == "double _ZN4deep2er1fERKdi(const double *x, int n)"
    method = signature(path, "_ZNK4grid2atEl")
    assert [param.name for param in method.params] == ["this", "i"]
    assert method.unsupported is None
    assert str(signature(path, "_Z4fillIfEvPT_S0_")).startswith("void _Z4fillIfEvPT_S0_(float *a, float v)")
    assert str(signature(path, "plain")) == "void plain(double *a)"


def test_library_without_debug_information_says_so(tmp_path: Path) -> None:
    opened = open_library(shared(tmp_path, TWO, "-g0"))
    assert not opened.debug_info
    assert opened.signature("scale") is None
    assert opened.no_signature("scale") == "it has no debug information (built without -g, or stripped)"


def test_source_file_without_debug_information_beside_one_with(tmp_path: Path) -> None:
    (tmp_path / "dark.c").write_text("void dark(int x) { }")
    link(tmp_path, ["gcc", "-c", "-fPIC", "-g0", "dark.c"], "dark.o")
    opened = open_library(shared(tmp_path, TWO, "-g", str(tmp_path / "dark.o")))
    assert opened.signature("scale") is not None
    assert (
        opened.no_signature("dark")
        == "the source file that defines it was compiled without debug information (-g)"
    )


def test_split_debug_information_is_answered_with_the_reason(tmp_path: Path) -> None:
    opened = open_library(shared(tmp_path, TWO, "-g", "-gsplit-dwarf"))
    assert opened.signature("scale") is None
    assert ".dwo, which is not read; compile without -gsplit-dwarf" in opened.no_signature("scale")


def test_compression_that_cannot_be_read_is_answered_with_the_command_that_undoes_it(tmp_path: Path) -> None:
    path = shared(tmp_path, TWO, "-g")
    done = subprocess.run(
        ["objcopy", "--compress-debug-sections=zstd", path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("objcopy does not know zstd")
    assert "compressed with zstd; " in open_library(path).no_signature("scale")
    assert "objcopy --decompress-debug-sections libtest.so" in open_library(path).no_signature("scale")


def test_assembly_has_no_signature(tmp_path: Path) -> None:
    (tmp_path / "asm.s").write_text(".globl bare\n.type bare,@function\nbare:\n ret\n.size bare, .-bare\n")
    link(tmp_path, ["gcc", "-c", "-g", "asm.s"], "asm.o")
    opened = open_library(shared(tmp_path, TWO, "-g", str(tmp_path / "asm.o")))
    assert "it is written in assembly" in opened.no_signature("bare")


@pytest.mark.parametrize("identifier", ["--build-id", "--build-id=none"])
def test_separate_debug_file_is_found(tmp_path: Path, identifier: str) -> None:
    path = shared(tmp_path, TWO, "-g", f"-Wl,{identifier}")
    for command in (
        ["objcopy", "--only-keep-debug", str(path), "libtest.debug"],
        ["strip", str(path)],
        ["objcopy", "--add-gnu-debuglink=libtest.debug", str(path)],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    opened = open_library(path)
    assert str(opened.signature("scale")) == "void scale(double *a, long unsigned int n)"
    assert opened.line_at(opened.export("scale").offset) == (str(tmp_path / "libtest.c"), 1)
    (tmp_path / "libtest.debug").unlink()
    assert not open_library(path).debug_info


def test_separate_debug_file_of_another_build_is_not_taken(tmp_path: Path) -> None:
    shared(tmp_path, TWO + "int other;", "-g", name="other.so")
    path = shared(tmp_path, TWO, "-g")
    for command in (
        ["objcopy", "--only-keep-debug", "other.so", "libtest.debug"],
        ["strip", str(path)],
        ["objcopy", "--add-gnu-debuglink=libtest.debug", str(path)],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "libtest.debug").write_bytes((tmp_path / "other.so").read_bytes())
    assert not open_library(path).debug_info


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_source_lines_follow_the_code(tmp_path: Path, compiler: str, version: int) -> None:
    code = "int first(int x)\n{\n  return x + 1;\n}\n\nint second(int x)\n{\n  return x * 3;\n}\n"
    opened = open_library(shared(tmp_path, code, f"-gdwarf-{version}", "-O0", compiler=compiler))
    source = str(tmp_path / "libtest.c")
    for symbol, lines in (("first", {2, 3, 4}), ("second", {7, 8, 9})):
        export = opened.export(symbol)
        assert opened.line_at(export.offset) in {(source, min(lines)), (source, min(lines) - 1)}
        found = [opened.line_at(export.offset + i) for i in range(export.size)]
        assert {place[1] for place in found if place} >= {max(lines) - 1}
    assert opened.line_at(1) is None


def test_only_the_units_that_are_asked_for_are_read(tmp_path: Path) -> None:
    objects = []
    for number in range(20):
        (tmp_path / f"u{number}.c").write_text(f"double f{number}(double x) {{ return x + {number}; }}")
        objects.append(str(link(tmp_path, ["gcc", "-c", "-fPIC", "-g", f"u{number}.c"], f"u{number}.o")))
    opened = open_library(shared(tmp_path, TWO, "-g", *objects))
    assert opened.signature("f7") is not None
    assert len(opened._debug._function_index) == 1
