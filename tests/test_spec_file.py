"""TOML specs: what a correct one gives, and how every mistake is reported."""
# ruff: noqa: E501  (a case a line reads better)

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counteroof import load
from counteroof.errors import SpecError
from counteroof.formula import Formula
from counteroof.spec import (
    INITS,
    ArrayArg,
    ArrayRef,
    Init,
    KernelSpec,
    NullArg,
    ResultArg,
    ScalarArg,
    StructArg,
    StructField,
)

TRIAD = """
[library]
sources = ["foo.c"]
cflags = ["-O3", "-march=native"]
header = "foo.h"

[[kernel]]
name = "triad"
symbol = "triad"
signature = "void triad(double *a, const double *b, const double *c, double s, size_t n)"
params = { n = 20_000_000 }
small = { n = 1000 }
args = { a = { dtype = "f64", shape = "n", init = "zeros" }, b = { dtype = "f64", shape = "n", init = "random" },
         c = { dtype = "f64", shape = "n", init = { kind = "random", seed = 1 } }, s = 3.0, n = "n" }
declared = { flops = "2*n", bytes = "24*n", source = "McCalpin" }
precision = "f64"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "foo.c").write_text("void triad(void) {}\n")
    (tmp_path / "foo.h").write_text("void triad(void);\n")
    (tmp_path / "ref.py").write_text("def triad(arrays, params): return {}\n")
    return tmp_path


def read(folder: Path, text: str) -> tuple[KernelSpec, ...]:
    path = folder / "kernels.toml"
    path.write_text(text)
    return load(path)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as error:
        read(folder, text)
    return [str(problem).replace(f"{folder}/", "") for problem in error.value.problems]


def kernel(body: str, library: str = "sources = ['foo.c']") -> str:
    return f"[library]\n{library}\n[[kernel]]\nname = 'f'\nparams = {{ n = 10 }}\n{body}\n"


def test_the_spec_of_the_documentation_reads_as_written(folder: Path) -> None:
    (triad,) = read(folder, TRIAD)
    assert triad.library.sources == (str(folder / "foo.c"),)
    assert triad.library.header == str(folder / "foo.h")
    assert triad.library.cflags == ("-O3", "-march=native")
    assert triad.params == {"n": (20_000_000,)}
    assert triad.small == {"n": 1000}
    n = Formula("n")
    assert triad.args == (
        ArrayArg("a", "f64", (n,)),
        ArrayArg("b", "f64", (n,), Init("random")),
        ArrayArg("c", "f64", (n,), Init("random", {"seed": 1})),
        ScalarArg("s", 3.0),
        ScalarArg("n", n),
    )
    assert (triad.declared.flops, triad.declared.bytes) == (Formula("2*n"), Formula("24*n"))
    assert triad.declared.source == "McCalpin"
    assert (triad.precision, triad.threads, triad.cache, triad.time_limit) == ("f64", 1, "warm", None)


def test_every_other_key_has_its_place(folder: Path) -> None:
    (f,) = read(
        folder,
        kernel(
            """
