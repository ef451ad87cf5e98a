"""Opening, loading and asking a library: names, signatures, and clear answers when something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from counteroof.errors import LibraryError
from counteroof.library import (
    Library,
    address_to_symbol,
    describe_address,
    locate,
    open_library,
    resolve_signature,
    source_line,
)
from counteroof.names import demangle, nearest
from counteroof.spec import KernelSpec, LibrarySpec, SetupCall

from .compiled import link, needs, shared

pytestmark = needs("gcc")

CODE = """
static int started;
__attribute__((constructor)) static void start(void) { started = 42; }
int was_started(void) { return started; }
void daxpy(long n, double a, const double *x, double *y) { for (long i = 0; i < n; i++) y[i] += a * x[i]; }
void saxpy(long n, float a, const float *x, float *y) { for (long i = 0; i < n; i++) y[i] += a * x[i]; }
struct point { double x, y; };
double norm(struct point p) { return p.x + p.y; }
int logs(const char *format, ...) { return format[0]; }
"""
DAXPY = "void daxpy(long n, double a, const double *x, double *y)"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory.mktemp("library"), CODE, "-g", "-fno-inline")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory.mktemp("bare"), CODE, "-g0")


def kernel(path: Path, symbol: str = "daxpy", **fields: str | None) -> KernelSpec:
    return KernelSpec(
        name="k",
        library=LibrarySpec(path=str(path), header=fields.get("header")),
        symbol=symbol,
        args=(),
        signature=fields.get("signature"),
    )


class TestMissingSymbol:
    def test_nearest_names_are_given(self, library: Path) -> None:
        with pytest.raises(
            LibraryError, match="exports no function 'axpy'; the nearest names are: daxpy, saxpy"
        ):
            open_library(library).export("axpy")

    def test_no_name_is_near(self, library: Path) -> None:
        with pytest.raises(LibraryError, match="none of its 5 functions has a similar name"):
            open_library(library).export("zzzzzz")

    def test_library_that_exports_nothing(self, tmp_path: Path) -> None:
        path = shared(tmp_path, "static int f(void) { return 0; }")
        with pytest.raises(LibraryError, match="it exports no functions at all"):
            open_library(path).export("f")

    @needs("g++", "c++filt")
    def test_mangled_names_are_shown_readably(self, tmp_path: Path) -> None:
        path = shared(tmp_path, "void smooth(double *a, int n) { a[n] = 0; }", compiler="g++")
        assert open_library(path).demangled() == {"_Z6smoothPdi": "smooth(double*, int)"}
        with pytest.raises(LibraryError, match=r"_Z6smoothPdi \[smooth\(double\*, int\)\]"):
            open_library(path).export("smooth")


def test_names_that_contain_the_wanted_one_come_before_look_alikes() -> None:
    names = ["dgemm", "scipy_cblas_dgemm64_", "cblas_dgemm", "dgemv_"]
    assert nearest("dgemm_", names) == ["dgemm", "cblas_dgemm", "scipy_cblas_dgemm64_", "dgemv_"]


def test_names_that_are_not_cpp_stay_as_they_are() -> None:
    assert demangle(["daxpy_", "_start"]) == {"daxpy_": "daxpy_", "_start": "_start"}


class TestSignature:
    def test_of_the_spec_goes_before_debug_information(self, library: Path) -> None:
        found = resolve_signature(
            kernel(library, signature="void daxpy(size_t, double, double *, double *)"), open_library(library)
        )
        assert found.source == "prototype"

    def test_of_the_header_goes_before_debug_information(self, library: Path, tmp_path: Path) -> None:
        (tmp_path / "k.h").write_text(f"{DAXPY};")
        found = resolve_signature(kernel(library, header=str(tmp_path / "k.h")), open_library(library))
        assert (found.source, str(found)) == ("header", DAXPY)

    def test_of_debug_information_where_the_header_does_not_declare_it(
        self, library: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "k.h").write_text("void other(int n);")
        found = resolve_signature(kernel(library, header=str(tmp_path / "k.h")), open_library(library))
        assert found.source == "debug info"

    def test_of_a_set_up_call(self, bare: Path) -> None:
        setup = SetupCall("was_started", (), "int was_started(void)")
        assert str(resolve_signature(kernel(bare), open_library(bare), setup)) == "int was_started(void)"

    def test_none_to_be_had_names_the_three_ways_to_give_one(self, bare: Path, tmp_path: Path) -> None:
        (tmp_path / "k.h").write_text("void other(int n);")
        with pytest.raises(LibraryError) as caught:
            resolve_signature(kernel(bare, header=str(tmp_path / "k.h")), open_library(bare))
        for part in (
            "daxpy: its arguments are not known", "k.h does not declare it", "no debug information",
            'signature = "void daxpy(...)" in the kernel\'s entry',
            'header = "..." in [library]', "compiled with -g",
        ):  # fmt: skip
            assert part in str(caught.value)

    def test_that_contradicts_debug_information_is_refused(self, library: Path) -> None:
        wrong = kernel(library, signature="void daxpy(long n, float a, const double *x, double *y)")
        with pytest.raises(
            LibraryError,
            match="does not fit the library's debug information: parameter 2 is float against double",
        ):
            resolve_signature(wrong, open_library(library))

    def test_of_another_function_is_refused(self, library: Path) -> None:
        with pytest.raises(LibraryError, match="declares daxpy, but the kernel's symbol is saxpy"):
            resolve_signature(kernel(library, "saxpy", signature=DAXPY), open_library(library))

    def test_missing_symbol_is_noticed_even_with_a_signature(self, library: Path) -> None:
        with pytest.raises(LibraryError, match="exports no function 'zaxpy'"):
            resolve_signature(kernel(library, "zaxpy", signature="void zaxpy(int n)"), open_library(library))

    @pytest.mark.parametrize(
        ("symbol", "reason"), [("norm", "struct point by value"), ("logs", "variable number of arguments")]
    )
    def test_that_cannot_be_called_is_refused_with_the_reason(
        self, library: Path, symbol: str, reason: str
    ) -> None:
        with pytest.raises(LibraryError, match=f"{symbol} cannot be called: .*{reason}"):
            resolve_signature(kernel(library, symbol), open_library(library))


class TestLoad:
    """Loading runs constructors, so each test does it in a process of its own, as the worker does."""

    def python(self, code: str, **environment: str) -> str:
        script = f"from counteroof.library import *\nfrom counteroof.errors import LibraryError\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def refusal(self, path: Path) -> str:
        return self.python(f"try: load({str(path)!r})\nexcept LibraryError as error: print(error)")

    def test_address_is_base_plus_offset_and_the_function_works(self, library: Path) -> None:
        said = self.python(
            f"import ctypes; loaded = load({str(library)!r}); address = loaded.address('was_started')\n"
            f"offset = open_library({str(library)!r}).export('was_started').offset\n"
            "print(address == loaded.base + offset, ctypes.CFUNCTYPE(ctypes.c_int)(address)())"
        )
        assert said == "True 42"

    def test_opening_does_not_run_the_code(self, tmp_path: Path) -> None:
        path = shared(
            tmp_path,
            "#include <stdlib.h>\nint f(int x) { return x; }\n"
            "__attribute__((constructor)) static void start(void) { _Exit(3); }",
            "-g",
        )
        assert self.python(f"print(open_library({str(path)!r}).signature('f'))") == "int f(int x)"

    def test_older_version_of_a_symbol_has_its_own_address(self, tmp_path: Path) -> None:
        (tmp_path / "versions").write_text("V1 { global: work; local: *; }; V2 { global: work; } V1;")
        code = """
        int a(void) { return 1; }
        int b(void) { return 2; }
        __asm__(".symver a, work@V1");
        __asm__(".symver b, work@@V2");
        """
        path = shared(tmp_path, code, "-Wl,--version-script=versions")
        said = self.python(
            f"import ctypes; loaded = load({str(path)!r})\n"
            "for name in ('work', 'work@V1', 'work@@V2'):\n"
            "    print(ctypes.CFUNCTYPE(ctypes.c_int)(loaded.address(name))())"
        )
        assert said.split() == ["2", "1", "2"]

    def test_missing_symbol_gives_the_nearest_names(self, library: Path) -> None:
        said = self.python(
            f"try: load({str(library)!r}).address('daxpi')\nexcept LibraryError as error: print(error)"
        )
        assert "exports no function 'daxpi'; the nearest names are: daxpy" in said

    def test_missing_dependency_is_named(self, tmp_path: Path) -> None:
        shared(tmp_path, "int g(void) { return 1; }", "-Wl,-soname,libgone.so.7", name="libgone.so")
        path = shared(tmp_path, "int g(void); int f(void) { return g(); }", "-L.", "-lgone")
        (tmp_path / "libgone.so").unlink()
        said = self.refusal(path)
        assert f"{path} needs libgone.so.7, which the dynamic loader does not find" in said
        assert "LD_LIBRARY_PATH" in said

    def test_unresolved_symbol_is_named(self, tmp_path: Path) -> None:
        path = shared(tmp_path, "int nowhere(void); int f(void) { return nowhere(); }")
        assert f"{path} uses nowhere, which neither it nor a library it is linked to defines" in self.refusal(
            path
        )

    def test_file_that_is_no_library(self, tmp_path: Path) -> None:
        (tmp_path / "x.so").write_text("hello")
        assert "not an ELF shared library, but a text file" in self.refusal(tmp_path / "x.so")


class TestLocate:
    def test_bare_name_is_looked_for_where_the_loader_looks(self) -> None:
        path = locate("libc.so.6")
        assert path.is_absolute()
        assert "memcpy" in open_library("libc.so.6").functions

    def test_library_path_goes_first(self, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", f"/nonexistent:{library.parent}")
        assert locate("libtest.so") == library

    def test_unknown_name_gives_the_nearest(self) -> None:
        with pytest.raises(LibraryError, match=r"the dynamic loader knows no library of that name"):
            locate("libcounteroof-nothing.so.6")

    def test_file_is_made_absolute(self, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(library.parent)
        assert locate("libtest.so") == library
        assert locate("./libtest.so") == library


class TestAddress:
    def test_is_named_by_symbol_and_line(self, library: Path) -> None:
        export = open_library(library).export("daxpy")
        line = CODE.splitlines().index(next(text for text in CODE.splitlines() if "daxpy" in text)) + 1
        assert address_to_symbol(library, export.offset + 3) == "daxpy"
        assert source_line(library, export.offset) == (str(library.with_suffix(".c")), line)
        assert describe_address(library, export.offset + 1) == f"daxpy+0x1 (libtest.c:{line})"

    def test_of_a_static_function_is_named_too(self, library: Path) -> None:
        opened = open_library(library)
        names = {opened.symbol_at(offset)[0] for offset in range(0x1000, 0x1400) if opened.symbol_at(offset)}  # type: ignore[index]
        assert "start" in names

    def test_outside_all_functions_has_no_symbol(self, library: Path) -> None:
        assert address_to_symbol(library, 8) is None
        assert describe_address(library, 8) == "libtest.so+0x8"

    def test_of_an_executable_is_named_too(self, tmp_path: Path) -> None:
        (tmp_path / "main.c").write_text(
            "int helper(int x) { return x; }\nint main(void) { return helper(0); }"
        )
        path = link(tmp_path, ["gcc", "-g", "-O0", "main.c"], "program")
        starts = {name: start for start, _, name in Library(path, shared=False)._code_index[1]}
        assert describe_address(path, starts["helper"]) == "helper+0x0 (main.c:1)"

    @pytest.mark.parametrize("name", ["[vdso]", "/nonexistent/lib.so", __file__])
    def test_of_something_else_stays_a_number(self, name: str) -> None:
        assert describe_address(name, 16) == f"{os.path.basename(name)}+0x10"
        assert address_to_symbol(name, 16) is None
        assert source_line(name, 16) is None

    def test_of_assembly_without_sizes_reaches_to_the_next_symbol(self, tmp_path: Path) -> None:
        (tmp_path / "asm.s").write_text(".text\n.globl one\none:\n nop\n nop\n.globl two\ntwo:\n ret\n")
        path = link(tmp_path, ["gcc", "-shared", "asm.s"], "libasm.so")
        opened = open_library(path)
        starts = [start for start, _, name in opened._code_index[1] if name in ("one", "two")]
        assert [opened.symbol_at(start) for start in starts] == [("one", 0), ("two", 0)]
        assert opened.symbol_at(starts[0] + 1) == ("one", 1)

    def test_of_a_call_through_the_procedure_table_has_no_symbol(self, tmp_path: Path) -> None:
        """The table follows on _init, which has no size."""
        code = "#include <math.h>\ndouble f(double x) { return sin(x); }"
        opened = open_library(shared(tmp_path, code, "-lm"))
        table = opened._elf.sections.get(".plt.sec") or opened._elf.sections[".plt"]
        assert opened.symbol_at(table.address) is None


@pytest.mark.fftw
def test_fftw_from_the_system() -> None:
    try:
        opened = open_library("libfftw3.so.3")
    except LibraryError as error:
        pytest.skip(str(error))
    assert "fftw_execute" in opened.functions


def test_openblas_from_its_wheel() -> None:
    blas = pytest.importorskip("scipy_openblas64")
    (path,) = Path(blas.get_lib_dir()).glob("libscipy_openblas64_*.so")
    opened = open_library(path)
    assert len(opened.functions) > 3000
    with pytest.raises(LibraryError, match="the nearest names are: scipy_cblas_dgemm64_"):
        opened.export("cblas_dgemm")
    offset = opened.export("scipy_cblas_dgemm64_").offset
    assert address_to_symbol(path, offset + 9) == "scipy_cblas_dgemm64_"
