"""The test kernels, compiled once, and a short way to make cases of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counteroof.build import compile_sources, find_compiler
from counteroof.formula import Formula
from counteroof.spec import Argument, KernelCase, KernelSpec, LibrarySpec, ScalarArg, array

SOURCE = Path(__file__).with_name("kernels.c")
FLAGS = ("-O1", "-g", "-pthread")

Case = Callable[..., KernelCase]


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> LibrarySpec:
    """The library of ``kernels.c``, built in a cache of its own."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        built = compile_sources(LibrarySpec(sources=(str(SOURCE),), cflags=FLAGS))
    return LibrarySpec(path=built.path)


@pytest.fixture(scope="session")
def case(kernels: LibrarySpec) -> Case:
    """Makes a case of a symbol in ``kernels.c``; it takes ``(double *a, size_t n)`` unless args are given."""

    def make(symbol: str, args: tuple[Argument, ...] | None = None, n: int = 10, **fields: Any) -> KernelCase:
        access = fields.pop("access", None)
        default = (array("a", "f64", "n", "random", access=access), ScalarArg("n", Formula("n")))
        spec = KernelSpec(
            name=symbol,
            library=fields.pop("library", kernels),
            symbol=symbol,
            params={"n": (n,)},
            args=default if args is None else args,
            **fields,
        )
        return spec.cases()[0]

    return make


@pytest.fixture
def triad_args() -> tuple[Argument, ...]:
    return (
        array("a", "f64", "n"),
        array("b", "f64", "n", "random", access="read"),
        array("c", "f64", "n", "random", access="read"),
        ScalarArg("s", 3.0),
        ScalarArg("n", Formula("n")),
    )
