from dataclasses import replace
from random import Random

import pytest

from warmroute.core.decision import NEW_SESSION, NO_PROMPT, Assigned, RoutingRequest
from warmroute.core.events import Cancelled, Completed, EventsLost, Failed, FailureCause, FirstToken
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.routing.log import FORMAT, AttemptTold, Began, Decided, Ended, FleetApplied, encode
from warmroute.routing.recorder import RecordedRouter
from warmroute.sim.replay import ReplayError, replay
from warmroute.sim.what_if import what_if

BEGAN = Began(FORMAT, "0.1.0", 1, "ff")
NAMES = ("i-1", "i-2", "i-3", "i-4")
RANDOM, LEAST, PREFIX, KV = RoutingStrategy
PREFIX_AWARE = Routing(PREFIX, prefix_length=1024, concurrency_threshold=2)


class Live:
    """A router that is recorded."""

    def __init__(self, routing):
        self.lines = [BEGAN]
        self.router = RecordedRouter(Random(255), lambda line: self.lines.append(line) or True)
        targets = tuple(Target(name, name, 1, "h", 80) for name in NAMES)
        variants = (Variant("v", 1.0, routing, targets),)
        self.router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (Endpoint("llm", True, variants),)))
        self.now_ns = 1000

    def ask(self, key=None, *, tried=(), session=""):
        self.now_ns += 1
        book = self.router.choose_variant(self.router.endpoints["llm"], None)
        request = RoutingRequest(key=key, session=session)
        return self.router.decide(book, request, self.now_ns, tried)

    def tell(self, kind, decision, *more):
        self.now_ns += 1
        self.router.apply(kind(decision.lease, *more), self.now_ns)

    def what_if(self, strategy, **more):
        data = encode([*self.lines, Ended("stopped")])
        return what_if(data.splitlines(keepends=True), strategy, **more)


def test_the_same_strategy_sends_every_request_where_it_went():
    live = Live(PREFIX_AWARE)
    for key in range(200):
        live.tell(Completed, live.ask(key % 7))
    found = live.what_if(PREFIX)
    assert (found.requests, found.elsewhere, found.without_key) == (200, 0, 0)
    assert found.recorded == found.imagined
    assert sum(found.recorded.values()) == 200


def test_another_strategy_sends_requests_elsewhere():
    live = Live(PREFIX_AWARE)
    for _ in range(100):
        live.tell(Completed, live.ask(1))
    found = live.what_if(LEAST)
    assert len(found.recorded) == 1
    assert len(found.imagined) == 4
    assert 60 <= found.elsewhere <= 90


def test_leases_are_open_as_long_as_they_were():
    live = Live(Routing(LEAST))
    held = [live.ask() for _ in range(40)]
    found = live.what_if(LEAST)
    assert found.imagined == dict.fromkeys(NAMES, 10)
    for decision in held:
        live.tell(FirstToken, decision)
        live.tell(Completed, decision)


def test_a_threshold_can_be_asked_for():
    live = Live(PREFIX_AWARE)
    for _ in range(5):
        live.ask(1)
    assert len(live.what_if(PREFIX).imagined) == 3
    assert len(live.what_if(PREFIX, threshold=1).imagined) == 4
    assert len(live.what_if(PREFIX, threshold=5).imagined) == 1


def test_a_threshold_is_needed_where_there_was_none():
    live = Live(Routing(RANDOM))
    live.ask(1)
    with pytest.raises(
        ReplayError, match="variant v has no ConcurrencyThreshold.*--set concurrency_threshold=N"
    ):
        live.what_if(PREFIX)
    assert live.what_if(PREFIX, threshold=3).requests == 1


def test_requests_without_a_key_are_counted():
    live = Live(Routing(RANDOM))
    for key in (None, 1, None):
        live.ask(key)
    assert live.what_if(PREFIX, threshold=3).without_key == 2