symbol = "g"
threads = 2
cache = "cold"
time_limit = 5
rtol = 1e-5
reference = "ref.py:triad"
family = "examples"
title = "An example"
env = { OMP_NUM_THREADS = "2", MALLOC_ARENA_MAX = "" }
args.x = { dtype = "i32", shape = ["n", 3], access = "read", align = 4096, init = { kind = "arange", start = "n" } }
args.nothing = { null = true }
args.again = { array = "x" }
args.also = "x"
args.plan = { result = "plan" }
args.config.struct = { rows = { dtype = "i32", value = "2*n" }, scale = { dtype = "f64", value = 0.5 } }
buffers.work = { dtype = "u8", shape = 64 }
[[kernel.setup]]
symbol = "make_plan"
args = { n = "n", in = "x", out = "work", flags = 64 }
result = "plan"
"""
        ),
    )
    assert (f.symbol, f.threads, f.cache, f.time_limit, f.rtol) == ("g", 2, "cold", 5.0, 1e-5)
    assert f.reference == f"{folder / 'ref.py'}:triad"
    assert (f.family, f.title) == ("examples", "An example")
    assert f.env == {"OMP_NUM_THREADS": "2", "MALLOC_ARENA_MAX": ""}
    n = Formula("n")
    assert f.args == (
        ArrayArg("x", "i32", (n, Formula("3")), Init("arange", {"start": n}), "read", 4096),
        NullArg("nothing"),
        ArrayRef("again", "x"),
        ArrayRef("also", "x"),
        ResultArg("plan", "plan"),
        StructArg("config", (StructField("rows", "i32", Formula("2*n")), StructField("scale", "f64", 0.5))),
    )
    assert f.buffers == (ArrayArg("work", "u8", (Formula("64"),)),)
    (call,) = f.setup
    assert (call.symbol, call.result) == ("make_plan", "plan")
    assert call.args == (
        ScalarArg("n", n),
        ArrayRef("in", "x"),
        ArrayRef("out", "work"),
        ScalarArg("flags", 64),
    )


def test_a_list_of_values_makes_a_sweep(folder: Path) -> None:
    (triad,) = read(folder, TRIAD.replace("n = 20_000_000", "n = [1000, 2000]"))
    assert [case.params["n"] for case in triad.cases()] == [1000, 2000]


def test_a_kernel_may_have_a_library_of_its_own(folder: Path) -> None:
    (f,) = read(folder, "[[kernel]]\nname = 'sqrt'\nlibrary.path = 'libm.so.6'\nargs = { x = 2.0 }")
    assert f.library.path == "libm.so.6"


def test_a_kernel_without_a_name_is_called_like_its_function(folder: Path) -> None:
    (f,) = read(folder, "[[kernel]]\nsymbol = 'sqrt'\nlibrary.path = 'libm.so.6'\nargs = { x = 2.0 }")
    assert (f.name, f.symbol) == ("sqrt", "sqrt")


def test_a_library_inside_a_python_package_is_found(folder: Path) -> None:
    (f,) = read(folder, kernel("", "path = 'python:numpy/version.py'"))
    import numpy

    assert f.library.path == str(Path(numpy.__file__).parent / "version.py")


@pytest.mark.parametrize("kind", INITS)
def test_every_way_to_fill_an_array_can_be_written(folder: Path, kind: str) -> None:
    (folder / "x.npy").write_bytes(b"")
    options = {
        "constant": "value = 3",
        "csr_indptr": "rows = 'n - 1', nnz_per_row = 2",
        "csr_indices": "rows = 'n // 2', cols = 'n', nnz_per_row = 2",
        "file": "path = 'x.npy'",
    }.get(kind, "")
    init = f"{{ kind = '{kind}'{', ' if options else ''}{options} }}"
    (f,) = read(folder, kernel(f"args.x = {{ dtype = 'i32', shape = 'n', init = {init} }}"))
    assert f.arrays[0].init.kind == kind
    assert f.arrays[0].init.values({"n": 10}).keys() == INITS[kind].keys()


def test_all_mistakes_of_a_file_are_reported_together(folder: Path) -> None:
    found = mistakes(
        folder,
        """
