"""The pyperf hook ``counteroof``: benchmarks run with ``--hook counteroof`` carry what the processor counted.

Into the metadata of each run go ``counteroof_instructions``, ``counteroof_cycles``, ``counteroof_flops`` and
``counteroof_dram_bytes``: the mean of one sample, which is ``loops`` times ``inner_loops`` passes of the
benchmark. What could not be counted is not there, and ``counteroof_reasons`` says why.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

QUANTITIES = ("instructions", "cycles", "flops", "dram_bytes", "cpu_seconds", "page_faults")
_NUMBERS = itertools.count(1)


class Hook:
    """Counts the stretches that pyperf times; made anew for the warm-ups and for the values."""

    def __init__(self) -> None:
        from .errors import CounteroofError

        self._region: Any = None
        self._reason: str | None = None
        try:
            from .marking import region

            self._region = region(f"pyperf {next(_NUMBERS)}")
        except CounteroofError as error:  # a benchmark is not to fail for want of a counter
            self._reason = str(error)

    def __enter__(self) -> Hook:
        if self._region is not None:
            self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._region is not None:
            self._region.__exit__(kind, error, trace)

    def teardown(self, metadata: dict[str, Any]) -> None:
        """Write what was counted into pyperf's metadata."""
        for name in QUANTITIES:  # those of the warm-ups
            metadata.pop(f"counteroof_{name}", None)
        reasons = [] if self._reason is None else [self._reason]
        if self._region is not None:
            from .marking import regions

            one = regions().get(self._region.name)
            if one is None or not one.calls:
                reasons.append("no sample could be counted")
            else:
                for name in QUANTITIES:
                    count = getattr(one, name)
                    if count.value is not None:
                        mean = count.value / one.calls
                        whole = name != "cpu_seconds"
                        metadata[f"counteroof_{name}"] = round(mean) if whole else mean
                    if count.reason and name not in ("cpu_seconds", "page_faults"):
                        reasons.append(f"{name}: {count.reason}")
        if reasons:
            metadata["counteroof_reasons"] = "; ".join(dict.fromkeys(reasons))
