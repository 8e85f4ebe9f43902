"""``python -m harness.strangers [NAME...]`` builds programs of others into the cache; without names, those of ``make strangers``."""

from __future__ import annotations

import click

from harness.controlplane.binaries import BinariesMissing
from harness.strangers.build import built
from harness.strangers.tools import STRANGERS, TOOLS


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([tool.name for tool in TOOLS]))
def main(names: tuple[str, ...]) -> None:
    """Build what is not there yet, and print where each program is."""
    for tool in [tool for tool in TOOLS if tool.name in names] or STRANGERS:
        try:
            click.echo(str(built(tool)))
        except BinariesMissing as missing:
            raise click.ClickException(str(missing)) from missing


if __name__ == "__main__":
    main()