[library]
path = "missing.so.1/x"
sources = ["foo.c"]
[[kernel]]
name = "triad"
signatur = "void triad(double *a)"
params = { n = 0, m = "many" }
args = { a = { dtype = "float64", shape = "n" }, b = { dtype = "f64", shape = "k", init = "randon" }, s = true }
declared = { flops = "2*", bytes = "24*nn" }
precision = "fp64"
[[kernel]]
name = "triad"
cache = "hot"
args = { a = { dtype = "f64", shape = 0 } }
""",
    )
    assert found == [
        "kernels.toml.library.path: found 'missing.so.1/x', but there is no file missing.so.1/x; "
        "expected an existing file",
        "kernels.toml: kernel triad: found unknown key 'signatur' (did you mean 'signature'?); expected only name, "
        "symbol, signature, params, small, args, buffers, setup, declared, precision, threads, cache, time_limit, "
        "env, native, reference, rtol, family, title, library",
        "kernels.toml: kernel triad.params.m: found 'many'; expected a number or a list of numbers",
        "kernels.toml: kernel triad.args.s: found True; expected a number, a formula, { dtype, shape, init }, "
        "{ array = name }, { null = true }, { result = name } or { struct = { field = { dtype, value } } }",
        "kernels.toml: kernel triad.declared.flops: found formula '2*' is not an expression (invalid syntax); "
        "expected a formula in the parameters, such as '2*n'",
        "kernels.toml: kernel triad.library: found both path and sources; expected one of them",
        "kernels.toml: kernel triad.precision: found 'fp64' (did you mean 'f64'?); expected one of f16, bf16, f32, "
        "f64",
        "kernels.toml: kernel triad.args.a.dtype: found 'float64' (did you mean 'f64'?); expected one of f16, f32, "
        "f64, c64, c128, i8, i16, i32, i64, u8, u16, u32, u64",
        "kernels.toml: kernel triad.args.b.shape: found unknown parameter 'k' in 'k'; expected a formula in the "
        "parameters: one of n, m",
        "kernels.toml: kernel triad.args.b.init: found 'randon' (did you mean 'random'?); expected one of zeros, "
        "random, arange, permutation, constant, csr_indptr, csr_indices, file",
        "kernels.toml: kernel triad.declared.bytes: found unknown parameter 'nn' (did you mean 'n'?) in '24*nn'; "
        "expected a formula in the parameters: one of n, m",
        "kernels.toml: kernel triad.cache: found 'hot'; expected one of warm, cold",
        "kernels.toml: kernel triad.args.a.shape: found formula '0' is 0, not a positive extent; "
        "expected whole, positive extents",
        "kernels.toml: found 2 kernels named 'triad'; expected a name of its own for every kernel",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("args.x = { dtype = 'f64', shape = 'n - 10' }", "args.x.shape: found formula 'n - 10' is 0, not a positive extent"),
        ("args.x = { dtype = 'f64', shape = 'n - 11' }", "'n - 11' is -1"),
        ("args.x = { dtype = 'f64', shape = 'n, n' }", "or a list of them, such as ['n', 'm']"),
        ("args.x = { dtype = 'f64', shape = 'n / 4' }", "not a whole number"),
        ("args.x = { dtype = 'f64', shape = '10**14' }", "at most this machine's memory"),
        ("args.x = { dtype = 'f64', shape = 'n**300' }", "has more than 256 bits"),
        ("args.x = { dtype = 'f64' }", "args.x: found no shape"),
        ("args.x = { shape = 'n' }", "args.x: found no dtype"),
        ("args.x = { dtype = 'f64', shape = [] }", "found 0 extents; expected 1 to 8"),
        ("args.x = { dtype = 'f64', shape = 'n', align = 48 }", "args.x.align: found 48; expected a power of two"),
        ("args.x = { dtype = 'f64', shape = 'n', access = 'wirte' }", "(did you mean 'write'?)"),
        ("args.x = { dtype = 'f64', shape = 'n', sahpe = 1 }", "unknown key 'sahpe' (did you mean 'shape'?)"),
        ("args.n = { dtype = 'f64', shape = 'n' }", "found 'n' as both array and parameter"),
        ("args.return = 3", "found 'return'; expected a C identifier other than 'return'"),
        ("args.2x = 3", "found '2x'; expected a C identifier"),
        ("args.x = { nul = true }", "args.x: found {'nul': True}; expected a number, a formula"),
        ("args.x = { null = false }", "args.x: found {'null': False}"),
        ("args.x = { array = 'y' }", "args.x: found unknown array 'y'"),
        ("args.x = { result = 'plan' }", "args.x: found unknown result 'plan'"),
        ("args.x = nan", "args.x: found nan; expected a finite number"),
        ("args.x = 99999999999999999999", "a number that fits in 64 bits"),
        ("args.x = 'sqrt(n - 11)'", "sqrt of -1"),
        ("args.x.struct = {}", "a struct without fields"),
        ("args.x.struct = { y = { dtype = 'f65', value = 1 } }", "args.x.y.dtype: found 'f65'"),
        ("args.x.struct = { y = { dtype = 'f64' } }", "args.x.struct.y: found no value"),
        ("args.x = { dtype = 'f64', shape = 'n', init = 'constant' }", "constant without 'value'"),
        ("args.x = { dtype = 'f64', shape = 'n', init = 3 }", "args.x.init: found 3; expected a kind"),
        ("args.x = { dtype = 'f64', shape = 'n', init = 'permutation' }", "an integer type, as permutation needs"),
        (
            "args.x = { dtype = 'i32', shape = 'n', init = { kind = 'csr_indptr', rows = 'n', nnz_per_row = 2 } }",
            "csr_indptr for 10 elements; expected rows + 1 = 11 elements",
        ),
        ("args.x = { dtype = 'i32', shape = 'n', init = { kind = 'random', sed = 2 } }", "(did you mean 'seed'?)"),
        ("args.x = { dtype = 'i32', shape = 'n', init = { kind = 'random', seed = -2 } }", "init.seed: found -2"),
        ("args.x = { dtype = 'i32', shape = 'n', init = { kind = 'random', low = 5, high = 5 } }", "low below high"),
        ("args.x = { dtype = 'f32', shape = 'n', init = { kind = 'file', path = 'no.npy' } }", "there is no file"),
        ("args = 3", "args: found 3; expected a table"),
        ("buffers.x = 3", "buffers.x: found 3; expected { dtype, shape, init }"),
        ("small = { m = 3 }", "small: found unknown parameter 'm'; expected one of n"),
        ("small = { n = [3] }", "small.n: found [3]; expected a number"),
        ("threads = 0", "threads: found 0"),
        ("threads = 1.5", "threads: found 1.5; expected a whole number"),
        ("time_limit = 0", "time_limit: found 0.0; expected a positive number of seconds"),
        ("time_limit = inf", "time_limit: found inf; expected a finite number"),
        ("rtol = 2", "rtol: found 2.0"),
        ("env = { A = 1 }", "env.A: found 1; expected a text"),
        ("env = { 'A=B' = '1' }", "names of environment variables"),
        ("reference = 'numpy'", "reference: found 'numpy'; expected 'module:function'"),
        ("reference = 'no.py:f'", "there is no file no.py"),
        ("signature = 'nonsense'", "signature: found 'nonsense'; expected a C prototype such as 'void f(double *a"),
        ("signature = 'void g(void)'", "found a prototype of 'g'; expected one of 'f'"),
        ("signature = 'void f(int (*g)(int, int), int n)'\nargs.x = 3", "found 2 parameters in"),
        ("declared = { flops = -1 }", "declared.flops: found -1 for n = 10; expected a number that is not negative"),
        ("declared = { flops = '1/(n - 10)' }", "declared.flops: found formula '1/(n - 10)' has no value for n = 10"),
        ("declared = { flop = 1 }", "unknown key 'flop' (did you mean 'flops'?)"),
        ("setup = [3]", "setup: found 3; expected [[kernel.setup]] tables"),
        ("setup = [{ args = {} }]", "setup 1.symbol: found nothing"),
        (
            "setup = [{ symbol = 'g', args = { x = { dtype = 'f64', shape = 1 } } }]",
            "found an array made here; expected the name of one of the kernel's arrays or buffers",
        ),
        ("library.path = 'foo.c'\nlibrary.sources = ['foo.c']", "both path and sources"),
        ("library = {}", "neither path nor sources"),
        ("library.sources = []", "sources: found an empty list"),
        ("library.sources = ['bar.c']", "there is no file bar.c"),
        ("library.path = 'foo.c'\nlibrary.cflags = ['-O2']", "flags only beside sources"),
        ("library.path = 'python:no_such_package_here/x.so'", "no Python package 'no_such_package_here'"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(folder: Path, body: str, message: str) -> None:
    found = mistakes(folder, kernel(body))
    assert len(found) == 1, found
    assert message in found[0]
    assert found[0].startswith("kernels.toml: kernel f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "kernels.toml: found no [[kernel]] table; expected at least one"),
        ("[kernel]\nname = 'f'", "expected [[kernel]] tables"),
        ("kernel = [1]", "expected [[kernel]] tables"),
        ("[[kernels]]", "unknown key 'kernels' (did you mean 'kernel'?)"),
        ("[[kernel]]\nname = 'f'", "kernel f.library: found nothing; expected a [library] table"),
        (
            "[library]\npath = 'libm.so.6'\n[[kernel]]\nthreads = 1",
            "kernel 1.name: found nothing; expected the",
        ),
        ("[library]\npath = 'libm.so.6'\n[[kernel]]\nsymbol = 'f'\nthreads = 0", "kernel f.threads: found 0"),
        ("[library]\npath = 3\n[[kernel]]\nname = 'f'", "library.path: found 3; expected a text"),
        ("x = ", "a mistake in the TOML syntax"),
        ("x = " + "9" * 5000, "a mistake in the TOML syntax"),
        ("x = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_spec_is_reported(folder: Path, text: str, message: str) -> None:
    assert any(message in found for found in mistakes(folder, text))


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        load(tmp_path / "missing.toml")
    with pytest.raises(SpecError, match="directory"):
        load(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\x7fELF\xff\xff")
    with pytest.raises(SpecError, match="not UTF-8 at offset 4"):
        load(tmp_path / "binary.toml")


def test_memory_can_be_left_to_whoever_runs_smaller_sizes(folder: Path) -> None:
    path = folder / "large.toml"
    path.write_text(TRIAD.replace("20_000_000", "10**14").replace("10**14", "100_000_000_000_000"))
    with pytest.raises(SpecError, match="this machine's memory"):
        load(path)
    (triad,) = load(path, check_memory=False)
    assert triad.cases("small")[0].array_bytes == 24_000
    with pytest.raises(SpecError, match="this machine's memory"):
        triad.cases()


KEYS = (
    *("library", "kernel", "name", "symbol", "signature", "params", "small", "args", "buffers", "setup"),
    *(
        "declared",
        "precision",
        "threads",
        "cache",
        "time_limit",
        "env",
        "reference",
        "rtol",
        "path",
        "sources",
    ),
    *(
        "dtype",
        "shape",
        "init",
        "kind",
        "value",
        "struct",
        "null",
        "array",
        "result",
        "flops",
        "bytes",
        "n",
        "a",
    ),
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(
        ["f64", "n", "2*n", "zeros", "random", "csr_indices", "foo.c", "a", "warm", "1/0", "f(x)"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


def toml(value: Any) -> str:
    """Write a value as TOML; texts in the basic form with everything unusual escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        plain = string.ascii_letters + string.digits + " _*+/().-"
        return '"' + "".join(c if c in plain else f"\\U{ord(c):08x}" for c in value) + '"'
    text = repr(value)
    return text if isinstance(value, int) or any(c in text for c in ".en") else text + ".0"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kernels=st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), max_size=2), library=VALUES
)
def test_no_table_raises_anything_but_spec_error(folder: Path, kernels: list[Any], library: Any) -> None:
    text = "\n".join(f"{key} = {toml(value)}" for key, value in (("library", library), ("kernel", kernels)))
    tomli.loads(text)
    try:
        specs = read(folder, text)
    except SpecError as error:
        specs, problems = (), error.problems
        assert problems and all("\n" not in problem.where for problem in problems)  # noqa: PT018
    for spec in specs:
        assert spec.cases()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, len(TRIAD)), length=st.integers(0, 30), text=st.text(max_size=10))
def test_no_damaged_spec_raises_anything_but_spec_error(
    folder: Path, start: int, length: int, text: str
) -> None:
    path = folder / "damaged.toml"
    path.write_bytes((TRIAD[:start] + text + TRIAD[start + length :]).encode("utf-8", "surrogatepass"))
    try:
        load(path)
    except SpecError:
        return
