"""What NumPy makes of the kernel in ``fftw.toml``."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]


def fft(arrays: Arrays, params: dict[str, Any]) -> Arrays:
    return {"y": np.fft.fft(arrays["x"])}
