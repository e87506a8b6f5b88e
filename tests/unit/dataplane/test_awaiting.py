"""Invocations of LoRA adapters: at copies that have them, and waiting for one that shall."""

import json

import pytest

from tests.unit.dataplane.conftest import Bench, target
from warmroute.core.events import FailureCause
from warmroute.core.fleet import Component, Endpoint, Fleet, NativeMapping, Routing, RoutingStrategy, Variant
from warmroute.core.limits import ADAPTER_WAIT_S, FIRST_BYTE_NATIVE_S
from warmroute.dataplane.desk import Desk, RelayTimeouts
from warmroute.dataplane.gateway import Gateway

NATIVE = "/endpoints/llm/invocations"
STREAM = "/endpoints/llm/invocations-response-stream"
OPENAI = "/endpoints/llm/inference-components/lora/openai/v1/chat/completions"
PLAIN = "/v1/chat/completions"
COMPONENT = b"x-amzn-sagemaker-inference-component"
IDENTIFIER = b"X-Amzn-SageMaker-Adapter-Identifier"
CHAT = b'{"messages": [], "model": "llm/lora"}'
COMPONENTS = (Component("base"), Component("lora", "base"), Component("other", "base"))


class Loads:
    """Control as the data plane sees it."""

    def __init__(self, *, can=True):
        self.can = can
        self.wanted = []

    def want(self, *, endpoint, component, adapter):
        self.wanted.append((endpoint, component, adapter))
        return self.can


class Adapters(Bench):
    """A gateway over copies of a base component."""

    def __post_init__(self):
        super().__post_init__()
        self.loads = Loads()
        self.desk = Desk(
            router=self.router, upstreams=self.upstreams, observer=self.observer, clock=self.clock,
            timeouts=RelayTimeouts(), adapters=self.loads,
        )  # fmt: skip
        self.gateway = Gateway(self.desk)

    def copies(self, *loaded, native=NativeMapping.INVOCATIONS, components=COMPONENTS, revision=0):
        """Publish copies, each with the adapters that it has loaded."""
        self.version += 1
        copies = [
            target(f"c-{n}", component="base", adapters=adapters, native=native)
            for n, adapters in enumerate(loaded)
        ]
        variant = Variant("v", 1.0, Routing(RoutingStrategy.RANDOM), tuple(copies), components, revision)
        fleet = Fleet(self.version, "eu-west-1", "123456789012", (Endpoint("llm", True, (variant,)),))
        assert self.gateway.apply_fleet(fleet)
        return self

    def ask(self, name="lora", path=NATIVE, **more):
        return self.send(path, headers=[(COMPONENT, name.encode())], **more)


@pytest.fixture
def bench():
    made = Adapters().copies((), ())
    yield made
    made.assert_clean()
    assert len(made.gateway.waits) == 0


def error(client):
    return client.status, json.loads(client.body)["Message"]


# --- loaded ---------------------------------------------------------------------------------------
def test_an_adapters_requests_go_to_the_copies_that_have_it_and_name_it(bench):
    bench.copies((), ("lora",), ("other",), ("other", "lora"))
    for _ in range(20):
        bench.ask(body=b'{"inputs": "hello"}')
        assert f"{IDENTIFIER.decode()}: lora".encode() in bench.upstreams.last.head
        assert bench.upstreams.last.body == b'{"inputs": "hello"}', (
            "SageMaker's containers look at the header"
        )
        bench.upstreams.answer()
    assert {call.target.target_id for call in bench.upstreams.calls} == {"c-1", "c-3"}
    record = bench.observer.ended[0]
    assert (record.component, record.adapter) == ("base", "lora")


def test_the_base_component_is_asked_without_an_adapter(bench):
    bench.copies(("lora",), ())
    bench.ask("base")
    assert IDENTIFIER not in bench.upstreams.last.head
    bench.upstreams.answer()
    assert (bench.observer.ended[0].component, bench.observer.ended[0].adapter) == ("base", "")


@pytest.mark.parametrize("native", [NativeMapping.OPENAI, NativeMapping.AUTO])
def test_an_engine_that_speaks_openai_is_asked_for_the_adapter_as_a_model(bench, native):
    bench.copies(("lora",), native=native)
    bench.ask(body=CHAT)
    if native is NativeMapping.AUTO:
        assert bench.upstreams.last.body == CHAT
        bench.upstreams.answer(404)
    assert bench.upstreams.last.path == "/v1/chat/completions"
    assert bench.upstreams.last.body == b'{"messages": [], "model": "lora"}'
    bench.upstreams.answer()


