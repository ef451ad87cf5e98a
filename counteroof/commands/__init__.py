"""One module per subcommand; the only place for the command line, printing and exit codes."""

from __future__ import annotations


def main() -> int:
    """Run the command line and return its exit code."""
    raise NotImplementedError
