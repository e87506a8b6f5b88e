"""``warmroute config``: check the settings, or print their reference."""

import os
from pathlib import Path

import click


@click.group()
def config() -> None:
    """Check the settings, or print their reference."""


@config.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings file [./warmroute.toml].")
def check(file: Path | None) -> None:
    """Read the settings as `serve` would, and say whether they are right."""
    from warmroute.adapters.images import built_in_images
    from warmroute.app.config import Sources, load
    from warmroute.app.machines import images_of, instance_types_of

    settings = load(Sources(config=file, environment=os.environ, directory=Path.cwd()))
    instance_types = instance_types_of(settings, images_of(settings, built_in_images()))
    click.echo(f"The settings are right. Instance types: {', '.join(instance_types)}.")


@config.command()
def reference() -> None:
    """Print every setting with its range, default and meaning, as Markdown."""
    from warmroute.app.reference import markdown

    click.echo(markdown(), nl=False)