@pytest.mark.parametrize("path", [OPENAI, PLAIN])
def test_the_openai_routes_put_the_adapters_name_into_the_body(bench, path):
    bench.copies(("lora",))
    client, _ = bench.send(path, body=CHAT)
    assert bench.upstreams.last.body == b'{"messages": [], "model": "lora"}'
    assert IDENTIFIER in bench.upstreams.last.head
    bench.upstreams.answer()
    assert client.status == 200


# --- waiting --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("path", "body"), [(NATIVE, b"{}"), (STREAM, b"{}"), (OPENAI, CHAT), (PLAIN, CHAT)])
def test_an_adapter_that_is_loaded_nowhere_is_asked_for_and_waited_for_without_a_lease(bench, path, body):
    headers = [(COMPONENT, b"lora")] if body == b"{}" else []
    client, underway = bench.send(path, headers=headers, body=body)
    assert underway is not None
    assert bench.loads.wanted == [("llm", "base", "lora")]
    assert (bench.router.open_leases(), bench.upstreams.calls, len(bench.gateway.waits)) == (0, [], 1)
    assert bench.gateway.waits.adapters() == [("llm", "base", "lora")]
    bench.copies(("lora",), ())
    assert bench.upstreams.last.target.target_id == "c-0"
    bench.upstreams.answer()
    assert client.status == 200


def test_a_fleet_that_does_not_have_the_adapter_either_changes_nothing(bench):
    _, underway = bench.ask()
    bench.copies(("other",), ())
    assert (bench.upstreams.calls, len(bench.gateway.waits)) == ([], 1)
    underway.client_gone()


def test_all_that_wait_for_an_adapter_go_on_together_and_others_wait_on(bench):
    waiting = [bench.ask() for _ in range(3)]
    _, other = bench.ask("other")
    bench.copies(("lora",))
    assert len(bench.upstreams.calls) == 3
    assert len(bench.gateway.waits) == 1
    for call in list(bench.upstreams.calls):
        call.sink.head(200, [(b"content-type", b"application/json")], 2)
        call.sink.body(b"{}")
        call.sink.ended()
    assert [client.status for client, _ in waiting] == [200, 200, 200]
    other.client_gone()


def test_the_time_waited_is_taken_from_the_time_of_the_answer(bench):
    _, underway = bench.ask()
    bench.clock.pass_s(20)
    bench.copies(("lora",))
    bench.clock.pass_s(FIRST_BYTE_NATIVE_S - 20 - 0.1)
    (exchange,) = bench.desk.open
    exchange.expire(bench.clock.now_ns())
    assert bench.router.open_leases() == 1
    bench.clock.pass_s(0.2)
    exchange.expire(bench.clock.now_ns())
    assert bench.router.open_leases() == 0
    underway.expire(bench.clock.now_ns())
    assert bench.observer.ended[0].problem == "model_timeout"


def test_an_adapter_that_does_not_come_in_time_is_told(bench):
    client, underway = bench.ask()
    bench.clock.pass_s(ADAPTER_WAIT_S - 0.1)
    underway.expire(bench.clock.now_ns())
    assert client.status == 0
    bench.clock.pass_s(0.2)
    underway.expire(bench.clock.now_ns())
    status, message = error(client)
    assert (status, client.header(b"x-amzn-errortype")) == (429, b"ModelNotReadyException")
    assert message.startswith("Adapter lora is not loaded on any copy of inference component base: it could")
    assert message.endswith("could not be loaded within 30 s.")
    assert bench.observer.ended[0].problem == "adapter_not_ready"


def test_on_the_openai_routes_it_may_be_asked_again(bench):
    client, _ = bench.send(OPENAI, body=CHAT)
    bench.gateway.waits.failed("llm", "base", "lora", "the disk is full")
    assert (client.status, client.header(b"retry-after")) == (503, b"1")
    told = json.loads(client.body)["error"]
    assert told["code"] == "adapter_not_ready"
    assert told["message"].endswith("base: the disk is full.")


def test_the_failure_of_another_adapter_is_not_told(bench):
    _, underway = bench.ask()
    bench.gateway.waits.failed("llm", "base", "other", "the disk is full")
    assert len(bench.gateway.waits) == 1
    underway.client_gone()


