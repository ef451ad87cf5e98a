"""Collects our C into one cffi extension, ``counteroof._native``.

Each folder of ``csrc/`` but ``kernels`` is one job. Its ``<job>.h`` holds declarations alone (no includes,
guards or macros), so one text serves as the C header and as the cffi declaration; all its ``*.c`` are
compiled.
"""

from __future__ import annotations

from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent
JOBS = [
    folder
    for folder in sorted(HERE.iterdir())
    if (folder / f"{folder.name}.h").exists() and folder.name != "kernels"
]

ffi = cffi.FFI()
for job in JOBS:
    ffi.cdef((job / f"{job.name}.h").read_text())
# The translator is Python; C asks it through this function.
ffi.cdef("""
extern "Python" uint64_t instrument_translate(uint64_t guest);
uint64_t instrument_translate_apart(uint64_t guest);
""")
# An extension module may come to untranslated code with an exception set, which Python code must not see.
TRANSLATE = """
static uint64_t instrument_translate(uint64_t guest);
static uint64_t instrument_translate_apart(uint64_t guest) {
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    uint64_t host = instrument_translate(guest);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(held);
    return host;
}
"""

ffi.set_source(
    "counteroof._native",
    "#include <stdint.h>\n#include <stddef.h>\n"
    + "".join(f'#include "{job.name}/{job.name}.h"\n' for job in JOBS)
    + TRANSLATE,
    sources=[str(path.relative_to(HERE.parent)) for job in JOBS for path in sorted(job.glob("*.c"))],
    include_dirs=[str(HERE)],
    extra_compile_args=["-std=gnu11", "-O3", "-g", "-fvisibility=hidden", "-Wall", "-Wextra"],
    extra_link_args=["-lpthread", "-lm"],
)
