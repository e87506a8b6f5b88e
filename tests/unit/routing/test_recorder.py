from dataclasses import replace
from random import Random

import pytest

from warmroute.core.decision import NO_PROMPT, Assigned, Refused, RoutingRequest
from warmroute.core.events import Cancelled, Completed, EventsLost, Failed, FailureCause, FirstToken
from warmroute.core.fleet import Component, Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.routing.log import (
    AttemptTold,
    CacheTold,
    DeadlineMet,
    Decided,
    FleetApplied,
    Health,
    SessionAdopted,
    SessionClosed,
    SessionOpened,
    VariantChosen,
    alias,
)
from warmroute.routing.recorder import RecordedRouter
from warmroute.routing.router import Router
from warmroute.routing.sessions import Session

LOOKS = {"adapter_leases", "next_deadline_ns", "open_leases", "targets"}
"""Public methods of a router that change nothing."""


class Recorded:
    """A recorded router and its lines, of which only the first ``room`` are taken."""

    def __init__(self, room=1000):
        self.lines = []
        self.room = room
        self.router = RecordedRouter(Random(1), self.note)

    def note(self, line):
        self.lines.append(line)
        return len(self.lines) < self.room

    def fleet(self, version, *variants, **names):
        targets = tuple(Target(name, name, 1, "h", 80, api_key="hidden") for name in ("i-1", "i-2"))
        routing = Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)
        made = tuple(Variant(name, 1.0, routing, targets, **names) for name in variants)
        fleet = Fleet(version, "us-east-1", "0" * 12, (Endpoint("llm", True, made),))
        return self.router.apply_fleet(fleet)

    def choose(self, *asked, **more):
        return self.router.choose_variant(self.router.endpoints["llm"], *(asked or (None,)), **more)

    def decide(self, request=NO_PROMPT, now_ns=1, tried=()):
        return self.router.decide(self.choose(), request, now_ns, tried)

    @property
    def last(self):
        return self.lines[-1]


@pytest.fixture
def recorded():
    made = Recorded()
    made.fleet(1, "v")
    return made


def test_every_method_of_a_router_that_changes_it_is_recorded():
    """Else a log would not replay: a new one needs a line of its own, or a place in LOOKS."""
    public = {name for name, value in vars(Router).items() if callable(value) and not name.startswith("_")}
    assert public - LOOKS == {name for name in vars(RecordedRouter) if not name.startswith("_")}


def test_a_fleet_is_told_without_its_secrets(recorded):
    assert recorded.last.applied
    assert "hidden" not in str(recorded.lines)
    assert recorded.fleet(1, "v") is False
    assert isinstance(recorded.last, FleetApplied)
    assert not recorded.last.applied


def test_a_choice_is_told_with_the_number_of_the_variant(recorded):
    recorded.choose("v")
    assert recorded.last == VariantChosen("llm", "v", "", "", "v", 1)
    recorded.fleet(2, "v", "w")
    recorded.choose("w")
    recorded.choose("v")
    assert [line.book for line in recorded.lines[-2:]] == [2, 1]


def test_a_copy_for_a_shadow_is_told_with_the_number_of_the_shadow(recorded):
    router = recorded.router
    shadow = Variant("s", 1.0, Routing(), (Target("i-9", "i-9", 1, "host", 80),), revision=2)
    (endpoint,) = recorded.lines[0].fleet.endpoints
    assert router.apply_fleet(Fleet(9, "us-east-1", "0" * 12, (replace(endpoint, shadow=shadow),)))
    book = router.shadow_of(router.endpoints[endpoint.name])
    assert recorded.last == VariantChosen("llm", variant="s", book=1, revision=2, shadow=True)
    router.decide(book, NO_PROMPT, 5)
    assert (recorded.last.book, recorded.last.target) == (1, "i-9")


def test_a_choice_of_nothing_is_told_without_the_callers_words(recorded):
    assert recorded.choose("what a caller writes") is None
    assert recorded.last == VariantChosen("llm", "?")
    assert recorded.choose(component="what a caller writes") is None
    assert recorded.last == VariantChosen("llm", None, "?")


def test_a_component_that_there_is_is_told_by_its_name(recorded):
    recorded.fleet(2, "v", components=(Component("c"),))
    recorded.choose(component="c", session="s")
    assert recorded.last == VariantChosen("llm", None, "c", alias("s"), "v", 1)


def test_a_decision_is_told_with_its_request(recorded):
    request = RoutingRequest(key=255, chain=(1, 2), characters=3, component="", adapter="")
    decision = recorded.decide(request, 5, ("i-2",))
    assert isinstance(decision, Assigned)
    assert recorded.last == Decided(
        now_ns=5, book=1, key="00000000000000ff", characters=3, chain="00000000000000010000000000000002",
        tried=("i-2",), lease=1, target="i-1", generation=1, variant="v",
        strategy="LEAST_OUTSTANDING_REQUESTS", reason="only_candidate", rank=-1, in_flight=0, candidates=1,
    )  # fmt: skip


