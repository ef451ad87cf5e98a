"""Running kernels: worker processes, arrays, the check of results, timing.

``counteroof.run`` is this package, and as a function it measures kernels: ``counteroof.run("kernels.toml")``
is :func:`counteroof.api.run`. Importing a part of the package makes Python bind it to that name, so the
package itself must be what can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that can be called."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Measure kernels; see :func:`counteroof.api.run`."""
        from ..api import run

        return run(*inputs, **options)

    @property
    def __signature__(self) -> Any:
        """The parameters, for ``help`` and for completion."""
        import inspect

        from ..api import run

        return inspect.signature(run)


sys.modules[__name__].__class__ = _Callable
