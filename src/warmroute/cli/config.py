"""``warmroute config``: check the settings, or print a reference page."""

import importlib
import os
from pathlib import Path
from typing import Final

import click

PAGES: Final = {
    "settings": "warmroute.app.reference",
    "metrics": "warmroute.app.metrics_reference",
    "errors": "warmroute.app.errors_reference",
    "operations": "warmroute.app.operations_reference",
    "cli": "warmroute.cli.reference",
}
"""Reference pages that are generated, each by ``markdown`` of a module."""


@click.group()
def config() -> None:
    """Check the settings, or print a reference page."""


@config.command(short_help="Say whether the settings are right.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings file [./warmroute.toml].")
def check(file: Path | None) -> None:
    """Read the settings as `serve` would, and say whether they are right."""
    from warmroute.adapters.images import built_in_images
    from warmroute.app.config import Sources, load
    from warmroute.app.credentials import exposed_files
    from warmroute.app.machines import images_of, instance_types_of

    settings = load(Sources(config=file, environment=os.environ, directory=Path.cwd()))
    instance_types = instance_types_of(settings, images_of(settings, built_in_images()))
    for sentence in exposed_files(settings):
        click.echo(f"warmroute: warning: {sentence}", err=True)
    click.echo(f"The settings are right. Instance types: {', '.join(instance_types)}.")


@config.command()
@click.argument("page", type=click.Choice(tuple(PAGES)), default="settings")
def reference(page: str) -> None:
    """Print a reference page as Markdown.

    settings: every setting with its range, default and meaning; metrics: every metric; errors: every
    error that a caller can get; operations: every operation, member by member; cli: every command.
    """
    click.echo(importlib.import_module(PAGES[page]).markdown(), nl=False)
