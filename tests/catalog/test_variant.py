"""Which kernel library a processor gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.catalog import kernels, variant
from counteroof.catalog.variant import LEVELS, available_levels, cpu_flags, library_path, runnable_levels
from counteroof.errors import LibraryError

V2, V3, V4 = (LEVELS[level] for level in ("v2", "v3", "v4"))


def cpuinfo(path: Path, *processors: frozenset[str]) -> Path:
    text = "".join(f"processor\t: 0\nflags\t\t: {' '.join(sorted(flags))}\n\n" for flags in processors)
    path.write_text(text)
    return path


def test_widest_level_comes_first() -> None:
    assert runnable_levels(V2 | V3 | V4) == ("v4", "v3", "v2")
    assert runnable_levels(V2 | V3) == ("v3", "v2")
    assert runnable_levels(V2) == ("v2",)
    assert runnable_levels(frozenset()) == ()


@pytest.mark.parametrize("missing", sorted(V3))
def test_a_level_needs_all_of_its_features(missing: str) -> None:
    assert runnable_levels((V2 | V3) - {missing}) == ("v2",)


def test_a_level_needs_those_below_it() -> None:
    # Xeon Phi and hypervisors that hide FMA have AVX-512 but not all of v3.
    assert runnable_levels((V2 | V3 | V4) - {"fma"}) == ("v2",)


def test_flags_are_those_that_all_processors_have(tmp_path: Path) -> None:
    path = cpuinfo(tmp_path / "cpuinfo", V2 | V3 | V4, V2 | V3)
    assert cpu_flags(path) == V2 | V3


def test_no_cpuinfo_gives_no_flags(tmp_path: Path) -> None:
    assert cpu_flags(tmp_path / "none") == frozenset()


def test_processor_that_is_too_old_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cpuinfo(tmp_path / "cpuinfo", V2 - {"popcnt"})
    monkeypatch.setattr(variant.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(variant, "cpu_flags", lambda: cpu_flags(path))
    with pytest.raises(LibraryError, match=r"need x86-64-v2; this processor lacks popcnt"):
        library_path()


def test_other_architectures_have_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant.platform, "machine", lambda: "aarch64")
    assert available_levels() == ("base",)


def test_missing_library_names_the_remedy() -> None:
    with pytest.raises(LibraryError, match=r"level v9 is missing in .*counteroof; install the package"):
        library_path("v9")


def test_kernels_come_from_the_widest_library_that_runs() -> None:
    level = available_levels()[0]
    paths = {kernel.library.path for kernel in kernels()}
    assert paths == {str(library_path(level))}
    assert f"_kernels_{level}." in paths.pop()


@pytest.mark.x86_64
@pytest.mark.parametrize("level", available_levels())
def test_every_level_has_the_same_kernels(level: str) -> None:
    assert [kernel.name for kernel in kernels(level)] == [kernel.name for kernel in kernels()]


def test_kernel_that_cannot_exist_elsewhere_is_absent_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counteroof.catalog.library_path", lambda level: tmp_path / "_kernels_base.so")
    elsewhere = {kernel.name for kernel in kernels()}
    monkeypatch.setattr("counteroof.catalog.library_path", lambda level: tmp_path / "_kernels_v2.so")
    assert {kernel.name for kernel in kernels()} - elsewhere == {"copy_nontemporal"}
