"""Files of the kernel that are missing, empty or odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.machine import sysfs
from counteroof.machine.sysfs import Tree

from . import trees


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-1,4,6-7", (0, 1, 4, 6, 7)),
        ("", None),
        ("0-", None),
        ("a", None),
    ],
)
def test_processor_lists(text: str, numbers: tuple[int, ...] | None) -> None:
    assert sysfs.parse_cpu_list(text) == numbers
    if numbers is not None:
        assert sysfs.cpu_list(numbers) == text


def test_a_cache_without_a_size_is_left_out(tmp_path: Path) -> None:
    caches = [
        trees.Cache(1, None, 8, "0", "Data"),
        trees.Cache(2, "0K", 8, "0"),
        trees.Cache(3, "huge", 8, "0"),
    ]
    trees.write_cpu(tmp_path, 0, caches)
    assert sysfs.caches_of(Tree(tmp_path), 0) == ()


def test_instruction_caches_are_left_out(tmp_path: Path) -> None:
    trees.zen5_vm(tmp_path)
    assert [cache.level for cache in sysfs.caches_of(Tree(tmp_path), 0)] == [1, 2, 3]


def test_available_memory_is_the_least_of_free_memory_and_limits(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert sysfs.available_memory(tree) is None
    trees.write(tmp_path, "proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB")
    assert sysfs.available_memory(tree) == 50 * 1024
    trees.write(tmp_path, "sys/fs/cgroup/memory.max", "max")
    assert sysfs.available_memory(tree) == 50 * 1024
    trees.write(tmp_path, "sys/fs/cgroup/memory.max", "30000")
    trees.write(tmp_path, "sys/fs/cgroup/memory.current", "10000")
    assert sysfs.available_memory(tree) == 20000


@pytest.mark.parametrize(
    ("own", "limits", "free"),
    [
        ("0::/a/b", {"a/memory.max": "3000", "a/memory.current": "1000"}, 2000),
        ("0::/a/b", {"a/b/memory.max": "9000", "a/memory.max": "3000"}, 3000),
        ("0::/a", {"unified/a/memory.max": "500"}, 500),
        (
            "0::/a",
            {"a/memory.max": "900", "a/memory.current": "800", "a/memory.stat": "anon 1\ninactive_file 700"},
            800,
        ),
        (
            "4:memory:/a",
            {"memory/a/memory.limit_in_bytes": "700", "memory/a/memory.usage_in_bytes": "100"},
            600,
        ),
        ("4:cpu,memory:/a", {"cpu,memory/a/memory.limit_in_bytes": "700"}, 700),
        ("4:cpu:/a", {"memory/a/memory.limit_in_bytes": "700"}, 50 * 1024),
        ("0::/../host", {"memory.max": "600"}, 600),
        ("nonsense", {"other/memory.max": "600"}, 50 * 1024),
    ],
)
def test_the_limits_of_the_own_control_group_and_those_above_count(
    tmp_path: Path, own: str, limits: dict[str, str], free: int
) -> None:
    trees.write(tmp_path, "proc/meminfo", "MemAvailable: 50 kB")
    trees.write(tmp_path, "proc/self/cgroup", f"7:blkio:/\n{own}\n")
    for name, text in limits.items():
        trees.write(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert sysfs.available_memory(Tree(tmp_path)) == free


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "250000 100000"}, 2.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_quota_of_both_kinds_of_control_group(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        trees.write(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert sysfs.cpu_quota(Tree(tmp_path)) == quota


def test_the_least_quota_of_all_groups_counts(tmp_path: Path) -> None:
    trees.write(tmp_path, "proc/self/cgroup", "0::/a/b")
    trees.write(tmp_path, "sys/fs/cgroup/a/cpu.max", "100000 100000")
    trees.write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "150000 100000")
    assert sysfs.cpu_quota(Tree(tmp_path)) == 1.0


def test_processors_are_counted_in_proc_where_sys_is_missing(tmp_path: Path) -> None:
    trees.write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name : x\n\nprocessor : 1\nmodel name : y")
    assert sysfs.online(Tree(tmp_path)) == (0, 1)
    assert sysfs.cpuinfo(Tree(tmp_path))["model name"] == "x"
    assert sysfs.siblings(Tree(tmp_path), 1) == (1,)
