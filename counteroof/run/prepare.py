"""One case ready to be called in this process: what every counter is given.

Made in the worker process only, because loading a library runs its code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .live import LiveCall, Value
from .plan import Plan
from .planning import make_plan

if TYPE_CHECKING:
    import numpy as np

    from ..build import KernelBuild
    from ..library import Signature
    from ..spec import KernelCase
    from .record import Recorder


@dataclass(frozen=True)
class Bound:
    """A case with its library built and found, its signature known and its plan made."""

    plan: Plan
    library: str
    signature: Signature
    build: KernelBuild | None


def bind(case: KernelCase) -> Bound:
    """Build or find the library of a case, and work out its call; none of the library's code is run.

    Raises
    ------
    BadInput
        If the library cannot be built or used.
    KernelFailed
        With kind ``input`` if the arguments do not go with the function.
    """
    from .. import build, library

    spec = case.spec
    made = build.compile_sources(spec.library) if spec.library.sources else None
    opened = library.open_library(made.path if made is not None else spec.library.path or "")
    setup = [library.resolve_signature(spec, opened, call) for call in spec.setup]
    signature = library.resolve_signature(spec, opened)
    path = str(opened.path)
    return Bound(make_plan(case, path, [*setup, signature]), path, signature, made)


class PreparedCall(LiveCall):
    """A kernel case with its arrays filled and its library loaded, ready to be called.

    Attributes
    ----------
    case
        The kernel and its parameters.
    library_path
        The shared library that holds the function.
    function, frame
        Address of the function, and its arguments as a ``struct run_frame *``.
    spans
        Where each array lies.
    """

    def __init__(self, case: KernelCase, plan: Plan, recorder: Recorder | None = None) -> None:
        super().__init__(plan, recorder)
        self.case = case
        self.library_path = plan.library

    @functools.cached_property
    def arrays(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The arrays by name, as views of the memory that the kernel works on."""
        import numpy as np

        from ..spec import DTYPES

        return {
            array.name: np.frombuffer(self.buffer(array.name), DTYPES[array.dtype][0]).reshape(array.shape)
            for array in self.plan.arrays
        }

    def typed(self, value: Value) -> Any:
        """Return the function's value as a NumPy scalar of the type it returns, ``None`` for ``void``."""
        import numpy as np

        from ..spec import DTYPES

        returns = self.plan.kernel.returns
        return (
            None
            if value is None
            else np.dtype(DTYPES["u64" if returns == "pointer" else returns][0]).type(value)
        )


def prepare(case: KernelCase) -> PreparedCall:
    """Return the case ready to be called in this process; the library is loaded, so its constructors run."""
    return PreparedCall(case, bind(case).plan)
