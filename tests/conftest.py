"""Settings of every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from .browser import Browser, chromium

# The same examples every time, so that no test fails by chance; `pytest --hypothesis-profile=explore` seeks
# new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile("same")


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, started once."""
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """Chromium, in which no page may complain."""
    yield window
    assert window.complaints == []


IN_PROCESS = (
    "tests/cachesim/",
    "tests/catalog/",
    "tests/count/",
    "tests/instrument/",
    "tests/integration/",
    "tests/machine/test_boundary.py",
    "tests/machine/test_loops.py",
    "tests/scripts/",
)
"""Tests that run the engine in this process."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of the engine come first.

    The JavaScript engine that compiles interactive pictures starts threads that never end. Ours would take
    them over, and count what they do.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(IN_PROCESS))
