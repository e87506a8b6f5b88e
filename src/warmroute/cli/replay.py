"""``warmroute simulate replay``: hooked into ``simulate``, which has the options."""

from collections.abc import Sequence
from pathlib import Path

import click


def replay(files: Sequence[str], policies: Sequence[str], overrides: Sequence[tuple[str, str]]) -> int:
    """Show whether the live code decides today as it did in a log.

    Args:
        files: What stands behind ``replay``: one FILE.
        policies: Strategies to ask about the same requests.
        overrides: From ``--set``.

    Returns:
        The exit status: 0 when every decision is the same, else 1.
    """
    from warmroute import __version__
    from warmroute.app.replay import imagine, replay_file
    from warmroute.report.replay import replay_lines, what_if_lines

    if len(files) != 1:
        raise click.UsageError("replay needs one FILE, a decision log")
    if overrides and not policies:
        raise click.UsageError("--set changes nothing of a replay without --policy")
    file = Path(files[0])
    found = replay_file(file)
    for line in replay_lines(found, version=__version__):
        click.echo(line)
    for policy in dict.fromkeys(policies):
        for line in what_if_lines(imagine(file, policy, overrides), strategy=policy):
            click.echo(line)
    return 0 if found.difference is None else 1
