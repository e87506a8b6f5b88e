import json
from dataclasses import replace

import pytest

from tests.unit.dataplane.conftest import Bench, target
from warmroute.core.decision import RoutingRequest
from warmroute.core.fleet import NativeMapping
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.sending import is_mapped, message_for, path_of
from warmroute.dataplane.telling import Place

CHAT = b'{"messages": []}'
INVOCATIONS, OPENAI, AUTO = NativeMapping.INVOCATIONS, NativeMapping.OPENAI, NativeMapping.AUTO


class Dialect:
    def upstream_fields(self, target):
        return [(b"x-from", b"caller")]


def plan(body=CHAT, adapter="", **more):
    request = RoutingRequest(component="c" if adapter else "", adapter=adapter)
    place = Place("eu-west-1", "123456789012", "llm")
    return Plan(place=place, body=body, dialect=Dialect(), request=request, first_byte_ns=1, **more)


@pytest.fixture
def desk():
    return Bench().desk


@pytest.mark.parametrize(
    ("native", "body", "lacking", "path"),
    [
        (INVOCATIONS, CHAT, False, "/invocations"),
        (INVOCATIONS, b"\x00", True, "/invocations"),
        (AUTO, CHAT, False, "/invocations"),
        (AUTO, CHAT, True, "/v1/chat/completions"),
        (OPENAI, b'{"prompt": "a"}', False, "/v1/completions"),
        (OPENAI, b"\x00", False, ""),
    ],
)
def test_a_native_body_goes_where_the_server_takes_it(desk, native, body, lacking, path):
    assert path_of(plan(body), target("i-1", native=native), desk, lacking=lacking) == path


def test_what_another_invocation_found_out_counts(desk):
    one = target("i-1", native=AUTO)
    desk.note_lacks_invocations(one)
    assert path_of(plan(), one, desk, lacking=False) == "/v1/chat/completions"


def test_an_openai_route_has_its_own_path(desk):
    assert path_of(plan(path="/v1/messages"), target("i-1"), desk, lacking=False) == "/v1/messages"


@pytest.mark.parametrize(
    ("native", "path", "status", "body", "mapped"),
    [
        (AUTO, "/invocations", 404, CHAT, True),
        (AUTO, "/invocations", 400, CHAT, False),
        (AUTO, "/v1/chat/completions", 404, CHAT, False),
        (INVOCATIONS, "/invocations", 404, CHAT, False),
        (AUTO, "/invocations", 404, b"\x00", False),
    ],
)
def test_a_server_without_invocations_says_so_with_404(native, path, status, body, mapped):
    assert is_mapped(plan(body), target("i-1", native=native), path, status) is mapped


def test_a_body_that_names_our_endpoint_names_the_servers_own_model(desk):
    made = plan(b'{"model": "llm"}', names_model=True)
    one = target("i-1", model_name="own")
    assert message_for(made, one, "/v1/completions", desk)[1] == b'{"model": "own"}'
    assert message_for(made, target("i-2"), "/v1/completions", desk)[1] == b'{"model": ""}'


@pytest.mark.parametrize(
    ("path", "body"), [("/invocations", CHAT), ("/v1/chat/completions", b'{"model":"lora","messages": []}')]
)
def test_an_adapter_is_named_in_a_header_and_to_openais_routes_in_the_body(desk, path, body):
    head, sent = message_for(plan(adapter="lora"), target("i-1"), path, desk)
    assert sent == body
    assert b"X-Amzn-SageMaker-Adapter-Identifier: lora\r\n" in head
    assert f"content-length: {len(body)}\r\n".encode() in head.lower()


def test_an_engine_may_want_its_models_name_before_the_adapters(desk):
    wants = replace(target("i-1"), adapter_prefix="llama:")
    _, sent = message_for(plan(adapter="lora"), wants, "/v1/chat/completions", desk)
    assert json.loads(sent)["model"] == "llama:lora"


def test_without_an_adapter_there_is_no_such_header(desk):
    head, sent = message_for(plan(), target("i-1"), "/invocations", desk)
    assert b"adapter" not in head.lower()
    assert sent == CHAT
