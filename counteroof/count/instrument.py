"""The counter that needs no hardware: executed instructions from the engine, bytes from the cache model.

Runs in the worker. The kernel is called three times on the same initial arrays: natively, for time and
result; under the engine, which must leave the same bytes behind and brings the modelled caches into the
state the previous call leaves; and under the engine once more, which is the call that counts.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import CounteroofError, KernelFailed
from ..machine import replacement, tlb
from .base import ArrayTraffic, Count, FalseSharing, Frames, Measurement, SharedLine, unavailable
from .chains import loop_chains, loops, untimed_locked
from .core_bytes import access_mix, core_bytes
from .denormals import denormals, flagged_call
from .flop_count import Convention, FlopCount, count_flops
from .functions import flops_by_function
from .strides import accesses, histogram

if TYPE_CHECKING:
    from ..cachesim.model import CacheModel, Totals
    from ..cachesim.options import FrameSource, ModelOptions
    from ..instrument.translate import Detail
    from ..machine.model import Machine, Prefetch, Stores
    from ..run.prepare import PreparedCall

NAME = "instrument"
SOURCE = "instrumented instructions"

REPEATS = 2
"""Further counted calls of a kernel on several threads, whose bytes depend on how these take turns."""


def count(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count one call of the kernel in the steady state.

    Parameters
    ----------
    prepared
        The kernel, its arrays filled.
    options
        ``machine`` (a ``Machine``; its caches are modelled), ``detail`` (``flops``, ``bytes``, ``lines``),
        ``flop_convention`` (``arith`` or ``hardware``) and ``model`` (``ModelOptions``).

    Raises
    ------
    KernelFailed
        If the kernel contains something the engine cannot run, or faults under it.
    """
    from ..cachesim.options import ModelOptions
    from ..instrument.engine import Engine, xsave_bytes
    from ..instrument.latencies import here

    machine: Machine = options["machine"]
    detail: Detail = options.get("detail", "bytes")
    convention = options.get("flop_convention", "arith")
    asked: ModelOptions = options.get("model") or ModelOptions()
    prepared.refill()
    returned, native_seconds, mxcsr = flagged_call(prepared)
    native = (_value(prepared, returned), *_state(prepared))
    small_numbers = denormals(prepared, mxcsr, native_seconds)
    prepared.refill()
    model, frames = None, None
    if detail != "flops":
        from ..cachesim.model import CacheModel, parts_of

        model = CacheModel(
            machine.caches,
            parts=parts_of(machine.caches, machine.prefetch),
            stores=machine.stores,
            prefetch=machine.prefetch,
            tlbs=machine.tlbs if asked.tlb else (),
        )
        for span in prepared.spans:
            model.add_array(span.name, span.start, span.bytes, huge_pages=span.huge_pages)
        frames = _placed(prepared, model, asked.frames)
        if asked.reuse_distances:
            model.start_reuse()
        if detail == "lines":
            model.start_origins()
    spec = prepared.case.spec
    with Engine(
        detail, model.pointer if model else None, native=spec.native, library=prepared.library_path
    ) as engine:
        if engine.runs_natively(prepared.function):
            raise KernelFailed("unsupported", f"{spec.symbol} always runs natively, uncounted")
        returned = engine.call(prepared.function, prepared.frame)
        unlike_native = None
        if (_value(prepared, returned), *_state(prepared)) != native:
            unlike_native = _blame(prepared, native, engine.threads)
        if model:
            engine.watch_strides((span.start, span.bytes) for span in prepared.spans)
        engine.reset()
        if model:
            if prepared.case.spec.cache == "cold":
                model.flush(count_writebacks=False)
            model.reset()
        before = engine.others.busy()
        start = time.perf_counter()
        engine.call(prepared.function, prepared.frame)
        engine.drain()
        seconds = time.perf_counter() - start
        traffic = Traffic.of(prepared, model, detail) if model else None
        uncounted = engine.others.worked(before)
        if uncounted:
            raise KernelFailed("unsupported", f"not all of it can be counted: {uncounted}")
        if engine.threads_lost:
            raise KernelFailed(
                "unsupported",
                "not all of it can be counted: it makes threads by the system call, not by the C library",
            )
        everything = list(engine.executed())
        counted = count_flops(everything, convention, machine.cpu)
        by_thread: tuple[int, ...] = (counted.flops,)
        if engine.threads > 1:
            each = (count_flops(engine.executed(n), convention, machine.cpu) for n in range(engine.threads))
            # A library's idle threads run a few instructions of waiting: they are none of the kernel's.
            by_thread = tuple(thread.flops for thread in each if thread.flops) or by_thread
        threads_used = sum(any(engine.block_counts(thread)) for thread in range(engine.threads))
        native_calls = engine.native_calls
        hot = loops(engine)
        names = [span.name for span in prepared.spans]
        strides = histogram(accesses(engine, hot), names) if model else ()
        executed = list(engine.executed(idle=True)) if detail == "lines" else []
        repeats: list[int] = []
        while model and threads_used > 1 and len(repeats) < REPEATS:
            engine.reset()
            model.reset()
            engine.call(prepared.function, prepared.frame)
            engine.drain()
            repeats.append(Traffic.of(prepared, model, "bytes").moved)
    measurement = _measurement(
        machine,
        traffic,
        counted,
        convention,
        native_calls,
        by_thread,
        seconds / native_seconds if native_seconds else None,
    )
    latencies = here()
    measurement = replace(
        measurement,
        core_l1_bytes=core_bytes(everything, xsave_bytes()),
        flops_by_function=flops_by_function(everything, Convention(convention, machine.cpu)),
        chains=loop_chains(hot, latencies),
        strides=strides,
        access_mix=access_mix(everything, xsave_bytes()),
        denormals=small_numbers,
        pages_touched=traffic.totals.pages if traffic else None,
        latencies=f"{latencies.name}, {latencies.known}",
        untimed_locked=untimed_locked(everything, latencies),
        frames=frames,
        tlb_misses=traffic.totals.tlb_misses if traffic else None,
        page_walks=traffic.totals.page_walks if traffic else None,
    )
    if asked.tlb and model:
        measurement = replace(measurement, notes=(*measurement.notes, _tlbs_in_words(machine)))
    if frames and asked.frames == "pagemap":
        measurement = replace(measurement, notes=(*measurement.notes, _frames_in_words(frames, machine)))
    if unlike_native:
        measurement = replace(measurement, notes=(*measurement.notes, unlike_native))
    if traffic and repeats:
        seen = sorted((*repeats, traffic.moved))
        # those that only wait, as an idle pool's do, take no turns; if none has FLOPs that cannot be told
        taking = len(by_thread) if len(by_thread) > 1 else threads_used
        note = (
            f"DRAM bytes depend on how {taking} threads take turns: {seen[0]} to {seen[-1]} in"
            f" {len(seen)} counted calls"
        )
        measurement = replace(measurement, notes=(*measurement.notes, note))
    if detail != "lines" or traffic is None:
        return measurement
    from .lines import instructions, lines

    table = instructions(executed, traffic.origins, Convention(convention, machine.cpu))
    return replace(measurement, instruction_table=table, lines=lines(table))


