"""Raw counts written by hand, as machines that the tests do not run on would deliver them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from counteroof.count.events import Processor, builtin
from counteroof.count.perf_collect import Collected, Idle, Sources
from counteroof.count.perf_open import Counted, Event
from counteroof.count.perf_plan import plan
from counteroof.count.pmus import discover
from counteroof.machine.sysfs import Tree

SECONDS = 0.1
"""Of all counted calls together."""


def sources(build: Callable[[Path], Path], cpu: Processor, root: Path) -> Sources:
    """Return the sources of a machine on which everything opens."""
    tree = Tree(build(root))
    found = plan(builtin(), cpu, discover(tree), tree)
    dram = found.dram[0] if found.dram else None
    reads = found.fallback[0] if dram is None and found.fallback else None
    return Sources(found, dram, reads)


def collected(
    chosen: Sources,
    values: Callable[[Event], int] | Mapping[str, int],
    *,
    calls: int = 10,
    idle: Callable[[Event], int] = lambda event: 0,
    running: float = 1.0,
    changes: Mapping[Event, Counted] | None = None,
    refused: Mapping[Event, str] | None = None,
) -> Collected:
    """Return what all events counted: by a function, or by name and 0 for the others."""
    value = values if callable(values) else lambda event: values.get(event.name, 0)
    counted = {
        event: Counted(event).plus(value(event), 1000, int(1000 * running))
        for event in chosen.events
        if event not in (refused or {})
    }
    looks = {
        event: (Idle(idle(event), SECONDS), Idle(idle(event), SECONDS)) for event in counted if event.system
    }
    seconds = dict.fromkeys(counted, SECONDS)
    return Collected(calls, 1, {**counted, **(changes or {})}, seconds, looks, refused or {})
