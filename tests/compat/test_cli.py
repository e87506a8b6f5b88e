"""The command line against a running ``warmroute serve`` with local stub servers: what a person does."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import boto3_client
from tests.running import clean_environment, wait_until

pytestmark = pytest.mark.process

STUB = Path(__file__).parents[1] / "stub_server.py"
SETTINGS = f"""
[images."stub"]
command = ["{{python}}", "{STUB}", "--port", "{{port}}"]
[images."broken"]
command = ["{{python}}", "-c", "raise SystemExit('no such model')"]
"""
BOX = """
[instance_types."ml.box"]
provider = "local"
image = "stub"
accelerators = 2
memory_mb = 32768
"""
SHARED = """
Models:
  - ModelName: llama
    PrimaryContainer: {Image: stub}
Endpoints:
  - EndpointName: shared
    EndpointConfig:
      ExecutionRoleArn: arn:aws:iam::000000000000:role/unused
      ProductionVariants: [{VariantName: AllTraffic, InstanceType: ml.box, InitialInstanceCount: 1}]
InferenceComponents:
  - InferenceComponentName: base
    EndpointName: shared
    VariantName: AllTraffic
    Specification:
      ModelName: llama
      ComputeResourceRequirements: {NumberOfAcceleratorDevicesRequired: 1, MinMemoryRequiredInMb: 1024}
    RuntimeConfig: {CopyCount: 1}
"""
FLEET = """
[[Models]]
ModelName = "llama"
PrimaryContainer = { Image = "stub", Environment = { GREETING = "hello" } }

[[Endpoints]]
EndpointName = "chat"
[[Endpoints.EndpointConfig.ProductionVariants]]
VariantName = "AllTraffic"
ModelName = "llama"
InstanceType = "ml.local"
InitialInstanceCount = 2
RoutingConfig = { RoutingStrategy = "RANDOM" }

[[ScalableTargets]]
ResourceId = "endpoint/chat/variant/AllTraffic"
MinCapacity = 1
MaxCapacity = 3