@dataclass(frozen=True)
class Traffic:
    """What the cache model saw of one call."""

    totals: Totals
    arrays: tuple[ArrayTraffic, ...]
    shared_lines: tuple[SharedLine, ...]
    false_sharing: tuple[FalseSharing, ...]
    origins: tuple[list[int], list[int]]
    """Bytes read and written by number of access; empty unless lines were asked for."""

    @classmethod
    def of(cls, prepared: PreparedCall, model: CacheModel, detail: str) -> Traffic:
        if prepared.case.spec.cache == "cold":
            model.flush(count_writebacks=True)  # what the flush before the next call would write back
        origins = model.origins() if detail == "lines" else ([], [])
        huge = {span.name: span.huge_pages for span in prepared.spans}
        arrays = tuple(replace(one, huge_pages=huge.get(one.name)) for one in model.arrays())
        return cls(model.totals(), arrays, model.shared_lines(), model.false_sharing(), origins)

    @property
    def moved(self) -> int:
        """DRAM bytes, read and written."""
        return self.totals.dram_read_bytes + self.totals.dram_write_bytes


def _placed(prepared: PreparedCall, model: CacheModel, source: FrameSource) -> Frames:
    """Tell the model where the arrays lie, if that is wanted and known; return what it then goes by."""
    from ..run.frames import PAGE, FramesHidden, frames

    pages = [
        (span.start // PAGE * PAGE, -(-(span.start + span.bytes) // PAGE) * PAGE) for span in prepared.spans
    ]
    count = sum((end - start) // PAGE for start, end in pages)
    if source == "random":
        return Frames("random", count, 0)
    try:
        found = [frames(start, end - start) for start, end in pages]
    except FramesHidden as hidden:
        return Frames("random", count, 0, str(hidden))
    for (start, end), numbers in zip(pages, found, strict=True):
        model.place(start, end - start, numbers)
    return Frames("pagemap", count, sum(number != 0 for numbers in found for number in numbers))


def _frames_in_words(frames: Frames, machine: Machine) -> str:
    if frames.source == "random":
        return f"frames at random, from a fixed seed, and not the real ones: {frames.reason}"
    whose = f", as the guest of {machine.hypervisor} sees them" if machine.hypervisor else ""
    share = f"{frames.real} of {frames.pages} pages"
    return f"frames of the arrays by /proc/self/pagemap, {share}{whose}; others at random"


def _tlbs_in_words(machine: Machine) -> str:
    if not machine.tlbs:
        return "no TLB is modelled: nothing tells what this machine has, so give its TLBs in a machine file"
    sources = ", ".join(dict.fromkeys(one.source for one in machine.tlbs if one.source))
    return f"TLBs modelled: {tlb.text(machine.tlbs)}" + (f" ({sources})" if sources else "")


def _value(prepared: PreparedCall, returned: tuple[int, float]) -> bytes | int | None:
    """Return what identifies the returned value; ``None`` where there is none, or a pointer to who knows
    what."""
    from ..run.plan import ELEMENT_TYPES

    returns = prepared.plan.kernel.returns
    if returns in ("void", "pointer"):
        return None
    if prepared.frame.returns_float:
        return struct.pack("<d", returned[1])
    return returned[0] & ((1 << 8 * ELEMENT_TYPES[returns][2]) - 1)  # the rest of the register is undefined


def _state(prepared: PreparedCall) -> tuple[int, ...]:
    """Return a checksum of each array: 32 bits tell a wrong result well enough, and cost little."""
    return tuple(zlib.crc32(prepared.buffer(span.name)) for span in prepared.spans)


def _blame(prepared: PreparedCall, native: tuple[object, ...], threads: int) -> str | None:
    """Find out whether the engine or the kernel itself is to blame for a different result.

    Returns what the reader must know of it, if it may be the order of threads.
    """
    seen = _state(prepared)
    different = [span.name for span, a, b in zip(prepared.spans, native[1:], seen, strict=True) if a != b]
    prepared.refill()
    again = (_value(prepared, flagged_call(prepared)[0]), *_state(prepared))
    where = ", ".join(different) or "the returned value"
    if threads > 1:
        return f"{where}: other bytes than after a native call; with {threads} threads the order may differ"
    if again == native:
        raise KernelFailed(
            "engine", f"under instrumentation the kernel left other bytes in {where} than natively"
        )
    return None


def _measurement(
    machine: Machine,
    seen: Traffic | None,
    counted: FlopCount,
    convention: str,
    native_calls: Mapping[str, int],
    by_thread: tuple[int, ...],
    slowdown: float | None,
) -> Measurement:
    notes = [f"FLOP convention: {convention}"]
    traffic: dict[str, Any] = {}
    arrays: tuple[Any, ...] = ()
    if seen is None:
        why = "--detail flops records no addresses"
        for name in (
            "l1_l2_bytes",
            "l2_l3_bytes",
            "dram_read_bytes",
            "dram_write_bytes",
            "write_allocate_bytes",
        ):
            traffic[name] = unavailable("cache model", why)
    else:
        traffic = seen.totals.counts()
        arrays = seen.arrays
        notes.append(
            "caches modelled: "
            + ", ".join(
                f"{c.name} {c.bytes} B {c.ways}-way {c.fill} {replacement.text(c.policy)}"
                for c in machine.caches
            )
            + _assumed(machine)
        )
        notes += _stores(machine.stores, seen.totals)
        notes += _prefetch(machine.prefetch)
        notes += _false_sharing(seen.false_sharing)
    if counted.unruled:
        names = ", ".join(f"{name} ({times})" for name, times in counted.unruled)
        notes.append(f"floating-point instructions without a FLOP rule, not counted: {names}")
    if native_calls:
        calls = ", ".join(f"{name} ({times} call{'s' * (times > 1)})" for name, times in native_calls.items())
        notes.append(
            f"ran natively, not counted: {calls}, beside {counted.instructions} instructions counted"
        )
    if sum(flops > 0 for flops in by_thread) > 1:
        notes.append("FLOPs by thread: " + ", ".join(map(str, by_thread)) + _imbalance(by_thread))
    return Measurement(
        counter=NAME,
        flops=Count(counted.flops, "instrumented", SOURCE),
        issued_flops=Count(counted.issued_flops, "instrumented", SOURCE),
        instructions=Count(counted.instructions, "instrumented", SOURCE),
        flops_by=counted.by,
        arrays=arrays,
        shared_lines=seen.shared_lines if seen else (),
        false_sharing=seen.false_sharing if seen else (),
        unruled=counted.unruled,
        excluded=tuple(native_calls),
        native_calls=tuple(native_calls.items()),
        flops_by_thread=by_thread,
        slowdown=slowdown,
        notes=tuple(notes),
        hardware_flops=counted.hardware_flops,
        **traffic,
    )


def _stores(stores: Stores, totals: Totals) -> list[str]:
    """Say what was assumed of stores, where that is not what most processors do or made a difference."""
    notes = []
    if stores.evasion != "none":
        share = "no" if not stores.evaded else "a" if stores.evaded == 1 else f"for {stores.evaded:.0%} a"
        rest = ", though this processor spares some while memory is busy" if not stores.evaded else ""
        notes.append(
            f"write-allocate evasion: {share} line written whole is spared the read{rest}"
            f" ({stores.evasion}; {stores.source})"
        )
    if totals.partial_bytes:
        cost = "a read of the rest" if stores.partial == "read" else "a masked write and no read"
        lines = totals.partial_bytes // totals.line_bytes
        notes.append(
            f"non-temporal stores left {lines} lines partly filled, each of which costs {cost}"
            f" ({stores.source})"
        )
    return notes


def _prefetch(prefetch: Prefetch) -> list[str]:
    """Say which hardware prefetchers were modelled, if any were."""
    said = ["the other line of each aligned pair"] if prefetch.adjacent else []
    if prefetch.stream:
        said.append(
            f"lines at a steady step within a page, {prefetch.distance} steps ahead,"
            f" {prefetch.degree} at a time, {prefetch.streams} pages"
        )
    return [f"hardware prefetch into L2 modelled: {' and '.join(said)}"] if said else []


def _assumed(machine: Machine) -> str:
    """Return what else the model takes for granted: its parts, its seed, where its caches come from."""
    from ..cachesim.model import SEED, parts_of

    parts = parts_of(machine.caches, machine.prefetch)
    told = (part.strip() for cache in machine.caches for part in cache.source.split(";"))
    sources = ", ".join(dict.fromkeys(told))
    together = "in one piece" if parts == 1 else f"in {parts} parts, for lines of even and of odd number"
    return f"; {together}; random choices from seed {SEED}; caches as told by {sources}"


def _false_sharing(arrays: tuple[FalseSharing, ...]) -> list[str]:
    """Say in which arrays cores took lines from each other without touching the same bytes."""
    return [
        f"false sharing: {one.lines} line{'s' * (one.lines > 1)} of {one.array}, whose bytes are of different"
        f" threads, went from core to core at least {one.moves} times"
        for one in arrays
    ]


def _imbalance(by_thread: tuple[int, ...]) -> str:
    """Say how far the busiest thread is from an even share, if it is one percent or more."""
    ratio = max(by_thread) * len(by_thread) / sum(by_thread)
    return f" (the busiest has {ratio:.2f} times an even share)" if ratio >= 1.01 else ""


def available() -> str | None:
    """Return why this counter cannot be used here, or ``None`` if it can."""
    import platform

    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the instrumentation engine runs on x86-64 only, this is {platform.machine()}"
    try:
        from ..native import lib
    except CounteroofError as error:
        return str(error)
    if not lib.instrument_supported():
        return "this processor or system has no XSAVE"
    return None
