"""The command line's entry: ``warmroute COMMAND``."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

import click

from warmroute import __version__
from warmroute.cli.failure import EXIT_INTERRUPTED, EXIT_MISTAKE, CommandFailed
from warmroute.core.errors import ConfigurationError

COMMANDS = {
    "serve": "Run warmroute in the foreground.",
    "apply": "Make what a file describes: models, endpoints, components, scaling.",
    "endpoints": "List, describe, scale, drain and watch endpoints.",
    "models": "List and describe models; fetch weights.",
    "components": "List, describe and scale inference components.",
    "demo": "Compare routing strategies on four real model servers.",
    "simulate": "Compare routing policies in virtual time.",
    "config": "Check the settings, or print a reference page.",
}
"""Each is ``warmroute.cli.<name>.<name>``, imported when it is called."""
_PACKAGES = frozenset({"apply", "demo", "simulate"})
"""Those that have several modules: each is ``warmroute.cli.<name>.command.<name>``."""


class _Commands(click.Group):
    """A group that imports a command when it is called, and says a mistake in one line."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = f"{cmd_name}.command" if cmd_name in _PACKAGES else cmd_name
        command: click.Command = getattr(importlib.import_module(f"warmroute.cli.{module}"), cmd_name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *positional: Any, **extra: Any) -> Any:
        try:
            result = super().main(args, *positional, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(EXIT_MISTAKE)
        except CommandFailed as error:
            _fail(error.format_message(), error.status)
        except click.UsageError as error:
            _fail(error.format_message(), _mistake_status(error))
        except click.ClickException as error:
            _fail(error.format_message())
        except ConfigurationError as error:
            _fail(str(error))
        except (click.Abort, KeyboardInterrupt):
            sys.exit(EXIT_INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)


def _mistake_status(error: click.UsageError) -> int:
    """Return the exit status of wrong usage, which a command may have one of its own for."""
    command = error.ctx.command if error.ctx is not None else None
    return int(getattr(command, "mistake_status", EXIT_MISTAKE))


def how_built() -> str:
    """Return whether the way of a request is compiled or not: two speeds of the same code."""
    found = importlib.util.find_spec("warmroute.routing.router")
    assert found is not None, "it is part of the package"
    return "pure Python" if (found.origin or "").endswith(".py") else "compiled"


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message=f"%(prog)s %(version)s ({how_built()})", prog_name="warmroute")
def main() -> None:
    """Route requests to your own LLM servers, SageMaker-compatible and prefix-aware."""


def _fail(text: str, status: int = EXIT_MISTAKE) -> None:
    click.echo(f"warmroute: {' '.join(text.split())}", err=True)
    sys.exit(status)
