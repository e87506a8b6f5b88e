"""A configuration that differs in its strategy only: what ``endpoints update --strategy`` makes."""

from typing import Any, Final

import click

from warmroute.cli.api import Api
from warmroute.cli.apply.changes import MARK, OWNER, without
from warmroute.cli.apply.documents import fingerprint
from warmroute.cli.apply.resources import NAME_CHARACTERS_MAX
from warmroute.cli.failure import Refused
from warmroute.core.fleet import RoutingStrategy

JsonObject = dict[str, Any]

MADE: Final = "endpoints-update"
"""Value of the mark of configurations that are made here."""


def routing_config(
    strategy: str, *, prefix_length: int | None, concurrency_threshold: int | None
) -> JsonObject:
    """Return the RoutingConfig that flags ask for.

    Raises:
        click.UsageError: The flags do not fit together.
    """
    given = {"PrefixLength": prefix_length, "ConcurrencyThreshold": concurrency_threshold}
    document: JsonObject = {"RoutingStrategy": strategy}
    if strategy == RoutingStrategy.PREFIX_AWARE:
        if None in given.values():
            raise click.UsageError(
                "--strategy PREFIX_AWARE needs --prefix-length and --concurrency-threshold."
            )
        return document | {"PrefixAwareRoutingConfig": given}
    if any(value is not None for value in given.values()):
        raise click.UsageError(
            f"--prefix-length and --concurrency-threshold are for --strategy PREFIX_AWARE, not {strategy}."
        )
    return document


def make_config(api: Api, endpoint: str, routing: JsonObject) -> tuple[str, str]:
    """Make the configuration of an endpoint with another strategy in every production variant.

    Args:
        api: Of the server.
        endpoint: Whose.
        routing: RoutingConfig.

    Returns:
        The names of the new configuration, which may have been there, and of the one in force.
    """
    state = api.call_operator("DescribeEndpoint", {"EndpointName": endpoint})["Endpoint"]
    old = state["EndpointConfigName"]
    config = without(
        api.call("DescribeEndpointConfig", {"EndpointConfigName": old}),
        "EndpointConfigName", "EndpointConfigArn", "CreationTime",
    )  # fmt: skip
    config["ProductionVariants"] = [one | {"RoutingConfig": routing} for one in config["ProductionVariants"]]
    digest = fingerprint(config)
    name = f"{endpoint[: NAME_CHARACTERS_MAX - len(digest) - 1]}-{digest}"
    tags = [{"Key": MARK, "Value": MADE}, {"Key": OWNER, "Value": endpoint}]
    try:
        api.call("CreateEndpointConfig", config | {"EndpointConfigName": name, "Tags": tags})
    except Refused as error:
        if "already existing" not in error.message:
            raise
    return name, old


def forget_config(api: Api, endpoint: str, name: str) -> None:
    """Delete a configuration that was made here for an endpoint and that it does not use any more."""
    listed = list(api.pages("ListEndpointConfigs", "EndpointConfigs", {"NameContains": name}))
    arns = [one["EndpointConfigArn"] for one in listed if one["EndpointConfigName"] == name]
    for arn in arns:
        tags = {one["Key"]: one["Value"] for one in api.pages("ListTags", "Tags", {"ResourceArn": arn})}
        if tags.get(MARK) == MADE and tags.get(OWNER) == endpoint:
            api.call("DeleteEndpointConfig", {"EndpointConfigName": name})
