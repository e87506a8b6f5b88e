import json

import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.errors import Failure, Problem
from warmroute.wire import awsjson


def as_botocore_reads(status, fields, body):
    headers = {name.decode().lower(): value.decode() for name, value in fields}
    return create_parser("json").parse({"status_code": status, "headers": headers, "body": body}, None)[
        "Error"
    ]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"SageMaker.CreateEndpoint", ("sagemaker", "CreateEndpoint")),
        (b"AnyScaleFrontendService.PutScalingPolicy", ("application-autoscaling", "PutScalingPolicy")),
        (b"SageMaker.NoSuchThing", ("sagemaker", "NoSuchThing")),
    ],
)
def test_the_target_names_service_and_operation(target, expected):
    assert awsjson.operation(target) == expected


@pytest.mark.parametrize(
    "target",
    [
        None,
        b"",
        b"SageMaker",
        b"SageMaker.",
        b"sagemaker.ListModels",
        b"S3.List",
        b"SageMaker.a.b",
        b"SageMaker.\xe9",
        b"SageMaker.a b",
    ],
)
def test_another_target_is_an_unknown_operation(target):
    failure = awsjson.operation(target)
    assert isinstance(failure, Failure)
    assert failure.problem is Problem.NOT_FOUND
    assert "SageMaker.OPERATION and AnyScaleFrontendService.OPERATION" in failure.message
    assert ("no X-Amz-Target" in failure.message) == (target is None)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_operation_or_the_one_failure(target):
    result = awsjson.operation(target)
    assert isinstance(result, Failure | tuple)


def test_an_error_is_read_by_botocore():
    status, fields, body = awsjson.error("ValidationException", 'Could not find endpoint "é".')
    assert status == 400
    assert dict(fields)[b"Content-Type"] == b"application/x-amz-json-1.1"
    assert as_botocore_reads(status, fields, body) == {
        "Code": "ValidationException",
        "Message": 'Could not find endpoint "é".',
    }
    assert json.loads(body)["__type"] == "ValidationException"


@pytest.mark.parametrize(
    ("problem", "status", "code"),
    [
        (Problem.UNAUTHENTICATED, 403, "UnrecognizedClientException"),
        (Problem.INVALID_SIGNATURE, 403, "InvalidSignatureException"),
        (Problem.BAD_REQUEST, 400, "ValidationException"),
        (Problem.CONTROL_UNAVAILABLE, 503, "ServiceUnavailable"),
    ],
)
def test_a_failure_before_the_control_plane_has_its_rows_code_and_status(problem, status, code):
    given_status, fields, body = awsjson.failure(Failure(problem, "m"))
    assert given_status == status
    assert as_botocore_reads(given_status, fields, body)["Code"] == code


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"AnyScaleFrontendService.PutScalingPolicy", True),
        (b"SageMaker.CreateEndpoint", False),
        (b"AnyScaleFrontendService", False),
        (None, False),
    ],
)
def test_calls_of_application_auto_scaling_are_told_by_their_target(target, expected):
    assert awsjson.scales(target) is expected
