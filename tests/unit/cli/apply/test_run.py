"""Reading a server for a plan, and carrying one out, against scripted answers."""

import pytest

from tests.unit.cli.scripted import ARN, ScriptedApi, component, endpoint_document, missing
from warmroute.cli import following
from warmroute.cli.apply.changes import Action, Call, Change, Follow
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.resources import config_name
from warmroute.cli.apply.run import carry_out, look, settle
from warmroute.cli.failure import CommandFailed, Refused

MODEL = {"ModelName": "m"}
ENDPOINT = {"EndpointName": "chat", "EndpointConfig": {"ProductionVariants": []}}
COMPONENT = {"InferenceComponentName": "base", "EndpointName": "chat"}
WANTED = Wanted("set", (MODEL,), (ENDPOINT,), (COMPONENT,), ({"ResourceId": "r"},))
CONFIG = config_name(WANTED, ENDPOINT)


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch):
    monkeypatch.setattr(following, "ASK_S", 0.0)


def server(**answers):
    """Return a server that has everything named, and something beside."""
    endpoints = {
        "chat": endpoint_document(config="chat-old", PendingDeploymentSummary={"EndpointConfigName": CONFIG}),
        "by-hand": endpoint_document("by-hand", config="chat-old"),
    }
    configs = [CONFIG, "chat-old", "chat-other", "else"]
    defaults = {
        "ListModels": {"Models": [{"ModelName": "m"}, {"ModelName": "n"}]},
        "DescribeModel": lambda asked: {"ModelArn": f"{ARN}:model/{asked['ModelName']}"},
        "ListEndpoints": {"Endpoints": [{"EndpointName": name} for name in endpoints]},
        "Warmroute_DescribeEndpoint": lambda asked: endpoints[asked["EndpointName"]],
        "ListEndpointConfigs": {"EndpointConfigs": [{"EndpointConfigName": name} for name in configs]},
        "DescribeEndpointConfig": lambda asked: {
            "EndpointConfigArn": f"{ARN}:endpoint-config/{asked['EndpointConfigName']}"
        },
        "ListInferenceComponents": {
            "InferenceComponents": [{"InferenceComponentName": "base"}, {"InferenceComponentName": "gone"}]
        },
        "DescribeInferenceComponent": lambda asked: (
            component() if asked["InferenceComponentName"] == "base" else missing("inference component")
        ),
        "AnyScaleFrontendService_DescribeScalableTargets": {"ScalableTargets": [{"ResourceId": "r"}]},
        "ListTags": {"Tags": [{"Key": "a", "Value": "b"}]},
    }
    return ScriptedApi(**defaults | answers)


def test_what_is_named_is_looked_up_and_no_more():
    present = look(server(), WANTED, everything=False)
    assert list(present.models) == ["m"]
    assert list(present.endpoints) == ["chat"]
    assert list(present.components) == ["base"]
    assert set(present.configs) == {CONFIG, "chat-old", "chat-other"}
    assert present.targets == ({"ResourceId": "r"},)
    assert present.tags[f"{ARN}:model/m"] == {"a": "b"}
    assert present.config_users["chat-old"] == {"chat", "by-hand"}
    assert present.config_users[CONFIG] == {"chat"}


def test_for_prune_everything_is_looked_up():
    present = look(server(), Wanted("set"), everything=True)
    assert set(present.models) == {"m", "n"}
    assert set(present.endpoints) == {"chat", "by-hand"}
    assert list(present.components) == ["base"]
    assert "else" in present.configs


def test_a_file_of_models_asks_for_nothing_else():
    api = server()
    look(api, Wanted("set", models=(MODEL,)), everything=False)
    asked = {name for name, _ in api.calls}
    assert asked == {"ListModels", "DescribeModel", "ListEndpoints", "ListEndpointConfigs", "ListTags"}


def test_other_refusals_while_looking_are_told():
    with pytest.raises(Refused, match="boom"):
        look(server(DescribeModel=Refused("X", "boom")), WANTED, everything=False)


def test_what_is_changing_already_is_waited_for_however_it_ends():
    said = []
    busy = endpoint_document(status="Updating")
    failed = endpoint_document(status="Failed", FailureReason="no")
    api = server(
        Warmroute_DescribeEndpoint=[busy, busy, failed],
        DescribeInferenceComponent=[component(status="Deleting"), missing("inference component")],
    )
    settle(api, WANTED, said.append)
    assert said == [
        "Endpoint chat is changing already; waiting for it first.",
        "    chat: Updating",
        "    chat: Failed",
        "    endpoint chat is Failed: no",
        "Inference component base is changing already; waiting for it first.",
    ]
    said.clear()
    settle(server(), WANTED, said.append)
    assert said == []


def test_a_refusal_while_waiting_is_told():
    busy = endpoint_document(status="Updating")
    with pytest.raises(Refused, match="boom"):
        settle(server(Warmroute_DescribeEndpoint=[busy, Refused("X", "boom")]), WANTED, lambda _: None)


STEPS = (Call("CreateEndpoint", {"EndpointName": "chat"}), Follow("endpoint", "chat", "chat-old"))


def test_a_plan_is_carried_out_in_order():
    said = []
    api = server()
    changes = [
        Change(Action.LEAVE, "model", "m", steps=(Call("Never", {}),)),
        Change(Action.CREATE, "endpoint", "chat", steps=STEPS),
        Change(Action.UPDATE, "inference component", "base", steps=(Follow("component", "base"),)),
        Change(Action.DELETE, "scalable target", "r", steps=(Call("Drop", {}, "AnyScaleFrontendService"),)),
    ]
    carry_out(api, changes, said.append)
    assert [name for name, _ in api.calls] == [
        "CreateEndpoint",
        "Warmroute_DescribeEndpoint",
        "DescribeInferenceComponent",
        "AnyScaleFrontendService_Drop",
    ]
    assert said == [
        "Creating endpoint chat",
        "    chat: InService",
        "Updating inference component base",
        "    base: InService: 2 of 2 copies in service",
        "Deleting scalable target r",
    ]


def test_the_first_failure_ends_it_and_says_how_to_go_on():
    api = server(CreateEndpoint=Refused("ValidationException", "No such image."))
    changes = [Change(Action.CREATE, "endpoint", "chat", steps=STEPS), Change(Action.DELETE, "model", "m")]
    with pytest.raises(CommandFailed) as caught:
        carry_out(api, changes, lambda _: None)
    assert caught.value.message == (
        "creating endpoint chat: No such image. What was done before stays; when the cause is mended, "
        "apply the file again."
    )
    assert len(api.calls) == 1
