"""Whether hardware counters can be had through perf_event_open: asked by opening and reading them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
DEVICES = Path("/sys/bus/event_source/devices")

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTRIBUTE_BYTES = 112  # PERF_ATTR_SIZE_VER5, known to every kernel since 4.1
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_ENABLE, _DISABLE = 0x2400, 0x2401
_CLOSE_ON_EXEC = 8

HARDWARE, SOFTWARE = 0, 1
EVENTS = {
    "cycles": (HARDWARE, 0),
    "instructions": (HARDWARE, 1),
    "cache misses": (HARDWARE, 3),
}
"""Generic hardware events that every PMU has: their perf type and config."""


@dataclass(frozen=True)
class EventProbe:
    """What happened when an event was opened for this process and read after some work.

    ``value`` is what it counted, ``None`` if it could not be opened or read; ``error`` is then the errno.
    """

    name: str
    value: int | None
    error: int | None = None

    @property
    def works(self) -> bool:
        """Whether it counted: some hypervisors let an event be opened that stays 0."""
        return bool(self.value)


def paranoid() -> int | None:
    """Return kernel.perf_event_paranoid, or ``None`` if the kernel has no such setting."""
    try:
        return int(PARANOID.read_text())
    except (OSError, ValueError):
        return None


def pmus() -> tuple[str, ...]:
    """Return the PMUs the kernel knows, sorted; those of memory controllers are uncore_imc, amd_umc ..."""
    try:
        return tuple(sorted(entry.name for entry in DEVICES.iterdir()))
    except OSError:
        return ()


def probe() -> tuple[EventProbe, ...]:
    """Return what each of :data:`EVENTS` does here."""
    return tuple(_probe(name, kind, config) for name, (kind, config) in EVENTS.items())


def hardware_counters() -> tuple[bool, str]:
    """Return whether cycles and instructions can be counted, and why not (or what was found)."""
    results = {result.name: result for result in probe()}
    failed = next((results[name] for name in ("cycles", "instructions") if not results[name].works), None)
    if failed is None:
        return True, f"cycles and instructions counted, perf_event_paranoid is {paranoid()}"
    return False, reason(failed)


def reason(failed: EventProbe) -> str:
    """Return why an event could not be had, in words."""
    level = paranoid()
    if failed.value == 0:
        return f"{failed.name} can be opened but stay at 0 (the hypervisor passes no counters on)"
    if failed.error == errno.ENOSYS:
        return "this kernel has no perf_event_open"
    if failed.error in (errno.EACCES, errno.EPERM):
        if level is not None and level > 2 and os.geteuid() != 0:
            return f"perf_event_open was refused (perf_event_paranoid is {level}, needs 2 or less)"
        return f"perf_event_open was refused (perf_event_paranoid is {level}, so probably seccomp did)"
    if failed.error in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return f"the kernel has no PMU for {failed.name} (most virtual machines have none)"
    text = os.strerror(failed.error) if failed.error else "no value"
    return f"perf_event_open of {failed.name} failed: {text}"


def _probe(name: str, kind: int, config: int) -> EventProbe:
    try:
        descriptor = _open(kind, config)
    except OSError as error:
        return EventProbe(name, None, error.errno)
    try:
        fcntl.ioctl(descriptor, _ENABLE, 0)
        sum(range(20_000))  # something to count
        fcntl.ioctl(descriptor, _DISABLE, 0)
        data = os.read(descriptor, 8)
    except OSError as error:
        return EventProbe(name, None, error.errno)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    return EventProbe(name, struct.unpack("=Q", data)[0] if len(data) == 8 else None)


def _open(kind: int, config: int) -> int:
    """Open an event of this process in user mode, and return its file descriptor."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, "no perf_event_open known for this architecture")
    flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    # type, size, config, sample_period, sample_type, read_format, flags; the rest stays 0.
    head = struct.pack("=IIQQQQQ", kind, _ATTRIBUTE_BYTES, config, 0, 0, 0, flags)
    attribute = ctypes.create_string_buffer(head.ljust(_ATTRIBUTE_BYTES, b"\0"), _ATTRIBUTE_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(
        ctypes.c_long(number),
        attribute,
        ctypes.c_int(0),
        ctypes.c_int(-1),
        ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
