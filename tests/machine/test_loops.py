"""The loops do what their entries in the table say: counted by instruction, and seen in memory."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from counteroof.ceiling_jobs import PRECISIONS
from counteroof.errors import MachineError
from counteroof.machine import sysfs
from counteroof.machine.boundary import Boundary
from counteroof.machine.loops import Loop, Team, loops, mixed
from counteroof.machine.topology import placement
from counteroof.native import ffi, lib
from tests.compiled import needs, shared

EVERY = [lib.ceilings_loop(index) for index in range(lib.ceilings_loop_count())]
USABLE = loops()
OF_CHUNKS = [one for one in USABLE if one.streams and not one.of_lines]
BY_HAND = [one for one in USABLE if not one.of_lines]
PLAIN = (b"chain", b"chains", b"stride", b"pages", b"far pages", b"set")
ENTRIES = [
    entry for entry in EVERY if ffi.string(entry.order) not in PLAIN and ffi.string(entry.streams) != b"*"
]
"""Those written in assembly, of one loop each."""
Array = npt.NDArray[np.float64]


def text(entry: Any) -> str:
    return " ".join(
        ffi.string(part).decode()
        for part in (entry.isa, entry.precision, entry.mix, entry.order, entry.needs)
    )


def call(loop: Loop, iterations: int, mask: int, *arrays: Array) -> int:
    """Return the iterations that one loop reports, run on this thread."""
    pointers = [ffi.cast("double *", array.ctypes.data) for array in arrays[:3]]
    pointers += [ffi.NULL] * (3 - len(pointers))
    return int(lib.ceilings_loop(loop.index).run(iterations, mask, *pointers))


def aligned(elements: int, seed: int) -> Array:
    """Return random numbers on a cache line."""
    raw = np.random.default_rng(seed).uniform(1, 2, elements + 8)
    skip = -raw.ctypes.data % 64 // 8
    return raw[skip : skip + elements]


def streams(loop: Loop, elements: int) -> list[Array]:
    """Return an array for each stream, each as far from the one before: a fourth has no pointer."""
    block = aligned(elements * len(loop.streams), 1)
    return [block[at : at + elements] for at in range(0, block.size, elements)] if elements else []


# ---- the table ----


def test_every_entry_is_complete() -> None:
    for entry in EVERY:
        streams = ffi.string(entry.streams).decode()
        assert set(streams) <= set("rwun") or streams == "*"
        assert bool(streams) == bool(entry.chunk_bytes), text(entry)
        assert streams or entry.flops
        assert entry.fused <= entry.flops
        assert ffi.string(entry.precision).decode() in PRECISIONS


def test_loops_are_one_for_each_mix_isa_precision_and_order() -> None:
    keys = [(loop.mix, loop.isa, loop.precision, loop.order) for loop in USABLE]
    assert len(set(keys)) == len(keys)


def test_loops_that_differ_in_their_order_alone_move_the_same_bytes() -> None:
    alike: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for loop in USABLE:
        if loop.streams:
            assert loop.order
            alike.setdefault((loop.mix, loop.isa), set()).add((loop.streams, loop.chunk_bytes))
    assert {len(kinds) for kinds in alike.values()} == {1}


def test_loops_are_of_all_mixes() -> None:
    assert {loop.precision for loop in USABLE if not loop.streams} >= {"f32", "f64"}
    assert {"read", "copy", "triad", "update"} <= {loop.mix for loop in USABLE}


def test_write_allocate_follows_from_the_streams() -> None:
    memory = Boundary("dram", "DRAM", "memory")
    moved = {loop.mix: loop.moved_bytes(memory) * 8 // loop.chunk_bytes for loop in OF_CHUNKS}
    moved |= {loop.mix: loop.moved_bytes(memory) for loop in USABLE if loop.of_lines}
    expected = {"read": 8, "store": 16, "copy": 24, "triad": 32, "update": 16}
    expected |= {"store NT": 8, "copy NT": 16, "triad NT": 24, "2:1": 32, "3:1": 40, "1:2": 40}
    expected |= {"2:1 in place": 24, "random": 64, "scattered": 64, "strided": 64, "walk": 64}
    expected |= {"same set": 64, "far walk": 64}
    assert moved == {mix: expected[mix] for mix in moved}


def test_conventions_say_what_a_byte_is() -> None:
    triad = next(loop for loop in USABLE if loop.mix == "triad")
    assert triad.convention(Boundary("dram", "DRAM", "memory")) == (
        "both ways, write-allocate counted: 32 B an element"
    )
    assert triad.convention(Boundary("l3", "L2-L3", "victims")) == (
        "both ways, one line down for each line up: 48 B an element"
    )
    add = next(loop for loop in USABLE if not loop.streams)
    assert add.convention(None) == "a fused multiply-add is two FLOPs"


# ---- what a loop does ----


@pytest.mark.parametrize(
    "loop", BY_HAND, ids=lambda loop: f"{loop.isa} {loop.precision} {loop.mix} {loop.order}"
)
@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_a_loop_reports_the_iterations_it_did(loop: Loop, iterations: int) -> None:
    elements = iterations * loop.chunk_bytes // 8
    arrays = streams(loop, elements)
    assert call(loop, iterations, 2**64 - 1, *arrays) == iterations


@pytest.mark.parametrize("loop", OF_CHUNKS, ids=lambda loop: f"{loop.isa} {loop.mix} {loop.order}")
def test_a_memory_loop_touches_its_chunks_and_no_more(loop: Loop) -> None:
    iterations = 5
    elements = iterations * loop.chunk_bytes // 8
    arrays = streams(loop, elements + 64)
    before = [array.copy() for array in arrays]
    call(loop, iterations, 2**64 - 1, *arrays)
    expected = [array.copy() for array in before]
    inside = slice(0, elements)
    if loop.mix.startswith("copy"):
        expected[0][inside] = before[1][inside]
    elif loop.mix.startswith("store"):
        expected[0][inside] = 1
    elif loop.mix in ("2:1", "3:1"):
        expected[0][inside] = before[1][inside]
    elif loop.mix == "1:2":
        expected[0][inside] = expected[1][inside] = before[2][inside]
    elif loop.mix.startswith("triad"):
        expected[0][inside] = before[1][inside] + before[2][inside]  # the factor is 1
    for array, want in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, want)


# ---- any number of streams ----

RATIOS = [(1, 0), (0, 1), (5, 2), (1, 4), (7, 3), (31, 1)]
ANY = [loop for ratio in RATIOS for loop in mixed(*ratio)]


def call_any(loop: Loop, iterations: int, mask: int, arrays: list[Array]) -> int:
    loads, stores = loop.streams.count("r"), loop.streams.count("w")
    numbers = ffi.cast("double *", loads * lib.CEILINGS_LOADS + stores)
    first, second = (ffi.cast("double *", array.ctypes.data) for array in (arrays * 2)[:2])
    return int(lib.ceilings_loop(loop.index).run(iterations, mask, first, second, numbers))


def test_loops_of_any_mix_have_so_many_streams() -> None:
    assert len(ANY) >= len(RATIOS)
    assert {loop.mix for loop in ANY} == {f"{loads}:{stores}" for loads, stores in RATIOS}
    for loop in ANY:
        loads, stores = map(int, loop.mix.split(":"))
        assert loop.streams == "r" * loads + "w" * stores
        # a line fetched for each that is read, a line fetched and one written for each that is written
        assert loop.moved_bytes(Boundary("dram", "DRAM", "memory")) == loop.chunk_bytes * (loads + 2 * stores)


@pytest.mark.parametrize("loop", ANY, ids=lambda loop: f"{loop.isa} {loop.mix}")
@pytest.mark.parametrize("iterations", [1, 5])
def test_a_loop_of_any_mix_touches_its_chunks_and_no_more(loop: Loop, iterations: int) -> None:
    elements = iterations * loop.chunk_bytes // 8
    arrays = streams(loop, elements + 64)
    before = [array.copy() for array in arrays]
    assert call_any(loop, iterations, 2**64 - 1, arrays) == iterations
    loads = loop.streams.count("r")
    for kind, array, old in zip(loop.streams, arrays, before, strict=True):
        np.testing.assert_array_equal(array[elements:], old[elements:])
        if kind == "r":
            np.testing.assert_array_equal(array, old)
        elif loads and loop.isa != "scalar":  # what was read last; a copy of it, vector by vector
            np.testing.assert_array_equal(array[:elements], before[loads - 1][:elements])
        else:
            assert set(array[:elements]) == {1.0} or loads


@pytest.mark.x86_64
@pytest.mark.parametrize("loop", ANY, ids=lambda loop: f"{loop.isa} {loop.mix}")
def test_a_loop_of_any_mix_loads_and_stores_what_it_claims(loop: Loop) -> None:
    pytest.importorskip("iced_x86")
    from counteroof.instrument.engine import Engine

    iterations = 3
    arrays = streams(loop, iterations * loop.chunk_bytes // 8)
    frame = ffi.new("struct run_frame *")
    loads, stores = loop.streams.count("r"), loop.streams.count("w")
    second = arrays[1 % len(arrays)].ctypes.data
    numbers = loads * lib.CEILINGS_LOADS + stores
    for slot, value in enumerate((iterations, 2**64 - 1, arrays[0].ctypes.data, second, numbers)):
        frame.ints[slot] = value
    run = int(ffi.cast("uintptr_t", lib.ceilings_loop(loop.index).run))
    with Engine("flops", own_code=True) as engine:
        assert engine.call(run, frame)[0] == iterations
        engine.drain()
        counted = dict.fromkeys(("load", "store"), 0)
        for one in engine.executed():
            kind = vector_access(one.instruction)
            if kind is not None:
                counted[kind] += one.times
    chunk = loop.chunk_bytes // 8  # eight vectors
    # and what the registers begin with
    assert counted["load"] * chunk == iterations * loads * loop.chunk_bytes + 8 * chunk
    assert counted["store"] * chunk == iterations * stores * loop.chunk_bytes


def vector_access(instruction: Any) -> str | None:
    """Return what a move between memory and a vector register does, ``None`` of any other instruction."""
    import iced_x86 as ix

    if instruction.mnemonic not in (
        ix.Mnemonic.VMOVUPD,
        ix.Mnemonic.VMOVAPD,
        ix.Mnemonic.MOVUPD,
        ix.Mnemonic.MOVAPD,
    ):
        return None
    if instruction.op1_kind == ix.OpKind.MEMORY:
        return "load"
    return "store" if instruction.op0_kind == ix.OpKind.MEMORY else None


def test_the_runner_tells_a_loop_of_any_mix_its_streams() -> None:
    for loop in (one for one in ANY if one.mix == "5:2"):
        with Team(placement(1), 8 << 16) as team:
            team.run(loop, 4, 2, stream_bytes=4 * loop.chunk_bytes, wrapped=True)
            size = ffi.new("uint64_t *")
            start = int(lib.ceilings_memory_place(team._memory, size))
            values = np.frombuffer((ctypes.c_double * (size[0] // 8)).from_address(start))
            assert set(values) == {1.0}
            with pytest.raises(MachineError, match="Invalid argument"):
                team.run(loop, 4, 2, stream_bytes=1 << 20, wrapped=True)  # seven of them are too much


@pytest.mark.parametrize("mix", ["copy", "triad"])
def test_a_mask_makes_a_loop_go_round(mix: str) -> None:
    loop = next(one for one in USABLE if one.mix == mix)
    elements = 4 * loop.chunk_bytes // 8
    arrays = [aligned(2 * elements, seed) for seed in range(len(loop.streams))]
    before = arrays[0].copy()
    assert call(loop, 11, 4 * loop.chunk_bytes - 1, *arrays) == 11
    assert not np.any(arrays[0][:elements] == before[:elements])
    np.testing.assert_array_equal(arrays[0][elements:], before[elements:])


# ---- every instruction, counted by a decoder that knows nothing of the table ----


def loop_body(entry: Any) -> list[Any]:
    """Return the instructions between a loop's first instruction and its backward jump."""
    iced = pytest.importorskip("iced_x86")
    address = int(ffi.cast("uintptr_t", entry.run))
    code = bytes(ffi.buffer(ffi.cast("char *", address), 8192))
    seen: list[Any] = []
    for instruction in iced.Decoder(64, code, ip=address):
        seen.append(instruction)
        target = instruction.near_branch_target
        if instruction.is_jcc_short_or_near and address < target < instruction.ip:
            return [one for one in seen if one.ip >= target]
    raise AssertionError(f"no loop in {text(entry)}")


