"""Control's HTTP application, called as a server would call it: which request is which."""

import asyncio
import json
import logging
import uuid

import pytest

from warmroute.adapters.control_http import api_app
from warmroute.resources.errors import ApiCode, ApiError

RELAYED = [(b"x-amz-target", b"SageMaker.ListModels"), (b"x-warmroute-request-id", b"req-1")]


class Service:
    """Answers every operation with what a test says."""

    def __init__(self, outcome):
        self.outcome = outcome

    async def call(self, operation, body, *, principal, request_id):
        self.request_id = request_id
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def call(outcome, headers):
    """Return status, headers and document of an answer."""
    sent = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": headers,
        "server": ("control", 80),
        "scheme": "http",
    }

    async def test():
        arrived = [{"type": "http.request", "body": b"{}", "more_body": False}]

        async def receive():
            return arrived.pop() if arrived else await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        async with asyncio.timeout(10):
            await api_app(service)(scope, receive, send)

    service = Service(outcome)
    asyncio.run(test())
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert fields["x-amzn-requestid"] == service.request_id
    return sent[0]["status"], fields, json.loads(sent[1]["body"])


@pytest.mark.parametrize("outcome", [{}, ApiError(ApiCode.VALIDATION, "no")])
def test_a_call_keeps_the_request_id_of_the_router_s_access_log(outcome):
    _, fields, _ = call(outcome, RELAYED)
    assert fields["x-amzn-requestid"] == "req-1"


def test_a_failure_is_logged_and_told_under_the_request_id_of_the_router(caplog):
    with caplog.at_level(logging.ERROR):
        status, fields, document = call(RuntimeError("broken"), RELAYED)
    assert status == 500
    assert fields["x-amzn-requestid"] == "req-1"
    assert document["message"] == "Internal failure, request req-1."
    assert "Request req-1 failed." in caplog.text


@pytest.mark.parametrize("more", [[], [(b"x-warmroute-request-id", b"")]])
def test_a_call_that_came_through_no_router_gets_an_id_of_its_own(more):
    _, fields, _ = call({}, [RELAYED[0], *more])
    assert uuid.UUID(fields["x-amzn-requestid"]).version == 4


def call_with(others, target):
    """Return the answer to an empty request for one target, of an application with further services."""
    sent = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"x-amz-target", target)],
        "server": ("control", 80),
        "scheme": "http",
    }

    async def test():
        arrived = [{"type": "http.request", "body": b"{}", "more_body": False}]

        async def receive():
            return arrived.pop() if arrived else await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        async with asyncio.timeout(10):
            await api_app(Service({"of": "SageMaker"}), others)(scope, receive, send)

    asyncio.run(test())
    return json.loads(sent[1]["body"])


def test_each_service_is_found_by_its_prefix():
    others = {"Other.": Service({"of": "Other"})}
    assert call_with(others, b"Other.Do") == {"of": "Other"}
    assert call_with(others, b"SageMaker.ListModels") == {"of": "SageMaker"}


def test_a_target_of_no_service_is_told_what_is_allowed():
    others = {"Other.": Service({})}
    told = "It must be SageMaker.<Operation> or Other.<Operation>; other services are not supported"
    assert told in call_with(others, b"S3.Put")["message"]
