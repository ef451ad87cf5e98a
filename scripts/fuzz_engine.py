"""Runs random blocks natively and under the instrumentation engine and compares all that they leave.

Usage, from the repository's root::

    python scripts/fuzz_engine.py --blocks 1000000 --workers 2 --out fuzz-out

Each block is run in both details, ``flops`` and ``bytes``; registers, flags, masks, memory and the fault that
ended it must be equal. Some are run in single steps too: what each instruction then accesses must be what the
engine recorded. In each fourth chunk the engine has to notice itself that code changes, and so checks it
whenever it runs. A block that differs is cut down to the instructions it takes and printed. Progress is
kept in ``OUT/progress.json``: the next start goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.instrument.asm_blocks import Arena, Block, Options

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CHUNK = 250
"""Blocks an engine: the code cache is given back with it."""
STEPPED = 0.1
"""Share of blocks that are run in single steps, without faults, for what they access."""
PATIENCE = 60.0
"""Seconds without a sign of life after which a worker counts as hung."""
Detail = Literal["flops", "bytes"]
DETAILS: tuple[Detail, ...] = ("flops", "bytes")


# ---- the worker --------------------------------------------------------------------------------------------


def work(faults: float) -> None:
    """Run the chunks named on standard input; say on standard output where we are and what differed."""
    from tests.instrument.asm_blocks import Arena, Options

    arena, options = Arena(), Options(faults=faults)
    for line in sys.stdin:
        first, count = map(int, line.split())
        for seed, report in run_chunk(arena, options, range(first, first + count)):
            print(json.dumps([seed, report]), flush=True)
        print(json.dumps([first + count, "done"]), flush=True)


def run_chunk(arena: Arena, options: Options, seeds: range) -> Iterator[tuple[int, str | None]]:
    """Yield each seed before it is run, and what differed after it."""
    from counteroof.instrument.engine import Engine
    from tests.instrument.asm_blocks import differences, native_run, random_block, random_image
    from tests.instrument.asm_native import recorded_signals

    todo = []
    told = seeds.start // CHUNK % 4 != 3
    for seed in seeds:
        yield seed, None
        block = random_block(seed, arena, options)
        image = random_image(seed, block)
        todo.append((block, image, native_run(block, image)))
    for detail in DETAILS:
        with recorded_signals(), Engine(detail) as engine:
            wrong = []
            for block, image, expected in todo:
                yield block.seed, None
                if told:
                    engine.forget()
                arena.place(block)
                got = native_run(block, image, entry=engine.entry(block.entry), signals=False)
                if differences(expected, got, arena):
                    wrong.append(block)
        for block in wrong:
            yield block.seed, explain(block, detail)
    yield from run_accesses(arena, replace(options, faults=0.0), seeds[:: round(1 / STEPPED)])


def run_accesses(arena: Arena, options: Options, seeds: Sequence[int]) -> Iterator[tuple[int, str | None]]:
    """Compare recorded accesses with those of single steps; yield like :func:`run_chunk`."""
    from counteroof.instrument.engine import Engine
    from tests.instrument.asm_blocks import listing, random_block, random_image
    from tests.instrument.asm_records import blame, expected, recorded, surroundings
    from tests.instrument.asm_steps import run_in_steps

    around = surroundings()
    with Engine("bytes") as engine:
        for seed in seeds:
            yield seed, None
            block = random_block(seed, arena, options)
            image = random_image(seed, block)
            steps = run_in_steps(block, image)
            got = recorded(engine, block, image)
            if not steps.fault and got != expected(steps, around):
                yield seed, f"accesses: {blame(steps, around, got)}\n{listing(block)}"


def differs(block: Block, detail: Detail) -> list[str]:
    """Return what differs when a block is run natively and under an engine of its own."""
    from counteroof.instrument.engine import Engine
    from tests.instrument.asm_blocks import differences, native_run, random_image
    from tests.instrument.asm_native import recorded_signals

    image = random_image(block.seed, block)
    expected = native_run(block, image)
    with recorded_signals(), Engine(detail) as engine:
        got = native_run(block, image, entry=engine.entry(block.entry), signals=False)
    return differences(expected, got, block.arena)


def explain(block: Block, detail: Detail) -> str:
    """Return the smallest block found that still differs, and how it does."""
    from tests.instrument.asm_blocks import listing, shrink

    def fails(smaller: Block) -> bool:
        return in_child(lambda: bool(differs(smaller, detail)))

    if not fails(block):
        return f"{detail}: differs only after the blocks before it\n{listing(block)}"
    small = shrink(block, fails)
    found = read_child(lambda: differs(small, detail))
    return f"{detail}: " + "; ".join(found or ["the process died or hung"]) + f"\n{listing(small)}"


def in_child(question: Callable[[], bool]) -> bool:
    """Return the answer of a forked child; True if it died or took too long."""
    child = os.fork()
    if child == 0:
        import signal

        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        os._exit(1 if question() else 0)
    return os.waitpid(child, 0)[1] != 0


def read_child(question: Callable[[], list[str]]) -> list[str]:
    """Return what a forked child finds; nothing if it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        os.write(writing, json.dumps(question()).encode()[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return json.loads(data) if data else []


# ---- the parent --------------------------------------------------------------------------------------------


class Worker:
    """A process that runs chunks; one that died or hangs is replaced."""

    def __init__(self, faults: float) -> None:
        self._faults = faults
        self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, "--worker", "--faults", str(self._faults)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def run(self, first: int, count: int) -> Iterator[tuple[int, str]]:
        """Run a chunk; yield seeds and what was wrong with them. A seed that ends the worker is left out."""
        end = first + count
        while first < end:
            seed = first
            assert self._process.stdin is not None
            self._process.stdin.write(f"{first} {end - first}\n")
            self._process.stdin.flush()
            while True:
                try:
                    line = self._lines.get(timeout=PATIENCE)
                except queue.Empty:
                    self._process.kill()
                    line = "hung"
                if line in ("", "hung"):
                    ended = self._process.wait()
                    yield seed, "hung" if line else f"ended the process with {ended}"
                    self._start()
                    first = seed + 1
                    break
                seed, report = json.loads(line)
                if report == "done":
                    return
                if report:
                    yield seed, report

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Run the command line; 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=10_000, help="how many to run")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first one's seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--faults", type=float, default=0.2, help="share of blocks that fault on purpose")
    parser.add_argument("--out", type=Path, help="folder for progress and failures")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.faults)
        return 0
    os.nice(10)
    progress = {"blocks": 0, "next": options.seed, "failures": 0}
    notes = options.out / "progress.json" if options.out else None
    if notes and notes.exists():
        progress = json.loads(notes.read_text())
    if notes:
        notes.parent.mkdir(parents=True, exist_ok=True)
    stop = time.monotonic() + 60 * options.minutes
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker(options.faults)
        while True:
            with lock:
                if progress["blocks"] >= options.blocks or time.monotonic() > stop:
                    break
                first = progress["next"]
                progress["next"] += CHUNK
            found = list(worker.run(first, CHUNK))
            with lock:
                progress["blocks"] += CHUNK
                progress["failures"] += len(found)
                for seed, report in found:
                    print(f"seed {seed}, {report}\n", flush=True)
                    if notes:
                        (notes.parent / f"seed-{seed}.txt").write_text(report + "\n")
                if notes:
                    notes.write_text(json.dumps(progress) + "\n")
        worker.close()

    threads = [threading.Thread(target=serve) for _ in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{progress['blocks']} blocks in both details, {progress['failures']} differ")
    return 1 if progress["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