[[ScalingPolicies]]
ResourceId = "endpoint/chat/variant/AllTraffic"
PolicyName = "busy"
PolicyType = "TargetTrackingScaling"
[ScalingPolicies.TargetTrackingScalingPolicyConfiguration]
TargetValue = 8
ScaleInCooldown = 300
PredefinedMetricSpecification = { PredefinedMetricType = "SageMakerVariantInvocationsPerInstance" }
"""
PREFIX_AWARE = (
    '{ RoutingStrategy = "PREFIX_AWARE", '
    "PrefixAwareRoutingConfig = { PrefixLength = 2048, ConcurrencyThreshold = 8 } }"
)


class Person:
    """Somebody at a terminal, in a directory with a file."""

    def __init__(self, server, directory, **environment):
        self.server = server
        self.directory = directory
        self.file = directory / "fleet.toml"
        self.file.write_text(FLEET)
        # A home without AWS files, whatever the machine has.
        self.environment = clean_environment(HOME=str(directory), **environment)

    def command(self, *arguments):
        return [sys.executable, "-m", "warmroute", *arguments, "--endpoint-url", self.server.url]

    def __call__(self, *arguments, status=0, **environment):
        """Run a command; return what it printed."""
        result = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            env=self.environment | environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert result.returncode == status, f"{arguments}: {result.stdout}{result.stderr}"
        return result.stdout + result.stderr

    def document(self, *arguments):
        return json.loads(self(*arguments, "--json"))

    def write(self, old, new):
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def configs(self):
        """Return the names of the endpoint configurations there are."""
        client = boto3_client("sagemaker", self.server.url)
        found = [one["EndpointConfigName"] for one in client.list_endpoint_configs()["EndpointConfigs"]]
        client.close()
        return found


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "warmroute-test.toml"
    path.write_text(SETTINGS)
    return path


@pytest.fixture
def person(warmroute_server, settings, tmp_path):
    server = warmroute_server("--config", settings)
    return Person(server, tmp_path)


def in_service(document):
    return [one for one in document["Instances"] if one["State"] == "in_service"]


def copies(document):
    return [one for one in in_service(document) if "HostInstanceId" in one]


def test_a_file_is_applied_changed_and_applied_again(person):
    shown = person("apply", "fleet.toml", "--dry-run", status=2)
    assert "+ create  endpoint chat" in shown
    assert "4 to create." in shown
    assert person("endpoints", "list") == "There are no endpoints.\n"
    shown = person("apply", "fleet.toml", "--yes")
    assert "chat: InService: AllTraffic 2 of 2 in service" in shown
    assert "Nothing to do: 4 left alone." in person("apply", "fleet.toml", "--dry-run")
    before = person.document("endpoints", "describe", "chat")
    (first_config,) = person.configs()

    # Another strategy keeps every instance; the configuration that is not used any more goes.
    person.write('{ RoutingStrategy = "RANDOM" }', PREFIX_AWARE)
    shown = person("apply", "fleet.toml", "--yes")
    assert "RoutingConfig.RoutingStrategy: RANDOM -> PREFIX_AWARE" in shown
    assert f"- delete  endpoint configuration {first_config}" in shown
    after = person.document("endpoints", "describe", "chat")
    ids = [{one["InstanceId"] for one in in_service(document)} for document in (before, after)]
    assert ids[0] == ids[1]
    (second_config,) = person.configs()
    assert second_config != first_config

    # Another model under the same name reaches the instances.
    person.write('GREETING = "hello"', 'GREETING = "hi"')
    shown = person("apply", "fleet.toml", "--yes")
    assert "PrimaryContainer.Environment.GREETING: hello -> hi" in shown
    replaced = {one["InstanceId"] for one in in_service(person.document("endpoints", "describe", "chat"))}
    assert replaced.isdisjoint(ids[1])
    assert "Nothing to do" in person("apply", "fleet.toml", "--yes")

    # What was scaled by hand since is left alone, and said.
    person("endpoints", "scale", "chat", "3")
    shown = person("apply", "fleet.toml", "--dry-run")
    assert "AllTraffic runs 3 instances, the file begins with 2" in shown


def test_prune_takes_only_what_this_file_made(person):
    person("apply", "fleet.toml", "--yes")
    other = person.directory / "other.toml"
    other.write_text('[[Models]]\nModelName = "kept"\nPrimaryContainer = { Image = "stub" }\n')
    person("apply", "other.toml", "--yes")
    person.file.write_text("")
    assert "Nothing to do" in person("apply", "fleet.toml", "--dry-run")
    shown = person("apply", "fleet.toml", "--prune", "--yes")
    assert "- delete  scalable target endpoint/chat/variant/AllTraffic" in shown
    assert "- delete  endpoint chat" in shown
    assert person("endpoints", "list") == "There are no endpoints.\n"
    assert [one["ModelName"] for one in person.document("models", "list")["Models"]] == ["kept"]
    assert person.configs() == []


def test_a_model_that_does_not_start_fails_the_update_and_the_old_one_serves_on(person):
    person("apply", "fleet.toml", "--yes")
    person.write('Image = "stub"', 'Image = "broken"')
    shown = person("apply", "fleet.toml", "--yes", status=1)
    assert (
        "updating endpoint chat: the update of endpoint chat was rolled back, and it serves as before"
        in shown
    )
    assert "no such model" in shown
    assert len(in_service(person.document("endpoints", "describe", "chat"))) == 2
    assert "Last time" in person("endpoints", "describe", "chat")


def test_ctrl_c_leaves_the_server_finishing(person):
    process = subprocess.Popen(
        person.command("apply", "fleet.toml", "--yes"),
        cwd=person.directory,
        env=person.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = ""
    for line in process.stdout:
        seen += line
        if "chat: Creating" in line:
            process.send_signal(signal.SIGINT)
            break
    seen += process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=20) == 130, seen
    assert "the server goes on with what it has begun" in seen
    assert "InService" in person("endpoints", "wait", "chat", "--timeout", "30")
    assert "endpoint chat" not in "".join(
        line for line in person("apply", "fleet.toml", "--yes").splitlines() if "+" in line
    )


def test_an_instance_is_drained_and_replaced_while_requests_run(person):
    person("apply", "fleet.toml", "--yes")
    first, second = in_service(person.document("endpoints", "describe", "chat"))
    shown = person("endpoints", "drain", first["InstanceId"])
    assert "another one is started." in shown
    assert shown.endswith(f"{first['InstanceId']} is gone.\n")
    wait_until(lambda: len(in_service(person.document("endpoints", "describe", "chat"))) == 2)
    shown = person("endpoints", "drain", second["InstanceId"], "--shrink")
    assert "none is started in its place." in shown
    document = person.document("endpoints", "describe", "chat")
    assert len(document["Instances"]) == 1
    assert document["Variants"][0]["DesiredInstanceCount"] == 1


def test_components_are_applied_scaled_drained_and_pruned(warmroute_server, settings, tmp_path):
    settings.write_text(SETTINGS + BOX)
    person = Person(warmroute_server("--config", settings), tmp_path)
    (tmp_path / "shared.yaml").write_text(SHARED)
    shown = person("apply", "shared.yaml", "--yes")
    assert "base: InService: 1 of 1 copies in service" in shown
    assert "Nothing to do: 3 left alone." in person("apply", "shared.yaml", "--dry-run")

    (copy,) = copies(person.document("endpoints", "describe", "shared"))
    shown = person("endpoints", "describe", "shared")
    assert f"    {copy['InstanceId']}  base" in shown  # below the slot that carries it
    assert copy["InstanceId"] in person("components", "describe", "base")
    assert copy["Url"] in person("components", "logs", "base")

    assert "base: InService: 2 of 2 copies in service" in person("components", "scale", "base", "2")
    shown = person("apply", "shared.yaml", "--yes")
    assert "RuntimeConfig.CopyCount: 2 -> 1" in shown

    person("apply", "shared.yaml", "--yes")
    (left,) = copies(person.document("endpoints", "describe", "shared"))
    shown = person("endpoints", "drain", left["InstanceId"])
    assert "another one is started." in shown
    (tmp_path / "shared.yaml").write_text("Models: []")
    shown = person("apply", "shared.yaml", "--yes", "--prune")
    order = [line.split(" ", 1)[1] for line in shown.splitlines() if line.startswith("Deleting")]
    assert order[:2] == ["inference component base", "endpoint shared"]
    assert person("components", "list") == "There are no inference components.\n"


def test_the_strategy_alone_is_changed_from_the_command_line(person):
    person("apply", "fleet.toml", "--yes")
    before = in_service(person.document("endpoints", "describe", "chat"))
    person("endpoints", "update", "chat", "--strategy", "KV_AWARE")
    document = person.document("endpoints", "describe", "chat")
    assert document["Variants"][0]["RoutingConfig"] == {"RoutingStrategy": "KV_AWARE"}
    assert {one["InstanceId"] for one in in_service(document)} == {one["InstanceId"] for one in before}


def test_logs_are_shown_and_followed(person):
    person("apply", "fleet.toml", "--yes")
    one, other = in_service(person.document("endpoints", "describe", "chat"))
    shown = person("endpoints", "logs", "chat").splitlines()
    assert sorted(line.split("  ")[0] for line in shown) == sorted([one["InstanceId"], other["InstanceId"]])
    assert one["Url"] in person("endpoints", "logs", "chat", "--instance", one["InstanceId"])
    log = person.server.data_dir / "instances" / one["InstanceId"] / "log"
    output = person.directory / "followed"
    with output.open("w") as file:
        following = subprocess.Popen(
            person.command("endpoints", "logs", "chat", "--follow", "--lines", "0"),
            cwd=person.directory,
            env=person.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=file,
        )

    def written():
        with log.open("a") as file:
            file.write("hello from a test\n")
        return f"{one['InstanceId']}  hello from a test" in output.read_text()

    wait_until(written)
    following.send_signal(signal.SIGINT)
    assert following.wait(timeout=10) == 0


def test_a_server_that_wants_signatures_gets_them_and_no_secret_is_printed(
    warmroute_server, settings, tmp_path
):
    keys = '[auth]\naccess_keys = [{ access_key_id = "AKIDOPS", secret_access_key = "open-sesame" }]\n'
    settings.write_text(SETTINGS + keys)
    server = warmroute_server("--config", settings)
    person = Person(server, tmp_path)
    shown = person("endpoints", "list", status=1)
    assert "asks for credentials and there are none: set AWS_ACCESS_KEY_ID" in shown
    right = {"AWS_ACCESS_KEY_ID": "AKIDOPS", "AWS_SECRET_ACCESS_KEY": "open-sesame"}
    assert "There are no endpoints." in person("endpoints", "list", **right)
    wrong = right | {"AWS_SECRET_ACCESS_KEY": "open-barley"}
    shown = person("endpoints", "list", status=1, **wrong)
    assert "Signed with access key AKIDOPS from AWS_ACCESS_KEY_ID." in shown
    assert "open-barley" not in shown
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[ops]\naws_access_key_id = AKIDOPS\naws_secret_access_key = open-sesame\n"
    )
    assert "There are no" in person("endpoints", "list", "--profile", "ops")
    assert "There are no" in person("endpoints", "list", "--config", str(settings))
    # Scaling is signed for its own service.
    assert "4 to create." in person("apply", "fleet.toml", "--dry-run", status=2, **right)


def test_without_a_server_it_says_what_to_do(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "warmroute", "endpoints", "list", "--endpoint-url", "http://127.0.0.1:9"],
        env=clean_environment(),
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 3
    assert re.match("warmroute: Connection refused: is warmroute serve running at", result.stderr)
