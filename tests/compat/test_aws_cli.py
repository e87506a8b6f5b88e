"""AWS's own example commands, by the AWS CLI, against a running warmroute; only --endpoint-url is added.

Source: the commands of AWS's announcement of prefix-aware routing, and what its documentation does before
and after them.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import botocore
import pytest

from tests.relay import running
from tests.running import clean_environment, wait_until
from tests.stub_server import StubServer

pytestmark = [pytest.mark.process, pytest.mark.slow]

AWS = shutil.which("aws", path=str(Path(sys.executable).parent)) or shutil.which("aws")
COMMAND_S_MAX = 60
INSTANCES = 3
VARIANTS = json.dumps(
    [
        {
            "VariantName": "AllTraffic",
            "ModelName": "example-llm-model",
            "InitialInstanceCount": INSTANCES,
            "InstanceType": "ml.p5.48xlarge",
            "RoutingConfig": {
                "RoutingStrategy": "PREFIX_AWARE",
                "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
            },
        }
    ]
)
CREDENTIALS = """
[[auth.access_keys]]
access_key_id = "AKIDEXAMPLE"
secret_access_key = "example-secret"
"""


@pytest.fixture(scope="module")
def stubs():
    with StubServer("a") as a, StubServer("b") as b, StubServer("c") as c, StubServer("own") as own:
        yield a, b, c, own


@pytest.fixture(scope="module")
def server(tmp_path_factory, stubs):
    *instances, own = stubs
    urls = json.dumps([stub.url for stub in instances])
    settings = f'{CREDENTIALS}\n[instance_types."ml.p5.48xlarge"]\nprovider = "static"\nurls = {urls}\n'
    with running(tmp_path_factory.mktemp("cli"), own.url, toml=settings) as started:
        yield started


@pytest.fixture
def aws(server, tmp_path):
    """Return a function that runs a command and returns what it printed, read as JSON where there is any."""
    environment = clean_environment(
        AWS_ACCESS_KEY_ID="AKIDEXAMPLE",
        AWS_SECRET_ACCESS_KEY="example-secret",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_CONFIG_FILE=str(tmp_path / "none"),
        AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "none"),
        AWS_PAGER="",
        # AWS CLI 1.46.3, the newest on PyPI, carries a service model from before PREFIX_AWARE and refuses
        # PrefixAwareRoutingConfig by itself. Newer models are given to it as AWS documents.
        AWS_DATA_PATH=str(Path(botocore.__file__).parent / "data"),
    )

    def run(*arguments, fails=False):
        done = subprocess.run(
            [AWS, *arguments, "--endpoint-url", server.url],
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            cwd=tmp_path,
            env=environment,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr if fails else json.loads(done.stdout) if done.stdout.strip() else None

    assert AWS, "the AWS CLI is not installed: pip install awscli"
    return run


def test_aws_own_example_commands_run_unchanged(aws, tmp_path, stubs):
    sagemaker, name = ("sagemaker",), "example-llm-endpoint"
    model = aws(
        *sagemaker, "create-model", "--model-name", "example-llm-model", "--primary-container", "Image=vllm"
    )
    assert model["ModelArn"].endswith(":model/example-llm-model")
    config = aws(
        *sagemaker, "create-endpoint-config", "--endpoint-config-name", "example-llm-config",
        "--production-variants", VARIANTS,
    )  # fmt: skip
    assert config["EndpointConfigArn"].endswith(":endpoint-config/example-llm-config")
    created = aws(
        *sagemaker, "create-endpoint", "--endpoint-name", name,
        "--endpoint-config-name", "example-llm-config",
    )  # fmt: skip
    assert created["EndpointArn"].endswith(f":endpoint/{name}")
    assert aws(*sagemaker, "wait", "endpoint-in-service", "--endpoint-name", name) is None
    described = aws(*sagemaker, "describe-endpoint", "--endpoint-name", name)
    assert described["EndpointStatus"] == "InService"
    (variant,) = described["ProductionVariants"]
    assert variant["CurrentInstanceCount"] == INSTANCES
    assert variant["RoutingConfig"] == json.loads(VARIANTS)[0]["RoutingConfig"]

    (tmp_path / "request.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    before = sum(stub.counters.executions for stub in stubs[:INSTANCES])
    answer = aws(
        "sagemaker-runtime", "invoke-endpoint", "--endpoint-name", name,
        "--content-type", "application/json", "--body", "fileb://request.json", "output.json",
    )  # fmt: skip
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    output = json.loads((tmp_path / "output.json").read_text())
    assert output["choices"][0]["message"]["content"].startswith("Hello from ")
    assert sum(stub.counters.executions for stub in stubs[:INSTANCES]) == before + 1

    listed = aws(*sagemaker, "list-endpoints", "--name-contains", "example-llm", "--max-items", "1")
    assert [endpoint["EndpointName"] for endpoint in listed["Endpoints"]] == [name]
    assert "already existing endpoint" in aws(
        *sagemaker, "create-endpoint", "--endpoint-name", name,
        "--endpoint-config-name", "example-llm-config", fails=True,
    )  # fmt: skip
    aws(*sagemaker, "delete-endpoint", "--endpoint-name", name)
    assert aws(*sagemaker, "wait", "endpoint-deleted", "--endpoint-name", name) is None
    aws(*sagemaker, "delete-endpoint-config", "--endpoint-config-name", "example-llm-config")
    aws(*sagemaker, "delete-model", "--model-name", "example-llm-model")
    error = aws(*sagemaker, "describe-model", "--model-name", "example-llm-model", fails=True)
    assert "(ValidationException)" in error
    assert "Could not find model" in error


SPECIFICATION = json.dumps(
    {
        "ModelName": "hosted",
        "ComputeResourceRequirements": {
            "MinMemoryRequiredInMb": 1024,
            "NumberOfAcceleratorDevicesRequired": 1,
        },
    }
)
TRACKING = json.dumps(
    {
        "TargetValue": 4,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
        },
    }
)


def test_components_tags_and_autoscaling_are_managed_with_the_cli(aws, tmp_path):
    variants = "VariantName=AllTraffic,InstanceType=ml.p5.48xlarge,InitialInstanceCount=1"
    aws("sagemaker", "create-model", "--model-name", "hosted", "--primary-container", "Image=vllm")
    aws(
        "sagemaker", "create-endpoint-config", "--endpoint-config-name", "hosts",
        "--execution-role-arn", "arn:aws:iam::000000000000:role/sm", "--production-variants", variants,
    )  # fmt: skip
    aws("sagemaker", "create-endpoint", "--endpoint-name", "hosts", "--endpoint-config-name", "hosts")
    aws("sagemaker", "wait", "endpoint-in-service", "--endpoint-name", "hosts")
    created = aws(
        "sagemaker", "create-inference-component", "--inference-component-name", "comp",
        "--endpoint-name", "hosts", "--variant-name", "AllTraffic", "--specification", SPECIFICATION,
        "--runtime-config", "CopyCount=1", "--tags", "Key=team,Value=x",
    )  # fmt: skip
    arn = created["InferenceComponentArn"]
    assert aws("sagemaker", "list-tags", "--resource-arn", arn)["Tags"] == [{"Key": "team", "Value": "x"}]

    def status():
        described = aws("sagemaker", "describe-inference-component", "--inference-component-name", "comp")
        return described["InferenceComponentStatus"]

    wait_until(lambda: status() == "InService")
    (tmp_path / "request.json").write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    aws(
        "sagemaker-runtime", "invoke-endpoint", "--endpoint-name", "hosts",
        "--inference-component-name", "comp", "--content-type", "application/json",
        "--body", "fileb://request.json", "output.json",
    )  # fmt: skip
    assert json.loads((tmp_path / "output.json").read_text())["choices"]

    scaled = (
        "--service-namespace", "sagemaker", "--resource-id", "inference-component/comp",
        "--scalable-dimension", "sagemaker:inference-component:DesiredCopyCount",
    )  # fmt: skip
    autoscaling = "application-autoscaling"
    aws(autoscaling, "register-scalable-target", *scaled, "--min-capacity", "1", "--max-capacity", "3")
    put = aws(
        autoscaling, "put-scaling-policy", *scaled, "--policy-name", "track",
        "--policy-type", "TargetTrackingScaling",
        "--target-tracking-scaling-policy-configuration", TRACKING,
    )  # fmt: skip
    assert len(put["Alarms"]) == 2
    described = aws(autoscaling, "describe-scaling-policies", "--service-namespace", "sagemaker")
    assert [policy["PolicyName"] for policy in described["ScalingPolicies"]] == ["track"]
    aws(autoscaling, "deregister-scalable-target", *scaled)
    targets = aws(autoscaling, "describe-scalable-targets", "--service-namespace", "sagemaker")
    assert targets["ScalableTargets"] == []

    aws("sagemaker", "delete-inference-component", "--inference-component-name", "comp")
    aws("sagemaker", "delete-endpoint", "--endpoint-name", "hosts")
    aws("sagemaker", "wait", "endpoint-deleted", "--endpoint-name", "hosts")
