"""The command line: a module per subcommand, imported when called; errors become texts and exit codes here.

A subcommand's module has ``command``, a click command whose callback returns the exit code: 0 done, 1 a
kernel failed or a check did not hold. :class:`~counteroof.errors.BadInput` raised anywhere below ends with 2.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from .. import __version__
from ..errors import BadInput, CounteroofError, Problem

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "run": "Measure kernels and place them on this machine's roofline.",
    "init": "Write a spec for the functions of a shared library.",
    "machine": "Measure this machine's ceilings.",
    "doctor": "Say what can be measured here, and why the rest cannot.",
    "table": "Print the table of a finished run again.",
    "plot": "Draw pictures of a finished run.",
    "report": "Write all files of a finished run again.",
    "compare": "Compare runs kernel by kernel: time, FLOPs, bytes, ledger, findings.",
    "check": "Hold a run against a baseline and print what moved.",
    "import": "Turn the output of perf stat, LIKWID, Nsight Compute or CARM into results.",
}
"""Subcommands and their first lines: here, so that ``--help`` need not import them (a test compares them)."""


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order of a first visit."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or ``None`` if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, and for an unknown one name the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from ..wording import suggest

            raise click.UsageError(f"no command {args[0]!r}{suggest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try 'counteroof run' for the built-in kernels, or 'counteroof run libfoo.so' for your own.",
)
@click.version_option(__version__, prog_name="counteroof")
def cli() -> None:
    """Rooflines with the dot where it belongs: executed FLOPs over actual DRAM bytes."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        result = cli.main(
            args=None if args is None else list(args), prog_name="counteroof", standalone_mode=False
        )
        if sys.stdout is not None:  # it is None where it was closed before the start
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return BAD_INPUT
    except click.ClickException as error:
        click.echo(_usage(error), err=True)
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("counteroof: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; what Python still wants to flush has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:  # of files that other errors do not name: a full disk, a folder taken away
        named = f"{error.filename}: " if error.filename else ""
        click.echo(f"counteroof: {named}{error.strerror or error}", err=True)
        return FAILED
    except CounteroofError as error:
        click.echo(_text(error), err=True)
        return BAD_INPUT if isinstance(error, BadInput) else FAILED
    return result if isinstance(result, int) else DONE


def _usage(error: click.ClickException) -> str:
    """Return what is wrong with a command line, in one line, and where to read what would be right."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "counteroof"
    said = " ".join(error.format_message().split()).rstrip(".")
    return f"{command}: {said[:1].lower()}{said[1:]}; {command} --help has all of it"


def _text(error: CounteroofError) -> str:
    """Return an error as one message; the mistakes of a file one a line."""
    problems: Sequence[Problem] = getattr(error, "problems", ())
    if len(problems) > 1:
        return f"counteroof: {len(problems)} mistakes\n" + "\n".join(f"  {problem}" for problem in problems)
    return f"counteroof: {error}"
