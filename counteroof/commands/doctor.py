"""``counteroof doctor``: what can be measured here."""

from __future__ import annotations

import click

from . import DONE


@click.command(
    epilog="""Example:

\b
  counteroof doctor"""
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(as_json: bool) -> int:
    """Say what can be measured here, and why the rest cannot.

    Looks and tries, changes nothing.
    """
    import dataclasses
    import json

    from .. import __version__
    from ..capabilities import survey
    from . import _machine

    facts = survey()
    machine = _machine.known()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(fact) for fact in facts], indent=1))
        return DONE
    click.echo(f"counteroof {__version__} on {machine.name}")
    for line in _machine.description(machine, ceilings=False):
        click.echo(f"  {line}")
    for fact in facts:
        click.echo(f"\n[{fact.state}] {fact.topic}")
        click.echo(f"      {fact.finding}")
        if fact.remedy is not None:
            click.echo(f"      would allow it: {fact.remedy}")
    return DONE
