"""Copies for a shadow variant, on fakes."""

from random import Random

import pytest

from warmroute.adapters.fakes import FakeObserver
from warmroute.core import limits
from warmroute.core.decision import NO_PROMPT, RoutingRequest
from warmroute.core.events import FailureCause, ShadowOutcome
from warmroute.core.fleet import Endpoint, Fleet, NativeMapping, Routing, RoutingStrategy, Target, Variant
from warmroute.dataplane.desk import Desk, RelayTimeouts
from warmroute.dataplane.dialects import Native
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.shadow import Shadows
from warmroute.dataplane.telling import Place
from warmroute.routing.log import Decided, asked_of
from warmroute.routing.recorder import RecordedRouter
from warmroute.wire import invocation
from warmroute.wire.headers import Headers

PLACE = Place("us-east-1", "0" * 12, "llm")
BODY = b'{"messages": [{"role": "user", "content": "Hello"}]}'
RANDOM = Routing()
PREFIX = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=4)
KV = Routing(RoutingStrategy.KV_AWARE)
Out = ShadowOutcome


class Clock:
    def __init__(self):
        self.ns = 10**12

    def now_ns(self):
        return self.ns

    def wall_s(self):
        return 0.0


class Call:
    def __init__(self, target, head, body, sink):
        self.target, self.head, self.body, self.sink = target, head, body, sink
        self.cancelled = False

    def cancel(self):
        self.cancelled = True

    def answer(self, status=200):
        self.sink.head(status, [], 2)
        self.sink.body(b"{}")
        self.sink.ended()


class Upstreams:
    def __init__(self):
        self.calls = []

    def call(self, target, head, body, sink):
        self.calls.append(Call(target, head, body, sink))
        return self.calls[-1]


class Bench:
    def __init__(
        self, *, share=1.0, routing=RANDOM, production=RANDOM, targets=1, native=NativeMapping.INVOCATIONS
    ):
        self.lines = []
        self.router = RecordedRouter(Random(1), lambda line: self.lines.append(line) or True)
        self.upstreams, self.observer, self.clock = Upstreams(), FakeObserver(), Clock()
        self.desk = Desk(
            router=self.router, upstreams=self.upstreams, observer=self.observer, clock=self.clock,
            timeouts=RelayTimeouts(),
        )  # fmt: skip
        shadow = Variant("s", share, routing, self.targets("s", targets, native), share=share)
        main = Variant("v", 1.0, production, self.targets("v", 1, native))
        endpoint = Endpoint("llm", True, (main,), shadow)
        self.router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (endpoint,)))
        self.book = self.router.endpoints["llm"].variants["v", 0]
        self.shadows = Shadows(self.desk, Random(1))

    @staticmethod
    def targets(name, count, native):
        return tuple(Target(f"{name}-{i}", f"{name}-{i}", 1, "host", 80, native=native) for i in range(count))

    def copy(self, *, body=BODY, request=NO_PROMPT, path=""):
        read = invocation.read(Headers([]), False)
        dialect = Native(request=read, request_id="r", place=PLACE)
        plan = Plan(place=PLACE, body=body, dialect=dialect, request=request, first_byte_ns=10**9, path=path)
        self.shadows.copy(self.book, plan)
        return plan

    @property
    def outcomes(self):
        return [(each.outcome, each.status) for each in self.observer.copies]


def test_a_copy_goes_to_the_shadow_and_its_answer_is_measured_and_thrown_away():
    bench = Bench()
    plan = bench.copy()
    plan.body = b""  # the caller's answer has begun
    (call,) = bench.upstreams.calls
    assert (call.target.target_id, call.body) == ("s-0", BODY)
    bench.clock.ns += 5_000
    call.sink.head(200, [], None)
    bench.clock.ns += 2_000
    call.sink.body(b"x" * 100)
    call.sink.ended()
    (told,) = bench.observer.copies
    assert (told.endpoint, told.variant, told.outcome, told.status) == ("llm", "s", Out.COMPLETED, 200)
    assert (told.first_byte_ns, told.total_ns) == (5_000, 7_000)
    assert (bench.router.open_leases(), bench.shadows.held_bytes, len(bench.shadows.under_way)) == (0, 0, 0)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_share_of_the_invocations_is_copied(share):
    bench = Bench(share=share)
    for _ in range(2000):
        bench.copy()
        for call in bench.upstreams.calls[-1:]:
            if call.sink in bench.shadows.under_way:
                call.answer()
    assert len(bench.upstreams.calls) == pytest.approx(
        2000 * share, abs=4 * (2000 * share * (1 - share)) ** 0.5
    )


def test_invocations_of_a_session_are_not_copied():
    bench = Bench()
    bench.copy(request=RoutingRequest(session="s-1"))
    assert (bench.upstreams.calls, bench.observer.copies) == ([], [])


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, Out.COMPLETED), (400, Out.COMPLETED), (500, Out.COMPLETED)]
)
def test_any_answer_is_a_result(status, outcome):
    bench = Bench()
    bench.copy()
    bench.upstreams.calls[0].answer(status)
    assert bench.outcomes == [(outcome, status)]
    assert bench.router.open_leases() == 0


