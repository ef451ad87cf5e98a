"""References of the test kernels, right ones and wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


def triad(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"a": arrays["b"] + 3.0 * arrays["c"]}


def wrong_triad(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    expected = arrays["b"] + 3.0 * arrays["c"]
    expected[5] += 1
    return {"a": expected}


def unchanged(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"a": arrays["a"]}


def add_one(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"a": arrays["a"] + 1}


def dot(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"return": arrays["a"] @ arrays["b"]}


def run_plan(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    assert not (arrays["input"] == -1).any(), "what the planner wrote is still there"
    return {"out": arrays["input"] + arrays["table"]}


def writes_input(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    arrays["a"][0] = 1
    return {"a": arrays["a"]}


def wrong_shape(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"a": arrays["a"][:-1]}


def unknown_name(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    return {"aa": arrays["a"]}


def endless(arrays: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    while True:
        pass
