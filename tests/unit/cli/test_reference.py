from pathlib import Path

import click

from warmroute.cli.main import main
from warmroute.cli.reference import markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_in_docs_is_what_the_commands_say():
    assert PAGE.read_text() == markdown(), "stale: run `make docs`"


def commands(command, path):
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), f"{path} {name}")


def test_every_command_has_its_section():
    titles = [line.removeprefix("## ") for line in markdown().splitlines() if line.startswith("## ")]
    assert titles == list(commands(main, "warmroute"))
    assert "warmroute endpoints drain" in titles
