"""Kernels counted in the worker by groups of events, as the command line would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from counteroof.count.base import Measurement
from counteroof.formula import Formula
from counteroof.run.execute import execute
from counteroof.spec import KernelSpec, LibrarySpec, ScalarArg, array

from .test_perf import needs_software_events

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
static void *fresh(void *pages) {
    size_t bytes = (size_t)pages * 4096;
    volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
    munmap((void *)memory, bytes);
    return NULL;
}
void touch(double *a, size_t n) { fresh((void *)n); a[0] += 1; }
void on_two_threads(double *a, size_t n) {
    pthread_t other;
    pthread_create(&other, NULL, fresh, (void *)n);
    fresh((void *)n);
    pthread_join(other, NULL);
    a[0] += 1;
}
"""
PAGES = 200


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> LibrarySpec:
    needs_software_events()
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("touch")
    (folder / "touch.c").write_text(SOURCE)
    return LibrarySpec(sources=(str(folder / "touch.c"),), cflags=("-O1", "-g", "-pthread"))


@pytest.fixture(autouse=True)
def find_counters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def counted(library: LibrarySpec, symbol: str, cache: str = "warm", **options: float) -> Measurement:
    spec = KernelSpec(
        name=symbol,
        library=library,
        symbol=symbol,
        params={"n": (PAGES,)},
        args=(array("a", "f64", "n"), ScalarArg("n", Formula("n"))),
        cache=cache,  # type: ignore[arg-type]
    )
    (case,) = spec.cases()
    run = execute(case, tasks=["tests.count.software_counter:count"], options=options, timing=False)
    assert run.failure is None, run.failure
    return run.measurements[0]


@pytest.mark.parametrize(("symbol", "pages"), [("touch", PAGES), ("on_two_threads", 2 * PAGES)])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_one_call_is_counted_on_all_its_threads(
    library: LibrarySpec, symbol: str, pages: int, cache: str
) -> None:
    found = counted(library, symbol, cache)
    assert found.flops.status == "counted"
    assert found.flops.value is not None
    assert pages <= found.flops.value < pages + 30
    assert found.counter == "perf"


def test_what_is_not_believed_comes_back_with_its_reason(library: LibrarySpec) -> None:
    found = counted(library, "touch", needed=1e9)
    assert found.flops.value is None
    assert "declared to need 1e+09" in (found.flops.reason or "")
