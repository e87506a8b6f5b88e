import click
import pytest

from tests.unit.cli.scripted import ARN, ScriptedApi, endpoint_document
from warmroute.cli.apply.changes import MARK, OWNER
from warmroute.cli.failure import Refused
from warmroute.cli.strategy import MADE, forget_config, make_config, routing_config

PREFIX = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 2048, "ConcurrencyThreshold": 8},
}


def flags(strategy, length=None, threshold=None):
    return routing_config(strategy, prefix_length=length, concurrency_threshold=threshold)


def test_flags_make_a_routing_config():
    assert flags("KV_AWARE") == {"RoutingStrategy": "KV_AWARE"}
    assert flags("PREFIX_AWARE", 2048, 8) == PREFIX


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("PREFIX_AWARE", 2048, None), "--strategy PREFIX_AWARE needs --prefix-length and"),
        (("RANDOM", None, 8), "are for --strategy PREFIX_AWARE, not RANDOM"),
    ],
)
def test_flags_that_do_not_fit_are_refused(given, text):
    with pytest.raises(click.UsageError, match=text):
        flags(*given)


def server(**answers):
    config = {
        "EndpointConfigName": "c1",
        "EndpointConfigArn": "a",
        "CreationTime": 1.0,
        "ProductionVariants": [
            {"VariantName": "a", "RoutingConfig": {"RoutingStrategy": "RANDOM"}},
            {"VariantName": "b"},
        ],
    }
    there = {"Warmroute_DescribeEndpoint": endpoint_document(), "DescribeEndpointConfig": config}
    return ScriptedApi(**there | answers)


def test_a_config_that_differs_in_the_strategy_only_is_made_and_marked():
    api = server()
    name, old = make_config(api, "chat", PREFIX)
    assert old == "c1"
    operation, request = api.calls[-1]
    assert operation == "CreateEndpointConfig"
    assert request == {
        "EndpointConfigName": name,
        "ProductionVariants": [
            {"VariantName": "a", "RoutingConfig": PREFIX},
            {"VariantName": "b", "RoutingConfig": PREFIX},
        ],
        "Tags": [{"Key": MARK, "Value": MADE}, {"Key": OWNER, "Value": "chat"}],
    }
    assert name.startswith("chat-")


def test_a_config_that_is_there_is_used_and_other_refusals_are_told():
    there = Refused("ValidationException", 'Cannot create already existing endpoint configuration "x".')
    assert make_config(server(CreateEndpointConfig=there), "chat", PREFIX) == make_config(
        server(), "chat", PREFIX
    )
    with pytest.raises(Refused, match="boom"):
        make_config(server(CreateEndpointConfig=Refused("X", "boom")), "chat", PREFIX)


@pytest.mark.parametrize(
    ("tags", "forgotten"),
    [
        ({MARK: MADE, OWNER: "chat"}, True),
        ({MARK: "set", OWNER: "chat"}, False),
        ({MARK: MADE}, False),
        ({}, False),
    ],
)
def test_only_a_config_that_was_made_here_is_forgotten(tags, forgotten):
    names = ("c1", "c10")
    listed = [{"EndpointConfigName": name, "EndpointConfigArn": f"{ARN}:{name}"} for name in names]
    api = ScriptedApi(
        ListEndpointConfigs={"EndpointConfigs": listed},
        ListTags={"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]},
    )
    forget_config(api, "chat", "c1")
    deleted = [request for name, request in api.calls if name == "DeleteEndpointConfig"]
    assert deleted == ([{"EndpointConfigName": "c1"}] if forgotten else [])
