"""Arrays: contents that are the same everywhere, guards that notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counteroof.errors import KernelFailed
from counteroof.native import ffi, lib
from counteroof.run.arrays import GUARD, PAGE, GuardedArray, GuardedMemory
from counteroof.run.memory import available_memory, huge_page_bytes
from counteroof.run.plan import ArrayPlan
from counteroof.run.planning import array_plan
from counteroof.spec import DTYPES, array

MASK = (1 << 64) - 1


def filled(dtype: str, shape: Any, init: str = "zeros", **options: Any) -> np.ndarray[Any, Any]:
    """Return a copy of an array as the kernel would find it."""
    name = options.pop("name", "a")
    made = GuardedArray(plan(dtype, shape, init, name=name, **options))
    ffi.memmove(made.pointer(made.start), b"\xee" * made.bytes, made.bytes)  # nothing may be left as it was
    made.fill()
    content = np.frombuffer(bytes(made.view()), DTYPES[dtype][0]).reshape(made.plan.shape)
    assert made.damage() is None
    made.free()
    return content


def plan(dtype: str, shape: Any, init: str = "zeros", name: str = "a", **options: Any) -> ArrayPlan:
    return array_plan(array(name, dtype, shape, init, **options), {"n": 1000})


def splitmix(seed: int, index: int) -> int:
    """Number ``index`` of the SplitMix64 sequence, written the slow way."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_constants_and_ranges_in_every_type(dtype: str) -> None:
    numpy = np.dtype(DTYPES[dtype][0])
    assert (filled(dtype, (3, 5)) == 0).all()
    assert (filled(dtype, 7, "constant", value=3) == np.full(7, 3, numpy)).all()
    assert (filled(dtype, 100, "arange", start=5) == np.arange(5, 105).astype(numpy)).all()


def test_ranges_with_steps() -> None:
    assert list(filled("f64", 4, "arange", start=1, step=0.25)) == [1, 1.25, 1.5, 1.75]
    assert list(filled("i32", 4, "arange", start=3, step=-2)) == [3, 1, -1, -3]


def test_large_integers_are_exact() -> None:
    assert filled("u64", 1, "constant", value=(1 << 64) - 1)[0] == (1 << 64) - 1
    assert filled("i64", 1, "constant", value=-(1 << 63))[0] == -(1 << 63)


def test_random_numbers_are_those_of_splitmix64() -> None:
    seed = plan("f64", 3, "random", seed=5).fill.seed
    assert list(filled("f64", 3, "random", seed=5)) == [(splitmix(seed, i) >> 11) / 2**53 for i in range(3)]
    seed = plan("f32", 3, "random").fill.seed
    assert list(filled("f32", 3, "random")) == [(splitmix(seed, i) >> 40) / 2**24 for i in range(3)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "c64", "c128"])
def test_random_floats_lie_between_low_and_high(dtype: str) -> None:
    values = filled(dtype, 5000, "random")
    parts = values.view(f"f{values.real.dtype.itemsize}").astype("f8")
    assert 0 <= parts.min() < 0.01
    assert 0.99 < parts.max() < 1
    assert abs(parts.mean() - 0.5) < 0.02
    assert len(np.unique(parts)) > (900 if dtype == "f16" else 4900)
    bounded = filled(dtype, 1000, "random", low=-2, high=3).real.astype("f8")
    assert -2 <= bounded.min() < -1.9
    assert 2.9 < bounded.max() <= 3


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_random_integers_lie_below_their_bound(dtype: str) -> None:
    values = filled(dtype, 5000, "random")
    bound = min(2 ** (int(dtype[1:]) - 2), 2**30)
    assert 0 <= values.min() < bound * 0.02
    assert bound * 0.98 <= values.max() < bound
    dice = filled(dtype, 1000, "random", low=1, high=7)
    assert set(dice.tolist()) == {1, 2, 3, 4, 5, 6}


def test_whole_range_of_64_bits() -> None:
    values = filled("u64", 1000, "random", low=0, high=1 << 64)
    assert values.max() > (1 << 63)


def test_arrays_of_one_seed_and_different_names_differ() -> None:
    assert (filled("f64", 10, "random") == filled("f64", 10, "random")).all()
    assert (filled("f64", 10, "random") != filled("f64", 10, "random", name="b")).all()
    assert (filled("f64", 10, "random") != filled("f64", 10, "random", seed=1)).all()


def test_contents_do_not_depend_on_the_number_of_threads() -> None:
    count = 1 << 20
    contents = []
    for threads in (1, 3):
        made = GuardedArray(plan("f64", count, "random"))
        how = ffi.new("struct run_fill *")
        how.kind, how.type, how.seed = lib.RUN_FILL_RANDOM, lib.RUN_F64, 1
        how.last_float, how.every, how.threads = 1.0, 1, threads
        assert lib.run_fill(made.start, count, how) == 0
        contents.append(bytes(made.view()))
        made.free()
    assert contents[0] == contents[1]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000, 70_000])
