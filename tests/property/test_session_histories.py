"""Sessions over histories of routers: a request goes to the server that knows its session, or nowhere.

Routers come and go, targets drain, leave, return and are started anew, model servers give the same ids as
others, close sessions and renew them, and time passes. What is known of sessions is what callers hold: ids.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

import pytest

from tests.unit.dataplane.conftest import Bench, target
from warmroute.core.events import FailureCause
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, RoutingStrategy, TargetState, Variant

SESSION = b"x-amzn-sagemaker-session-id"
NEW = b"x-amzn-sagemaker-new-session-id"
CLOSED = b"x-amzn-sagemaker-closed-session-id"
COMPONENTS = ("a", "b")
STATES = (TargetState.IN_SERVICE,) * 4 + (TargetState.DRAINING,)


@dataclass
class Known:
    """A session as the model server knows it."""

    own: str
    where: str
    generation: int
    component: str
    ends_s: float
    closed_at: object = None


class History:
    """Routers over one fleet."""

    def __init__(self, seed):
        self.world = Random(seed)
        self.version = 0
        self.elapsed_s = 0.0
        self.generations = {f"i-{n}/{c}": 1 for n in range(3) for c in COMPONENTS}
        self.sessions = {}
        self.told = set()
        self.targets = ()
        self.change_fleet()
        self.routers = [self.router() for _ in range(3)]

    # --- the world ----------------------------------------------------------------------------
    def fleet(self):
        routing = Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
        components = tuple(Component(name) for name in COMPONENTS)
        variant = Variant("v", 1.0, routing, self.targets, components)
        return Fleet(
            self.version, "eu-west-1", "1" * 12, (Endpoint("llm", True, (variant,)),), session_key="key"
        )

    def change_fleet(self):
        self.version += 1
        for name in self.generations:
            self.generations[name] += self.world.random() < 0.1
        self.targets = tuple(
            target(name, component=name[-1], generation=generation, state=self.world.choice(STATES))
            for name, generation in self.generations.items() if self.world.random() < 0.9
        )  # fmt: skip

    def router(self):
        made = Bench()
        made.clock.pass_s(self.elapsed_s)
        assert made.gateway.apply_fleet(self.fleet())
        return made

    def step(self):
        action = self.world.random()
        if action < 0.05:
            self.change_fleet()
            for router in self.routers:
                assert router.gateway.apply_fleet(self.fleet())
        elif action < 0.1:
            self.routers[self.world.randrange(3)] = self.router()
        elif action < 0.25:
            seconds = self.world.choice((1, 10, 60))
            self.elapsed_s += seconds
            for router in self.routers:
                router.clock.pass_s(seconds)
                router.router.on_deadline(router.clock.now_ns())
        elif action < 0.45 or not self.sessions:
            self.begin()
        else:
            self.go_on()
        for router in self.routers:
            router.assert_clean()

    # --- callers ------------------------------------------------------------------------------
    def ask(self, router, session_id, component):
        before = len(router.upstreams.calls)
        headers = [
            (SESSION, session_id.encode()),
            (b"x-amzn-sagemaker-inference-component", component.encode()),
        ]
        client, _ = router.send(headers=headers)
        return client, router.upstreams.calls[before:]

    def answer(self, call, *fields):
        call.sink.head(200, [(b"content-type", b"application/json"), *fields], 2)
        call.sink.body(b"{}")
        call.sink.ended()

    def ends(self, router, seconds):
        return f"{datetime.fromtimestamp(router.clock.wall_s() + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def begin(self):
        router, component = self.world.choice(self.routers), self.world.choice(COMPONENTS)
        client, calls = self.ask(router, "NEW_SESSION", component)
        if not calls:
            self.told.add("no place")
            assert client.status in (400, 503)
            return
        (call,) = calls
        assert call.target.component == component
        own, seconds = f"s{self.world.randrange(5)}", self.world.choice((5, 100, 1000))
        self.answer(call, (NEW, f"{own}; Expires={self.ends(router, seconds)}".encode()))
        session_id = client.header(NEW).decode().partition(";")[0]
        ends_s = int(router.clock.wall_s() + seconds)
        at = (own, call.target.target_id, call.target.generation, component, ends_s)
        self.sessions[session_id] = Known(*at)

    def go_on(self):
        router = self.world.choice(self.routers)
        session_id = self.world.choice(sorted(self.sessions))
        known = self.sessions[session_id]
        component = known.component if self.world.random() < 0.9 else "b" if known.component == "a" else "a"
        client, calls = self.ask(router, session_id, component)
        there = next((each for each in self.targets if each.target_id == known.where), None)
        alive = there is not None and there.generation == known.generation
        in_time = router.clock.wall_s() < known.ends_s
        right = component == known.component
        if known.closed_at is router:
            self.told.add("closed")
            assert (client.status, calls) == (400, [])
        elif not (alive and in_time and right):
            self.told.add("late" if not in_time else "gone" if not alive else "another component")
            assert (client.status, calls) == (400, [])
        elif not calls:
            self.told.add("out of reach")
            assert client.status == 503
            assert router.router.targets()[known.where][2] or router.router.endpoints["llm"]
        else:
            self.at_its_server(router, session_id, known, client, calls)

    def at_its_server(self, router, session_id, known, client, calls):
        (call,) = calls
        assert (call.target.target_id, call.target.generation) == (known.where, known.generation)
        assert f"Session-Id: {known.own}\r\n".encode() in call.head
        self.told.add(str(call.target.state))
        fate = self.world.random()
        if fate < 0.1:
            call.sink.failed(FailureCause.CONNECT_FAILED, "refused")
            assert client.status == 503
            assert router.upstreams.calls[-1] is call, "it is sent nowhere else"
        elif fate < 0.2:
            self.answer(call, (CLOSED, known.own.encode()))
            assert client.header(CLOSED).decode() == session_id
            known.closed_at = router
        elif fate < 0.3:
            self.answer(call, (NEW, f"{known.own}; Expires={self.ends(router, 500)}".encode()))
            renewed = client.header(NEW).decode().partition(";")[0]
            self.sessions[renewed] = replace(known, ends_s=int(router.clock.wall_s() + 500), closed_at=None)
        else:
            self.answer(call)
            assert client.status == 200


@pytest.mark.parametrize("seed", range(12))
def test_a_sessions_request_goes_to_the_server_that_knows_it_or_nowhere(seed):
    history = History(seed)
    for _ in range(300):
        history.step()


def test_histories_have_every_fate_of_a_session():
    """Else the test above would say less than it seems to."""
    told = set()
    for seed in range(12):
        history = History(seed)
        for _ in range(300):
            history.step()
        told |= history.told
    assert told >= {"in_service", "draining", "closed", "late", "gone", "another component", "out of reach"}