@pytest.mark.x86_64
@pytest.mark.parametrize("entry", ENTRIES, ids=text)
def test_flops_claimed_are_those_of_the_instructions(entry: Any) -> None:
    flops = pytest.importorskip("counteroof.instrument.flops")
    counted = fused = 0
    for instruction in loop_body(entry):
        rule = flops.rule_for(instruction)
        assert rule is not None or not flops.is_floating_point(instruction)
        if rule is not None:
            assert rule.precision == ffi.string(entry.precision).decode()
            counted += rule.flops()
            fused += rule.flops() if rule.op == "fma" else 0
    assert (counted, fused) == (entry.flops, entry.fused)


@pytest.mark.x86_64
@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.chunk_bytes], ids=text)
def test_bytes_claimed_are_those_of_the_instructions(entry: Any) -> None:
    iced = pytest.importorskip("iced_x86")
    info = iced.InstructionInfoFactory()
    loaded = stored = past_the_cache = 0
    for instruction in loop_body(entry):
        for memory in info.info(instruction).used_memory():
            size = iced.MemorySizeExt.size(memory.memory_size)
            if memory.access in (iced.OpAccess.READ, iced.OpAccess.READ_WRITE):
                loaded += size
            if memory.access in (iced.OpAccess.WRITE, iced.OpAccess.READ_WRITE):
                non_temporal = instruction.mnemonic in (iced.Mnemonic.VMOVNTPD, iced.Mnemonic.MOVNTPD)
                past_the_cache += size if non_temporal else 0
                stored += 0 if non_temporal else size
    streams = ffi.string(entry.streams).decode()
    chunk = entry.chunk_bytes
    assert loaded == chunk * sum(streams.count(kind) for kind in "ru")
    assert stored == chunk * sum(streams.count(kind) for kind in "wu")
    assert past_the_cache == chunk * streams.count("n")


