"""What the operations of Application Auto Scaling share."""

import base64
import json

import pytest

from tests.unit.resources.scaling_api import COMPONENT, VARIANT, ScalingApi
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.scaling.records import ScalingPolicyRecord
from warmroute.resources.scaling.requests import chosen, page, scalable_of, target_of, told

NAMESPACE = {"ServiceNamespace": "sagemaker"}


def record(resource_id, name, created_s=1.0, dimension="d"):
    return ScalingPolicyRecord(resource_id, dimension, created_s, name, "id")


RECORDS = [record("b", "1", 3.0), record("a", "2", 1.0), record("a", "1", 2.0)]


@pytest.mark.parametrize("request_", [VARIANT, COMPONENT])
def test_what_can_be_scaled_is_found(request_):
    assert scalable_of(request_).resource_id == request_["ResourceId"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"ServiceNamespace": "ecs"}, "ServiceNamespace ecs is not supported by warmroute"),
        ({"ResourceId": "service/a"}, 'got ResourceId "service/a"'),
        ({"ScalableDimension": "ecs:service:DesiredCount"}, "with ScalableDimension ecs:service"),
    ],
)
def test_what_cannot_be_scaled_is_refused(changes, part):
    with pytest.raises(ApiError, match=part):
        scalable_of(VARIANT | changes)


def test_a_target_is_found_or_told_to_be_missing():
    api = ScalingApi()
    with api.store.transaction() as tables, pytest.raises(ApiError) as caught:
        target_of(VARIANT, tables)
    assert caught.value.code is ApiCode.OBJECT_NOT_FOUND
    assert caught.value.message == f"No scalable target registered for {told(VARIANT)}"
    api.register()
    with api.store.transaction() as tables:
        found = target_of(VARIANT, tables)
    assert found == api.target()


def test_messages_name_the_resource_as_the_service_does():
    assert told(COMPONENT) == (
        "service namespace: sagemaker, resource ID: inference-component/chat, "
        "scalable dimension: sagemaker:inference-component:DesiredCopyCount"
    )


# --- Pages -----------------------------------------------------------------------------------


def names(records):
    return [f"{one.resource_id}{one.name}" for one in records]


def walk(size, **more):
    request, found = NAMESPACE | {"MaxResults": size}, []
    while True:
        shown, token = page("Op", request, RECORDS, **more)
        found.append(names(shown))
        if not token:
            return found
        request |= token


def test_pages_are_in_order_of_resource_and_name():
    assert walk(2) == [["a1", "a2"], ["b1"]]
    assert walk(3) == [["a1", "a2", "b1"]]


def test_or_newest_first():
    assert walk(1, newest_first=True) == [["b1"], ["a1"], ["a2"]]


@pytest.mark.parametrize("size", [0, 51])
def test_a_page_has_from_1_to_50_records(size):
    with pytest.raises(ApiError, match="From 1 to 50"):
        page("Op", NAMESPACE | {"MaxResults": size}, RECORDS)
    assert len(page("Op", NAMESPACE | {"MaxResults": 50}, RECORDS)[0]) == 3


def token_of(operation="Op", **changes):
    request = NAMESPACE | {"MaxResults": 1} | changes
    return page(operation, request, RECORDS)[1]["NextToken"]


def spelled(*parts):
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "é",
        "nonsense",
        spelled("x", "a", "1"),
        token_of("Other"),
        token_of(PolicyNames=["1"]),
        base64.urlsafe_b64encode(b"{}").decode(),
        spelled(json.loads(base64.urlsafe_b64decode(token_of()))[0], "a", 1),
        spelled(json.loads(base64.urlsafe_b64decode(token_of()))[0], "a"),
    ],
)
def test_a_token_of_something_else_is_refused(token):
    with pytest.raises(ApiError) as caught:
        page("Op", NAMESPACE | {"NextToken": token}, RECORDS)
    assert caught.value.code is ApiCode.BAD_PAGE


# --- Filters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, ["b1", "a2", "a1"]),
        ({"ResourceId": "a"}, ["a2", "a1"]),
        ({"ResourceIds": ["b"]}, ["b1"]),
        ({"PolicyNames": ["1"]}, ["b1", "a1"]),
        ({"PolicyNames": []}, ["b1", "a2", "a1"]),
        ({"ResourceId": "a", "ScalableDimension": "d"}, ["a2", "a1"]),
        ({"ResourceId": "a", "ScalableDimension": "e"}, []),
        ({"ServiceNamespace": "ecs"}, []),
    ],
)
def test_filters(request_, expected):
    assert names(chosen(NAMESPACE | request_, RECORDS, names="PolicyNames")) == expected


def test_a_dimension_needs_a_resource():
    with pytest.raises(ApiError, match="without a resource"):
        chosen(NAMESPACE | {"ScalableDimension": "d"}, RECORDS)
