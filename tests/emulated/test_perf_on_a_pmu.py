"""csrc/perf on a PMU that counts: an Arm machine emulated instruction by instruction (QEMU, -icount).

Needs Debian's qemu-system-arm, gcc-aarch64-linux-gnu and an arm64 kernel; ``scripts/test_pmu.sh`` gets all of
them. The emulated machine runs ``init.c`` and prints what its PMU counted.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-system-aarch64"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
KERNEL = Path(os.environ.get("COUNTEROOF_PMU_KERNEL") or CACHE / "counteroof" / "pmu" / "vmlinuz")
MISSING = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
if not KERNEL.is_file():
    MISSING.append(f"an arm64 kernel at {KERNEL}")

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (scripts/test_pmu.sh gets it)"),
]

Seen = dict[str, list[int]]


def archive(name: str, content: bytes) -> bytes:
    """Return a cpio archive (newc) with one executable file, as the kernel takes it for its first files."""

    def entry(path: str, mode: int, data: bytes, inode: int) -> bytes:
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path.encode() + b"\0"
        head += b"\0" * (-len(head) % 4)
        return head + data + b"\0" * (-len(data) % 4)

    return entry(name, 0o100755, content, 1) + entry("TRAILER!!!", 0, b"", 2)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What the emulated machine printed: the values of each name, in order."""
    folder = tmp_path_factory.mktemp("pmu")
    sources = [
        ROOT / "tests/emulated/init.c",
        *sorted((ROOT / "csrc/perf").glob("*.c")),
        *sorted((ROOT / "csrc/ceilings").glob("*.c")),
        *sorted((ROOT / "csrc/machine").glob("*.c")),
        ROOT / "csrc/regions/regions.c",
        ROOT / "csrc/run/call.c",
    ]
    command = [COMPILER, "-static", "-O1", "-pthread", "-Wall", "-Werror", f"-I{ROOT / 'csrc'}"]
    command += ["-D_GNU_SOURCE=", "-include", "stdint.h", "-o", str(folder / "init"), *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (folder / "files").write_bytes(archive("init", (folder / "init").read_bytes()))
    machine = [EMULATOR, "-M", "virt", "-cpu", "max", "-smp", "2", "-icount", "shift=0", "-m", "512"]
    machine += ["-nic", "none", "-nographic", "-no-reboot", "-kernel", str(KERNEL)]
    machine += ["-initrd", str(folder / "files"), "-append", "console=ttyAMA0 quiet panic=1"]
    ran = subprocess.run(
        machine, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, check=False
    )
    values: Seen = {}
    for name, value in re.findall(r"^(.+) = (-?\d+)\r?$", ran.stdout, re.MULTILINE):
        values.setdefault(name, []).append(int(value))
    assert values.get("done") == [1], ran.stdout[-2000:] + ran.stderr[-2000:]
    return values


def only(seen: Seen, name: str) -> int:
    (value,) = seen[name]
    return value


def test_instructions_are_counted_exactly_at_every_length(seen: Seen) -> None:
    assert only(seen, "group of two") == 2
    one, two, four = (only(seen, f"instructions of {n}000000 rounds") for n in (1, 2, 4))
    assert (two - one, four - two) == (2_000_000, 4_000_000)  # two instructions a round, to the last one
    assert 0 < one - 2_000_000 < 500  # what lies between the counter's start and the kernel's, and after it
    assert seen["cycles"] == [one, two, four]  # the emulated processor does one in a cycle
    assert set(seen["enabled less running"]) == {0}
    assert only(seen, "errors") == 0


def test_what_lies_around_the_calls_is_counted_once_whatever_their_number(seen: Seen) -> None:
    ten, twenty = (only(seen, f"instructions of {n} calls of 1000 rounds") for n in (10, 20))
    per_call = (twenty - ten) / 10
    assert 2000 < per_call < 2050
    assert 0 <= ten - 10 * per_call < 500


def test_flushing_the_caches_before_each_call_is_not_counted(seen: Seen) -> None:
    cold = only(seen, "instructions of 10 cold calls of 1000 rounds")
    assert 10 * 2000 < cold < 10 * 2500  # each call has the start and the stop of its own around it


def test_what_fits_into_a_group_is_told_by_a_leader_that_is_on(seen: Seen) -> None:
    on = only(seen, "events that fit behind a leader that is on")
    assert 2 <= on < 16
    assert only(seen, "errno of one more") == errno.EINVAL
    # arm_pmu.c does not count a leader that is off: such a group is accepted and never runs
    assert only(seen, "events that fit behind a leader that is off") == on + 1
    assert only(seen, "too many of them running") == 0


def test_a_pass_of_what_fits_is_always_on_the_counters(seen: Seen) -> None:
    assert 4_000_000 < only(seen, "pass one") < 4_000_500
    assert only(seen, "pass one not running") == 0


def test_two_such_groups_share_the_counters_and_scaling_is_near_the_truth(seen: Seen) -> None:
    assert only(seen, "second group") == only(seen, "events that fit behind a leader that is on")
    shares = []
    for enabled, running, value in zip(
        seen["shared enabled"], seen["shared running"], seen["shared value"], strict=True
    ):
        assert 0 < running < enabled
        shares.append(running / enabled)
        assert value * enabled / running == pytest.approx(400_000_000, rel=0.05)
        assert value < 390_000_000
    assert sum(shares) == pytest.approx(1, abs=0.05)


def test_counters_that_somebody_else_holds_leave_a_group_that_never_runs(seen: Seen) -> None:
    assert only(seen, "group beside them") == 1  # it opens all the same
    assert only(seen, "starved enabled") == 1
    assert only(seen, "starved running") == 0


def test_threads_started_while_counting_are_inherited(seen: Seen) -> None:
    assert 8_000_000 < only(seen, "threads inherited") < 8_100_000
    assert only(seen, "threads not inherited") < 100_000


def test_threads_that_exist_already_have_a_group_of_their_own(seen: Seen) -> None:
    assert 6_000_000 < only(seen, "thread that existed") < 6_050_000
    assert only(seen, "own thread while another works") < 50_000
    assert only(seen, "errors of threads") == 0


@pytest.mark.parametrize("level", range(-1, 4))
def test_perf_event_paranoid_allows_what_refusals_say_it_does(seen: Seen, level: int) -> None:
    for what in ("own", "kernel", "system"):
        assert only(seen, f"paranoid {level} root {what}") == 0
    allowed = {"own": level <= 2, "kernel": level <= 1, "system": level <= 0}
    for what, open_to_users in allowed.items():
        expected = 0 if open_to_users else errno.EACCES
        assert only(seen, f"paranoid {level} user {what}") == expected, what


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("a PMU that is not there", errno.ENOENT),
        ("an event nobody knows", errno.EINVAL),
        ("a processor that is not there", errno.EINVAL),
        ("a processor that is switched off", errno.ENODEV),
        ("a thread that is not there", errno.ESRCH),
        ("reading what is closed", errno.EBADF),
    ],
)
def test_the_kernel_refuses_with_the_errors_that_have_texts(seen: Seen, what: str, error: int) -> None:
    assert only(seen, f"errno of {what}") == error


