"""Words that error messages share: a value quoted, the choices, the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest choice, or nothing if none is near."""
    near = difflib.get_close_matches(word[:100], list(choices), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def show(value: object) -> str:
    """Return a value from a spec as it is quoted in a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def one_of(choices: Iterable[str]) -> str:
    """Return the choices in words; those of a set in alphabetical order."""
    names = sorted(choices) if isinstance(choices, set) else list(choices)
    return f"one of {', '.join(names)}" if names else "none (there are none)"
