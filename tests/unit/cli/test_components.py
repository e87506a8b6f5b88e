"""The commands of ``warmroute components`` and ``warmroute models``, against scripted answers."""

import json

import pytest
from click.testing import CliRunner

from tests.unit.cli.scripted import (
    ARN,
    ScriptedApi,
    adapter,
    component,
    endpoint_document,
    instance,
    missing,
)
from warmroute.cli import components, connection
from warmroute.cli.main import main

LISTED = {"InferenceComponents": [{"InferenceComponentName": "lora"}, {"InferenceComponentName": "base"}]}
DESCRIBED = {"lora": adapter(), "base": component()}


def described(members):
    return DESCRIBED.get(members["InferenceComponentName"], missing("inference component"))


COPIES = endpoint_document(instances=[instance(1, InferenceComponentName="base"), instance(2)])
ANSWERS = {
    "ListInferenceComponents": LISTED,
    "DescribeInferenceComponent": described,
    "Warmroute_DescribeEndpoint": COPIES,
}


@pytest.fixture
def run(monkeypatch):
    def run(*arguments, **answers):
        api = ScriptedApi(**answers)
        monkeypatch.setattr(connection, "Api", lambda _server: api)
        monkeypatch.setattr(components.time, "time", lambda: 1120.0)
        result = CliRunner().invoke(main, arguments)
        result.calls = api.calls
        return result

    return run


def test_list_shows_adapters_below_their_base(run):
    assert run("components", "list", **ANSWERS).stdout.splitlines() == [
        "NAME    STATUS     COPIES  MODEL         NEEDS          ENDPOINT  AGE",
        "base    InService     2/2  llama         1 acc 8192 MB  chat      2 m",
        "  lora  InService          file:///lora                 chat      2 m",
    ]
    result = run("components", "list", "--endpoint", "chat", **ANSWERS)
    assert "ENDPOINT" not in result.stdout
    assert result.calls[0][1]["EndpointNameEquals"] == "chat"


def test_list_of_none_and_as_json(run):
    assert run("components", "list").stdout == "There are no inference components.\n"
    assert run("components", "list", "--endpoint", "e").stdout == "Endpoint e has none.\n"
    result = run("components", "list", "--json", "--endpoint", "e", **ANSWERS)
    assert json.loads(result.stdout) == LISTED
    assert result.calls[0][1] == {"MaxResults": 100, "EndpointNameEquals": "e"}


def test_describe_shows_copies_adapters_and_scaling(run):
    target = {"ResourceId": "inference-component/base", "MinCapacity": 0, "MaxCapacity": 2}
    scaled = {"AnyScaleFrontendService_DescribeScalableTargets": {"ScalableTargets": [target]}}
    result = run("components", "describe", "base", **ANSWERS, **scaled)
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "Inference component base",
        "  Status     InService for 60 s",
        "  Endpoint   chat, variant AllTraffic",
        "  Copies     2/2",
    ]
    assert [lines[index + 1] for index, line in enumerate(lines) if line == ""] == [
        "Copies",
        "Adapters",
        "Scaling",
    ]
    assert "i-000000000002" not in result.stdout
    shown = json.loads(run("components", "describe", "base", "--json", **ANSWERS).stdout)
    assert shown == component()
    assert "  Base       base\n" in run("components", "describe", "lora", **ANSWERS).stdout


def test_scale_and_delete_follow_what_they_began(run):
    result = run("components", "scale", "base", "2", **ANSWERS)
    assert result.stdout == "base: InService: 2 of 2 copies in service\n"
    assert result.calls[0] == (
        "UpdateInferenceComponentRuntimeConfig",
        {"InferenceComponentName": "base", "DesiredRuntimeConfig": {"CopyCount": 2}},
    )
    assert (
        "watch it with: warmroute components wait base"
        in run("components", "scale", "base", "2", "--no-wait").stdout
    )
    result = run("components", "delete", "gone", "--yes", **ANSWERS)
    assert result.stdout == "Inference component gone is deleted.\n"
    assert run("components", "delete", "base").exit_code == 2
    assert run("components", "scale", "base", "-1").exit_code == 2
    assert run("components", "wait", "base", **ANSWERS).exit_code == 0


def test_logs_of_an_adapter_are_those_of_its_base(run):
    piece = {"Text": "a\n", "Begin": 0, "End": 2, "Size": 2, "Ended": False}
    for name in ("base", "lora"):
        result = run("components", "logs", name, **ANSWERS, Warmroute_ReadLog=piece)
        assert result.stdout == "a\n"


# --- Models --------------------------------------------------------------------------------------

MODEL = {
    "ModelName": "m",
    "ModelArn": f"{ARN}:model/m",
    "CreationTime": 1000.0,
    "EnableNetworkIsolation": False,
    "PrimaryContainer": {
        "Image": "img",
        "ModelDataUrl": "file:///data",
        "Environment": {"A": "b", "HF_TOKEN": "hush"},
    },
}
MODELS = {"Models": [{"ModelName": "m", "CreationTime": 1000.0}]}


def test_models_are_listed_with_what_they_run(run):
    result = run("models", "list", "--name-contains", "m", ListModels=MODELS, DescribeModel=MODEL)
    assert result.stdout.splitlines() == [
        "NAME  IMAGE  DATA          AGE",
        "m     img    file:///data  2 m",
    ]
    assert result.calls[0][1] == {"MaxResults": 100, "NameContains": "m"}
    assert json.loads(run("models", "list", "--json", ListModels=MODELS).stdout) == MODELS
    assert run("models", "list").stdout == "There are no models.\n"
    assert run("models", "list", "--name-contains", "x").stdout == "There are no such models.\n"


def test_a_model_is_described_without_the_values_of_secrets(run):
    result = run("models", "describe", "m", DescribeModel=MODEL)
    assert result.stdout.splitlines() == [
        "Model m",
        "  Image      img",
        "  Data       file:///data",
        "  Variables  A=b",
        "             HF_TOKEN=(hidden)",
        "  Also       EnableNetworkIsolation = false",
        "  Created    1970-01-01 00:16:40 UTC",
        f"  ARN        {ARN}:model/m",
    ]
    assert json.loads(run("models", "describe", "m", "--json", DescribeModel=MODEL).stdout) == MODEL


def test_a_model_without_anything_runs_what_its_instance_type_says(run):
    source = {"ModelDataSource": {"S3DataSource": {"S3Uri": "file:///s"}}}
    bare = {key: MODEL[key] for key in ("ModelName", "ModelArn", "CreationTime")} | {"Containers": [source]}
    result = run("models", "describe", "m", DescribeModel=bare)
    assert "  Image      that of the instance type\n  Data       file:///s\n" in result.stdout


def test_a_model_is_deleted(run):
    result = run("models", "delete", "m", "--yes")
    assert (result.stdout, result.calls) == ("Model m is deleted.\n", [("DeleteModel", {"ModelName": "m"})])
    assert run("models", "delete", "m").exit_code == 2


def test_weights_are_about_files_of_this_machine(run):
    result = run("models", "weights")
    assert "smollm2-135m" in result.stdout
    assert result.calls == []
