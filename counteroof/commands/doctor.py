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

    from ..count.likwid_look import Look

    look = Look()  # its answer takes longest: it is asked first
    from .. import __version__
    from ..capabilities import survey
    from ..errors import CounteroofError
    from . import _machine

    found = survey(look=look)
    try:
        machine = _machine.known()
        name, lines = machine.name, list(_machine.description(machine, ceilings=False))
    except CounteroofError as error:  # such as hidden cache sizes
        name, lines = found.processor, [str(error)]
    if as_json:
        quantities = [{**dataclasses.asdict(one), "state": one.state} for one in found.quantities]
        system = [dataclasses.asdict(item) for item in found.system]
        told = {
            "counteroof": __version__,
            "machine": name,
            "description": lines,
            "quantities": quantities,
            "system": system,
        }
        click.echo(json.dumps(told, indent=1))
        return DONE
    click.echo(f"counteroof {__version__} on {name}")
    for line in lines:
        click.echo(f"  {line}")
    for item in found.system:
        click.echo(f"  {item.name}: {item.value}" + (f" ({item.remark})" if item.remark else ""))
    for one in found.quantities:
        click.echo(f"\n[{one.state}] {one.name}")
        for offer in one.offers:
            click.echo(f"  [{offer.state}] {offer.counter}: {offer.finding}")
            if offer.remedy is not None:
                click.echo(f"       would allow it: {offer.remedy}")
    return DONE
