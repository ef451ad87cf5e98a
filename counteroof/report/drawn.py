"""What rich would print, as a text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


def drawn(shown: RenderableType, width: int) -> str:
    """Return ``shown`` as plain text without colours."""
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=False, color_system=None).print(shown, soft_wrap=True)
    return stream.getvalue()