def test_attempts_after_a_failure_and_refusals_are_not_asked_about():
    live = Live(Routing(LEAST))
    first = live.ask()
    live.tell(Failed, first, FailureCause.STALE_CONNECTION)
    second = live.ask(tried=(first.target.target_id,))
    live.tell(FirstToken, second)
    live.tell(Completed, second)
    assert not isinstance(live.ask(tried=NAMES), Assigned)
    live.router.choose_variant(live.router.endpoints["llm"], "other")
    assert live.what_if(RANDOM).requests == 1


def test_a_failure_counts_against_its_own_target_alone():
    """One target refuses everything, which says nothing about those where the requests would have gone."""
    live = Live(Routing(PREFIX, prefix_length=1024, concurrency_threshold=8))
    held = [live.ask(1) for _ in range(8)]
    assert len({decision.target.target_id for decision in held}) == 1
    for decision in held:
        live.tell(Failed, decision, FailureCause.CONNECT_FAILED)
    live.tell(Cancelled, live.ask(1))
    live.router.on_deadline(10**11)
    same = live.what_if(PREFIX)
    assert (same.requests, same.elsewhere) == (9, 0)
    other = live.what_if(LEAST)
    assert sum(other.imagined.values()) == 9
    assert set(other.imagined) == set(NAMES)


def test_a_request_that_nobody_could_have_taken_went_elsewhere():
    live = Live(Routing(LEAST))
    decision = live.ask()
    live.tell(Completed, decision)
    # Recorded as if a session that was never opened had been served.
    line = next(line for line in live.lines if isinstance(line, Decided))
    fields = {name: getattr(line, name) for name in line.__struct_fields__} | {"session": "nobody's"}
    live.lines = [Decided(**fields) if other is line else other for other in live.lines]
    found = live.what_if(LEAST)
    assert (found.requests, found.elsewhere, sum(found.imagined.values())) == (1, 1, 0)


def test_sessions_stay_where_they_were_opened():
    live = Live(Routing(LEAST))
    opening = live.ask(session=NEW_SESSION)
    live.router.open_session(opening.lease, "s", 10**12, live.now_ns)
    live.tell(Completed, opening)
    for _ in range(20):
        again = live.ask(session="s")
        live.tell(Completed, again)
    live.router.learn(EventsLost("i-1", 1, "gap"), live.now_ns)
    closing = live.ask(session="s")
    live.router.close_session(closing.lease, "s")
    live.tell(Completed, closing)
    found = live.what_if(RANDOM)
    assert found.requests == 22
    assert list(found.imagined.values()) == [22]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Decided(1, 7, lease=1), "line 2: it speaks of 7"),
        (AttemptTold(1, 1, "nothing"), "line 5: no attempt has the event nothing"),
    ],
)
def test_a_damaged_log_is_refused_at_its_line(line, message):
    live = Live(Routing(LEAST))
    if isinstance(line, AttemptTold):
        live.ask()
        live.lines.append(line)
    else:
        live.lines = [BEGAN, line]
    with pytest.raises(ReplayError, match=message):
        live.what_if(LEAST)


def test_copies_for_a_shadow_are_no_requests():
    live = Live(Routing(LEAST))
    live.tell(Completed, live.ask())
    (endpoint,) = next(line.fleet.endpoints for line in live.lines if isinstance(line, FleetApplied))
    shadow = replace(endpoint.variants[0], name="s", targets=endpoint.variants[0].targets[:1])
    live.router.apply_fleet(Fleet(9, "us-east-1", "0" * 12, (replace(endpoint, shadow=shadow),)))
    book = live.router.shadow_of(live.router.endpoints[endpoint.name])
    live.router.apply(Completed(live.router.decide(book, NO_PROMPT, live.now_ns).lease), live.now_ns)
    assert live.what_if(RANDOM).requests == 1
    assert replay(encode(live.lines).splitlines(keepends=True)).difference is None
