"""counteroof from Python, step by step: a kernel that walks a matrix the wrong way, and its repair.

    python scripts/tutorial.py [FOLDER] [--machine FILE]

Writes its files into FOLDER (by default a new one) and says at each step what to look at. The first run on a
machine measures its ceilings, which takes about a minute; --machine takes those of a file.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import counteroof

CODE = """
#include <stddef.h>

/* Multiplies each column of a matrix, stored row by row, by a factor of its own. */
void scale(double *restrict a, const double *restrict factor, size_t rows, size_t cols) {
#ifdef BY_COLUMNS
    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < rows; i++) a[i * cols + j] *= factor[j];
#else
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) a[i * cols + j] *= factor[j];
#endif
}
"""

SPEC = """
[library]
sources = ["scale.c"]
cflags = [{flags}]

[[kernel]]
name = "scale"
signature = "void scale(double *a, const double *factor, size_t rows, size_t cols)"
params = {{ rows = 2_000_000, cols = 8 }}
args = {{ a = {{ dtype = "f64", shape = "rows*cols", init = "random" }},
         factor = {{ dtype = "f64", shape = "cols", init = "random" }}, rows = "rows", cols = "cols" }}
declared = {{ flops = "rows*cols", bytes = "16*rows*cols" }}
precision = "f64"
"""


def step(number: int, text: str) -> None:
    """Print the title of a step."""
    print(f"\n{number}. {text}\n")


def main() -> None:
    """Go through the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where the files go")
    parser.add_argument("--machine", type=Path, help="a machine file whose ceilings to use")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="counteroof-tutorial-"))
    folder.mkdir(parents=True, exist_ok=True)

    step(1, f"A kernel in C and what we believe about it, in a spec: see {folder}")
    (folder / "scale.c").write_text(CODE)
    (folder / "columns.toml").write_text(SPEC.format(flags='"-O3", "-DBY_COLUMNS"'))
    (folder / "rows.toml").write_text(SPEC.format(flags='"-O3"'))
    print("declared: a FLOP and 16 bytes, read and written, for each element of the matrix")

    step(2, "Measure it: FLOPs executed, bytes moved, seconds, all of one call")
    before = counteroof.run(folder / "columns.toml", machine=arguments.machine)
    print(before)

    step(3, "The numbers as a data frame, in base units; columns by name")
    print(
        before.to_frame(["kernel", "declared_bytes", "actual_bytes", "bytes_ratio", "fraction"]).to_string()
    )

    step(
        4, "Why so many bytes? The ledger leads from declared to actual, and every number says how it was got"
    )
    print(before.explain("scale"))

    step(5, "Walk the matrix row by row instead, and compare: time with its significance, bytes, the ledger")
    after = counteroof.run(folder / "rows.toml", machine=arguments.machine)
    print(before.compare(after))

    step(6, "Keep what was reached: the counts are exact, so this works in any virtual machine")
    after.save(folder / "baseline.json")
    print("the repaired kernel holds:", after.check(folder / "baseline.json").ok)
    moved = before.check(folder / "baseline.json").bad
    print("the old one does not:", ", ".join(item.quantity for item in moved))

    step(7, "The roofline: declared position hollow, true one filled")
    before.plot().figure.savefig(folder / "before.png")
    after.plot().figure.savefig(folder / "after.png")
    print(f"{folder / 'before.png'} and {folder / 'after.png'}")


if __name__ == "__main__":
    main()
