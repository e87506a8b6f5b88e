"""The native routes' headers, written as botocore writes them, against its ``sagemaker-runtime`` model."""

import re

import pytest
from botocore.serialize import create_serializer

from tests.conformance.samples import matching, text
from tests.service_models import load_service_model
from warmroute.core.errors import Failure, Problem
from warmroute.resources.patterns import translate
from warmroute.wire import invocation

SERVICE = "sagemaker-runtime"
OPERATIONS = {"InvokeEndpoint": False, "InvokeEndpointWithResponseStream": True}
"""Those that are served, and whether they stream."""
ATTRIBUTES = {"InferenceComponentName": "inference_component"}
"""Members whose attribute of the parsed request has another name than they."""
MODEL = load_service_model(SERVICE)
HEADERS = [
    (operation, member)
    for operation in OPERATIONS
    for member, shape in MODEL.operation_model(operation).input_shape.members.items()
    if shape.serialization.get("location") == "header"
]


def shape_of(operation, member):
    return MODEL.operation_model(operation).input_shape.members[member]


def written(operation, **members):
    """Return the headers that botocore writes for these members, as a server gets them."""
    parameters = {"EndpointName": "ep", "Body": b"{}"} | members
    serializer = create_serializer("rest-json", include_validation=False)
    request = serializer.serialize_to_request(parameters, MODEL.operation_model(operation))
    return {name.lower().encode(): value.encode() for name, value in request["headers"].items()}


def read(operation, **members):
    return invocation.read(written(operation, **members), OPERATIONS[operation])


def attribute_of(member):
    return ATTRIBUTES.get(member) or re.sub(r"(?<!^)(?=[A-Z])", "_", member).lower()


def refused(operation, member, value):
    failure = read(operation, **{member: value})
    assert isinstance(failure, Failure), f"{member} {value!r} was accepted"
    assert failure.problem is Problem.BAD_REQUEST
    assert (failure.row.native_code, failure.row.status) == ("ValidationError", 400)
    assert f"at '{member[:1].lower()}{member[1:]}' failed to satisfy constraint" in failure.message
    return failure.message


@pytest.mark.parametrize(("operation", "member"), HEADERS)
def test_every_header_is_read_at_both_its_bounds_and_goes_on(operation, member):
    shape = shape_of(operation, member)
    pattern = shape.metadata["pattern"]
    for length in (shape.metadata.get("min", 1) or 1, shape.metadata["max"]):
        value = matching(pattern, length)
        request = read(operation, **{member: value})
        assert not isinstance(request, Failure), request
        assert getattr(request, attribute_of(member)) == value
        assert value.encode() in [sent for _, sent in request.upstream]


@pytest.mark.parametrize(("operation", "member"), HEADERS)
def test_every_header_has_a_greatest_length(operation, member):
    most = shape_of(operation, member).metadata["max"]
    message = refused(operation, member, "x" * (most + 1))
    assert f"Member must have length less than or equal to {most}" in message


@pytest.mark.parametrize(
    ("operation", "member"), [one for one in HEADERS if shape_of(*one).metadata.get("min")]
)
def test_headers_with_a_least_length_are_not_empty(operation, member):
    assert "Member must have length greater than or equal to 1" in refused(operation, member, "")


@pytest.mark.parametrize(("operation", "member"), HEADERS)
def test_every_header_has_its_pattern(operation, member):
    pattern = shape_of(operation, member).metadata["pattern"]
    compiled = re.compile(translate(pattern), re.ASCII)
    good = text(shape_of(operation, member))
    tried = [
        value for value in (f"{good} !", "-x", "x-", " x", "é", "x\ty", "~") if not compiled.fullmatch(value)
    ]
    for value in tried:
        message = refused(operation, member, value)
        assert f"Member must satisfy regular expression pattern: {pattern}" in message
    assert tried or pattern == ".*"


def test_members_of_the_other_operation_are_ignored_on_streams():
    both = set(MODEL.operation_model("InvokeEndpoint").input_shape.members)
    streams = set(MODEL.operation_model("InvokeEndpointWithResponseStream").input_shape.members)
    assert both - streams == {"TargetModel", "EnableExplanations"}
    headers = written("InvokeEndpoint", TargetModel="m", EnableExplanations="e", InferenceId="i")
    request = invocation.read(headers, True)
    assert (request.target_model, request.enable_explanations, request.inference_id) == (None, None, "i")


def test_new_session_is_for_invoke_endpoint_only():
    assert read("InvokeEndpoint", SessionId="NEW_SESSION").session_id == "NEW_SESSION"
    refused("InvokeEndpointWithResponseStream", "SessionId", "NEW_SESSION")


def test_credentials_and_unknown_headers_do_not_go_on():
    headers = written("InvokeEndpoint", InferenceId="i") | {b"authorization": b"AWS4 x", b"x-secret": b"s"}
    names = {name for name, _ in invocation.read(headers, False).upstream}
    assert names == {b"X-Amzn-SageMaker-Inference-Id", b"X-Amzn-SageMaker-Forwarded-Api"}
