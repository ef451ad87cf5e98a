"""counteroof: rooflines with the dot where it belongs.

Importing this package is cheap: NumPy, pandas and the engine are loaded by the functions that need them.

>>> import counteroof
>>> run = counteroof.run("kernels.toml")  # doctest: +SKIP
>>> run.to_frame()  # doctest: +SKIP
>>> run.plot()  # doctest: +SKIP
>>> run.explain("triad")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import Interrupted as Interrupted
    from .api import Run as Run
    from .api import import_results as import_results
    from .api import read_results as read_results
    from .api import run as run
    from .marking import region as region
    from .marking import regions as regions
    from .spec import array as array
    from .spec import kernel as kernel
    from .spec import load as load

_HOMES = {
    "Interrupted": "api",
    "Run": "api",
    "import_results": "api",
    "read_results": "api",
    "region": "marking",
    "regions": "marking",
    "run": "run",  # the package of this name, which can be called
    "array": "spec",
    "kernel": "spec",
    "load": "spec",
}
__all__ = [
    *("Interrupted", "Run", "__version__", "array", "import_results", "kernel", "load", "read_results"),
    *("region", "regions", "run"),
]


def __getattr__(name: str) -> object:
    """Load the public API on first use, so that ``import counteroof`` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'counteroof' has no attribute {name!r}")
    import importlib

    home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    found = home if name == _HOMES[name] else getattr(home, name)
    globals()[name] = (
        found  # found without this function from now on: that would take longer than a region does
    )
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
