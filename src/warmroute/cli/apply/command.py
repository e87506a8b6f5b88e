"""``warmroute apply``: make what a file describes, after showing what that changes."""

import sys
from pathlib import Path
from typing import Any, TextIO

import click

from warmroute.cli.api import Api
from warmroute.cli.connection import connected
from warmroute.cli.failure import EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_REFUSED, CommandFailed
from warmroute.cli.terminal import echo
from warmroute.core.errors import ConfigurationError

EXIT_CHANGES = EXIT_MISTAKE
"""Of ``--dry-run`` where something would change; mistakes of every kind are 1 here, to tell them apart."""


class _Apply(click.Command):
    """Ends with 1 for mistakes: 2 says that there is something to change."""

    mistake_status = EXIT_REFUSED
    """Exit status for wrong usage."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise CommandFailed(str(error)) from None


@click.command(cls=_Apply, short_help="Make what a file describes.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", is_flag=True, help="Show the plan only; the exit status is 2 where it changes anything."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--prune",
    is_flag=True,
    help="Delete what apply made from this file before and it does not name any more.",
)
@connected
def apply(api: Api, *, file: Path, dry_run: bool, yes: bool, prune: bool) -> int:
    """Make what a TOML or YAML file describes: models, endpoints, inference components, scaling.

    First it shows what would be created, updated, replaced, deleted and left alone, and asks. A second run
    has nothing to do. Ctrl-C stops watching; the server finishes what it has begun.

    The exit status is 0 when all is as the file says, 1 when it is not or the file is wrong, 2 when
    --dry-run shows changes, 3 when the server cannot be reached, 130 after Ctrl-C.
    """
    from warmroute.cli.apply.file import FileMistakes, read
    from warmroute.cli.apply.plan import is_change, plan, plan_lines, summary
    from warmroute.cli.apply.run import carry_out, look, settle

    try:
        wanted = read(file)
    except FileMistakes as error:
        for mistake in error.mistakes:
            click.echo(f"warmroute: {mistake}", err=True)
        return error.status
    try:
        if not dry_run:
            settle(api, wanted, echo)
        changes = plan(wanted, look(api, wanted, everything=prune), prune=prune)
        echo(f"{file} on {api.server.url}")
        for line in plan_lines(changes):
            echo(line)
        echo(summary(changes))
        if not any(map(is_change, changes)):
            return 0
        if dry_run:
            return EXIT_CHANGES
        _ask_on(sys.stdin, yes=yes)
        carry_out(api, changes, echo)
    except KeyboardInterrupt:
        click.echo(
            "\nwarmroute: stopped watching; the server goes on with what it has begun, "
            f"and warmroute apply {file} does the rest.",
            err=True,
        )
        return EXIT_INTERRUPTED
    echo(f"Done: all is as {file} says.")
    return 0


def _ask_on(terminal: TextIO, *, yes: bool) -> None:
    if yes:
        return
    if not terminal.isatty():
        raise CommandFailed("There is no terminal to ask on: say --yes, or --dry-run to see the plan only.")
    click.confirm("Do this?", abort=True)
