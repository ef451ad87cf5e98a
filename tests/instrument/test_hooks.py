"""Python callables whose C functions run under the engine while they are hooked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counteroof.count.instrument import count_flops
from counteroof.instrument.engine import Engine
from counteroof.instrument.hooks import hooked

pytestmark = pytest.mark.x86_64


def flops(engine: Engine) -> int:
    total = count_flops(engine.executed(), "arith", "").flops
    engine.reset()
    return total


def test_inner_loops_of_ufuncs_are_counted_whoever_calls_them() -> None:
    x = np.arange(1000.0)
    with Engine("flops") as engine, hooked(engine, np.add, np.multiply):
        y = x + x
        assert flops(engine) == 1000
        np.multiply(x, 2.0, out=y)
        assert flops(engine) == 1000
        np.subtract(y, x, out=x)  # not hooked
        assert flops(engine) == 0
    assert (y == 2.0 * x).all()


def test_built_in_functions_and_methods_are_counted() -> None:
    a = np.ones((30, 30))
    with Engine("flops") as engine, hooked(engine, np.dot, np.bincount, np.ndarray.sort):
        np.dot(a, a)
        assert flops(engine) >= 2 * 30**3
        np.bincount(np.zeros(100, int), np.ones(100))
        assert flops(engine) == 100
        a.sort()
        assert sum(engine.block_counts()) > 100
        assert "the Python interpreter" in engine.native_called


def test_nothing_is_counted_after_the_context_also_if_it_ends_with_an_exception() -> None:
    with Engine("flops") as engine:
        with pytest.raises(TypeError), hooked(engine, math.sqrt):
            math.sqrt("text")
        assert sum(engine.block_counts()) > 0
        engine.reset()
        assert math.sqrt(4) == 2
        assert sum(engine.block_counts()) == 0
    assert math.sqrt(4) == 2


def test_what_is_no_c_function_is_refused_and_nothing_is_hooked() -> None:
    with Engine("flops") as engine:
        for wrong in (lambda: 0, 3, np.linalg.solve, int):
            with pytest.raises(ValueError, match="cannot be hooked"), hooked(engine, math.sqrt, wrong):
                pass
        math.sqrt(4)
        assert sum(engine.block_counts()) == 0
