"""Counters that the execution tests run in the worker."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

from counteroof.count.base import Count, Measurement, unavailable
from counteroof.errors import KernelFailed
from counteroof.run.prepare import PreparedCall


def measurement(counter: str, flops: int) -> Measurement:
    none = unavailable(counter, "not counted here")
    return Measurement(counter, Count(flops, "counted", counter), *[none] * 7)


def calls(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    """Count as FLOPs the elements that one call changes."""
    before = {name: array.copy() for name, array in prepared.arrays.items()}
    prepared.call()
    changed = sum(int((array != before[name]).sum()) for name, array in prepared.arrays.items())
    return measurement(options.get("name", "calls"), changed)


def crashes(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    ctypes.memset(8, 0, 1)
    return measurement("crashes", 0)


def slow(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    time.sleep(0.6)
    return measurement("slow", 0)


def refuses(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    raise KernelFailed("unsupported", "xbegin at triad+0x12")


def mistaken(prepared: PreparedCall, options: Mapping[str, Any]) -> Measurement:
    raise ZeroDivisionError("a mistake of the counter")
