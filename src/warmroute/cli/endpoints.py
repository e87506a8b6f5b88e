"""``warmroute endpoints``: what there is, what state it is in, and changes that need no file."""

import time
from collections.abc import Iterator
from typing import Any

import click

from warmroute.cli.api import AUTOSCALING, Api
from warmroute.cli.connection import as_json, confirm, connected, print_json, watching
from warmroute.cli.failure import Refused
from warmroute.cli.following import Follower, each_once
from warmroute.cli.screen import endpoint_screen, strategy_text
from warmroute.cli.terminal import Column, age, echo, plain, table, width_of_terminal
from warmroute.core.fleet import RoutingStrategy

JsonObject = dict[str, Any]

_STATUSES = (
    "Creating", "InService", "Updating", "RollingBack", "Deleting", "Failed", "UpdateRollbackFailed",
)  # fmt: skip
wait_option = click.option(
    "--wait/--no-wait", default=True, help="Watch until it is done, or return at once [wait]."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def endpoints() -> None:
    """List, describe, scale, drain and watch endpoints."""


@endpoints.command("list", short_help="Show every endpoint.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only those in this state.")
@click.option("--name-contains", metavar="TEXT", help="Only those with this in their name.")
@as_json
@connected
def list_endpoints(api: Api, *, status: str | None, name_contains: str | None, as_json: bool) -> None:
    """Show every endpoint, the newest first.

    READY counts the instances in service and those that are wanted.
    """
    asked = {"StatusEquals": status, "NameContains": name_contains, "MaxResults": 100}
    found = list(api.pages("ListEndpoints", "Endpoints", _given(asked)))
    if as_json:
        print_json({"Endpoints": found})
        return
    if not found:
        echo("There are no endpoints." if not (status or name_contains) else "There are no such endpoints.")
        return
    columns = (
        Column("NAME", flexible=True),
        Column("STATUS", state=True),
        Column("READY", right=True),
        Column("STRATEGY", flexible=True),
        Column("CONFIG", flexible=True, optional=1),
        Column("AGE", right=True),
    )
    rows = [row for one in found for row in _row(api, one["EndpointName"])]
    notes = [row[-1] for row in rows]
    for line in table(columns, [row[:-1] for row in rows], width=width_of_terminal(), notes=notes):
        echo(line)


def _row(api: Api, name: str) -> Iterator[tuple[str, ...]]:
    try:
        document = api.call_operator("DescribeEndpoint", {"EndpointName": name})
    except Refused as error:
        if error.is_missing:
            return  # deleted since it was listed
        raise
    endpoint = document["Endpoint"]
    variants = endpoint.get("ProductionVariants", ())
    ready = sum(one.get("CurrentInstanceCount", 0) for one in variants)
    wanted = sum(one.get("DesiredInstanceCount", 0) for one in variants)
    yield (
        name,
        endpoint["EndpointStatus"],
        f"{ready}/{wanted}",
        ", ".join(dict.fromkeys(strategy_text(one.get("RoutingConfig")) for one in variants)),
        endpoint["EndpointConfigName"],
        age(endpoint["CreationTime"], time.time()),
        plain(endpoint.get("FailureReason", "")) if endpoint["EndpointStatus"] != "InService" else "",
    )


@endpoints.command(short_help="Show all about one endpoint.")
@click.argument("name")
@as_json
@connected
def describe(api: Api, *, name: str, as_json: bool) -> None:
    """Show all about one endpoint: status and why, variants, instances, components, scaling."""
    document = whole_endpoint(api, name)
    if as_json:
        print_json(document)
        return
    for line in endpoint_screen(document, width=width_of_terminal(), now_s=time.time()):
        echo(line)


def whole_endpoint(api: Api, name: str) -> JsonObject:
    """Return what all APIs say of an endpoint, as one document.

    Raises:
        CommandFailed: There is none, or the server does not answer.
    """
    document = api.call_operator("DescribeEndpoint", {"EndpointName": name})
    document["InferenceComponents"] = components_of(api, name)
    document["ScalableTargets"], document["ScalingPolicies"] = scaling_of(
        api, name, [one["InferenceComponentName"] for one in document["InferenceComponents"]]
    )
    return document


def components_of(api: Api, endpoint: str | None = None) -> list[JsonObject]:
    """Return ``DescribeInferenceComponent``'s answers for the components of an endpoint, or for all."""
    asked = _given({"EndpointNameEquals": endpoint, "MaxResults": 100, "SortOrder": "Ascending"})
    found = []
    for one in api.pages("ListInferenceComponents", "InferenceComponents", asked):
        try:
            named = {"InferenceComponentName": one["InferenceComponentName"]}
            found.append(api.call("DescribeInferenceComponent", named))
        except Refused as error:
            if not error.is_missing:
                raise
    return found


def scaling_of(api: Api, endpoint: str, components: list[str]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the scalable targets and the scaling policies of an endpoint and its components."""
    asked = {"ServiceNamespace": "sagemaker"}
    ours = (f"endpoint/{endpoint}/", *(f"inference-component/{name}" for name in components))
    found = []
    for operation, member in (
        ("DescribeScalableTargets", "ScalableTargets"),
        ("DescribeScalingPolicies", "ScalingPolicies"),
    ):
        try:
            listed = list(api.pages(operation, member, asked, service=AUTOSCALING))
        except Refused as error:
            if not error.is_unknown:
                raise
            listed = []  # an older server
        found.append([one for one in listed if f"{one['ResourceId']}/".startswith(_closed(ours))])
    return found[0], found[1]


def _closed(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix.rstrip('/')}/" for prefix in prefixes)


@endpoints.command(short_help="Make an endpoint from a configuration.")
@click.argument("name")
@click.option("--endpoint-config", required=True, metavar="CONFIG", help="Its endpoint configuration.")
@wait_option
@connected
def create(api: Api, *, name: str, endpoint_config: str, wait: bool) -> None:
    """Make an endpoint from an endpoint configuration that is there.

    `warmroute apply` makes configuration and endpoint from one file.
    """
    api.call("CreateEndpoint", {"EndpointName": name, "EndpointConfigName": endpoint_config})
    watch(api, name, wait=wait)


@endpoints.command(short_help="Give an endpoint another configuration or strategy.")
@click.argument("name")
@click.option("--endpoint-config", metavar="CONFIG", help="The endpoint configuration that it is to have.")
@click.option(
    "--strategy",
    type=click.Choice([str(one) for one in RoutingStrategy]),
    help="Keep the configuration but for the strategy of its variants.",
)
@click.option("--prefix-length", type=int, metavar="N", help="With PREFIX_AWARE: 1024 to 65536.")
@click.option("--concurrency-threshold", type=int, metavar="N", help="With PREFIX_AWARE: 1 to 1024.")
@click.option("--retain-counts", is_flag=True, help="Keep the instance counts and weights it has now.")
@wait_option
@connected
def update(
    api: Api,
    *,
    name: str,
    endpoint_config: str | None,
    strategy: str | None,
    prefix_length: int | None,
    concurrency_threshold: int | None,
    retain_counts: bool,
    wait: bool,
) -> None:
    """Give an endpoint another endpoint configuration, or another strategy.

    With --strategy a configuration is made that differs in nothing else, and counts and weights stay as
    they are. A change of strategy or weights keeps every instance running.
    """
    from warmroute.cli.strategy import forget_config, make_config, routing_config

    if (endpoint_config is None) == (strategy is None):
        raise click.UsageError("Give either --endpoint-config or --strategy.")
    old = None
    if strategy is not None:
        routing = routing_config(
            strategy, prefix_length=prefix_length, concurrency_threshold=concurrency_threshold
        )
        endpoint_config, old = make_config(api, name, routing)
    request = {"EndpointName": name, "EndpointConfigName": endpoint_config}
    api.call("UpdateEndpoint", request | {"RetainAllVariantProperties": retain_counts or old is not None})
    watch(api, name, wait=wait, config=endpoint_config)
    if wait and old not in (None, endpoint_config):
        forget_config(api, name, old)


@endpoints.command(short_help="Change how many instances a variant has.")
@click.argument("name", metavar="ENDPOINT")
@click.argument("what", nargs=-1, required=True, metavar="[VARIANT] N")
@wait_option
@connected
def scale(api: Api, *, name: str, what: tuple[str, ...], wait: bool) -> None:
    """Change how many instances a variant has; VARIANT may be left out where there is one.

    Instances that are too many take no new request and end when what runs on them has ended.
    """
    if len(what) > 2 or not what[-1].isdigit():
        raise click.UsageError(
            f"scale {name} {' '.join(what)}: the last argument must be the number of instances, 0 or more, "
            "with at most a variant's name before it."
        )
    variant = what[0] if len(what) == 2 else _only_variant(api, name)
    wanted = {"VariantName": variant, "DesiredInstanceCount": int(what[-1])}
    request = {"EndpointName": name, "DesiredWeightsAndCapacities": [wanted]}
    api.call("UpdateEndpointWeightsAndCapacities", request)
    watch(api, name, wait=wait)


def _only_variant(api: Api, name: str) -> str:
    document = api.call_operator("DescribeEndpoint", {"EndpointName": name})
    names = [one["VariantName"] for one in document["Endpoint"].get("ProductionVariants", ())]
    if len(names) != 1:
        raise click.UsageError(f"endpoint {name} has the variants {', '.join(names)}: name one of them.")
    return str(names[0])


@endpoints.command(short_help="Take one instance or copy out of service.")
@click.argument("instance")
@click.option(
    "--replace/--shrink",
    "replaced",
    default=None,
    help="Start another one in its place, or have one less [replace where warmroute starts the server].",
)
@wait_option
@connected
def drain(api: Api, *, instance: str, replaced: bool | None, wait: bool) -> None:
    """Take one instance, or one copy of a component, out of service.

    It takes no new request from now on, what runs on it has 60 s to end, and then the server is stopped.
    A replacement is started at once, beside it. With --shrink, and for servers that warmroute did not start,
    the variant has one less from now on, which scale brings back.
    """
    request: JsonObject = {"InstanceId": instance}
    if replaced is not None:
        request["Replace"] = replaced
    answer = api.call_operator("DrainInstance", request)
    after = "another one is started" if answer["Replaced"] else "none is started in its place"
    echo(f"{instance} of endpoint {answer['EndpointName']} is {answer['State']}; {after}.")
    if not wait:
        return
    endpoint = answer["EndpointName"]
    with watching(f"draining {instance}", again=f"warmroute endpoints describe {endpoint}"):
        while (state := _state_of(api, endpoint, instance)) is not None:
            if state != answer["State"]:
                answer["State"] = state
                echo(f"{instance} is {state}.")
            time.sleep(0.5)
    echo(f"{instance} is gone.")


def _state_of(api: Api, endpoint: str, instance: str) -> str | None:
    try:
        document = api.call_operator("DescribeEndpoint", {"EndpointName": endpoint})
    except Refused as error:
        if error.is_missing:
            return None
        raise
    states = [one["State"] for one in document["Instances"] if one["InstanceId"] == instance]
    return str(states[0]) if states else None


@endpoints.command(short_help="Delete an endpoint.")
@click.argument("name")
@yes_option
@wait_option
@connected
def delete(api: Api, *, name: str, yes: bool, wait: bool) -> None:
    """Delete an endpoint and stop its instances; its configuration and models stay."""
    confirm(f"Delete endpoint {name}, which stops serving at once?", yes=yes)
    api.call("DeleteEndpoint", {"EndpointName": name})
    if not wait:
        return
    with watching(f"endpoint {name}", again=f"warmroute endpoints wait {name} --deleted"):
        for line in each_once(Follower(api).endpoint(name, deleted=True)):
            echo(line)
    echo(f"Endpoint {name} is deleted.")


@endpoints.command(short_help="Watch an endpoint until it does not change.")
@click.argument("name")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up then.")
@click.option("--deleted", is_flag=True, help="Until it is gone.")
@connected
def wait(api: Api, *, name: str, timeout_s: float | None, deleted: bool) -> None:
    """Watch an endpoint until it does not change any more.

    The exit status is 0 when it is in service, and 1 when it failed or --timeout came first.
    """
    for line in each_once(Follower(api, timeout_s=timeout_s).endpoint(name, deleted=deleted)):
        echo(line)
    if deleted:
        echo(f"Endpoint {name} is deleted.")


@endpoints.command(short_help="Show what its model servers log.")
@click.argument("name", metavar="ENDPOINT")
@click.option("--instance", metavar="ID", help="Only this one; also one that has ended by itself.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--lines", default=100, type=click.IntRange(min=0), help="Last lines of each to begin with [100]."
)
@connected
def logs(api: Api, *, name: str, instance: str | None, follow: bool, lines: int) -> None:
    """Show what the model servers of an endpoint have written last.

    There are logs of the servers that warmroute starts itself. They hold what the servers choose to log.
    """
    from warmroute.cli.logs import show_logs

    show_logs(api, name, instance=instance, follow=follow, lines=lines)


def watch(api: Api, name: str, *, wait: bool, config: str | None = None) -> None:
    """Say what happens to an endpoint until it does not change any more.

    Raises:
        CommandFailed: It failed, or its update was rolled back.
        click.Abort: Ctrl-C; the server goes on.
    """
    if not wait:
        echo(f"The server is at it; watch it with: warmroute endpoints wait {name}")
        return
    with watching(f"endpoint {name}", again=f"warmroute endpoints wait {name}"):
        for line in each_once(Follower(api).endpoint(name, config=config)):
            echo(line)


def _given(members: JsonObject) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}
