"""Runs one work natively and under the engine and says how they compare.

In a process of its own (``python -m tests.integration.libraries.measure NAME REPEATS`` prints JSON), so that
whatever happens there happens to nobody else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from counteroof.cachesim.model import CacheModel
from counteroof.instrument.engine import Engine
from counteroof.instrument.hooks import hooked
from counteroof.machine.topology import detect

from .work import Hook, Missing, Work, works


@dataclass(frozen=True)
class Mode:
    """One detail of the engine; the slowdown is that of later runs, which translate nothing."""

    equal: bool
    instructions: int
    blocks: int
    translation_seconds: float
    slowdown: float


class Instrumented(Hook):
    """Under the engine: the entries of functions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def address(self, function: int) -> int:
        return self.engine.entry(function)

    def python(self, *callables: Any) -> AbstractContextManager[None]:
        return hooked(self.engine, *callables)


def apart(name: str, repeats: int = 1) -> dict[str, Mode]:
    """Return what :func:`measure` says in another process, on one thread and for this very processor.

    Raises
    ------
    Missing
        If a library is not there.
    RuntimeError
        If the process fails.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", __name__, name, str(repeats)],
        cwd=Path(__file__).parents[3],
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    if ended.returncode:
        raise RuntimeError(f"{name} ended with {ended.returncode}: {ended.stderr}")
    found = json.loads(ended.stdout)
    if "missing" in found:
        raise Missing(found["missing"])
    return {detail: Mode(**mode) for detail, mode in found.items()}


def measure(work: Work, repeats: int) -> dict[str, Mode]:
    """Return what each detail of the engine makes of a work; times are the shortest of ``repeats``.

    Raises
    ------
    Missing
        If a library is not there.
    """
    native = work.do(Hook())
    seconds = min(_timed(work, Hook())[1] for _ in range(repeats))
    return {detail: _mode(work, detail, repeats, native, seconds) for detail in ("flops", "bytes")}


def _mode(work: Work, detail: Any, repeats: int, native: bytes, seconds: float) -> Mode:
    model = CacheModel(detect().caches) if detail == "bytes" else None
    with Engine(detail, model.pointer if model else None) as engine:
        clock = _Clock(engine)
        results = [work.do(Instrumented(engine))]
        times = []
        for _ in range(repeats):
            engine.reset()
            result, time_taken = _timed(work, Instrumented(engine))
            results.append(result)
            times.append(time_taken)
        return Mode(
            equal=all(result == native for result in results),
            instructions=sum(item.times for item in engine.executed()),
            blocks=len(engine.blocks),
            translation_seconds=clock.seconds,
            slowdown=min(times) / seconds,
        )


class _Clock:
    """Adds up the time the translator takes."""

    def __init__(self, engine: Engine) -> None:
        self.seconds = 0.0
        translator: Any = engine._translator
        translator.translate = self._timed(translator.translate)

    def _timed(self, function: Any) -> Any:
        def run(address: int) -> int:
            start = time.thread_time()
            try:
                return int(function(address))
            finally:
                self.seconds += time.thread_time() - start

        return run


def _timed(work: Work, hook: Hook) -> tuple[bytes, float]:
    start = time.perf_counter()
    result = work.do(hook)
    return result, time.perf_counter() - start


if __name__ == "__main__":
    try:
        modes = measure(works()[sys.argv[1]], int(sys.argv[2]))
        print(json.dumps({detail: asdict(mode) for detail, mode in modes.items()}))
    except Missing as missing:
        print(json.dumps({"missing": str(missing)}))
