"""Files that are either as they were or wholly new, whatever interrupts the writing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 so that ``path`` holds either its old content or all of the new, even across Ctrl-C."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``path`` so that it holds either its old content or all of the new, even across Ctrl-C.

    Raises
    ------
    OSError
        If that is not possible; then ``path`` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        move(Path(name), path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def move(path: Path, to: Path) -> Path:
    """Put a finished file in the place of another in the same file system, and return its new path."""
    os.chmod(path, 0o666 & ~_umask())
    os.replace(path, to)
    return to


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value
