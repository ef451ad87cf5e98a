"""What the engine's tests share."""

from __future__ import annotations

import pytest

from counteroof.instrument.translate import Detail


@pytest.fixture(params=["flops", "bytes"])
def detail(request: pytest.FixtureRequest) -> Detail:
    """Both details in turn."""
    chosen: Detail = request.param
    return chosen
