"""A small library of well- and ill-behaved kernels, and a spec for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = """
#include <stddef.h>
#include <stdlib.h>

void triad(double *a, const double *b, const double *c, double s, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}
double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
void crash(double *a, size_t n) { *(volatile int *)16 = (int)n; a[0] = 1; }
void forever(double *a, size_t n) { for (volatile size_t i = 0; i < n + 1; ) a[0] = 1; }
void leave(double *a, size_t n) { a[0] = (double)n; exit(3); }
void beyond(double *a, size_t n) { for (size_t i = 0; i <= n; i++) a[i] = 1; }
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with toy.c and libtoy.so, built with debug information."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.c").write_text(SOURCE)
    command = ["cc", "-O2", "-g", "-shared", "-fPIC", "-o", "libtoy.so", "toy.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder
