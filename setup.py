"""Builds the compiled parts: the native module, and one kernel library per instruction-set level."""

from __future__ import annotations

import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

X86 = platform.machine() in ("x86_64", "AMD64")
KERNELS = sorted(str(path) for path in Path("csrc/kernels").glob("*.c"))
# A level is chosen at run time from CPUID, so the package runs on any x86-64 processor.
LEVELS = {"v2": ["-march=x86-64-v2"], "v3": ["-march=x86-64-v3"], "v4": ["-march=x86-64-v4"]} if X86 else {"base": []}


class BuildPlainLibraries(build_ext):
    """Let an extension whose name starts with ``_kernels_`` be a plain shared library."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [] if "_kernels_" in ext.name else super().get_export_symbols(ext)


setup(
    cmdclass={"build_ext": BuildPlainLibraries},
    cffi_modules=["csrc/build_native.py:ffi"],
    ext_modules=[
        Extension(
            f"counteroof._kernels_{level}",
            KERNELS,
            extra_compile_args=["-std=gnu11", "-O3", "-g", *flags],
            extra_link_args=["-lm"],
        )
        for level, flags in LEVELS.items()
    ],
)
