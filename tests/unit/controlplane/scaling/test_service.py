"""Calls of Application Auto Scaling: what is refused before an operation sees it, and what is told."""

import asyncio
import json
import logging
from contextlib import contextmanager

import pytest

from tests.unit.resources.scaling_api import PLACE, VARIANT, ScalingApi
from warmroute.adapters.service_model import load_scaling_schema
from warmroute.controlplane.calls import Calls
from warmroute.controlplane.ports import StoreConflict, StoreUnavailable
from warmroute.controlplane.scaling.service import ScalingService
from warmroute.resources.errors import ApiCode, ApiError


class Stopped:
    def wall_s(self):
        return 1000.0


class Away:
    """A store that cannot be used."""

    @contextmanager
    def transaction(self):
        raise StoreUnavailable("password=secret")
        yield


class Busy:
    """A store in which another transaction always comes first."""

    @contextmanager
    def transaction(self):
        raise StoreConflict("again")
        yield


@pytest.fixture(scope="module")
def schema():
    return load_scaling_schema()


class Bench:
    def __init__(self, schema, store=None):
        self.api, self.calls, self.changes = ScalingApi(), Calls({}), []

        async def get_schema():
            return schema

        self.service = ScalingService(
            store=store or self.api.store,
            schema=get_schema,
            place=PLACE,
            clock=Stopped(),
            calls=self.calls,
            new_id=lambda: "id",
            on_change=lambda: self.changes.append(1),
        )

    def call(self, operation, body=b"", **who):
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return asyncio.run(self.service.call(operation, sent, **who))

    def refused(self, operation, body=b""):
        with pytest.raises(ApiError) as caught:
            self.call(operation, body)
        return caught.value


@pytest.fixture
def bench(schema):
    return Bench(schema)


def test_a_call_is_counted_logged_and_tells_of_its_change(bench, caplog):
    caplog.set_level(logging.INFO)
    bounds = {"MinCapacity": 1, "MaxCapacity": 2}
    bench.call("RegisterScalableTarget", VARIANT | bounds, principal="me", request_id="r-1")
    bench.call("DescribeScalableTargets", {"ServiceNamespace": "sagemaker"})
    assert caplog.messages == ["RegisterScalableTarget endpoint/llm/variant/a by me (request r-1)"]
    assert bench.changes == [1]
    assert bench.calls.by_result == {
        ("RegisterScalableTarget", ""): 1,
        ("DescribeScalableTargets", ""): 1,
    }


def test_a_refusal_is_counted_by_its_code_and_logged(bench, caplog):
    caplog.set_level(logging.INFO)
    error = bench.refused("DeleteScalingPolicy", VARIANT | {"PolicyName": "p"})
    assert error.code is ApiCode.OBJECT_NOT_FOUND
    assert caplog.messages[0].startswith("DeleteScalingPolicy p of endpoint/llm/variant/a by anybody refused")
    assert bench.calls.by_result == {("DeleteScalingPolicy", "ObjectNotFoundException"): 1}
    assert bench.changes == []


@pytest.mark.parametrize("body", [b"{", b"[", b"\xff"])
def test_a_body_that_is_no_json_cannot_be_read(bench, body):
    assert bench.refused("DescribeScalableTargets", body).code is ApiCode.SERIALIZATION


def test_an_empty_body_lacks_what_is_required(bench):
    error = bench.refused("DescribeScalableTargets")
    assert error.code is ApiCode.VALIDATION
    assert "'serviceNamespace' failed to satisfy constraint: Member must not be null" in error.message


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("GetPredictiveScalingForecast", "GetPredictiveScalingForecast is not supported by warmroute"),
        ("CreateEndpoint", "'CreateEndpoint' is not one of Application Auto Scaling's"),
    ],
)
def test_an_operation_that_is_not_served_is_told_which_are(bench, operation, part):
    error = bench.refused(operation)
    assert error.code is ApiCode.UNKNOWN_OPERATION
    assert part in error.message
    assert "PutScalingPolicy" in error.message


def test_a_change_that_others_always_come_before_is_told_as_the_service_does(schema):
    error = Bench(schema, store=Busy()).refused("DescribeScalableTargets", {"ServiceNamespace": "sagemaker"})
    assert error.code == "ConcurrentUpdateException"


def test_without_the_store_callers_are_told_nothing_of_it(schema):
    error = Bench(schema, store=Away()).refused("DescribeScalableTargets", {"ServiceNamespace": "sagemaker"})
    assert error.code is ApiCode.UNAVAILABLE
    assert "secret" not in error.message
