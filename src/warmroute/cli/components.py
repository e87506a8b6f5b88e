"""``warmroute components``: inference components, those with copies and LoRA adapters on them."""

import time
from typing import Any

import click

from warmroute.cli.api import Api
from warmroute.cli.connection import as_json, confirm, connected, print_json, watching
from warmroute.cli.endpoints import components_of, scaling_of, wait_option, yes_option
from warmroute.cli.following import Follower, each_once
from warmroute.cli.screen import (
    base_of,
    components_table,
    copies_text,
    field_lines,
    instances_table,
    model_text,
    needs_text,
    scaling_table,
)
from warmroute.cli.terminal import age, coloured, echo, moment, plain, width_of_terminal

JsonObject = dict[str, Any]


@click.group()
def components() -> None:
    """List, describe and scale inference components."""


@components.command("list", short_help="Show every inference component.")
@click.option("--endpoint", metavar="NAME", help="Only those of this endpoint.")
@as_json
@connected
def list_components(api: Api, *, endpoint: str | None, as_json: bool) -> None:
    """Show every inference component, adapters below their base.

    COPIES counts those in service and those that are wanted.
    """
    if as_json:
        asked: JsonObject = {"MaxResults": 100}
        if endpoint is not None:
            asked["EndpointNameEquals"] = endpoint
        found = list(api.pages("ListInferenceComponents", "InferenceComponents", asked))
        print_json({"InferenceComponents": found})
        return
    described = components_of(api, endpoint)
    if not described:
        echo("There are no inference components." if endpoint is None else f"Endpoint {endpoint} has none.")
        return
    width, of_endpoint = width_of_terminal(), endpoint is not None
    for line in components_table(described, width=width, now_s=time.time(), of_endpoint=of_endpoint):
        echo(line.removeprefix("  "))


@components.command(short_help="Show all about one inference component.")
@click.argument("name")
@as_json
@connected
def describe(api: Api, *, name: str, as_json: bool) -> None:
    """Show all about one inference component: status and why, copies, adapters, scaling."""
    document = api.call("DescribeInferenceComponent", {"InferenceComponentName": name})
    if as_json:
        print_json(document)
        return
    now_s, width = time.time(), width_of_terminal()
    for line in _head(document, width, now_s):
        echo(line)
    endpoint = api.call_operator("DescribeEndpoint", {"EndpointName": document["EndpointName"]})
    mine = [one for one in endpoint["Instances"] if one.get("InferenceComponentName") == name]
    others = components_of(api, document["EndpointName"])
    adapters = [one for one in others if base_of(one) == name]
    targets, policies = scaling_of(api, document["EndpointName"], [name])
    own = {
        "ScalableTargets": [one for one in targets if one["ResourceId"] == f"inference-component/{name}"],
        "ScalingPolicies": policies,
    }
    for title, lines in (
        ("Copies", instances_table(mine, width=width, now_s=now_s)),
        ("Adapters", components_table(adapters, width=width, now_s=now_s)),
        ("Scaling", scaling_table(own, width=width)),
    ):
        shown = list(lines)
        for line in ("", title, *shown) if shown else ():
            echo(line)


def _head(document: JsonObject, width: int | None, now_s: float) -> list[str]:
    modified = age(document["LastModifiedTime"], now_s)
    rows = (
        ("Status", f"{coloured(document.get('InferenceComponentStatus', ''))} for {modified}"),
        ("Why", plain(document.get("FailureReason", ""))),
        ("Endpoint", f"{document['EndpointName']}, variant {document.get('VariantName', '')}"),
        ("Base", base_of(document)),
        ("Copies", copies_text(document)),
        ("Model", model_text(document)),
        ("Needs", needs_text(document)),
        ("Created", f"{moment(document['CreationTime'])} ({age(document['CreationTime'], now_s)} ago)"),
        ("ARN", document["InferenceComponentArn"]),
    )
    head = f"Inference component {document['InferenceComponentName']}"
    fields = (field_lines(label, text, width=width) for label, text in rows if text)
    return [head, *(line for lines in fields for line in lines)]


@components.command(short_help="Change how many copies a component has.")
@click.argument("name")
@click.argument("copies", type=click.IntRange(min=0))
@wait_option
@connected
def scale(api: Api, *, name: str, copies: int, wait: bool) -> None:
    """Change how many copies an inference component has; 0 takes it to nothing."""
    wanted = {"InferenceComponentName": name, "DesiredRuntimeConfig": {"CopyCount": copies}}
    api.call("UpdateInferenceComponentRuntimeConfig", wanted)
    _watch(api, name, wait=wait)


@components.command(short_help="Delete an inference component.")
@click.argument("name")
@yes_option
@wait_option
@connected
def delete(api: Api, *, name: str, yes: bool, wait: bool) -> None:
    """Delete an inference component and stop its copies."""
    confirm(f"Delete inference component {name}, which stops serving at once?", yes=yes)
    api.call("DeleteInferenceComponent", {"InferenceComponentName": name})
    _watch(api, name, wait=wait, deleted=True)


@components.command(short_help="Show what its copies log.")
@click.argument("name")
@click.option("--instance", metavar="ID", help="Only this copy.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--lines", default=100, type=click.IntRange(min=0), help="Last lines of each to begin with [100]."
)
@connected
def logs(api: Api, *, name: str, instance: str | None, follow: bool, lines: int) -> None:
    """Show what the copies of an inference component have written last."""
    from warmroute.cli.logs import show_logs

    document = api.call("DescribeInferenceComponent", {"InferenceComponentName": name})
    component = base_of(document) or name
    endpoint = document["EndpointName"]
    show_logs(api, endpoint, instance=instance, follow=follow, lines=lines, component=component)


@components.command(short_help="Watch a component until it does not change.")
@click.argument("name")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up then.")
@click.option("--deleted", is_flag=True, help="Until it is gone.")
@connected
def wait(api: Api, *, name: str, timeout_s: float | None, deleted: bool) -> None:
    """Watch an inference component until it does not change any more."""
    for line in each_once(Follower(api, timeout_s=timeout_s).component(name, deleted=deleted)):
        echo(line)


def _watch(api: Api, name: str, *, wait: bool, deleted: bool = False) -> None:
    if not wait:
        echo(f"The server is at it; watch it with: warmroute components wait {name}")
        return
    with watching(f"component {name}", again=f"warmroute components wait {name}"):
        for line in each_once(Follower(api).component(name, deleted=deleted)):
            echo(line)
    if deleted:
        echo(f"Inference component {name} is deleted.")
