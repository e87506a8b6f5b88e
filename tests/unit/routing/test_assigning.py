"""A lease that is taken says for what; test_router.py covers the rest."""

from random import Random

import pytest

from warmroute.core.decision import NO_PROMPT, Reason, RoutingRequest
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause, FirstToken
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.routing.assigning import assign, note_visit
from warmroute.routing.books import VariantBook
from warmroute.routing.router import Router

TARGET = Target("1", "1", 1, "host", 80, adapters=("lora",))


def test_a_lease_names_its_adapter():
    book = VariantBook("e", Variant("v", 1.0, Routing(), (TARGET,)))
    decision = assign(book, book.rows["1"], Reason.RANDOM, rank=-1, candidates=1, adapter="lora")
    assert (decision.lease.adapter, decision.in_flight) == ("lora", 0)
    assert book.rows["1"].adapters["lora"].in_flight == 1


def test_a_lease_without_an_adapter_is_counted_for_none():
    book = VariantBook("e", Variant("v", 1.0, Routing(), (TARGET,)))
    decision = assign(book, book.rows["1"], Reason.RANDOM, rank=-1, candidates=1, request=NO_PROMPT)
    assert decision.lease.adapter == ""
    assert book.rows["1"].adapters is None


# --- what KV_AWARE hears of an attempt -----------------------------------------------------------
class Kv:
    """A router with one KV_AWARE target, and an attempt on it."""

    def __init__(self):
        self.router = Router(Random(1))
        self.put(1)
        self.book = self.router.choose_variant(self.router.endpoints["e"], None)
        request = RoutingRequest(key=1, chain=(1, 2, 3), characters=3 * 1024)
        self.lease = self.router.decide(self.book, request, 1).lease

    def put(self, version, generation=1, strategy=RoutingStrategy.KV_AWARE):
        target = Target("1", "1", generation, "host", 80)
        endpoint = Endpoint("e", True, (Variant("v", 1.0, Routing(strategy), (target,)),))
        assert self.router.apply_fleet(Fleet(version, "r", "0" * 12, (endpoint,)))

    @property
    def shelf(self):
        return self.book.rows["1"].shelf

    def note(self, event):
        note_visit(event, self.book, self.book.rows.get("1"), 2)


def test_the_first_token_says_that_the_prompt_is_computed():
    kv = Kv()
    assert kv.shelf.pending > 0
    kv.note(FirstToken(kv.lease))
    assert kv.shelf.pending == 0


@pytest.mark.parametrize("kind", [Completed, Cancelled])
def test_the_end_of_an_attempt_leaves_nothing_pending(kind):
    kv = Kv()
    kv.note(kind(kv.lease))
    assert kv.shelf.pending == 0


@pytest.mark.parametrize(
    ("cause", "kept"),
    [(FailureCause.CONNECT_FAILED, False), (FailureCause.LOADING, False), (FailureCause.BROKEN, True)],
)
def test_a_server_that_nobody_answers_at_may_have_lost_its_cache(cause, kept):
    kv = Kv()
    first = kv.lease
    kv.note(FirstToken(first))
    second = kv.router.decide(kv.book, RoutingRequest(key=1, chain=(9,), characters=1024), 3).lease
    kv.note(Completed(first))
    kv.note(Failed(second, cause))
    assert kv.shelf.doubtful is not kept


def test_what_is_told_of_another_generation_is_void():
    kv = Kv()
    kv.put(2, generation=2)
    kv.note(Completed(kv.lease))
    assert (kv.shelf.pending, len(kv.shelf.blocks)) == (0, 0)


def test_what_is_told_after_the_strategy_has_changed_is_void():
    kv = Kv()
    kv.put(2, strategy=RoutingStrategy.RANDOM)
    kv.note(FirstToken(kv.lease))
    assert kv.shelf is None


def test_a_lease_that_another_strategy_took_is_remembered_too():
    kv = Kv()
    row = kv.book.rows["1"]
    row.health.probation = True
    decision = assign(
        kv.book,
        row,
        Reason.RANDOM,
        rank=-1,
        candidates=1,
        request=RoutingRequest(chain=(7,), characters=1024),
    )
    assert decision.lease.visit is not None
    assert row.probe is decision.lease
