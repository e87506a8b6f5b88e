import asyncio
import logging

import pytest

from warmroute.controlplane.calls import UNAVAILABLE, Api, Calls
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.resources.coverage.rows import COVERAGE
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.operations import OPERATIONS


class Bench:
    """An API whose valid requests are answered with themselves, or with an error."""

    def __init__(self, schema):
        async def get_schema():
            return schema

        self.error = None
        self.calls = Calls({})
        self.api = Api(
            owner="SageMaker's",
            operations=OPERATIONS,
            coverage=COVERAGE,
            schema=get_schema,
            subject=lambda request: f" {request['ModelName']}" if "ModelName" in request else "",
            calls=self.calls,
            log=logging.getLogger("test"),
        )

    async def serve(self, operation, request):
        if self.error is not None:
            raise self.error
        return {operation: request}

    def call(self, operation, body=b"", *, principal="", request_id=""):
        return asyncio.run(
            self.api.call(operation, body, self.serve, principal=principal, request_id=request_id)
        )

    def refused(self, operation, body=b""):
        with pytest.raises(ApiError) as refused:
            self.call(operation, body)
        return refused.value


@pytest.fixture
def bench(schema, caplog):
    caplog.set_level(logging.INFO)
    return Bench(schema)


def test_a_valid_request_is_served_counted_and_logged_with_its_caller(bench, caplog):
    answer = bench.call("DeleteModel", b'{"ModelName": "m"}', principal="ops", request_id="r-1")
    assert answer == {"DeleteModel": {"ModelName": "m"}}
    assert bench.calls.by_result == {("DeleteModel", ""): 1}
    assert caplog.messages == ["DeleteModel m by ops (request r-1)"]


def test_an_empty_body_is_an_empty_request_and_what_only_reads_is_not_logged(bench, caplog):
    assert bench.call("ListModels") == {"ListModels": {}}
    assert caplog.messages == []


def test_a_body_that_is_no_json_is_refused(bench):
    assert bench.refused("ListModels", b"{").code is ApiCode.SERIALIZATION


@pytest.mark.parametrize(
    ("operation", "text"),
    [("CreateAlgorithm", "is not supported by warmroute"), ("Fly", "'Fly' is not one of SageMaker's")],
)
def test_other_operations_are_refused_and_counted_together(bench, operation, text):
    error = bench.refused(operation)
    assert error.code is ApiCode.UNKNOWN_OPERATION
    assert text in str(error)
    assert "CreateModel" in str(error)
    assert bench.calls.by_result == {("other", ApiCode.UNKNOWN_OPERATION): 1}


def test_a_store_that_is_away_is_said_to_the_operator_and_named_to_no_caller(bench, caplog):
    bench.error = StoreUnavailable("db.internal refused")
    error = bench.refused("DeleteModel", b'{"ModelName": "m"}')
    assert (error.code, str(error)) == (ApiCode.UNAVAILABLE, UNAVAILABLE)
    assert caplog.messages[0] == "DeleteModel m by anybody: db.internal refused"
    assert "db.internal" not in caplog.messages[1]
    assert bench.calls.by_result == {("DeleteModel", ApiCode.UNAVAILABLE): 1}
