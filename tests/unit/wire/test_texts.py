import re

import pytest

from warmroute.core.errors import Fault, Problem
from warmroute.wire import texts

WHERE = {"region": "us-east-1", "account": "000000000000", "endpoint": "ep"}
SEE = (
    ". See https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1"
    "#logEventViewer:group=/aws/sagemaker/Endpoints/ep in account 000000000000 for more information."
)


@pytest.mark.parametrize(
    ("status", "side"), [(399, "server"), (400, "client"), (499, "client"), (500, "server"), (0, "server")]
)
def test_a_models_error_is_quoted_whole_with_its_status(status, side):
    message = texts.model_error_message(status, '{"detail":"x"}', **WHERE)
    assert message == f'Received {side} error ({status}) from primary with message "{{"detail":"x"}}"{SEE}'


def test_an_unreadable_body_is_said_to_be_one():
    message = texts.model_error_message(502, None, **WHERE)
    assert (
        message
        == f"Received server error (502) from primary and could not load the entire response body{SEE}"
    )


def test_a_model_error_keeps_what_the_model_said():
    failure = texts.model_error(422, "no", **WHERE)
    assert failure.problem is Problem.MODEL_ERROR
    assert (failure.original_status, failure.original_body) == (422, "no")
    assert failure.message == texts.model_error_message(422, "no", **WHERE)


def test_a_model_error_without_a_body_quotes_none():
    assert texts.model_error(500, None, **WHERE).original_body == ""


def test_a_timeout_has_status_0_and_sagemakers_words():
    failure = texts.model_timeout(**WHERE)
    assert failure.problem is Problem.MODEL_TIMEOUT
    assert failure.original_status == 0
    assert failure.message == (
        'Received server error (0) from primary with message "Your invocation timed out while waiting for a '
        "response from container primary. Review the latency metrics for each container in Amazon "
        "CloudWatch, "
        f'resolve the issue, and try again."{SEE}'
    )


def test_a_death_has_status_0_and_sagemakers_words():
    failure = texts.model_died(**WHERE)
    assert failure.problem is Problem.MODEL_DIED
    assert failure.original_body == "An error occurred while handling request as the model process exited."
    assert f'error (0) from primary with message "{failure.original_body}"' in failure.message


@pytest.mark.parametrize(
    ("failure", "pattern"),
    [
        (texts.endpoint_not_found("ep", "123456789012"), r"Endpoint ep of account 123456789012 not found\."),
        (
            texts.component_not_found("c", "123456789012", endpoint="ep", elsewhere=()),
            r"Inference Component c of account 123456789012 not found\.",
        ),
        (
            texts.component_not_found("c", "123456789012", endpoint="ep", elsewhere=("other",)),
            r"Inference Component c of account 123456789012 is not on endpoint ep, but on other\.",
        ),
        (
            texts.component_not_on_variant("c", "v", ("w", "x")),
            r"Inference Component c is not on variant v; it is on: w, x\.",
        ),
        (
            texts.component_header_not_allowed(),
            r"Inference Component Name header is not allowed on the OpenAI route\. .*",
        ),
        (
            texts.component_required(),
            r"Inference Component Name header is required for endpoints to which you plan .*",
        ),
        (texts.component_not_allowed(), r"Inference Component Name header is not allowed .* dont plan .*"),
    ],
)
def test_what_the_caller_did_wrong_is_a_bad_request_in_sagemakers_words(failure, pattern):
    assert re.fullmatch(pattern, failure.message)
    assert failure.row.fault is Fault.CALLER
    assert failure.row.status == failure.row.openai_status == 400


def test_a_component_without_a_copy_is_told_at_once_with_sagemakers_status_which_nobody_sends_again():
    failure = texts.component_without_capacity()
    assert failure.message == (
        "Inference Component has no capacity to process this request. ApplicationAutoScaling may be "
        "in-progress (if configured) or try to increase the capacity by invoking "
        "UpdateInferenceComponentRuntimeConfig API."
    )
    row = failure.row
    assert (row.status, row.native_code, row.openai_status) == (400, "ValidationError", 400)
    assert (row.openai_type, row.openai_code) == ("invalid_request_error", "validation_error")


def test_an_adapter_that_is_not_there_in_time_is_told_with_the_reason():
    failure = texts.adapter_not_ready("lora", "base", "the disk is full")
    assert failure.message == (
        "Adapter lora is not loaded on any copy of inference component base: the disk is full."
    )
    assert (failure.row.status, failure.row.native_code) == (429, "ModelNotReadyException")


def test_a_components_errors_name_its_own_logs_and_container():
    at = {"region": "r", "account": "1", "endpoint": "e", "component": "c", "container": "copy-1"}
    told = [
        texts.model_error(500, "no", **at), texts.model_timeout(**at), texts.model_died(**at),
    ]  # fmt: skip
    for failure in told:
        assert "group=/aws/sagemaker/InferenceComponents/c in account 1" in failure.message
        assert "from copy-1 with message" in failure.message
    assert "response from container copy-1." in told[1].message
    assert texts.log_group("e") == "/aws/sagemaker/Endpoints/e"
