"""Control killed with SIGKILL again and again while callers create, update and delete: real processes.

The sequences of ``tests/property/test_crashes.py`` in a few: there every point is reached, here nothing is
pretended.
"""

import contextlib
import os
import random
import signal
import time

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.clients import ONCE, boto3_client
from tests.faults.test_local_instances import local_server, of  # noqa: F401  (a fixture)
from tests.running import alive

pytestmark = pytest.mark.process

ROUNDS = 7
ONE = {"Type": "INSTANCE_COUNT", "Value": 1}
POLICIES = (
    None,
    {"RollingUpdatePolicy": {"MaximumBatchSize": ONE, "WaitIntervalInSeconds": 0}},
    {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "LINEAR",
                "WaitIntervalInSeconds": 0,
                "LinearStepSize": ONE,
            }
        }
    },
)


@pytest.fixture
def sagemaker():
    """Return a function that makes a client of a server."""
    clients = []

    def make(server):
        client = boto3_client("sagemaker", server.url, retries=ONCE, read_timeout=30)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


def attempt(call):
    """Call; a refusal, and no control process to answer, are both fine."""
    with contextlib.suppress(ClientError, BotoCoreError):
        call()


def kill_control(server):
    with contextlib.suppress(LookupError, ProcessLookupError):
        pid = server.child("control")
        os.kill(pid, signal.SIGKILL)
        server.wait_until(lambda: not alive(pid), "control would not die")


def prepare(client):
    for name in ("m-1", "m-2"):
        client.create_model(
            ModelName=name, PrimaryContainer={"Image": "stub", "Environment": {"MODEL": name}}
        )
    for name, model, count in (("c-1", "m-1", 1), ("c-2", "m-2", 2), ("c-3", "m-1", 2)):
        variant = {
            "VariantName": "v",
            "ModelName": model,
            "InstanceType": "ml.local",
            "InitialInstanceCount": count,
        }
        client.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])


def random_call(client, choice):
    config = choice.choice(["c-1", "c-2", "c-3"])
    match choice.randrange(6):
        case 0:
            client.create_endpoint(EndpointName="llm", EndpointConfigName=config)
        case 1:
            client.delete_endpoint(EndpointName="llm")
        case 2:
            item = {"VariantName": "v", "DesiredInstanceCount": choice.randint(1, 3)}
            client.update_endpoint_weights_and_capacities(
                EndpointName="llm", DesiredWeightsAndCapacities=[item]
            )
        case _:
            policy = choice.choice(POLICIES)
            more = {} if policy is None else {"DeploymentConfig": policy}
            client.update_endpoint(EndpointName="llm", EndpointConfigName=config, **more)


def status_of(client):
    """Return the endpoint's description; None when it is gone, ``{}`` when nobody answers."""
    try:
        return client.describe_endpoint(EndpointName="llm")
    except ClientError as error:
        return None if "Could not find" in str(error) else {}
    except BotoCoreError:
        return {}


def at_rest(client):
    found = status_of(client)
    return found is None or found.get("EndpointStatus") in ("InService", "Failed", "UpdateRollbackFailed")


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_killed_control_process_left_is_finished_and_nothing_is_left_over(
    local_server, sagemaker, seed  # noqa: F811
):  # fmt: skip
    server = local_server()
    server.wait_for_control()
    client, choice = sagemaker(server), random.Random(seed)
    prepare(client)
    client.create_endpoint(EndpointName="llm", EndpointConfigName="c-1")

    for _ in range(ROUNDS):
        attempt(lambda: random_call(client, choice))
        time.sleep(choice.choice([0.0, 0.02, 0.1, 0.4]))
        if choice.random() < 0.6:
            kill_control(server)
            server.wait_until(lambda: server.get("/healthz", admin=True)[0] == 200, "control never came back")
    server.wait_until(lambda: at_rest(client), f"seed {seed}: the endpoint never came to rest")

    found = status_of(client)
    wanted = 0
    if found is not None and found["EndpointStatus"] == "InService":
        wanted = sum(variant["DesiredInstanceCount"] for variant in found["ProductionVariants"])
    server.wait_until(lambda: len(of(server)) == wanted, f"seed {seed}: {wanted} servers were to run")
    attempt(lambda: client.delete_endpoint(EndpointName="llm"))
    server.wait_until(
        lambda: status_of(client) is None and not of(server), f"seed {seed}: something is left over"
    )
