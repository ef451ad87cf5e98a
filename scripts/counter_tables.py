"""Writes the tables of ``docs/counters.md`` from the event data of ``counteroof/data/events``.

    python scripts/counter_tables.py            # into docs/counters.md, between its two marks
    python scripts/counter_tables.py --print

A test compares the page with what this gives.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from counteroof.count.events import FOLDER, EventData, EventFact, ProcessorEvents, builtin, load

PAGE = Path(__file__).resolve().parents[1] / "docs" / "counters.md"
BEGIN = "<!-- begin: scripts/counter_tables.py writes what follows -->"
END = "<!-- end -->"

TITLES = {
    "amd": "AMD",
    "arm": "Arm",
    "fujitsu": "Fujitsu",
    "intel": "Intel",
    "power": "IBM POWER",
    "riscv": "RISC-V",
}


_SOURCES = (
    (r"v2\+", "two or more"),
    (r"\bv1\b", "one"),
    ("inferred", "inferred"),
    ("memory|not found", "not looked up"),
)
"""How well a fact is known, as the data and as the page have it."""


def page(text: str) -> str:
    """Return the page with its tables written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def tables() -> str:
    """Return the tables, one a family of processors."""
    data = builtin()
    return "\n".join(line for path in sorted(FOLDER.glob("*.toml")) for line in _family(data, path))


def _family(data: EventData, path: Path) -> Iterator[str]:
    file = load(path)
    yield f"### {TITLES[file.family]}\n"
    yield "| processor | FLOPs by precision | DRAM bytes | between caches | sources |"
    yield "|---|---|---|---|---|"
    for name, cpu in file.processor.items():
        cells = (_flops(data, name, cpu), _dram(data, name, cpu), _caches(data, name, cpu), _known(cpu))
        yield f"| {' | '.join((cpu.title, *cells))} |"
    yield ""


def _flops(data: EventData, name: str, cpu: ProcessorEvents) -> str:
    events = [one for set_name in (*cpu.flops, *cpu.flops_atom) for one in data.events(set_name, name)]
    if not events:
        return f"no: {re.split('[;(]', cpu.flops_impossible)[0].strip()}" if cpu.flops_impossible else "no"
    kinds = dict.fromkeys(one.precision for one in events if one.precision)
    return "together" if set(kinds) == {"any"} else ", ".join(map(_precision, kinds))


def _precision(text: str) -> str:
    return "others" if text == "any" else text.replace("|", " or ")


def _dram(data: EventData, name: str, cpu: ProcessorEvents) -> str:
    first = "; else ".join(dict.fromkeys(_memory(data, name, one) for one in cpu.dram))
    others = [f"{_memory(data, name, one)}, of other memory" for one in cpu.dram_extra]
    if first:
        return "; and ".join([first, *others])
    return "reads that miss the last cache, a lower bound" if cpu.fallback else "no"


def _memory(data: EventData, name: str, set_name: str) -> str:
    pmu = re.sub(r"\[[^]]*\]\*?$|\*$", "n", data.sets[set_name].pmu)
    return f"{_directions(data.events(set_name, name))}, by " + (f"`{pmu}`" if pmu else "the cores")


def _caches(data: EventData, name: str, cpu: ProcessorEvents) -> str:
    events = data.events(cpu.cache, name) if cpu.cache else ()
    parts = []
    for boundary, title in (("l1_l2", "L1-L2"), ("l2_l3", "L2-L3")):
        of_boundary = [one for one in events if one.boundary == boundary]
        if of_boundary:
            parts.append(f"{title} {_directions(of_boundary)}")
    return ", ".join(parts) or "no"


def _directions(events: Sequence[EventFact]) -> str:
    ways = {one.direction for one in events}
    if "both" in ways:
        return "both ways in one"
    return " and ".join(f"{way}s" for way in ("read", "write") if way in ways) or "bytes"


def _known(cpu: ProcessorEvents) -> str:
    """Return in how many sources the facts were found, the best first."""
    found = [words for sign, words in _SOURCES if re.search(sign, cpu.confidence)]
    return ", in part ".join(found)


def main() -> None:
    """Write or print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--print", action="store_true", help="print the tables and write nothing")
    arguments = parser.parse_args()
    if arguments.print:
        print(tables())
        return
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
