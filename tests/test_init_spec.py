"""Kernels and drafts from a library or a C file alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli

import counteroof
from counteroof.assume import assumptions
from counteroof.errors import BuildError, LibraryError
from counteroof.init_spec import draft_spec, specs_from_library
from counteroof.library import open_library, resolve_signature
from counteroof.spec import KernelSpec

from .compiled import needs, shared

pytestmark = needs("gcc")

CODE = """
#include <stddef.h>
struct vec3 { float x, y, z; };
enum how { UP, DOWN };
void triad(double *a, const double *b, const double *c, double s, size_t n)
{ for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i]; }
void gemm(int m, int n, int k, double alpha, const double *a, int lda, double *c) { c[0] = a[0] * alpha; }
void move(struct vec3 *p, const float (*shift)[4], int count, enum how way, int nsteps)
{ p[0].x += shift[0][way]; }
double square(double x) { return x * x; }
void apply(double (*f)(double), double *x, int n) { x[0] = f(x[0]); }
int open_file(const char *name) { return name[0]; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def by_name(kernels: tuple[KernelSpec, ...]) -> dict[str, KernelSpec]:
    return {kernel.name: kernel for kernel in kernels}


def test_kernels_are_guessed_and_the_rest_left_out_with_reasons(tmp_path: Path) -> None:
    path = shared(tmp_path, CODE, "-g")
    kernels, skipped = specs_from_library(path)
    assert [kernel.symbol for kernel in kernels] == ["gemm", "move", "triad"]
    assert all(kernel.library.path == str(path) for kernel in kernels)
    assert skipped == (
        ("apply", "takes f, a callback"),
        ("open_file", "takes only text, which may be the name of a file or a command"),
        ("square", "takes no arrays"),
    )
    assert assumptions(by_name(kernels)["move"]) == (
        "p is an array of n x 3 f32 (random)",
        "shift is an array of n x 4 f32 (random, only read)",
        "count = n",
        "way = 0",
        "nsteps = 1",
    )


def test_c_file_is_compiled_with_debug_information(tmp_path: Path) -> None:
    (tmp_path / "kernels.c").write_text(CODE)
    kernels, _ = specs_from_library(tmp_path / "kernels.c")
    assert [kernel.symbol for kernel in kernels] == ["gemm", "move", "triad"]
    assert kernels[0].library.sources == (str(tmp_path / "kernels.c"),)


def test_guessed_kernels_pass_the_rules_of_specs_and_resolve(tmp_path: Path) -> None:
    opened = open_library(shared(tmp_path, CODE, "-g"))
    for kernel in specs_from_library(opened.path)[0]:
        (case,) = kernel.cases("small")
        assert case.array_bytes > 0
        assert len(resolve_signature(kernel, opened).params) == len(kernel.args)


def test_library_without_debug_information_needs_a_header_or_a_spec(tmp_path: Path) -> None:
    path = shared(tmp_path, CODE, "-g0")
    with pytest.raises(LibraryError) as caught:
        specs_from_library(path)
    assert "are not known: it has no debug information (built without -g, or stripped); compile it" in str(
        caught.value
    )
    assert f"counteroof init {path}" in str(caught.value)
    (tmp_path / "k.h").write_text(
        "void triad(double *a, const double *b, const double *c, double s, unsigned long n);"
    )
    kernels, skipped = specs_from_library(path, header=tmp_path / "k.h")
    assert [kernel.name for kernel in kernels] == ["triad"]
    assert kernels[0].library.header == str(tmp_path / "k.h")
    assert (
        "gemm",
        "is not described: it has no debug information (built without -g, or stripped)",
    ) in skipped
    (tmp_path / "k.h").write_text("int nothing(void);")
    with pytest.raises(LibraryError, match=r"k\.h declares none of them, and it has no debug information"):
        specs_from_library(path, header=tmp_path / "k.h")


def test_c_file_that_does_not_compile(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(")
    with pytest.raises(BuildError, match=r"bad\.c does not compile"):
        specs_from_library(tmp_path / "bad.c")


@needs("g++", "c++filt")
def test_cpp_kernels_have_readable_names_and_overloads_stay_apart(tmp_path: Path) -> None:
    code = """
    namespace blas {
    void scale(double *x, long n) { x[n - 1] *= 2; }
    void scale(float *x, long n) { x[n - 1] *= 2; }
    template <class T> void fill(T *x, long n) { x[n - 1] = 0; }
    template void fill<double>(double *, long);
    }
    """
    kernels, _ = specs_from_library(shared(tmp_path, code, "-g", compiler="g++"))
    names = by_name(kernels)
    assert set(names) == {"blas::scale.double.long", "blas::scale.float.long", "blas::fill"}
    assert names["blas::scale.double.long"].symbol == "_ZN4blas5scaleEPdl"


@needs("g++", "c++filt")
def test_instances_of_a_template_are_told_apart_by_its_arguments(tmp_path: Path) -> None:
    code = """
    template <class T, int U> void scale(T *x, long n) { x[n - 1] *= U; }
    template void scale<double, 4>(double *, long);
    template void scale<float, 4>(float *, long);
    """
    path = shared(tmp_path, code, "-g", compiler="g++")
    assert [kernel.name for kernel in specs_from_library(path)[0]] == ["scale.double.4", "scale.float.4"]
    assert "# void scale<double, 4>(double *x, long int n)" in draft_spec(path).splitlines()


@needs("g++", "c++filt")
def test_very_long_names_are_cut_and_stay_apart(tmp_path: Path) -> None:
    long = "a" * 80
    code = f"""
    namespace {long} {{
    void f(double *x, long n) {{ x[n - 1] = 0; }}
    void f(float *x, long n) {{ x[n - 1] = 0; }}
    void f(int *x, long n) {{ x[n - 1] = 0; }}
    }}
    """
    kernels, _ = specs_from_library(shared(tmp_path, code, "-g", compiler="g++"))
    names = [kernel.name for kernel in kernels]
    assert len(set(names)) == 3
    assert all(len(name) <= 70 for name in names)
    assert all(name.startswith("aaaa") for name in names)


class TestDraft:
    @pytest.mark.parametrize("kind", ["library", "opened", "source"])
    def test_reads_back_as_the_guessed_kernels(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "kernels.c").write_text(CODE)
        library = tmp_path / "kernels.c" if kind == "source" else shared(tmp_path, CODE, "-g")
        text = draft_spec(open_library(library) if kind == "opened" else library)
        (tmp_path / "draft.toml").write_text(text)
        assert counteroof.load(tmp_path / "draft.toml") == specs_from_library(library)[0]

    def test_shows_signatures_guesses_and_what_was_left_out(self, tmp_path: Path) -> None:
        text = draft_spec(shared(tmp_path, CODE, "-g"))
        for line in (
            "# void triad(double *a, const double *b, const double *c, double s, size_t n)",
            'name = "triad"',
            "params = { n = 4_000_000 }",
            "small = { n = 10_000 }",
            'args.a = { dtype = "f64", shape = "n", init = "random" }',
            'args.b = { dtype = "f64", shape = "n", init = { kind = "random", seed = 1 }, access = "read" }',
            'args.p = { dtype = "f32", shape = ["n", 3], init = "random" }',
            "args.s = 1.0   # a guess",
            'args.c = { dtype = "f64", shape = "n**2", init = { kind = "random", seed = 6 } }   '
            "# a guess: room for all sizes together; write what the function reaches",
            'args.n = "n"',
            '# declared = { flops = "2*n", bytes = "24*n", source = "who says so" }',
            "# Left out (3):",
            "#   apply takes f, a callback",
        ):
            assert line in text.splitlines()

    def test_of_a_library_without_debug_information_names_its_functions(self, tmp_path: Path) -> None:
        code = "".join(f"void function{i:03}(double *a) {{ a[0] = {i}; }}\n" for i in range(150))
        text = draft_spec(shared(tmp_path, code, "-g0"))
        assert (
            "# What they take is not known: it has no debug information (built without -g, or stripped)."
            in text
        )
        assert "# Its functions (150):" in text
        assert "#   function007\n" in text
        assert "#   ... and 50 more" in text
        assert (
            '# header = "foo.h"   # or give each kernel its signature, or compile the library with -g' in text
        )
        assert set(tomli.loads(text)) == {"library"}

    def test_example_entry_of_the_comments_is_a_correct_spec(self, tmp_path: Path) -> None:
        path = shared(tmp_path, "void axpy(unsigned long n, double a, const double *x, double *y) {}", "-g0")
        head, _, example = draft_spec(path).partition("# An entry looks like this:\n#\n")
        (tmp_path / "draft.toml").write_text(head + example.replace("\n# ", "\n").removeprefix("# "))
        (kernel,) = counteroof.load(tmp_path / "draft.toml")
        assert len(resolve_signature(kernel, open_library(path)).params) == 4
        assert kernel.cases("default")[0].declared_bytes == 96_000_000

    def test_of_a_path_with_strange_characters(self, tmp_path: Path) -> None:
        folder = tmp_path / 'a "quoted"\\ \U0001f600 name'
        folder.mkdir()
        path = shared(tmp_path, CODE, "-g")
        path.rename(folder / "lib.so")
        (tmp_path / "draft.toml").write_text(draft_spec(folder / "lib.so"))
        assert counteroof.load(tmp_path / "draft.toml")[0].library.path == os.fspath(folder / "lib.so")
