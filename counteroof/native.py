"""The one door to our own C: ``ffi``, ``lib``, and status codes turned into exceptions."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import CounteroofError

try:
    _native: Any = importlib.import_module("counteroof._native")
except ImportError as error:  # a checkout that was never installed
    raise CounteroofError(
        f"counteroof's compiled part is missing ({error}); install the package first: pip install ."
    ) from error

ffi: Any = _native.ffi
lib: Any = _native.lib