def test_an_attempt_that_fails_is_not_made_again():
    bench = Bench(targets=2)
    bench.copy()
    bench.upstreams.calls[0].sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert len(bench.upstreams.calls) == 1
    assert bench.outcomes == [(Out.FAILED, 0)]


def test_a_shadow_that_fails_everything_is_ejected_and_its_copies_are_dropped():
    bench = Bench()
    for _ in range(20):
        before = len(bench.upstreams.calls)
        bench.copy()
        for call in bench.upstreams.calls[before:]:
            call.sink.failed(FailureCause.CONNECT_FAILED, "refused")
    assert bench.observer.changes[0].ejected
    assert bench.outcomes[-1] == (Out.DROPPED_NO_TARGET, 0)


def test_a_shadow_without_an_instance_drops_its_copies():
    bench = Bench(targets=0)
    bench.copy()
    assert bench.outcomes == [(Out.DROPPED_NO_TARGET, 0)]


def test_copies_under_way_are_bounded_in_number():
    bench = Bench()
    for _ in range(limits.SHADOW_COPIES_MAX + 3):
        bench.copy()
    assert len(bench.upstreams.calls) == len(bench.shadows.under_way) == limits.SHADOW_COPIES_MAX
    assert bench.outcomes == [(Out.DROPPED_FULL, 0)] * 3
    bench.upstreams.calls[0].answer()
    bench.copy()
    assert len(bench.upstreams.calls) == limits.SHADOW_COPIES_MAX + 1


def test_copies_under_way_are_bounded_in_bytes():
    bench = Bench()
    half = b"x" * (limits.SHADOW_COPIES_BYTES_MAX // 2)
    for _ in range(3):
        bench.copy(body=half)
    assert bench.shadows.held_bytes == limits.SHADOW_COPIES_BYTES_MAX
    assert bench.outcomes == [(Out.DROPPED_FULL, 0)]


def test_a_copy_that_takes_too_long_is_cancelled():
    bench = Bench()
    bench.copy()
    bench.clock.ns += int(limits.SHADOW_COPY_S_MAX * 1e9) - 1
    bench.shadows.expire(bench.clock.ns)
    assert not bench.upstreams.calls[0].cancelled
    bench.clock.ns += 1
    bench.shadows.expire(bench.clock.ns)
    assert bench.upstreams.calls[0].cancelled
    assert bench.outcomes == [(Out.CANCELLED_LATE, 0)]
    assert bench.router.open_leases() == 0


def test_a_router_that_stops_waits_for_no_copy():
    bench = Bench()
    bench.copy()
    bench.copy()
    bench.shadows.shut_down()
    assert [call.cancelled for call in bench.upstreams.calls] == [True, True]
    assert bench.outcomes == [(Out.CANCELLED_STOPPING, 0)] * 2


def test_a_server_without_invocations_is_asked_as_openais_is_and_remembered():
    bench = Bench(native=NativeMapping.AUTO)
    bench.copy()
    bench.upstreams.calls[0].answer(404)
    assert b"/v1/chat/completions" in bench.upstreams.calls[1].head
    bench.upstreams.calls[1].answer()
    assert bench.outcomes == [(Out.COMPLETED, 200)]
    bench.copy()
    assert b"/v1/chat/completions" in bench.upstreams.calls[2].head


def test_a_second_404_is_the_answer():
    bench = Bench(native=NativeMapping.AUTO)
    bench.copy()
    bench.upstreams.calls[0].answer(404)
    bench.upstreams.calls[1].answer(404)
    assert bench.outcomes == [(Out.COMPLETED, 404)]


def test_a_body_that_fits_no_route_is_dropped():
    bench = Bench(native=NativeMapping.OPENAI)
    bench.copy(body=b"not JSON")
    assert bench.outcomes == [(Out.DROPPED_NO_ROUTE, 0)]
    assert bench.router.open_leases() == 0


def asked(bench, **more):
    """Return what routing was asked for the copy."""
    bench.copy(**more)
    (line,) = (line for line in bench.lines if isinstance(line, Decided))
    return asked_of(line)


def test_a_strategy_that_makes_no_key_is_asked_for_none():
    assert asked(Bench(), request=RoutingRequest(key=7)) == NO_PROMPT


def test_a_shadow_of_the_same_kind_of_strategy_uses_the_callers_key():
    assert asked(Bench(routing=PREFIX, production=PREFIX), request=RoutingRequest(key=7)).key == 7


@pytest.mark.parametrize("path", ["", "/v1/chat/completions"])
def test_a_shadow_whose_strategy_wants_more_has_the_body_read(path):
    assert asked(Bench(routing=PREFIX), path=path).key is not None
    long = b'{"messages": [{"role": "user", "content": "' + b"x" * 5000 + b'"}]}'
    assert asked(Bench(routing=KV), path=path, body=long).chain


def test_a_body_that_cannot_be_read_is_routed_without_a_key():
    assert asked(Bench(routing=PREFIX), path="/v1/chat/completions", body=b"{") == NO_PROMPT
