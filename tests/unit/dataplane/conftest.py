"""A gateway on fakes: two instances, whatever strategy a test asks for."""

from dataclasses import dataclass, field
from random import Random

import pytest

from warmroute.adapters.fakes import FakeClock, FakeDownstream, FakeObserver, FakeUpstreams
from warmroute.core.fleet import (
    Endpoint,
    Fleet,
    NativeMapping,
    Routing,
    RoutingStrategy,
    Target,
    Variant,
)
from warmroute.dataplane.desk import Desk, RelayTimeouts
from warmroute.dataplane.gateway import Gateway
from warmroute.routing.router import Router
from warmroute.wire.headers import collect
from warmroute.wire.http1 import Request

PREFIX_AWARE = Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=2)


def target(name, **changes):
    fields = {
        "generation": 1,
        "host": "127.0.0.1",
        "port": 8000,
        "native": NativeMapping.INVOCATIONS,
    } | changes
    return Target(**({"target_id": name, "instance_id": name} | fields))


@dataclass
class Bench:
    """Everything around a gateway."""

    clock: FakeClock = field(default_factory=FakeClock)
    upstreams: FakeUpstreams = field(default_factory=FakeUpstreams)
    observer: FakeObserver = field(default_factory=FakeObserver)
    version: int = 0

    def __post_init__(self):
        self.router = Router(Random(1))
        self.desk = Desk(
            router=self.router,
            upstreams=self.upstreams,
            observer=self.observer,
            clock=self.clock,
            timeouts=RelayTimeouts(),
        )
        self.gateway = Gateway(self.desk)

    def fleet(self, *targets, routing=None, endpoint="llm", access_keys=(), api_keys=(), variants=None):
        self.version += 1
        routing = routing or Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
        variants = variants or (Variant("AllTraffic", 1.0, routing, targets),)
        fleet = Fleet(
            self.version,
            "eu-west-1",
            "123456789012",
            (Endpoint(endpoint, True, variants),),
            access_keys,
            api_keys,
        )
        assert self.gateway.apply_fleet(fleet)
        return self

    def send(
        self,
        path="/endpoints/llm/invocations",
        body=b'{"inputs": "hello"}',
        method="POST",
        headers=(),
        **more,
    ):
        """Send a request; return the client and what is under way."""
        fields = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]
        path, _, query = path.partition("?")
        request = Request(method, path, query, collect(fields), fields)
        request.body = body
        request.keep_alive = more.get("keep_alive", True)
        request.chunks_allowed = more.get("chunks_allowed", True)
        downstream = more.get("downstream") or FakeDownstream()
        return downstream, self.gateway.receive(request, downstream)

    def assert_clean(self):
        """No exchange, no lease: the invariant after every end."""
        assert self.router.open_leases() == 0
        assert not self.desk.open
        assert self.desk.open_exchanges == 0


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.assert_clean()


@pytest.fixture
def two(bench):
    return bench.fleet(target("i-1"), target("i-2"))
