"""Settings of every test."""

from __future__ import annotations

from hypothesis import settings

# The same examples every time, so that no test fails by chance; `pytest --hypothesis-profile=explore` seeks
# new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile("same")
