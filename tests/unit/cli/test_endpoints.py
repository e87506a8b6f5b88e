"""The commands of ``warmroute endpoints``, against a server that answers what the test says."""

import json
import sys

import pytest
from click.testing import CliRunner

from tests.unit.cli.scripted import (
    ARN,
    ScriptedApi,
    component,
    endpoint_document,
    instance,
    missing,
    variant,
)
from warmroute.cli import connection, endpoints
from warmroute.cli.failure import Refused
from warmroute.cli.main import main

PRODUCTION = [
    {
        "VariantName": "AllTraffic",
        "CurrentInstanceCount": 1,
        "DesiredInstanceCount": 2,
        "RoutingConfig": {"RoutingStrategy": "KV_AWARE"},
    }
]
CHAT = endpoint_document(
    variants=[variant()], instances=[instance(1), instance(2)], ProductionVariants=PRODUCTION
)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a command against scripted answers."""

    def run(*arguments, **answers):
        api = ScriptedApi(**answers)
        monkeypatch.setattr(connection, "Api", lambda _server: api)
        monkeypatch.setattr(endpoints.time, "sleep", lambda _: None)
        monkeypatch.setattr(endpoints.time, "time", lambda: 1120.0)
        result = CliRunner().invoke(main, ["endpoints", *arguments])
        result.calls = api.calls
        return result

    return run


def test_list_shows_what_is_ready_and_why_one_failed(run):
    documents = {
        "chat": CHAT,
        "bad": endpoint_document("bad", "Failed", FailureReason="no image", config="c9"),
    }
    result = run(
        "list",
        ListEndpoints={
            "Endpoints": [{"EndpointName": "chat"}, {"EndpointName": "bad"}, {"EndpointName": "x"}]
        },
        Warmroute_DescribeEndpoint=lambda members: documents.get(
            members["EndpointName"], missing("endpoint")
        ),
    )
    assert result.stdout.splitlines() == [
        "NAME  STATUS     READY  STRATEGY  CONFIG  AGE",
        "chat  InService    1/2  KV_AWARE  c1      2 m",
        "bad   Failed       0/0            c9      2 m",
        "    no image",
    ]
    assert result.calls[0] == ("ListEndpoints", {"MaxResults": 100})


def test_list_passes_filters_on_and_says_when_there_are_none(run):
    result = run("list", "--status", "Failed", "--name-contains", "x")
    assert result.stdout == "There are no such endpoints.\n"
    assert result.calls == [
        ("ListEndpoints", {"StatusEquals": "Failed", "NameContains": "x", "MaxResults": 100})
    ]
    assert run("list").stdout == "There are no endpoints.\n"


def test_json_is_the_api_s_own_answer(run):
    listed = [{"EndpointName": "chat", "EndpointArn": "a"}]
    result = run("list", "--json", ListEndpoints={"Endpoints": listed})
    assert json.loads(result.stdout) == {"Endpoints": listed}


def test_describe_shows_components_and_scaling_of_this_endpoint(run):
    targets = [
        {"ResourceId": name, "MinCapacity": 1, "MaxCapacity": 2}
        for name in (
            "endpoint/chat/variant/AllTraffic",
            "endpoint/chat2/variant/AllTraffic",
            "inference-component/base",
            "inference-component/base2",
        )
    ]
    answers = {
        "Warmroute_DescribeEndpoint": CHAT,
        "ListInferenceComponents": {
            "InferenceComponents": [{"InferenceComponentName": "base"}, {"InferenceComponentName": "gone"}]
        },
        "DescribeInferenceComponent": [component(), missing("inference component")],
        "AnyScaleFrontendService_DescribeScalableTargets": {"ScalableTargets": targets},
    }
    result = run("describe", "chat", **answers)
    for title in ("Endpoint chat", "Variants", "Components", "Instances", "Scaling"):
        assert f"{title}\n" in result.stdout
    shown = json.loads(
        run(
            "describe",
            "chat",
            "--json",
            **answers | {"DescribeInferenceComponent": [component(), missing("inference component")]},
        ).stdout
    )
    assert shown["Endpoint"] == CHAT["Endpoint"]
    assert [one["ResourceId"] for one in shown["ScalableTargets"]] == [
        "endpoint/chat/variant/AllTraffic",
        "inference-component/base",
    ]


def test_describe_of_a_server_without_scaling_or_with_another_failure(run):
    unknown = Refused("UnknownOperationException", "other services are not supported")
    answers = {"AnyScaleFrontendService_DescribeScalableTargets": unknown}
    assert run("describe", "chat", Warmroute_DescribeEndpoint=CHAT, **answers).exit_code == 0
    answers = {"AnyScaleFrontendService_DescribeScalableTargets": Refused("X", "boom")}
    assert run("describe", "chat", Warmroute_DescribeEndpoint=CHAT, **answers).stderr == "warmroute: boom\n"
    answers = {"ListInferenceComponents": {"InferenceComponents": [{"InferenceComponentName": "a"}]}}
    answers["DescribeInferenceComponent"] = Refused("X", "boom")
    assert run("describe", "chat", Warmroute_DescribeEndpoint=CHAT, **answers).exit_code == 1


def test_an_endpoint_that_is_not_there_is_status_1_and_one_line(run):
    result = run("describe", "nope", Warmroute_DescribeEndpoint=missing("endpoint"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f'warmroute: Could not find endpoint "{ARN}:x/y". '
        "warmroute endpoints list shows those that there are.\n"
    )


def test_create_and_update_follow_what_they_began(run):
    result = run("create", "chat", "--endpoint-config", "c1", Warmroute_DescribeEndpoint=CHAT)
    assert result.stdout == "chat: InService: AllTraffic 2 of 2 in service\n"
    assert result.calls[0] == ("CreateEndpoint", {"EndpointName": "chat", "EndpointConfigName": "c1"})
    result = run(
        "update", "chat", "--endpoint-config", "c2", "--retain-counts", Warmroute_DescribeEndpoint=CHAT
    )
    assert result.calls[0][1]["RetainAllVariantProperties"] is True
    assert result.exit_code == 1
    assert "was rolled back" in result.stderr
    result = run("update", "chat", "--endpoint-config", "c2", "--no-wait")
    assert result.stdout == "The server is at it; watch it with: warmroute endpoints wait chat\n"


def test_another_strategy_keeps_counts_and_forgets_its_own_old_config(run):
    config = {"EndpointConfigName": "c1", "ProductionVariants": [{"VariantName": "v"}]}
    answers = {"Warmroute_DescribeEndpoint": CHAT, "DescribeEndpointConfig": config}
    result = run("update", "chat", "--strategy", "KV_AWARE", "--no-wait", **answers)
    operation, request = result.calls[-1]
    assert operation == "UpdateEndpoint"
    assert request["RetainAllVariantProperties"] is True
    made = request["EndpointConfigName"]
    done = endpoint_document(config=made)
    answers["Warmroute_DescribeEndpoint"] = [CHAT, done]
    result = run("update", "chat", "--strategy", "KV_AWARE", **answers)
    assert result.calls[-1] == ("ListEndpointConfigs", {"NameContains": "c1"})


@pytest.mark.parametrize("given", [(), ("--endpoint-config", "c", "--strategy", "RANDOM")])
def test_an_update_is_to_one_thing(run, given):
    result = run("update", "chat", *given)
    assert (result.exit_code, result.stderr) == (
        2,
        "warmroute: Give either --endpoint-config or --strategy.\n",
    )


def test_ctrl_c_leaves_the_server_at_it_and_says_so(run):
    def interrupt(_):
        raise KeyboardInterrupt

    result = run("update", "chat", "--endpoint-config", "c2", Warmroute_DescribeEndpoint=interrupt)
    assert result.exit_code == 130
    assert (
        "the server goes on with endpoint chat; watch it with: warmroute endpoints wait chat" in result.stderr
    )


def test_scale_names_the_only_variant_by_itself(run):
    result = run("scale", "chat", "3", Warmroute_DescribeEndpoint=CHAT)
    wanted = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
    assert result.calls[1] == (
        "UpdateEndpointWeightsAndCapacities",
        {"EndpointName": "chat", "DesiredWeightsAndCapacities": [wanted]},
    )
    result = run("scale", "chat", "b", "0", "--no-wait")
    assert result.calls[0][1]["DesiredWeightsAndCapacities"] == [
        {"VariantName": "b", "DesiredInstanceCount": 0}
    ]


@pytest.mark.parametrize("what", [("x",), ("a", "b", "1"), ("a", "-1")])
def test_scale_refuses_what_is_no_number(run, what):
    result = run("scale", "chat", "--", *what)
    assert result.exit_code == 2
    assert "the last argument must be the number of instances" in result.stderr


def test_scale_asks_which_of_several_variants(run):
    several = endpoint_document(ProductionVariants=[{"VariantName": "a"}, {"VariantName": "b"}])
    result = run("scale", "chat", "3", Warmroute_DescribeEndpoint=several)
    assert (result.exit_code, result.stderr) == (
        2,
        "warmroute: endpoint chat has the variants a, b: name one of them.\n",
    )


@pytest.mark.parametrize(
    ("flags", "replaced", "said"),
    [
        ([], None, "another one is started."),
        (["--replace"], True, "another one is started."),
        (["--shrink"], False, "none is started in its place."),
    ],
)
def test_drain_waits_until_the_instance_is_gone(run, flags, replaced, said):
    name = "i-000000000001"
    answer = {
        "InstanceId": name,
        "EndpointName": "chat",
        "State": "draining",
        "Replaced": replaced is not False,
    }
    draining = endpoint_document(instances=[instance(1, State="draining")])
    stopping = endpoint_document(instances=[instance(1, State="stopping")])
    result = run(
        "drain",
        name,
        *flags,
        Warmroute_DrainInstance=answer,
        Warmroute_DescribeEndpoint=[draining, stopping, endpoint_document()],
    )
    assert result.stdout.splitlines() == [
        f"{name} of endpoint chat is draining; {said}",
        f"{name} is stopping.",
        f"{name} is gone.",
    ]
    request = {"InstanceId": name} | ({} if replaced is None else {"Replace": replaced})
    assert result.calls[0] == ("Warmroute_DrainInstance", request)


def test_drain_of_the_last_instance_of_a_deleted_endpoint_ends(run):
    answer = {"InstanceId": "i", "EndpointName": "chat", "State": "draining", "Replaced": True}
    gone = run("drain", "i", Warmroute_DrainInstance=answer, Warmroute_DescribeEndpoint=missing("endpoint"))
    assert gone.stdout.endswith("i is gone.\n")
    assert run("drain", "i", "--no-wait", Warmroute_DrainInstance=answer).stdout.count("\n") == 1
    boom = Refused("X", "boom")
    assert run("drain", "i", Warmroute_DrainInstance=answer, Warmroute_DescribeEndpoint=boom).exit_code == 1


def test_delete_asks_on_a_terminal_and_needs_yes_elsewhere(run, monkeypatch):
    gone = {"Warmroute_DescribeEndpoint": missing("endpoint")}
    result = run("delete", "chat", **gone)
    assert (result.exit_code, result.calls) == (2, [])
    assert "There is no terminal to ask on: say --yes." in result.stderr
    result = run("delete", "chat", "--yes", **gone)
    assert result.stdout == "Endpoint chat is deleted.\n"
    assert result.calls[0] == ("DeleteEndpoint", {"EndpointName": "chat"})
    assert run("delete", "chat", "--yes", "--no-wait").stdout == ""


def test_a_question_is_answered(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr(connection.click, "confirm", lambda text, abort: asked.append((text, abort)))
    connection.confirm("Sure?", yes=False)
    assert asked == [("Sure?", True)]


def test_wait_gives_up_in_its_time(run):
    creating = endpoint_document(status="Creating", variants=[variant()])
    result = run("wait", "chat", "--timeout", "0", Warmroute_DescribeEndpoint=creating)
    assert result.exit_code == 1
    assert "After 0 s endpoint chat is still changing" in result.stderr
    result = run("wait", "chat", "--deleted", Warmroute_DescribeEndpoint=missing("endpoint"))
    assert result.stdout == "Endpoint chat is deleted.\n"


def test_logs_are_those_of_its_instances(run):
    piece = {"Text": "a\n", "Begin": 0, "End": 2, "Size": 2, "Ended": False}
    result = run("logs", "chat", Warmroute_DescribeEndpoint=CHAT, Warmroute_ReadLog=piece)
    assert result.stdout == "i-000000000001  a\ni-000000000002  a\n"
