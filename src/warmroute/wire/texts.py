"""SageMaker's own error texts, which clients match on, and the failures that carry them.

Both dialects send them: the native routes as ``Message``, the OpenAI routes as ``error.message``.

Source: texts reported by users of SageMaker endpoints; the runtime service model for ModelError.
"""

from collections.abc import Iterable
from typing import Final

from warmroute.core.errors import Failure, Problem

CONTAINER: Final = "primary"
"""The container's name in texts; SageMaker calls a model's only container so."""

_DIED: Final = "An error occurred while handling request as the model process exited."


def log_group(endpoint: str, component: str = "") -> str:
    """Return the name of the logs that SageMaker's words point to: an inference component has its own."""
    return (
        f"/aws/sagemaker/InferenceComponents/{component}"
        if component
        else (f"/aws/sagemaker/Endpoints/{endpoint}")
    )


def model_error_message(
    status: int, body: str | None, *, region: str, account: str, endpoint: str, component: str = "",
    container: str = CONTAINER,
) -> str:  # fmt: skip
    """Return the text that quotes a model server's error.

    Args:
        status: Its HTTP status; 0 when it gave none.
        body: What it answered; None when that could not be read.
        region: For the link to the logs.
        account: Twelve digits.
        endpoint: Name of the endpoint.
        component: Of the inference component, or ``""``.
        container: Which server it was: SageMaker has an opaque id there on endpoints of components.

    Returns:
        The message, with the body in quotes as it came.
    """
    side = "client" if 400 <= status < 500 else "server"
    said = " and could not load the entire response body" if body is None else f' with message "{body}"'
    return (
        f"Received {side} error ({status}) from {container}{said}. "
        f"See https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
        f"#logEventViewer:group={log_group(endpoint, component)} "
        f"in account {account} for more information."
    )


def model_error(
    status: int, body: str | None, *, region: str, account: str, endpoint: str, component: str = "",
    container: str = CONTAINER,
) -> Failure:  # fmt: skip
    """Return the failure for a model server that answered with an error; arguments as above."""
    text = model_error_message(
        status, body, region=region, account=account, endpoint=endpoint, component=component,
        container=container,
    )  # fmt: skip
    return Failure(Problem.MODEL_ERROR, text, status, body or "")


def model_timeout(
    *, region: str, account: str, endpoint: str, component: str = "", container: str = CONTAINER
) -> Failure:
    """Return the failure for a model server that did not answer in time, or stopped in its answer."""
    said = (
        f"Your invocation timed out while waiting for a response from container {container}. Review the "
        "latency metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
    )
    text = model_error_message(
        0, said, region=region, account=account, endpoint=endpoint, component=component, container=container
    )
    return Failure(Problem.MODEL_TIMEOUT, text, 0, said)


def model_died(
    *, region: str, account: str, endpoint: str, component: str = "", container: str = CONTAINER
) -> Failure:
    """Return the failure for a model server whose connection broke after it may have begun to work."""
    text = model_error_message(
        0, _DIED, region=region, account=account, endpoint=endpoint, component=component, container=container
    )
    return Failure(Problem.MODEL_DIED, text, 0, _DIED)


def endpoint_not_found(endpoint: str, account: str) -> Failure:
    """Return the failure for an endpoint that does not exist (400 on both dialects, as SageMaker has it)."""
    return Failure(Problem.BAD_REQUEST, f"Endpoint {endpoint} of account {account} not found.")


def component_without_capacity() -> Failure:
    """Return the failure for an inference component without a copy that could serve."""
    return Failure(
        Problem.NO_COPY,
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


def component_not_found(component: str, account: str, *, endpoint: str, elsewhere: Iterable[str]) -> Failure:
    """Return the failure for an inference component that the endpoint does not have.

    Args:
        component: As the caller named it.
        account: Twelve digits.
        endpoint: That was called.
        elsewhere: Endpoints that have one of this name: names are unique, so one at most.

    Choice: the words, by analogy with those for an endpoint; SageMaker's own are not published.
    """
    what = "not found"
    for other in elsewhere:
        what = f"is not on endpoint {endpoint}, but on {other}"
    return Failure(Problem.BAD_REQUEST, f"Inference Component {component} of account {account} {what}.")


def component_not_on_variant(component: str, variant: str, others: Iterable[str]) -> Failure:
    """Return the failure for an inference component that the variant named by TargetVariant does not have.

    Args:
        component: As the caller named it.
        variant: TargetVariant.
        others: Variants of the endpoint that have it.
    """
    told = ", ".join(others)
    text = f"Inference Component {component} is not on variant {variant}; it is on: {told}."
    return Failure(Problem.BAD_REQUEST, text)


def component_header_not_allowed() -> Failure:
    """Return the failure for the header on the OpenAI route, which SageMaker refuses whatever its value.

    Choice: the words; SageMaker's own are not published.
    """
    return Failure(
        Problem.BAD_REQUEST,
        "Inference Component Name header is not allowed on the OpenAI route. Name the inference component in "
        "the path: /endpoints/NAME/inference-components/COMPONENT/openai/v1/chat/completions.",
    )


def adapter_not_ready(adapter: str, component: str, why: str) -> Failure:
    """Return the failure for a LoRA adapter that no copy of its base component has loaded.

    Args:
        adapter: Name of its inference component.
        component: Its base component.
        why: What kept it from being loaded.
    """
    text = f"Adapter {adapter} is not loaded on any copy of inference component {component}: {why}."
    return Failure(Problem.ADAPTER_NOT_READY, text)
