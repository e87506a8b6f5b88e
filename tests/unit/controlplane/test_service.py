import asyncio
import json
import logging
from contextlib import contextmanager

import pytest

from tests.unit.controlplane.test_transactions import Contested
from warmroute.adapters.store.memory import MemoryStore
from warmroute.controlplane.ports import StoreConflict, StoreUnavailable
from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.lifecycle import EndpointStatus


async def refused(call):
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


def test_an_empty_body_is_an_empty_request(plane):
    async def test(p):
        assert await p.service.call("ListModels", b"") == {"Models": []}
        assert await p.service.call("ListModels", b" \n") == {"Models": []}

    plane(test)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b"\xff",
        b'{"a": NaN}',
        b"[" * 100_000,
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b"{}{}",
    ],
)
def test_a_body_that_is_no_json_is_a_serialization_error(plane, body):
    async def test(p):
        error = await refused(p.service.call("ListModels", body))
        assert error.code is ApiCode.SERIALIZATION
        assert "not JSON" in error.message

    plane(test)


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ("CreateTrainingJob", "Operation CreateTrainingJob is not supported by warmroute."),
        ("Nonsense", "Operation 'Nonsense' is not one of SageMaker's."),
    ],
)
def test_operations_that_are_not_served_are_named(plane, operation, text):
    async def test(p):
        error = await refused(p.service.call(operation, b"{}"))
        assert error.code is ApiCode.UNKNOWN_OPERATION
        assert text in error.message
        assert "DescribeEndpoint" in error.message

    plane(test)


def test_the_log_names_caller_and_call_of_changes_and_refusals(plane, caplog):
    async def test(p):
        model = b'{"ModelName": "m", "PrimaryContainer": {}}'
        await p.service.call("CreateModel", model, principal="ann", request_id="req-1")
        await refused(p.service.call("CreateModel", model, request_id="req-2"))

    with caplog.at_level(logging.INFO, logger="warmroute.controlplane.service"):
        plane(test)
    first, second = caplog.messages
    assert first == "CreateModel m by ann (request req-1)"
    assert second.startswith("CreateModel m by anybody (request req-2) refused: ")


def test_calls_are_counted_by_operation_and_code_and_unknown_names_together(plane):
    async def test(p):
        await p.service.call("ListModels", b"{}")
        await refused(p.service.call("DescribeModel", b"{}"))
        for name in ("A", "B"):
            await refused(p.service.call(name, b"{}"))
        assert p.service.calls.by_result == {
            ("ListModels", ""): 1,
            ("DescribeModel", "ValidationException"): 1,
            ("other", "UnknownOperationException"): 2,
        }

    plane(test)


@pytest.mark.parametrize(
    ("operation", "request_", "line"),
    [
        ("CreateModel", {"ModelName": "m2", "PrimaryContainer": {}}, "CreateModel m2 by ops"),
        (
            "UpdateEndpoint",
            {"EndpointName": "ep", "EndpointConfigName": "c"},
            "UpdateEndpoint ep (config c) by ops",
        ),
        ("DeleteEndpoint", {"EndpointName": "ep"}, "DeleteEndpoint ep by ops"),
        ("DeleteEndpointConfig", {"EndpointConfigName": "c2"}, "DeleteEndpointConfig c2 by ops"),
        (
            "AddTags",
            {
                "ResourceArn": "arn:aws:sagemaker:eu-west-1:123456789012:model/m",
                "Tags": [{"Key": "a", "Value": "b"}],
            },
            "AddTags arn:aws:sagemaker:eu-west-1:123456789012:model/m by ops",
        ),
    ],
)
def test_the_log_says_who_changed_what(plane, caplog, operation, request_, line):
    async def test(p):
        await p.create()
        await p.settle()
        await p.config("c2")
        with caplog.at_level(logging.INFO):
            await p.service.call(operation, json.dumps(request_).encode(), principal="ops")

    plane(test)
    assert line in caplog.messages


def test_the_log_says_what_a_refused_call_was_about_only_when_it_was_well_formed(plane, caplog):
    async def test(p):
        with caplog.at_level(logging.INFO):
            await refused(p.service.call("DeleteEndpoint", b'{"EndpointName": "none"}'))
            await refused(p.service.call("DeleteEndpoint", b'{"EndpointName": "a\\nb"}', principal="ops"))

    plane(test)
    assert caplog.messages[0].startswith("DeleteEndpoint none by anybody refused: Could not find")
    assert caplog.messages[1].startswith("DeleteEndpoint by ops refused: ")
    assert "\n" not in caplog.messages[1]


def test_the_log_has_no_values_of_a_refused_request_and_its_caller_has(plane, caplog):
    container = {"Image": "img", "Environment": {"HF_TOKEN": "a-secret", "A=B": "c"}}
    body = json.dumps({"ModelName": "m", "PrimaryContainer": container}).encode()

    async def test(p):
        with caplog.at_level(logging.INFO), pytest.raises(ApiError, match="a-secret"):
            await p.service.call("CreateModel", body)

    plane(test)
    (line,) = caplog.messages
    assert "Value at 'primaryContainer.environment' failed to satisfy constraint: Map keys must" in line
    assert "a-secret" not in line


