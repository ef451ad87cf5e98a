"""Files that are either as they were or wholly new, whatever interrupts the writing, and the user's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import BadInput


def cache_directory() -> Path:
    """Return the folder in which counteroof keeps what it can make again.

    Raises
    ------
    BadInput
        If there is none: the user has no home, and says of no other place.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    # a relative path is to be ignored (XDG base directory specification)
    if base.startswith("/"):
        return Path(base) / "counteroof"
    try:
        return Path.home() / ".cache" / "counteroof"
    except RuntimeError as error:  # a user without an entry, as containers have
        raise BadInput("this user has no home directory; set HOME or XDG_CACHE_HOME") from error


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
