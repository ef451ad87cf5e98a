"""The table of latencies, and what stands in for processors it does not have."""

from __future__ import annotations

import tomllib

import iced_x86 as ix
import pytest

from counteroof.instrument.latencies import CLASSES, TABLE, latencies_of
from counteroof.machine import policy

ENTRIES = tomllib.loads(TABLE.read_text())["microarchitecture"]
KEYS = {"int", "int_mul", "int_div", "move", "vector", "add", "min", "convert", "round", "estimate", "load",
        "load_vector", "forward", "forward_vector"}  # fmt: skip


def test_names_are_those_of_the_machines() -> None:
    known = {entry.name for file in policy.files().values() for entry in file.microarchitecture}
    assert {name for entry in ENTRIES for name in entry["names"]} <= known


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["names"][0])
def test_every_entry_is_complete_and_says_where_from(entry: dict[str, object]) -> None:
    cycles, sources = entry["cycles"], entry["sources"]
    assert isinstance(cycles, dict)
    assert isinstance(sources, list)
    assert cycles.keys() >= KEYS
    for kind in ("mul", "div", "sqrt"):
        assert kind in cycles or {f"{kind}_f32", f"{kind}_f64"} <= cycles.keys()
    kinds = {
        "load",
        "load_vector",
        "forward",
        "forward_vector",
        "int",
        "int_mul",
        "int_div",
        "move",
        "vector",
        "locked",
    }
    assert {key.split("_")[0] if key not in kinds else key for key in cycles} <= kinds | set(CLASSES.values())
    assert sources
    assert latencies_of(entry["names"][0]).known.startswith("published: ")  # type: ignore[index]


@pytest.mark.parametrize(
    ("processor", "cycles"), [("Zen 4", 7), ("Ice Lake-SP, Ice Lake-D", None), (None, None)]
)
def test_locked_instructions_have_a_latency_where_they_were_measured(
    processor: str | None, cycles: int | None
) -> None:
    latencies = latencies_of(processor)
    added, exchanged, plain = (
        next(iter(ix.Decoder(64, bytes.fromhex(code)))) for code in ("f0480110", "488710", "480110")
    )
    assert latencies.locked(added) == latencies.locked(exchanged) == cycles
    assert latencies.locked(plain) == 0


def test_an_unknown_processor_has_the_shortest_of_all() -> None:
    unknown = latencies_of(None)
    assert unknown == latencies_of("a processor of tomorrow")
    assert unknown.known.startswith("assumed")
    for entry in ENTRIES:
        assert unknown.window >= entry["window"]
        assert all(unknown.cycles[key] <= value for key, value in entry["cycles"].items() if key != "locked")
