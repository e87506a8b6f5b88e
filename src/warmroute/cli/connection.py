"""What every command that talks to a server takes: where it is, with which credentials, and ``--json``."""

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from warmroute.cli.api import Api
from warmroute.cli.failure import Refused
from warmroute.cli.server import Server

Command = Callable[..., Any]

_HINTS: Final = {
    "Could not find endpoint configuration ": "Make it first, or let warmroute apply make it from a file.",
    "Could not find endpoint ": "warmroute endpoints list shows those that there are.",
    "Could not find model ": "warmroute models list shows those that there are.",
    "Could not find inference component ": "warmroute components list shows those that there are.",
    "Could not find instance ": "warmroute endpoints describe shows those of an endpoint.",
    "Cannot update in-progress endpoint ": "warmroute endpoints wait returns when that has ended.",
}
"""What to do next, by how the server's message begins."""


def connected(function: Command) -> Command:
    """Give a command the options that find the server; its first argument is the ``Api`` they lead to."""

    @functools.wraps(function)
    def with_api(*, endpoint_url: str | None, config: Path | None, profile: str | None, **given: Any) -> Any:
        try:
            return function(Api(Server(endpoint_url=endpoint_url, config=config, profile=profile)), **given)
        except Refused as error:
            raise with_hint(error) from None

    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--profile", metavar="NAME", help="Profile in the AWS files whose credentials sign."),
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="Settings file that says where the server is [./warmroute.toml].",
        ),
        click.option(
            "--endpoint-url",
            metavar="URL",
            help="The server's public listener [WARMROUTE_ENDPOINT_URL, else as the settings say].",
        ),
    )
    command: Command = with_api
    for option in options:
        command = option(command)
    return command


def with_hint(error: Refused) -> Refused:
    """Add to a refusal what to do next, where that is known."""
    for beginning, hint in _HINTS.items():
        if error.message.startswith(beginning):
            return Refused(error.code, f"{error.message} {hint}")
    return error


as_json = click.option("--json", "as_json", is_flag=True, help="Print the API's own answer.")
"""Whether a command prints the answer as it is."""


def print_json(document: Mapping[str, Any]) -> None:
    """Print an answer: JSON, indented by two, members in the server's order."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


@contextlib.contextmanager
def watching(what: str, *, again: str) -> Iterator[None]:
    """Say at Ctrl-C that the server goes on, and how to watch again.

    Args:
        what: That the server is at.
        again: The command that watches it.

    Raises:
        click.Abort: After Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nwarmroute: the server goes on with {what}; watch it with: {again}", err=True)
        raise click.Abort from None


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is taken away.

    Args:
        question: Ends with a question mark.
        yes: Of ``--yes``: do not ask.

    Raises:
        click.UsageError: Nobody can be asked.
        click.Abort: The answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: say --yes.")
    click.confirm(question, abort=True)
