"""What else ran while something was measured, from files written here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counteroof.machine.load import Look, Watch, look
from counteroof.machine.sysfs import Tree

from . import trees

TICK = os.sysconf("SC_CLK_TCK")


def test_proc_stat_is_read_in_seconds(tmp_path: Path) -> None:
    row = " ".join(str(TICK * seconds) for seconds in (1, 2, 3, 40, 5, 6, 7, 8, 9, 10))
    trees.write(tmp_path, "proc/stat", f"cpu  {row}\ncpu0 {row}\nctxt 5\nprocs_running 4\n")
    found = look(Tree(tmp_path))
    assert found is not None
    assert (found.busy, found.idle, found.stolen, found.runnable) == (1 + 2 + 3 + 6 + 7, 45, 8, 4)
    assert found.own > 0


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "procs_running 1\n"])
def test_what_is_not_there_is_unknown(tmp_path: Path, text: str) -> None:
    trees.write(tmp_path, "proc/stat", text)
    assert look(Tree(tmp_path)) is None
    watch = Watch(Tree(tmp_path))
    watch.look()
    assert watch.told() == "whether other processes ran is unknown: /proc/stat cannot be read"


def told(*looks: Look) -> str | None:
    each = iter(looks)
    watch = Watch(looker=lambda tree: next(each))
    for _ in looks[1:]:
        watch.look()
    return watch.told()


START = Look(busy=100, idle=100, stolen=10, own=5, runnable=1)


def test_a_quiet_machine_is_nothing_to_speak_of() -> None:
    assert told(START, Look(110.1, 110, 10.05, 15, 1)) is None
    assert told(START, START) is None


def test_other_processes_are_what_is_busy_beside_this_one() -> None:
    said = told(START, Look(114, 106, 10, 15, 1))
    assert said == "other processes took 20 % of the processors' time"


def test_stolen_time_and_the_queue_are_said() -> None:
    said = told(START, Look(108, 100, 12, 13, 3), Look(108, 100, 12, 13, 4))
    assert said == "the hypervisor took 20 % of it for other machines, 2.50 other tasks could run on average"


def test_this_machine_says_something() -> None:
    found = look(Tree(Path("/")))
    assert found is not None
    assert found.busy > 0
    assert found.runnable >= 1
