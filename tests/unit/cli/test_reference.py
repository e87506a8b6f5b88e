import subprocess
import sys
from pathlib import Path

import click

from warmroute.cli.main import main
from warmroute.cli.reference import markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_in_docs_is_what_the_commands_say():
    # In a process of its own: a command that a test has called by itself keeps the help option of that call.
    command = [sys.executable, "-m", "warmroute", "config", "reference", "cli"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == PAGE.read_text(), "stale: run `make docs`"


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
