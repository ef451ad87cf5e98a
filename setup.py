"""Builds the compiled parts: the native module, and one kernel library per instruction-set level."""

from __future__ import annotations

import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

X86 = platform.machine() in ("x86_64", "AMD64")
KERNELS = sorted(str(path) for path in Path("csrc/kernels").glob("*.c"))
KERNEL_HEADERS = sorted(str(path) for path in Path("csrc/kernels").glob("*.h"))
# A level is chosen at run time from the CPU's flags, so the package runs on any x86-64 processor.
LEVELS = (
    {
        "v2": ["-march=x86-64-v2"],
        "v3": ["-march=x86-64-v3"],
        "v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],  # GCC's own preference is 256 bits
    }
    if X86
    else {"base": []}
)
REGIONS = [
    str(path)
    for folder in ("regions", "regions/program", "perf")
    for path in sorted((Path("csrc") / folder).glob("*.c"))
] + ["csrc/run/call.c"]
KERNEL_FLAGS = [
    "-std=gnu11",
    "-O3",
    "-g",  # the kernels' signatures are read from the debug information
    "-fno-math-errno",  # lets sqrtf be one instruction, and a vector one
    "-fno-trapping-math",  # lets a conditional expression be a blend, so that its loop is vectorised
    "-fno-tree-loop-distribute-patterns",  # a copying loop stays a loop: memcpy would choose its own stores
    "-fno-loop-interchange",  # naive loop nests stay naive
    # What is left after the last whole vector is computed one by one. GCC would fill half a vector, compute
    # all of it, and so execute more FLOPs than the formula has, depending on the size.
    "-fno-tree-slp-vectorize",
    "--param=vect-epilogues-nomask=0",
]


class BuildPlainLibraries(build_ext):
    """Let the kernels and the regions of C programs be plain shared libraries."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        plain = "_kernels_" in ext.name or ext.name.endswith("._regions")
        return [] if plain else super().get_export_symbols(ext)


setup(
    cmdclass={"build_ext": BuildPlainLibraries},
    cffi_modules=["csrc/build_native.py:ffi"],
    ext_modules=[
        Extension(
            f"counteroof._kernels_{level}",
            KERNELS,
            depends=[*KERNEL_HEADERS, "setup.py"],
            extra_compile_args=[*KERNEL_FLAGS, *flags],
            extra_link_args=["-lm"],
        )
        for level, flags in LEVELS.items()
    ]
    + [
        Extension(
            "counteroof._regions",
            REGIONS,
            depends=[*map(str, Path("csrc").glob("*/*.h")), "setup.py"],
            include_dirs=["csrc"],
            extra_compile_args=["-std=gnu11", "-O2", "-g", "-fvisibility=hidden", "-include", "stdint.h"],
            extra_link_args=["-lpthread"],
        ),
        Extension(
            "counteroof._mark",
            ["csrc/regions/python/mark.c"],
            depends=["setup.py"],
            extra_compile_args=["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra"],
            py_limited_api=True,
        ),
    ],
)
