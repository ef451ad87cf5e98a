"""Has real libraries do their work natively and under the instrumentation engine, and prints a table.

Usage, from the repository's root::

    python scripts/try_libraries.py [--repeats 3] [GLOB ...]

``translate`` is the processor time the translator took; ``flops`` and ``bytes`` say how many times longer
than natively the work took in that detail, translation not included. The exit code is 1 if a result differed.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.integration.libraries.measure import apart  # noqa: E402
from tests.integration.libraries.work import Missing, Work, works  # noqa: E402


def main() -> int:
    """Print a row for each work as it is done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "globs", nargs="*", metavar="GLOB", help="works to run, such as 'gsl:*' (default: all)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of which the shortest counts (default: 3)"
    )
    options = parser.parse_args()
    chosen = [
        work
        for name, work in works().items()
        if not options.globs or any(fnmatch.fnmatch(name, glob) for glob in options.globs)
    ]
    if not chosen:
        parser.error(f"no such work; there are {', '.join(works())}")
    print(f"{'library':14}{'instructions':>14}{'blocks':>8}{'translate':>11}", end="")
    print(f"{'flops':>8}{'bytes':>8}  equal  functions")
    rows = [row(work, options.repeats) for work in chosen]
    return 0 if all(rows) else 1


def row(work: Work, repeats: int) -> bool:
    """Print a work's row and return whether it went well."""
    try:
        flops, bytes_ = (modes := apart(work.name, repeats))["flops"], modes["bytes"]
    except Missing as missing:
        print(f"{work.library:14}needs {missing}", flush=True)
        return True
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{work.library:14}failed: {error}", flush=True)
        return False
    equal = flops.equal and bytes_.equal
    print(
        f"{work.library:14}{flops.instructions:14,}{bytes_.blocks:8,}{bytes_.translation_seconds:9.2f} s"
        f"{flops.slowdown:8.1f}{bytes_.slowdown:8.1f}  {'yes' if equal else 'NO':5}  {work.functions}",
        flush=True,
    )
    return equal


if __name__ == "__main__":
    sys.exit(main())
