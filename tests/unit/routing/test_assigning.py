"""A lease that is taken says for what; test_router.py covers the rest."""

from warmroute.core.decision import NO_PROMPT, Reason
from warmroute.core.fleet import Routing, Target, Variant
from warmroute.routing.assigning import assign
from warmroute.routing.books import VariantBook

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
