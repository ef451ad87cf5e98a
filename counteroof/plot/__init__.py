"""Pictures of results; importing it sees to it that matplotlib has a folder for its settings.

It wants one in the user's home, and where it cannot have that complains on standard error.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

MPLCONFIGDIR = "MPLCONFIGDIR"


def _usable(variable: str, beside: str) -> bool:
    """Return whether matplotlib can have its folder in a base folder of the XDG specification."""
    base = Path(os.environ.get(variable) or os.path.expanduser(f"~/{beside}"))
    folder = base / "matplotlib"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def give_matplotlib_a_folder() -> None:
    """Name a folder of this process alone for matplotlib's settings if it could not have its own."""
    if MPLCONFIGDIR in os.environ:
        return
    if _usable("XDG_CONFIG_HOME", ".config") and _usable("XDG_CACHE_HOME", ".cache"):
        return
    folder = tempfile.mkdtemp(prefix="counteroof-matplotlib-")
    os.environ[MPLCONFIGDIR] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


give_matplotlib_a_folder()
