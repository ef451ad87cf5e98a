"""Which columns a table has: by name, by preset, and those that need the machine as well as the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import units
from ..errors import BadInput
from ..machine.model import Machine
from ..results import KernelResult, Results
from ..roofline import choose_roof
from ..wording import suggest
from .columns import BY_KEY, COLUMNS, MORE, Column
from .legend import ledger_text

PERFORMANCE_REPORT = (
    *("kernel", "declared_parts", "intensity_parts", "regime", "performance", "fraction", "peak"),
    "sources",
)
"""The matrix of a performance report: workload, intensity, limiting regime, performance, share of peak."""

_OF_RUN = {
    "peak": "of compute peak",
    "ledger": "from declared to actual bytes",
    "machine": "machine",
    "created": "measured",
}
"""Columns that need the run as well as the kernel, and their headings."""

_FRAME_KEYS = (
    *(column.key for column in COLUMNS if column.key != "sources"),
    *("flops_source", "bytes_source", "declared_source", "no_dram_traffic", "notes"),
)

PRESETS: Mapping[str, tuple[str, ...]] = {
    "usual": tuple(column.key for column in COLUMNS),
    "performance-report": PERFORMANCE_REPORT,
    "data": _FRAME_KEYS,
    "findings": ("kernel", "fraction", "bound", "gain", "finding", "try"),
    "all": (*(column.key for column in (*COLUMNS, *MORE)), *_OF_RUN),
}
"""Columns that go together, by the name of the whole."""


def available(results: Results) -> dict[str, Column]:
    """Return every column of the kernels of a run by its name."""
    machine = results.machine
    values: dict[str, Callable[[KernelResult], float | str | None]] = {
        "peak": lambda kernel: share_of_peak(kernel, machine),
        "ledger": _ledger,
        "machine": lambda _: machine.name,
        "created": lambda _: results.created,
    }
    peak = Column(
        "peak", _OF_RUN["peak"], values["peak"], lambda kernel: units.percent(share_of_peak(kernel, machine))
    )
    words = {key: _words(key, values[key]) for key in _OF_RUN if key != "peak"}
    return {**BY_KEY, "peak": peak, **words}


def _words(key: str, value: Callable[[KernelResult], float | str | None]) -> Column:
    return Column(key, _OF_RUN[key], value, lambda kernel: str(value(kernel) or units.MISSING), numeric=False)


def share_of_peak(kernel: KernelResult, machine: Machine) -> float | None:
    """Return FLOP/s over the highest compute ceiling of the kernel's precision and number of threads.

    ``None`` if there is no ceiling of just these, or the kernel's FLOP/s are not known.
    """
    placed = kernel.placement
    if placed is None or placed.flops_per_second is None:
        return None
    top = choose_roof(machine.ceilings, placed.precision, kernel.threads).compute
    if top is None or top.threads != kernel.threads:
        return None
    return placed.flops_per_second / top.value


def _ledger(kernel: KernelResult) -> str | None:
    return ledger_text(kernel.ledger) if kernel.ledger else None


def columns_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that names of columns and presets stand for, each once, in the order given.

    Raises
    ------
    BadInput
        If a name is neither.
    """
    known = (*BY_KEY, *_OF_RUN)
    keys: list[str] = []
    for name in names:
        if name in PRESETS:
            keys += PRESETS[name]
        elif name in known:
            keys.append(name)
        else:
            choices = (*known, *PRESETS)
            raise BadInput(
                f"no column {name!r}{suggest(name, choices)}; the columns are {', '.join(known)}; "
                f"presets are {', '.join(PRESETS)}"
            )
    if not keys:
        raise BadInput("no columns; name at least one, or leave them out for the usual ones")
    return tuple(dict.fromkeys(keys))


def listing() -> list[str]:
    """Return one line for each column and each preset, for people."""
    headings = {**{key: column.heading for key, column in BY_KEY.items()}, **_OF_RUN}
    lines = [f"{key}: {heading}" for key, heading in headings.items()]
    return [*lines, *(f"{name} = {', '.join(keys)}" for name, keys in PRESETS.items() if name != "all")]
