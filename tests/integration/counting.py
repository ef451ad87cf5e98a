"""Kernels of ``tests/specs/`` counted in workers, on caches that are the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import counteroof
from counteroof.count.base import Count, Measurement, unavailable
from counteroof.errors import SpecError
from counteroof.machine.model import CacheLevel
from counteroof.machine.topology import detect
from counteroof.run.execute import execute
from counteroof.run.prepare import PreparedCall
from counteroof.spec import KernelCase, KernelSpec

SPECS = Path(__file__).parents[1] / "specs"
ROOT = Path(__file__).parents[2]

Caches = tuple[CacheLevel, ...]


def caches(source: str, *levels: tuple[int, int, str, bool]) -> Caches:
    """Return levels made of (bytes, ways, fill, hashed)."""
    return tuple(
        CacheLevel(f"L{number}", size, ways, 64, 1, fill, hashed, source)  # type: ignore[arg-type]
        for number, (size, ways, fill, hashed) in enumerate(levels, start=1)
    )


ZEN5 = caches(
    "AMD Zen 5",
    (48 << 10, 12, "non-inclusive", False),
    (1 << 20, 16, "inclusive", False),
    (32 << 20, 16, "victim", True),
)
CLIENT = caches(
    "Intel client with a last level of 8 MiB",
    (32 << 10, 8, "non-inclusive", False),
    (256 << 10, 4, "non-inclusive", False),
    (8 << 20, 16, "inclusive", True),
)


def kernel(file: str, name: str) -> KernelSpec:
    """Return a kernel of a spec; the test is skipped where its library is not installed."""
    try:
        found = next(kernel for kernel in counteroof.load(SPECS / file) if kernel.name == name)
    except SpecError as error:
        pytest.skip(f"needs the library: {error}")
    return found


def counted(case: KernelCase, on: Caches = ZEN5, detail: str = "bytes") -> Measurement:
    """Return what the engine counts for a case, its result checked against the reference."""
    return _run(case, "counteroof.count.instrument:count", {"detail": detail, "machine": _machine(on)})


def different_bytes(case: KernelCase, on: Caches = ZEN5) -> dict[str, int]:
    """Return for each array how many bytes a call under the engine leaves other than a native call."""
    notes = _run(case, "tests.integration.counting:compare", {"machine": _machine(on)}).notes
    return {name: int(count) for name, count in (note.split() for note in notes)}


def compare(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Run in a worker: call natively and under the engine, and note how many bytes differ."""
    from counteroof.cachesim.model import CacheModel
    from counteroof.instrument.engine import Engine

    def contents() -> dict[str, bytes]:
        return {span.name: bytes(prepared.buffer(span.name)) for span in prepared.spans}

    prepared.refill()
    initial = contents()
    prepared.call()
    native = contents()
    prepared.refill()
    assert contents() == initial
    model = CacheModel(options["machine"].caches)
    with Engine("bytes", model.pointer) as engine:
        engine.call(prepared.function, prepared.frame)
    found = contents()
    assert native != initial, "the native call changed nothing"
    none = unavailable("comparison", "only results are compared")
    notes = (
        f"{name} {sum(a != b for a, b in zip(native[name], found[name], strict=True))}" for name in native
    )
    return Measurement("comparison", Count(0, "instrumented", "comparison"), *[none] * 7, notes=tuple(notes))


def _machine(on: Caches) -> Any:
    return replace(detect(), caches=on)


def _run(case: KernelCase, task: str, options: dict[str, Any]) -> Measurement:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)  # where the worker finds tasks that are tests
    try:
        run = execute(case, tasks=[task], options=options, time_limit=120, timing=False)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    if run.failure is not None and "cannot find" in run.failure.message:
        pytest.skip(run.failure.message)
    assert run.failure is None, run.failure
    assert run.checked
    return run.measurements[0]
