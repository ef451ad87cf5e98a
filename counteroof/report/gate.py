"""A check as a table of what moved, and as JUnit XML, which build servers show test by test."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from .. import names
from ..check import Item, Report
from . import forms
from .forms import printable
from .grid import Cell, Grid, Heading, text_row
from .table import run_title

_HEADINGS = (
    Heading("kernel", "kernel", False),
    Heading("quantity", "quantity", False),
    Heading("state", "state", False),
    Heading("baseline", "baseline", False),
    Heading("found", "found", False),
    Heading("allowed", "allowed", False),
    Heading("message", "why", False),
)


def grid(items: Sequence[Item]) -> Grid:
    """Return the items of a check as a table."""
    plain = names.all_readable(item.kernel for item in items)
    rows = []
    for item in items:
        texts = (item.quantity, item.state, item.before, item.after, item.allowed, item.message)
        name = plain[item.kernel]
        rows.append((Cell(name, name), *text_row(texts)))
    return Grid(_HEADINGS, tuple(rows))


def summary(report: Report) -> str:
    """Return the outcome in one line."""
    kernels = len({item.kernel for item in report.items if item.state != "new"})
    new = sum(item.state == "new" for item in report.items)
    what = f"{len(report.items) - new} numbers of {kernels} kernel{'s' * (kernels != 1)}"
    more = f"; {new} kernel{'s' * (new != 1)} without a baseline" if new else ""
    if report.ok:
        return f"all of {what} hold{more}"
    return f"{len(report.bad)} of {what} do not hold{more}"


def text(report: Report, *, everything: bool = False) -> str:
    """Return the outcome and a table of what does not hold, or of everything, for a terminal or a log."""
    shown = report.items if everything else (*report.bad, *(i for i in report.items if i.state == "new"))
    lines = [f"compared in spite of {one}" for one in report.allowed]
    lines += [f"baseline: {run_title(report.baseline)}", f"checked:  {run_title(report.results)}"]
    table = forms.text(grid(shown).with_names_cut(48)) if shown else ""
    return (
        "\n".join(map(printable, lines)) + "\n" + (f"\n{table}\n" if table else "\n") + summary(report) + "\n"
    )


def junit(report: Report) -> str:
    """Return the check as JUnit XML: a suite, and in it a test case for each quantity of each kernel.

    What moved is a failure, what the run could not deliver an error, a kernel without a baseline is skipped.
    """
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name="counteroof",
        tests=str(len(report.items)),
        failures=str(_number(report, "moved")),
        errors=str(_number(report, "failed")),
        skipped=str(_number(report, "new")),
        timestamp=report.results.created[:19],
        hostname=printable(report.results.machine.name),
        time="0",
    )
    plain = names.all_readable(item.kernel for item in report.items)
    for item in report.items:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"counteroof.{printable(plain[item.kernel])}",
            name=item.quantity,
            time="0",
        )
        words = f"{item.before} in the baseline, now {item.after}; allowed: {item.allowed}"
        message = printable(f"{words}: {item.message}" if item.message else words)
        if item.state == "moved":
            ElementTree.SubElement(case, "failure", message=message, type="moved").text = message
        elif item.state == "failed":
            ElementTree.SubElement(case, "error", message=message, type="missing").text = message
        elif item.state == "new":
            ElementTree.SubElement(case, "skipped", message=item.message)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _number(report: Report, state: str) -> int:
    return sum(item.state == state for item in report.items)