@pytest.mark.x86_64
@pytest.mark.parametrize("entry", [one for one in EVERY if not one.chunk_bytes], ids=text)
def test_chains_are_as_many_as_the_name_says(entry: Any) -> None:
    iced = pytest.importorskip("iced_x86")
    flops = pytest.importorskip("counteroof.instrument.flops")
    info = iced.InstructionInfoFactory()
    chains, free = set(), 0
    for instruction in loop_body(entry):
        if flops.rule_for(instruction) is None:
            continue
        result = instruction.op0_register
        used = info.info(instruction).used_registers()
        reads = iced.OpAccess.READ, iced.OpAccess.READ_WRITE
        if any(one.register == result and one.access in reads for one in used):
            chains.add(result)
        else:
            free += 1
    mix = ffi.string(entry.mix).decode()
    legacy = not ffi.string(entry.needs)  # two operands: what it overwrites was copied to right before
    if mix in ("DIV", "SQRT"):
        assert (len(chains), free) == (0, 12) or legacy
    elif "chain" in mix:
        assert (len(chains), free) == (int(mix.split()[1]), 0)
    else:
        assert len(chains - {iced.Register.XMM13}) == 12


@pytest.mark.x86_64
def test_dot_products_and_half_precision_are_used_where_the_processor_has_them() -> None:
    flags = _flags()
    found = {loop.precision for loop in USABLE}
    for flag, precision in (("avx512_bf16", "bf16"), ("avx512_vnni", "int8"), ("avx512_fp16", "f16")):
        assert (flag in flags and "avx512f" in flags) == (precision in found), precision