def test_a_key_of_zero_is_a_key(recorded):
    recorded.decide(RoutingRequest(key=0))
    assert recorded.last.key == "0" * 16
    recorded.decide()
    assert recorded.last.key == ""


def test_a_refusal_is_told(recorded):
    decision = recorded.decide(tried=("i-1", "i-2"))
    assert isinstance(decision, Refused)
    assert recorded.last == Decided(now_ns=1, book=1, tried=("i-1", "i-2"), refusal="all_tried")


def test_facts_name_their_lease_by_its_number(recorded):
    first, second = recorded.decide(), recorded.decide()
    recorded.router.apply(FirstToken(second.lease), 7)
    assert recorded.last == AttemptTold(7, 2, "first_token")
    recorded.router.apply(Completed(second.lease, 10, 5, 7), 8)
    assert recorded.last == AttemptTold(8, 2, "completed", "", 10, 5, 7)
    change = recorded.router.apply(Failed(first.lease, FailureCause.CONNECT_FAILED), 9)
    assert change.ejected
    told = Health(first.target.target_id, 1, True, "connect_failed")
    assert recorded.last == AttemptTold(9, 1, "failed", "connect_failed", change=told)


def test_an_ended_lease_is_forgotten(recorded):
    for _ in range(50):
        recorded.router.apply(Cancelled(recorded.decide().lease), 1)
    assert recorded.last.lease == 50
    assert not recorded.router._scribe._leases


def test_sessions_are_told_with_what_stands_for_their_ids(recorded):
    lease = recorded.decide(RoutingRequest(session="NEW_SESSION")).lease
    assert recorded.last.session == "NEW_SESSION"
    assert recorded.router.open_session(lease, "s-1", 100, 5)
    assert recorded.last == SessionOpened(5, 1, alias("s-1"), 100, True)
    assert recorded.router.close_session(lease, "s-1")
    assert recorded.last == SessionClosed(1, alias("s-1"), True)


def test_a_session_from_elsewhere_is_told_with_what_it_is_pinned_to(recorded):
    session = Session("v", "i-1", 1, 100)
    assert recorded.router.adopt_session("llm", "s-1", session, 5)
    assert recorded.last == SessionAdopted(5, "llm", alias("s-1"), "v", 0, "i-1", 1, 100, True)
    assert not recorded.router.adopt_session("llm", "s-2", session, 100)
    assert recorded.last == SessionAdopted(100, "llm", alias("s-2"), "v", 0, "i-1", 1, 100, False)


def test_facts_about_caches_are_told(recorded):
    recorded.router.learn(EventsLost("i-1", 1, "gap"), 5)
    assert recorded.last == CacheTold(5, "lost", "i-1", 1, why="gap")


def test_a_deadline_is_told_when_something_is_due_and_only_then(recorded):
    before = len(recorded.lines)
    assert recorded.router.on_deadline(5) == []
    assert len(recorded.lines) == before
    lease = recorded.decide().lease
    recorded.router.apply(Failed(lease, FailureCause.CONNECT_FAILED), 10)
    until_ns = recorded.router.next_deadline_ns()
    assert recorded.router.on_deadline(until_ns - 1) == []
    assert isinstance(recorded.last, AttemptTold)
    recorded.router.on_deadline(until_ns)
    assert recorded.last == DeadlineMet(until_ns, (Health(lease.target.target_id, 1, False, "probation"),))


def test_variants_that_are_gone_are_forgotten_when_nothing_is_open_on_them(recorded):
    lease = recorded.decide().lease
    numbers = recorded.router._scribe._books
    recorded.fleet(2, "w")
    assert len(numbers) == 1  # an exchange has it, and may try again there
    recorded.router.apply(Cancelled(lease), 1)
    recorded.fleet(3, "x")
    assert not numbers
    recorded.choose("x")
    assert recorded.last.book == 2


def test_after_a_line_that_is_not_taken_the_router_goes_on_in_silence():
    recorded = Recorded(room=5)  # the fleet, two choices and two decisions
    recorded.fleet(1, "v")
    first, second = recorded.decide(), recorded.decide()
    router = recorded.router
    assert recorded.fleet(2, "v")
    third = recorded.decide()
    router.open_session(third.lease, "s", 100, 5)
    assert router.close_session(third.lease, "s")
    assert router.adopt_session("llm", "t", Session("v", "i-1", 1, 100), 5)
    router.learn(EventsLost("i-1", 1, "gap"), 5)
    for decision in (first, second, third):
        router.apply(Failed(decision.lease, FailureCause.CONNECT_FAILED), 5)
    assert len(router.on_deadline(10**12)) == 2
    assert len(recorded.lines) == 5
    assert router.open_leases() == 0
