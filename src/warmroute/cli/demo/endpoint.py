"""What the demo asks of SageMaker's control API, with stock boto3 and its stock waiters."""

import time
from collections.abc import Callable
from typing import Any

from warmroute.adapters.images import LLAMA_CPP
from warmroute.cli.demo.server import DemoError
from warmroute.core.fleet import RoutingStrategy

INSTANCE_TYPE = "ml.local"
VARIANT = "AllTraffic"
PREFIX_LENGTH = 2048
CONCURRENCY_THRESHOLD = 8
CONTROL_S_MAX = 30.0
_POLL_S = 0.1
_ROLE = "arn:aws:iam::000000000000:role/demo"


class Clients:
    """boto3 clients of one warmroute."""

    def __init__(self, url: str) -> None:
        """Make them.

        Args:
            url: Base URL of the public listener, which serves both APIs.
        """
        import boto3
        from botocore.config import Config

        session = boto3.session.Session(
            aws_access_key_id="demo",
            aws_secret_access_key="demo",  # noqa: S106  (this warmroute asks for no credentials)
            region_name="us-east-1",
        )
        self.control = session.client("sagemaker", endpoint_url=url)
        # One attempt: a failure must be seen, not repaired.
        config = Config(retries={"total_max_attempts": 1}, max_pool_connections=64)
        self.runtime = session.client("sagemaker-runtime", endpoint_url=url, config=config)
        self.runtime.meta.events.register("before-call.sagemaker-runtime", _ask_for_a_receipt)


def _ask_for_a_receipt(params: dict[str, Any], **_: Any) -> None:
    params["headers"]["x-warmroute-explain"] = "1"


def wait_for_control(clients: Clients, check: Callable[[], None]) -> None:
    """Return when the control API answers, which is a moment after the listener does.

    Args:
        clients: Where.
        check: Called between tries; what it raises ends the waiting.

    Raises:
        ClientError: It still does not answer after ``CONTROL_S_MAX``.
    """
    from botocore.exceptions import ClientError

    end = time.monotonic() + CONTROL_S_MAX
    while True:
        check()
        try:
            clients.control.list_endpoints()
        except ClientError:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
        else:
            return


def create_model(clients: Clients, name: str, environment: dict[str, str]) -> None:
    """Create a model on the built-in llama.cpp image.

    Args:
        clients: Where.
        name: Of the model.
        environment: Sets the server up.
    """
    clients.control.create_model(
        ModelName=name,
        ExecutionRoleArn=_ROLE,
        PrimaryContainer={"Image": LLAMA_CPP, "Environment": environment},
    )


def create_config(
    clients: Clients, name: str, *, model: str, instances: int, strategy: RoutingStrategy
) -> None:
    """Create an endpoint config of one variant.

    Args:
        clients: Where.
        name: Of the config.
        model: Of its variant.
        instances: InitialInstanceCount.
        strategy: RoutingStrategy; PREFIX_AWARE gets its two parameters.
    """
    routing: dict[str, Any] = {"RoutingStrategy": strategy.value}
    if strategy is RoutingStrategy.PREFIX_AWARE:
        routing["PrefixAwareRoutingConfig"] = {
            "PrefixLength": PREFIX_LENGTH,
            "ConcurrencyThreshold": CONCURRENCY_THRESHOLD,
        }
    clients.control.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[
            {
                "VariantName": VARIANT,
                "ModelName": model,
                "InstanceType": INSTANCE_TYPE,
                "InitialInstanceCount": instances,
                "InitialVariantWeight": 1.0,
                "RoutingConfig": routing,
            }
        ],
    )


def create_endpoint(clients: Clients, name: str, *, config: str) -> None:
    """Create an endpoint and wait until it serves.

    Raises:
        DemoError: It failed; the text gives the reason.
    """
    clients.control.create_endpoint(EndpointName=name, EndpointConfigName=config)
    _wait(clients, name)


def update_endpoint(clients: Clients, name: str, *, config: str) -> None:
    """Give an endpoint another config and wait until every router works by it.

    Raises:
        DemoError: It failed; the text gives the reason.
    """
    clients.control.update_endpoint(EndpointName=name, EndpointConfigName=config)
    _wait(clients, name)


def _wait(clients: Clients, name: str) -> None:
    from botocore.exceptions import WaiterError

    try:
        clients.control.get_waiter("endpoint_in_service").wait(EndpointName=name)
    except WaiterError as error:
        answer = error.last_response
        reason = answer.get("FailureReason") or answer.get("Error", {}).get("Message") or str(error)
        raise DemoError(
            f"Endpoint {name} is {answer.get('EndpointStatus', 'not there')}: {reason}"
        ) from error
