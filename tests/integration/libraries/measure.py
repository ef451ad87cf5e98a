"""Runs one work natively and under the engine, in this process, and prints how they compare as JSON.

In a process of its own, so that whatever happens to it happens to nobody else.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from counteroof.cachesim.model import CacheModel
from counteroof.instrument.engine import Engine
from counteroof.instrument.hooks import hooked
from counteroof.machine.topology import detect

from .work import Hook, Missing, Work, works


@dataclass(frozen=True)
class Mode:
    """One detail of the engine; the slowdown is that of the second run, which translates nothing."""

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


def measure(work: Work) -> dict[str, Mode]:
    """Return what each detail of the engine makes of a work.

    Raises
    ------
    Missing
        If a library is not there.
    """
    native, seconds = _timed(work, Hook())
    seconds = min(seconds, _timed(work, Hook())[1])
    return {detail: _mode(work, detail, native, seconds) for detail in ("flops", "bytes")}


def _mode(work: Work, detail: Any, native: bytes, seconds: float) -> Mode:
    model = CacheModel(detect().caches) if detail == "bytes" else None
    with Engine(detail, model.pointer if model else None) as engine:
        clock = _Clock(engine)
        first, _ = _timed(work, Instrumented(engine))
        engine.reset()
        second, slow = _timed(work, Instrumented(engine))
        instructions = sum(item.times for item in engine.executed())
        return Mode(
            first == second == native, instructions, len(engine.blocks), clock.seconds, slow / seconds
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
        print(json.dumps({detail: asdict(mode) for detail, mode in measure(works()[sys.argv[1]]).items()}))
    except Missing as missing:
        print(json.dumps({"missing": str(missing)}))
