"""Real libraries do their work under the engine, and the bytes they leave are those of a native run."""

from __future__ import annotations

import pytest

from .libraries.measure import apart
from .libraries.work import Missing, works

pytestmark = pytest.mark.x86_64


@pytest.mark.parametrize("name", list(works()))
def test_results_are_those_of_a_native_run(name: str) -> None:
    try:
        modes = apart(name)
    except Missing as missing:
        pytest.skip(f"needs {missing}")
    for detail, mode in modes.items():
        assert mode.equal, f"another result in detail {detail}"
        assert mode.instructions > 1000
        assert mode.blocks > 10