def test_permutation_has_every_index_once(count: int) -> None:
    values = filled("i32", count, "permutation")
    assert (np.sort(values) == np.arange(count)).all()
    if count > 10:
        assert (values != np.arange(count)).sum() > count * 0.9
        assert abs(np.corrcoef(values, np.arange(count))[0, 1]) < 4 / count**0.5


def test_csr_structure_is_a_matrix() -> None:
    rows, cols, per_row = 50, 37, 9
    pointers = filled("i64", rows + 1, "csr_indptr", rows=rows, nnz_per_row=per_row)
    indices = filled("i32", rows * per_row, "csr_indices", rows=rows, cols=cols, nnz_per_row=per_row)
    assert (pointers == np.arange(rows + 1) * per_row).all()
    table = indices.reshape(rows, per_row)
    assert table.min() >= 0
    assert table.max() < cols
    assert (np.diff(table, axis=1) > 0).all()
    assert len(np.unique(table[:, 0])) > 1


def test_full_rows_of_a_csr_structure_have_every_column() -> None:
    indices = filled("i32", 30, "csr_indices", rows=5, cols=6, nnz_per_row=6)
    assert (indices.reshape(5, 6) == np.arange(6)).all()


def test_half_precision_is_rounded_as_numpy_does() -> None:
    for value in (0.1, 1 / 3, 65504, 65519, 65520, 1e-7, 6e-8, 2.98e-8, 5.9e-5, 6.1e-5, -2.5, 1e9):
        with np.errstate(over="ignore"):
            assert filled("f16", 1, "constant", value=value)[0] == np.float16(value), value


def test_array_from_a_file(tmp_path: Path) -> None:
    content = np.arange(12, dtype="f4").reshape(3, 4)
    np.save(tmp_path / "a.npy", content)
    assert (filled("f32", (3, 4), "file", path=str(tmp_path / "a.npy")) == content).all()
    np.save(tmp_path / "t.npy", np.asfortranarray(content))
    assert (filled("f32", (3, 4), "file", path=str(tmp_path / "t.npy")) == content).all()
    with pytest.raises(KernelFailed, match=r"holds float32 \(3, 4\); expected float64 \(3, 4\)"):
        filled("f64", (3, 4), "file", path=str(tmp_path / "a.npy"))
    with pytest.raises(KernelFailed, match="cannot be read"):
        filled("f32", 3, "file", path=str(tmp_path / "none.npy"))


@pytest.mark.parametrize("align", [1, 8, 64, 4096, 1 << 16, 1 << 21])
@pytest.mark.parametrize("size", [1, 80, 4096, 10_000])
def test_array_is_aligned_and_ends_next_to_its_guard(size: int, align: int) -> None:
    memory = GuardedMemory("a", size, align)
    assert memory.start % align == 0
    guard = memory.first_page + memory.page_bytes
    assert guard - (memory.start + size) < max(min(align, PAGE), 1)
    assert memory.first_page <= memory.start
    memory.view()[:] = b"x" * size
    assert memory.damage() is None
    memory.free()


def test_canaries_tell_which_bytes_were_written() -> None:
    memory = GuardedMemory("table", 80, 64)
    ffi.memmove(memory.pointer(memory.start + 80 + 4), b"12345678", 8)
    assert memory.damage() == "wrote just past the end of table (80 bytes), bytes 4 to 11 beyond it"
    memory.free()
    memory = GuardedMemory("table", 80, 64)
    ffi.memmove(memory.pointer(memory.start - 8), b"1234", 4)
    assert memory.damage() == "wrote just before the start of table (80 bytes), 8 to 5 bytes before it"
    memory.free()


@pytest.mark.parametrize("offset", ["80", "-GUARD", "GUARD // 2"])
def test_guards_cannot_be_read(offset: str) -> None:
    code = (
        "from counteroof.run.arrays import GUARD, GuardedMemory\nfrom counteroof.native import ffi\n"
        f"memory = GuardedMemory('a', 80, 1)\nffi.string(memory.pointer(memory.start + {offset}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": "."})
    assert done.returncode == -11


def test_read_only_memory_can_be_read_and_written_again() -> None:
    memory = GuardedMemory("a", 10_000)
    memory.view()[0:3] = b"abc"
    memory.protect(True)
    assert memory.view()[0:3] == b"abc"
    memory.protect(False)
    memory.view()[0:3] = b"def"
    memory.free()


def test_memory_that_is_not_there_is_told() -> None:
    with pytest.raises(KernelFailed, match="no memory for a") as caught:
        GuardedMemory("a", 1 << 60)
    assert caught.value.kind == "setup"
    assert GUARD % PAGE == 0


def test_available_memory_is_below_the_machines() -> None:
    available = available_memory()
    assert available is not None
    assert 0 < available < os.sysconf("SC_PHYS_PAGES") * PAGE


def test_huge_pages_are_never_more_than_the_array() -> None:
    made = GuardedArray(plan("f64", 1 << 20, "random"))
    found = huge_page_bytes({"a": (made.start, made.bytes)})
    assert 0 <= found["a"] <= made.bytes + (1 << 21)
    made.free()
