"""How LIKWID reaches the processor's counters, and what keeps it from them, without starting it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

PERF_EVENT, DIRECT, DAEMON = "perf_event", "direct", "access daemon"
MODES = {-1: PERF_EVENT, 0: DIRECT, 1: DAEMON}
"""What ``daemonMode`` of liblikwid's configuration means: the enumeration AccessMode of likwid.h."""
LOAD = "sudo modprobe msr"
AS_ROOT = "run as root (sudo)"
SET_UID = 0o4000


def refused(
    cpu: int, daemon: Path | None, root: Path = Path("/"), superuser: bool | None = None
) -> tuple[str, str] | None:
    """Return why LIKWID cannot reach the counters through MSRs and what would let it, or ``None`` if it may.

    Parameters
    ----------
    cpu
        A processor to be counted.
    daemon
        The access daemon that opens the MSRs, ``None`` if LIKWID opens them itself.
    root
        Below which ``/dev`` lies.
    superuser
        Whether this process is root's; found out if not given.
    """
    superuser = os.geteuid() == 0 if superuser is None else superuser
    devices = [root / f"dev/cpu/{cpu}/msr", root / f"dev/msr{cpu}"]
    device = next((one for one in devices if one.exists()), None)
    if device is None:
        return (
            f"LIKWID reads the counters through /dev/cpu/{cpu}/msr, which is not there (the module msr is "
            "not loaded, or a container does not show it)",
            LOAD,
        )
    if superuser:
        return None
    if daemon is None:
        if os.access(device, os.R_OK | os.W_OK):
            return None
        return f"LIKWID opens /{device.relative_to(root)} itself, which only root may", AS_ROOT
    if not daemon.exists():
        return f"LIKWID's access daemon {daemon} is not there", "sudo apt install likwid"
    if raises_rights(daemon):
        return None
    return (
        f"LIKWID's access daemon {daemon} is not set-uid root, and this user may not open MSRs",
        set_uid(daemon),
    )


def set_uid(daemon: Path) -> str:
    """Return the command that lets an access daemon open MSRs for everybody."""
    return f"sudo chown root {daemon} && sudo chmod u+s $_"


def raises_rights(daemon: Path) -> bool:
    """Whether a daemon has more rights than who starts it: set-uid root, or file capabilities."""
    found = daemon.stat()
    if found.st_uid == 0 and found.st_mode & SET_UID:
        return True
    try:
        return bool(os.getxattr(daemon, "security.capability"))
    except OSError:  # it has none, or the file system knows no such thing
        return False


def described(mode: str | None, daemon: str | None) -> str:
    """Return how LIKWID reaches the counters in words; ``mode`` is ``None`` if it was not asked.

    Then it is what is installed that is told.
    """
    if mode not in (None, DAEMON):
        return mode or ""
    path = daemon or shutil.which(
        "likwid-accessD", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    )
    if path is None or not Path(path).exists():
        return "no access daemon" if shutil.which("likwid-perfctr") else "LIKWID is not installed"
    rights = "with rights of its own" if raises_rights(Path(path)) else "not set-uid: for root only"
    return f"{DAEMON} {path}, {rights}"


def has_msrs() -> bool:
    """Whether this processor's architecture has MSRs: elsewhere LIKWID counts through perf_event."""
    return platform.machine() in ("x86_64", "i386", "i686")