def test_a_caller_that_leaves_waits_no_more(bench):
    client, underway = bench.ask()
    underway.client_gone()
    assert client.sent == b""
    assert bench.observer.ended[0].outcome == "cancelled"
    bench.copies(("lora",))
    assert bench.upstreams.calls == []


def test_a_caller_that_leaves_once_the_exchange_runs_stops_it(bench):
    _, underway = bench.ask()
    bench.copies(("lora",))
    underway.client_gone()
    assert bench.upstreams.last.cancelled


def test_a_process_that_ends_says_so(bench):
    client, underway = bench.ask()
    underway.shut_down()
    assert "warmroute is shutting down" in error(client)[1]
    underway.shut_down()
    assert client.finished == 1


def test_a_caller_that_reads_slowly_is_known_to_the_exchange(bench):
    _, underway = bench.ask()
    underway.pause()
    underway.resume()
    underway.pause()
    bench.copies(("lora",))
    assert bench.upstreams.last.paused
    underway.resume()
    assert not bench.upstreams.last.paused
    underway.pause()
    assert bench.upstreams.last.paused
    bench.upstreams.answer()


def test_without_a_copy_of_the_base_there_is_no_capacity_and_nothing_to_wait_for(bench):
    bench.copies()
    client, underway = bench.ask()
    assert underway is None
    assert bench.loads.wanted == []
    assert error(client)[1].startswith("Inference Component has no capacity")
    assert client.header(b"x-amzn-invoked-production-variant") == b"v"
    record = bench.observer.ended[0]
    assert (record.problem, record.component, record.adapter) == ("no_copy", "base", "lora")


def test_when_the_last_copy_goes_those_that_wait_are_told_that_there_is_no_capacity(bench):
    client, _ = bench.ask()
    bench.copies()
    assert error(client)[1].startswith("Inference Component has no capacity")


def test_when_another_revision_takes_the_variants_place_those_that_wait_are_served_by_it(bench):
    client, _ = bench.ask()
    bench.copies((), revision=1)
    assert len(bench.gateway.waits) == 1
    bench.copies(("lora",), revision=1)
    bench.upstreams.answer()
    assert client.status == 200


def test_when_an_adapter_is_deleted_those_that_wait_for_it_are_told_and_others_wait_on(bench):
    client, _ = bench.ask()
    _, other = bench.ask("other")
    bench.copies((), (), components=(Component("base"), Component("other", "base")))
    assert error(client) == (400, "Inference Component lora of account 123456789012 not found.")
    assert bench.gateway.waits.adapters() == [("llm", "base", "other")]
    other.client_gone()


def test_when_the_endpoint_goes_those_that_wait_are_answered(bench):
    client, _ = bench.ask()
    assert bench.gateway.apply_fleet(Fleet(9, "eu-west-1", "123456789012"))
    assert error(client) == (400, "Endpoint llm of account 123456789012 not found.")


def test_where_nobody_loads_adapters_the_request_is_sent_as_it_is(bench):
    bench.loads.can = False
    client, _ = bench.ask()
    assert IDENTIFIER in bench.upstreams.last.head
    bench.upstreams.answer()
    assert client.status == 200


def test_a_copy_without_the_adapter_is_no_second_choice(bench):
    bench.copies(("lora",), ())
    client, _ = bench.ask()
    bench.upstreams.last.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert len(bench.upstreams.calls) == 1
    assert "the copies that have it cannot be reached" in error(client)[1]
    assert bench.observer.ended[0].attempts == 1


def test_who_waits_can_be_told_apart(bench):
    _, underway = bench.ask()
    assert repr(underway).endswith("awaits adapter lora>")
    underway.client_gone()


# --- cannot be loaded -----------------------------------------------------------------------------
BROKEN = (Component("base"), Component("lora", "base", "rank 64 is more than 16"))


def test_what_cannot_be_loaded_is_answered_at_once_and_asked_for_again(bench):
    bench.copies((), components=BROKEN)
    client, underway = bench.ask()
    assert underway is None
    assert client.status == 429
    assert "rank 64 is more than 16" in error(client)[1]
    assert len(bench.loads.wanted) == 1


def test_what_turns_out_to_be_broken_ends_the_wait(bench):
    client, _ = bench.ask()
    assert len(bench.gateway.waits) == 1
    bench.copies((), components=BROKEN)
    assert "rank 64 is more than 16" in error(client)[1]


def test_what_is_loaded_serves_whatever_failed_before(bench):
    bench.copies(("lora",), components=BROKEN)
    client, _ = bench.ask()
    bench.upstreams.answer()
    assert client.status == 200