def test_questions_are_not_logged(plane, caplog):
    async def test(p):
        with caplog.at_level(logging.INFO):
            await p.service.call("ListModels", b"{}")

    plane(test)
    assert caplog.messages == []


def test_a_refused_call_changes_nothing(plane):
    async def test(p):
        await p.create()
        before = p.endpoint()
        await refused(p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"}))
        assert p.endpoint() == before

    plane(test)


def test_an_update_of_weights_is_answered_when_it_is_in_force(plane):
    async def test(p):
        await p.create()
        await p.settle()
        running = asyncio.ensure_future(p.reconciler.run())
        item = {"VariantName": "v", "DesiredWeight": 0.5}
        request = {"EndpointName": "ep", "DesiredWeightsAndCapacities": [item]}
        await p.service.invoke("UpdateEndpointWeightsAndCapacities", request)
        assert p.endpoint().status is EndpointStatus.IN_SERVICE
        assert p.routers.fleets[-1].endpoints[0].variants[0].weight == 0.5
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    plane(test)


def test_an_update_that_takes_longer_is_answered_while_it_runs(plane, monkeypatch):
    monkeypatch.setattr(limits, "APPLY_S", 0.0)

    async def test(p):
        await p.create()
        await p.settle()
        await p.config("c2", count=3)
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c2"})
        assert p.endpoint().status is EndpointStatus.UPDATING

    plane(test)


# --- Holding DescribeEndpoint --------------------------------------------------------------------


def holding(p, hold_s):
    p.service._describe_hold_s = hold_s
    return asyncio.ensure_future(p.service.invoke("DescribeEndpoint", {"EndpointName": "ep"}))


def test_describe_waits_for_an_endpoint_that_is_changing(plane):
    async def test(p):
        await p.create()
        asking = holding(p, 20.0)
        await asyncio.sleep(0)
        assert not asking.done()
        await p.settle()
        assert (await asking)["EndpointStatus"] == "InService"

    plane(test)


def test_describe_answers_at_once_when_nothing_changes(plane):
    async def test(p):
        await p.create()
        await p.settle()
        async with asyncio.timeout(5):
            assert (await holding(p, 20.0))["EndpointStatus"] == "InService"

    plane(test)


def test_describe_does_not_wait_longer_than_said(plane):
    async def test(p):
        await p.create()
        assert (await holding(p, 0.01))["EndpointStatus"] == "Creating"
        assert p.service._held == 0

    plane(test)


def test_describe_of_an_endpoint_being_deleted_ends_with_not_found(plane):
    async def test(p):
        await p.create()
        await p.settle()
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        asking = holding(p, 20.0)
        await asyncio.sleep(0)
        await p.settle()
        assert "Could not find endpoint" in (await refused(asking)).message

    plane(test)


def test_the_number_of_held_calls_is_bounded(plane, monkeypatch):
    monkeypatch.setattr(limits, "DESCRIBE_HOLDS_MAX", 1)

    async def test(p):
        await p.create()
        first = holding(p, 20.0)
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert (await holding(p, 20.0))["EndpointStatus"] == "Creating"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert p.service._held == 0

    plane(test)


def test_held_calls_are_answered_when_the_process_ends(plane):
    async def test(p):
        await p.create()
        asking = holding(p, 20.0)
        await asyncio.sleep(0)
        p.service.close()
        async with asyncio.timeout(5):
            assert (await asking)["EndpointStatus"] == "Creating"

    plane(test)


def test_a_store_that_cannot_be_used_is_a_503_that_tells_callers_nothing_of_the_database(plane, caplog):
    class Gone(MemoryStore):
        @contextmanager
        def transaction(self):
            raise StoreUnavailable("db.internal refused")
            yield

    async def test(p):
        p.restart(store=Gone())
        for operation, request in (("ListModels", {}), ("DeleteModel", {"ModelName": "m"})):
            error = await refused(p.service.invoke(operation, request))
            assert (error.code, error.status) == (ApiCode.UNAVAILABLE, 503)
            assert "db.internal" not in error.message
        assert "DeleteModel m by warmroute itself: db.internal refused" in caplog.messages
        assert p.service.calls.by_result["ListModels", "ServiceUnavailable"] == 1

    plane(test)


def test_an_operation_that_another_transaction_came_between_is_run_again(plane):
    async def test(p):
        store = Contested(StoreConflict("came between"))
        p.restart(store=store)
        await p.service.invoke("CreateModel", {"ModelName": "m", "PrimaryContainer": {"Image": "img"}})
        listed = await p.service.invoke("ListModels", {})
        assert [model["ModelName"] for model in listed["Models"]] == ["m"]
        assert store.errors == []

    plane(test)
