"""SageMaker's own error texts, which clients match on, and the failures that carry them.

Both dialects send them: the native routes as ``Message``, the OpenAI routes as ``error.message``.

Source: texts reported by users of SageMaker endpoints; the runtime service model for ModelError.
"""

from typing import Final

from warmroute.core.errors import Failure, Problem

CONTAINER: Final = "primary"
"""The container's name in texts; SageMaker calls a model's only container so."""

_TIMED_OUT: Final = (
    f"Your invocation timed out while waiting for a response from container {CONTAINER}. Review the latency "
    "metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)
_DIED: Final = "An error occurred while handling request as the model process exited."


def model_error_message(status: int, body: str | None, *, region: str, account: str, endpoint: str) -> str:
    """Return the text that quotes a model server's error.

    Args:
        status: Its HTTP status; 0 when it gave none.
        body: What it answered; None when that could not be read.
        region: For the link to the logs.
        account: Twelve digits.
        endpoint: Name of the endpoint.

    Returns:
        The message, with the body in quotes as it came.
    """
    side = "client" if 400 <= status < 500 else "server"
    said = " and could not load the entire response body" if body is None else f' with message "{body}"'
    return (
        f"Received {side} error ({status}) from {CONTAINER}{said}. "
        f"See https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
        f"#logEventViewer:group=/aws/sagemaker/Endpoints/{endpoint} "
        f"in account {account} for more information."
    )


def model_error(status: int, body: str | None, *, region: str, account: str, endpoint: str) -> Failure:
    """Return the failure for a model server that answered with an error; arguments as above."""
    text = model_error_message(status, body, region=region, account=account, endpoint=endpoint)
    return Failure(Problem.MODEL_ERROR, text, status, body or "")


def model_timeout(*, region: str, account: str, endpoint: str) -> Failure:
    """Return the failure for a model server that did not answer in time, or stopped in its answer."""
    text = model_error_message(0, _TIMED_OUT, region=region, account=account, endpoint=endpoint)
    return Failure(Problem.MODEL_TIMEOUT, text, 0, _TIMED_OUT)


def model_died(*, region: str, account: str, endpoint: str) -> Failure:
    """Return the failure for a model server whose connection broke after it may have begun to work."""
    text = model_error_message(0, _DIED, region=region, account=account, endpoint=endpoint)
    return Failure(Problem.MODEL_DIED, text, 0, _DIED)


def endpoint_not_found(endpoint: str, account: str) -> Failure:
    """Return the failure for an endpoint that does not exist (400 on both dialects, as SageMaker has it)."""
    return Failure(Problem.BAD_REQUEST, f"Endpoint {endpoint} of account {account} not found.")


def component_without_capacity() -> Failure:
    """Return the failure for an inference component without a copy that could serve."""
    return Failure(
        Problem.BAD_REQUEST,
        "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
        "in-progress (if configured) or try to increase the capacity by invoking "
        "UpdateInferenceComponentRuntimeConfig API.",
    )


def component_required() -> Failure:
    """Return the failure for an endpoint of components when the call names none."""
    return Failure(
        Problem.BAD_REQUEST,
        "Inference Component Name header is required for endpoints to which you plan to deploy inference "
        "components. Please include the Inference Component Name header and try again.",
    )


def component_not_allowed() -> Failure:
    """Return the failure for an endpoint without components when the call names one (misspelt as there)."""
    return Failure(
        Problem.BAD_REQUEST,
        "Inference Component Name header is not allowed for endpoints to which you dont plan to deploy "
        "inference components. Please remove the Inference Component Name header and try again.",
    )
