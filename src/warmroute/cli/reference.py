"""Write the reference of the command line from its own help."""

from collections.abc import Iterator
from typing import Final

import click

WIDTH: Final = 100
_HEAD: Final = """\
# Command line

<!-- Written by `warmroute config reference cli` from the help of the commands in src/warmroute/cli. -->

Commands that talk to a server find it by `--endpoint-url`, else `WARMROUTE_ENDPOINT_URL`, else
`AWS_ENDPOINT_URL_SAGEMAKER` or `AWS_ENDPOINT_URL`, else the settings file (`--config`, `WARMROUTE_CONFIG` or
`warmroute.toml` in the working directory) with its environment variables, else `http://127.0.0.1:8080`.

They sign when the server asks for it, with the credentials of `--profile` or `AWS_PROFILE`, else
`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, else the access keys of the settings, else the default
profile of the AWS files. Secrets are never printed.

Tables are as wide as the terminal; `COLUMNS` sets another width, and in a pipe nothing is cut. Colours
are for terminals, unless `NO_COLOR` is set. `--json` prints what the API answered.

| exit status | means |
|---|---|
| 0 | done |
| 1 | the server refused it, or what was asked for failed or came too late; for `apply`, every mistake, too |
| 2 | wrong usage or settings; for `apply --dry-run`: there is something to change |
| 3 | nobody answers where the server should be |
| 130 | ended by Ctrl-C, or the answer to a question was no |
"""


def markdown() -> str:
    """Return the reference as one Markdown page."""
    from warmroute.cli.main import main

    context = click.Context(main, info_name="warmroute", **main.context_settings)
    return _HEAD + "".join(_sections(main, context))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    context.terminal_width = WIDTH
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, "it is listed"
            settings = {"parent": context, "info_name": name, **inner.context_settings}
            yield from _sections(inner, click.Context(inner, **settings))
