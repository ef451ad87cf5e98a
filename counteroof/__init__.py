"""counteroof: rooflines with the dot where it belongs.

Importing this package is cheap: NumPy, pandas and the engine are loaded by the functions that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .spec import array as array
    from .spec import kernel as kernel
    from .spec import load as load

_FROM_SPEC = ("array", "kernel", "load")
__all__ = ["__version__", "array", "kernel", "load"]


def __getattr__(name: str) -> object:
    """Load the public API on first use, so that ``import counteroof`` stays quick."""
    if name in _FROM_SPEC:
        from . import spec

        return getattr(spec, name)
    raise AttributeError(f"module 'counteroof' has no attribute {name!r}")
