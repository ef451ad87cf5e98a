"""``counteroof check``: a run held against a baseline, for continuous integration."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import BadInput
from . import DONE, FAILED


@click.command(
    epilog="""Examples:

\b
  counteroof run kernels.toml --out now
  counteroof check now --against baseline.json
  counteroof check now --against baseline.json --junit counteroof.xml
  counteroof check now --against baseline.json --bytes 2% --time 10%

Exit codes: 0 everything holds, 1 something moved, 2 bad input. A baseline is the results.json of
a run: copy it to accept what moved."""
)
@click.argument("results", metavar="RESULT", type=click.Path(path_type=Path))
@click.option(
    "--against",
    "baseline",
    required=True,
    metavar="BASELINE",
    type=click.Path(path_type=Path),
    help="Results file, or folder of the run, that says how it must be.",
)
@click.option(
    "--bytes",
    "bytes_share",
    default="1%",
    show_default=True,
    metavar="SHARE",
    help="Share by which DRAM bytes, and counts of hardware, may differ either way.",
)
@click.option(
    "--time",
    "time_share",
    metavar="SHARE",
    help="Share by which a kernel may be slower; left out, time is not looked at.",
)
@click.option("--findings", is_flag=True, help="A finding that the baseline does not have fails.")
@click.option(
    "--allow",
    default="",
    metavar="KIND[,KIND]",
    help="Check in spite of a different size, threads, convention or machine.",
)
@click.option(
    "--kernel",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Check only kernels whose name matches; repeatable.",
)
@click.option(
    "--junit", metavar="FILE", type=click.Path(path_type=Path), help="Write the outcome as JUnit XML too."
)
@click.option("--all", "everything", is_flag=True, help="Print what holds, too.")
def command(
    results: Path,
    baseline: Path,
    bytes_share: str,
    time_share: str | None,
    findings: bool,
    allow: str,
    patterns: tuple[str, ...],
    junit: Path | None,
    everything: bool,
) -> int:
    """Hold a run against a baseline and print what moved.

    Instrumented counts must be equal, bytes may differ by a share, time is looked at only if asked for: so it
    works in a virtual machine. RESULT is a results file or the folder of a run.
    """
    from .. import check, files, units
    from ..report import gate
    from . import _files

    try:
        shares = [None if text is None else units.share(text) for text in (bytes_share, time_share)]
    except ValueError as error:
        raise BadInput(str(error)) from None
    rules = check.Rules(shares[0] or 0.0, shares[1], findings)
    report = check.check(
        _files.load_kernels(results, patterns),
        _files.load_kernels(baseline, patterns),
        rules,
        _files.listed(allow),
    )
    if junit is not None:
        try:
            files.write_text(junit, gate.junit(report))
        except OSError as error:
            raise BadInput(f"cannot write {junit}: {error.strerror}") from None
    click.echo(gate.text(report, everything=everything), nl=False)
    return DONE if report.ok else FAILED