def test_too_many_open_files_are_told_as_such(seen: Seen) -> None:
    assert only(seen, "errno with too many files") == errno.EMFILE


def test_own_counters_are_read_without_a_system_call_where_the_kernel_allows_it(seen: Seen) -> None:
    assert seen["direct opened"] == [0, 0]
    assert seen["direct"] == [0, 1]  # perf_user_access off, then on
    assert seen["direct mapped"] == [0, 1] or seen["direct mapped"] == [1, 1]
    for counted in seen["direct instructions"]:
        assert 2_000_000 < counted < 2_001_000  # the same number either way
    with_call, without = seen["direct cost in ns"]
    assert without < with_call / 5


def test_regions_count_what_is_in_them_and_in_threads_they_start(seen: Seen) -> None:
    assert only(seen, "calls of inner") == 3
    inner = only(seen, "inner region")
    assert 3 * 1_000_000 < inner < 3 * 1_002_000
    assert only(seen, "inner region not running") == 0
    outer = only(seen, "outer region")
    assert 2_000_000 + inner + 3 * 2000 + 4 * 500_000 < outer < 7_100_000


def test_the_clock_of_a_ceiling_is_counted_on_every_thread_in_every_sample(seen: Seen) -> None:
    assert only(seen, "status of a ceiling") == 0
    assert only(seen, "cycles of a ceiling not counted") == 0
    clocks = seen["clock of a ceiling"]
    assert len(clocks) == 3 * 2
    assert all(clock > 0 for clock in clocks)
    # a cycle is a nanosecond there; now and again much of a sample is the kernel's, which are not counted
    assert sum(0.9e9 < clock <= 1.001e9 for clock in clocks) >= 4, clocks