def _flags() -> set[str]:
    with open("/proc/cpuinfo") as lines:
        return set(next(line for line in lines if line.startswith("flags")).split())


# ---- loads of single lines ----

LINE = 64
CHAINS = 32
"""That walks side by side go along; where they are is in the lines from the second on."""


def chained(lines: int) -> npt.NDArray[np.uint64]:
    """Return lines that a chain leads through, as the team makes them."""
    memory = aligned(lines * LINE // 8, 0).view(np.uint64)
    with Team(placement(1), lines * LINE, chain_bytes=lines * LINE) as team:
        size = ffi.new("uint64_t *")
        start = int(lib.ceilings_memory_place(team._memory, size))
        ctypes.memmove(memory.ctypes.data, start, lines * LINE)
    moved = memory.ctypes.data - start  # the pointers of the copy, too
    memory[::8] += np.uint64(moved % 2**64)
    memory[1:2] += np.uint64(moved % 2**64)
    assert not memory[9 : 8 * min(lines, CHAINS + 1) : 8].any(), "walks side by side have no places yet"
    return memory


@pytest.mark.parametrize("lines", [2, 3, 1000])
def test_a_chain_leads_through_every_line_and_back(lines: int) -> None:
    memory = chained(lines)
    seen = []
    line = 0
    for _ in range(lines):
        seen.append(line)
        line = (int(memory[8 * line]) - memory.ctypes.data) // LINE
    assert line == 0
    assert sorted(seen) == list(range(lines))
    if lines == 1000:
        steps = np.abs(np.diff(seen))
        assert np.mean(steps <= 2) < 0.05, "no prefetcher could follow"


def test_a_walk_goes_on_where_the_last_one_ended() -> None:
    loop = next(one for one in USABLE if one.order == "chain")
    lines = 1000
    memory = chained(lines)
    values = memory.view(np.float64)
    assert call(loop, 300, 2**64 - 1, values) == 300
    line = 0
    for _ in range(300):
        line = (int(memory[8 * line]) - memory.ctypes.data) // LINE
    assert (int(memory[1]) - memory.ctypes.data) // LINE == line != 0
    call(loop, 700, 2**64 - 1, values)
    assert int(memory[1]) == memory.ctypes.data


def test_scattered_loads_go_on_from_places_that_divide_the_chain_evenly() -> None:
    """Of 32 walks along 64 lines each starts two lines after the one before, and the next call goes on."""
    loop = next(one for one in USABLE if one.order == "chains")
    lines = 2 * CHAINS
    memory = chained(lines)
    order = [0]
    for _ in range(lines - 1):
        order.append((int(memory[8 * order[-1]]) - memory.ctypes.data) // LINE)
    values = memory.view(np.float64)
    for steps, reached in ((3, 3), (1, 4)):
        assert call(loop, steps * CHAINS - 1, lines * LINE - 1, values) == steps * CHAINS
        places = [(int(memory[8 * walk + 9]) - memory.ctypes.data) // LINE for walk in range(CHAINS)]
        assert places == [order[(2 * walk + reached) % lines] for walk in range(CHAINS)]


def test_scattered_loads_need_the_whole_chain_and_lines_for_their_places() -> None:
    loop = next(one for one in USABLE if one.order == "chains")
    with Team(placement(1), 1 << 16, chain_bytes=1 << 16) as team:
        assert team.run(loop, 64, 2, stream_bytes=1 << 16, wrapped=True).iterations == (64, 64)
        with pytest.raises(MachineError, match="Invalid argument"):
            team.run(loop, 64, 1, stream_bytes=1 << 15, wrapped=True)
        team.chain(CHAINS * LINE)
        with pytest.raises(MachineError, match="Invalid argument"):
            team.run(loop, 64, 1, stream_bytes=CHAINS * LINE, wrapped=True)


def test_warm_ups_run_and_are_no_samples() -> None:
    chase = next(one for one in USABLE if one.order == "chain")
    with Team(placement(1), 1000 * LINE, chain_bytes=1000 * LINE) as team:
        samples = team.run(chase, 300, 2, stream_bytes=1000 * LINE, wrapped=True, warmups=8)
        start = int(lib.ceilings_memory_place(team._memory, ffi.new("uint64_t *")))
        reached = ctypes.c_uint64.from_address(start + 8).value
    assert samples.iterations == (300, 300)
    assert reached == start  # ten walks of 300 lines: three times all the way round


@needs("gcc")
@pytest.mark.x86_64
@pytest.mark.parametrize("mask", [2**64 - 1, 1023])
def test_a_stride_goes_through_every_line_once(mask: int, tmp_path: Path) -> None:
    pytest.importorskip("iced_x86")
    from counteroof.cachesim.model import CacheModel
    from counteroof.instrument.engine import Engine
    from counteroof.machine.model import CacheLevel

    sources = Path(__file__).resolve().parents[2] / "csrc"
    library = ctypes.CDLL(str(shared(tmp_path, '#include "ceilings/patterns.c"', "-O2", f"-I{sources}")))
    memory = aligned(4096 // 8, 0)
    model = CacheModel((CacheLevel("L1", 32768, 8, 64, 1, "inclusive", False, "test"),))
    model.add_array("memory", memory.ctypes.data, memory.nbytes)
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate((16, mask, memory.ctypes.data)):
        frame.ints[slot] = value
    with Engine("bytes", model.pointer) as engine:
        address = ctypes.cast(library.ceilings_stride, ctypes.c_void_p).value
        assert engine.call(address, frame)[0] == 16
        engine.drain()
    (array,) = [one for one in model.arrays() if one.name == "memory"]
    assert array.dram_read_bytes == 16 * LINE


def test_a_walk_over_pages_goes_round_lines_that_are_a_page_and_a_line_apart() -> None:
    loop = next(one for one in USABLE if one.mix == "walk")
    assert loop.apart * LINE == 4096 + LINE
    array = aligned(loop.apart * 128 * LINE // 8, 1)
    assert call(loop, 3 * 128, 128 * LINE - 1, array) == 3 * 128


@needs("gcc")
@pytest.mark.x86_64
def test_a_walk_in_one_set_misses_l1_with_every_load_and_one_through_all_sets_hardly(tmp_path: Path) -> None:
    """Of 48 lines an L1 of 64 sets and 8 ways keeps all, if they are a page and a line apart."""
    pytest.importorskip("iced_x86")
    from counteroof.cachesim.model import CacheModel
    from counteroof.instrument.engine import Engine
    from counteroof.machine.model import CacheLevel

    loop = next(one for one in USABLE if one.mix == "same set")
    assert loop.apart * LINE == 4096
    sources = Path(__file__).resolve().parents[2] / "csrc"
    library = ctypes.CDLL(str(shared(tmp_path, '#include "ceilings/patterns.c"', "-O2", f"-I{sources}")))
    memory = aligned(48 * 4160 // 8, 0)
    caches = (
        CacheLevel("L1", 32768, 8, 64, 1, "inclusive", False, "test"),
        CacheLevel("L2", 1 << 20, 16, 64, 1, "inclusive", False, "test"),
    )
    loads: dict[str, int] = {}
    for symbol in ("ceilings_walk", "ceilings_walk_set"):
        model = CacheModel(caches)
        model.add_array("memory", memory.ctypes.data, memory.nbytes)
        frame = ffi.new("struct run_frame *")
        for slot, value in enumerate((3 * 48, 48 * LINE - 1, memory.ctypes.data)):
            frame.ints[slot] = value
        with Engine("bytes", model.pointer) as engine:
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            assert engine.call(address, frame)[0] == 3 * 48
            engine.drain()
        (array,) = [one for one in model.arrays() if one.name == "memory"]
        assert array.dram_read_bytes == 48 * LINE
        loads[symbol] = (model.totals().between(1) or 0) // LINE
    stack = 1
    assert loads == {"ceilings_walk": 48 + stack, "ceilings_walk_set": 3 * 48 + stack}


def test_pointers_are_nothing_to_compute_with_and_numbers_nothing_to_follow() -> None:
    chase = next(one for one in USABLE if one.order == "chain")
    with Team(placement(1), 1 << 20, chain_bytes=1 << 20) as team:
        with pytest.raises(MachineError, match="Invalid argument"):
            team.run(a_loop("read"), 1, 1, stream_bytes=1 << 16, wrapped=True)
        assert team.run(chase, 5, 2, stream_bytes=1 << 20, wrapped=True).iterations == (5, 5)
        with pytest.raises(MachineError, match="a chain of pointers could not be run"):
            team.chain(1 << 30)
    with Team(placement(1), 1 << 20) as team, pytest.raises(MachineError, match="Invalid argument"):
        team.run(chase, 1, 1, stream_bytes=1 << 16, wrapped=True)


# ---- memory before anything is timed ----


@pytest.mark.parametrize("small_pages", [False, True])
def test_all_memory_is_written_before_it_is_read(small_pages: bool) -> None:
    both = (0, 4 << 20) if small_pages else (4 << 20, 0)
    with Team(placement(1), both[0], small_bytes=both[1]) as team:
        size = ffi.new("uint64_t *")
        start = int(lib.ceilings_memory_place(team._memory, size))
        values = np.frombuffer((ctypes.c_double * (size[0] // 8)).from_address(start))
        assert set(values) == {1.0}  # the kernel's zero page would be zeros
        assert team.huge_share() == 0.0 or not small_pages


def test_the_share_of_huge_pages_is_read_of_the_stretch_alone(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    maps = (
        "10000000-10400000 rw-p 00000000 00:00 0\nSize: 4096 kB\nAnonHugePages:  2048 kB\n"
        "20000000-20400000 rw-p 00000000 00:00 0\nSize: 4096 kB\nAnonHugePages:  4096 kB\n"
    )
    (tmp_path / "proc/self/smaps").write_text(maps)
    assert sysfs.huge_share(sysfs.Tree(tmp_path), 0x10000000, 4 << 20) == 0.5
    assert sysfs.huge_share(sysfs.Tree(tmp_path / "nothing"), 0x10000000, 4 << 20) is None


# ---- the threads that run them ----


def a_loop(mix: str) -> Loop:
    return next(one for one in USABLE if one.mix == mix)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_sample_counts_the_iterations_of_all_threads(threads: int) -> None:
    try:
        cpus = placement(threads)
    except ValueError:
        pytest.skip("one processor")
    with Team(cpus, 4 << 20) as team:
        for loop, wrapped in ((a_loop("ADD"), False), (a_loop("triad"), False), (a_loop("triad"), True)):
            samples = team.run(
                loop, 100, 5, stream_bytes=1 << 20, wrapped=wrapped, warmups=1, probe_operations=640
            )
            assert samples.iterations == (100 * threads,) * 5
            assert len(samples.seconds) == 5
            assert len(samples.add_seconds) == len(samples.multiply_seconds) == 5 * threads
            assert min(samples.seconds + samples.add_seconds + samples.multiply_seconds) > 0
            assert len(samples.busy) == 5
            assert all(0 <= share <= 1 for share in samples.busy)


def test_a_sample_has_a_counted_clock_or_the_reason_why_not() -> None:
    with Team(placement(1)) as team:
        samples = team.run(a_loop("ADD"), 1000, 4, warmups=0)
    assert len(samples.counted_hz) == 4
    assert (None in samples.counted_hz) == bool(samples.uncounted)
    assert all(hz is None or 1e8 < hz < 1e10 for hz in samples.counted_hz)
    twice = samples + samples
    assert (len(twice.counted_hz), twice.uncounted) == (8, samples.uncounted)


def test_the_callers_affinity_is_left_alone() -> None:
    import os

    before = os.sched_getaffinity(0)
    with Team(placement(1), 1 << 20) as team:
        team.run(a_loop("ADD"), 10, 2)
    assert os.sched_getaffinity(0) == before


def test_a_job_larger_than_its_memory_is_refused() -> None:
    with Team(placement(1), 1 << 20) as team:
        with pytest.raises(MachineError, match="Invalid argument"):
            team.run(a_loop("triad"), 1, 1, stream_bytes=64 << 20)
        with pytest.raises(MachineError, match="Invalid argument"):
            team.run(a_loop("read"), 1, 1, stream_bytes=96 * 1024, wrapped=True)  # no power of two
    with Team(placement(1)) as team, pytest.raises(MachineError, match="Invalid argument"):
        team.run(a_loop("read"), 1, 1, stream_bytes=1 << 20)


def test_a_processor_that_is_not_there_is_named() -> None:
    with pytest.raises(MachineError, match=r"processors 4000: Invalid argument"):
        Team((4000,), 1 << 20)
    with Team((4000,)) as team, pytest.raises(MachineError, match="processors 4000"):
        team.run(a_loop("ADD"), 1, 1)


def test_memory_that_cannot_be_had_is_an_error() -> None:
    with pytest.raises(MachineError, match=r"of memory could not be"):
        Team(placement(1), 1 << 60)


# ---- every instruction that runs, counted by the engine ----


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same table in a library of its own: the engine runs the package's own code natively."""
    sources = Path(__file__).resolve().parents[2] / "csrc"
    code = '#include "ceilings/x86.c"\n#include "ceilings/patterns.c"\n'
    path = shared(tmp_path_factory.mktemp("loops"), code, "-O2", f"-I{sources}")
    library = ctypes.CDLL(str(path))
    return ffi.cast(
        "struct ceilings_loop *", ctypes.addressof(ctypes.c_char.in_dll(library, "ceilings_table"))
    )


def executed(entry: Any, loop: Loop, iterations: int) -> tuple[int, int, int]:
    """Return the FLOPs, and the bytes loaded and stored, of a call under the engine."""
    iced = pytest.importorskip("iced_x86")
    from counteroof.instrument import flops
    from counteroof.instrument.engine import Engine

    arrays = streams(loop, iterations * loop.chunk_bytes // 8 + 64)
    pointers = [array.ctypes.data for array in arrays[:3]]
    frame = ffi.new("struct run_frame *")
    for slot, value in enumerate([iterations, 2**64 - 1, *pointers]):
        frame.ints[slot] = value
    info = iced.InstructionInfoFactory()
    computed = loaded = stored = 0
    with Engine("flops") as engine:
        address = int(ffi.cast("uintptr_t", entry.run))
        assert engine.call(address, frame)[0] == iterations
        for item in engine.executed():
            instruction = item.instruction
            rule = flops.rule_for(instruction)
            computed += item.times * rule.flops() if rule is not None else 0
            for memory in info.info(instruction).used_memory():
                size = item.times * iced.MemorySizeExt.size(memory.memory_size)
                loaded += size if memory.access in (iced.OpAccess.READ, iced.OpAccess.READ_WRITE) else 0
                stored += size if memory.access in (iced.OpAccess.WRITE, iced.OpAccess.READ_WRITE) else 0
    return computed, loaded, stored


@needs("gcc")
@pytest.mark.x86_64
@pytest.mark.parametrize(
    "loop", BY_HAND, ids=lambda loop: f"{loop.isa} {loop.precision} {loop.mix} {loop.order}"
)
def test_what_the_engine_counts_is_what_the_ceiling_claims(loop: Loop, table: Any) -> None:
    entry = table[loop.index]
    few, more = executed(entry, loop, 2), executed(entry, loop, 7)
    assert few[0] == 2 * loop.flops
    assert more[0] == 7 * loop.flops
    # beside the iterations, constants are loaded once
    chunk = loop.chunk_bytes
    assert more[1] - few[1] == 5 * chunk * sum(loop.streams.count(kind) for kind in "ru")
    assert more[2] - few[2] == 5 * chunk * sum(loop.streams.count(kind) for kind in "wun")
