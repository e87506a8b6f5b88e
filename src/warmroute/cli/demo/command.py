"""``warmroute demo``."""

import importlib.util
import signal
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

NEEDS = {"boto3": "boto3", "matplotlib": "matplotlib", "rich": "rich", "xllamacpp": "llama.cpp (xllamacpp)"}
"""Modules of the extra ``demo``, and what people call them."""


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=3, type=click.IntRange(1, 100), help="Times every strategy has its turn.")
@click.option(
    "--documents",
    default=12,
    type=click.IntRange(2, 48),
    help="New documents in every turn; each instance has room for all of them.",
)
@click.option("--questions", default=5, type=click.IntRange(2, 12), help="Questions about each document.")
@click.option("--readers", default=4, type=click.IntRange(1, 32), help="Requests at the same time.")
@click.option("--instances", default=4, type=click.IntRange(2, 16), help="llama.cpp servers.")
@click.option("--seed", default=1, type=int, help="Of the documents' names and numbers.")
@click.option(
    "--output",
    default=Path("out"),
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the picture.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table, the machine and the versions to this file.",
)
@click.option(
    "--readable-answer/--no-readable-answer",
    default=True,
    help="Also ask SmolLM2-135M, which answers in words; fetches its 93 MB once.",
)
def demo(**given: Any) -> int:
    """Compare routing strategies on four real model servers.

    Starts llama.cpp servers behind a SageMaker endpoint of their own, asks the same kind of questions
    under RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE and KV_AWARE in turns, and shows what the
    engines took from their caches and how long the answers took to begin. Takes about a minute and a half
    on two processors.
    """
    missing = [name for module, name in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        click.echo(
            f"warmroute: the demo needs {' and '.join(missing)}. "
            'Install what is missing with: pip install "warmroute[demo]"',
            err=True,
        )
        return 1
    from warmroute.cli.demo.run import DemoOptions, run
    from warmroute.cli.demo.server import DemoError

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return run(DemoOptions(**given))
    except DemoError as error:
        click.echo(f"warmroute: {error}", err=True)
        return 1
    except KeyboardInterrupt:
        click.echo("Interrupted; everything the demo started has been stopped.", err=True)
        return 130


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End as a shell reports it, by way of every ``finally``."""
    raise SystemExit(128 + number)
