import gc
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from warmroute.core.decision import (
    NEW_SESSION,
    NO_PROMPT,
    Assigned,
    Reason,
    Refusal,
    Refused,
    RoutingRequest,
)
from warmroute.core.events import (
    CacheCleared,
    Cancelled,
    Completed,
    Failed,
    FailureCause,
    FirstToken,
    TextBlocksStored,
)
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.health import EJECTION_NS_MAX, EJECTION_NS_MIN
from warmroute.routing.key import characters_of, partition
from warmroute.routing.kvbook import KvTuning
from warmroute.routing.kvindex import CONTRADICTIONS_MAX, Trust
from warmroute.routing.router import Router, VariantBook
from warmroute.routing.sessions import Session, SessionTable

# Target ids that are prefixes of each other; the order of key 1 over them is pinned in test_rendezvous.py.
IDS = ["1", "11", "111", "2", "21"]
RANKED = ["11", "21", "2", "1", "111"]
KEY = 1
NOW = 5_000_000_000

RANDOM = Routing()
LEAST = Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)


def prefix_aware(threshold=2, prefix_length=1024):
    return Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=prefix_length, concurrency_threshold=threshold)


def target(name, generation=1, state=TargetState.IN_SERVICE):
    return Target(TargetId(name), InstanceId(name), generation, "host", 80, state=state)


def targets(*names):
    return tuple(target(name) for name in names)


def variant(routing, members, *, name="v", weight=1.0, revision=0, share=1.0):
    return Variant(VariantName(name), weight, routing, tuple(members), revision=revision, share=share)


def fleet(version, **endpoints):
    return Fleet(
        version, "us-east-1", "000000000000",
        tuple(Endpoint(EndpointName(name), True, tuple(vs)) for name, vs in endpoints.items()),
    )  # fmt: skip


class Bench:
    """A router with one endpoint ``e`` and, most of the time, one variant ``v``."""

    def __init__(self, routing=LEAST, members=(), seed=1):
        self.router = Router(Random(seed))
        self.version = 0
        self.set(routing, members or targets(*IDS))

    def set(self, routing, members):
        self.set_variants(variant(routing, members))

    def set_variants(self, *variants):
        self.version += 1
        assert self.router.apply_fleet(fleet(self.version, e=variants))

    def clear(self):
        self.version += 1
        assert self.router.apply_fleet(fleet(self.version))

    @property
    def book(self):
        return self.router.endpoints["e"].variants["v", 0]

    def decide(self, key=KEY, tried=()):
        return self.router.decide(self.book, RoutingRequest(key=key), NOW, tried)

    def take(self, key=KEY, tried=()):
        decision = self.decide(key, tried)
        assert isinstance(decision, Assigned), decision
        return decision

    def take_from(self, name):
        """Take a lease on a given target."""
        return self.take(tried=tuple(other for other in IDS if other != name))

    def complete(self, decision, now_ns=NOW):
        return self.router.apply(Completed(decision.lease), now_ns)

    def cancel(self, decision, now_ns=NOW):
        return self.router.apply(Cancelled(decision.lease), now_ns)

    def fail(self, decision, cause=FailureCause.CONNECT_FAILED, now_ns=NOW):
        return self.router.apply(Failed(decision.lease, cause), now_ns)

    def eject(self, name, now_ns=NOW):
        change = self.fail(self.take_from(name), now_ns=now_ns)
        assert change is not None
        return change

    def in_flight(self):
        return {name: count for name, (_, count, _) in self.router.targets().items()}


# --- the fleet --------------------------------------------------------------------------------
def test_a_router_starts_without_a_fleet():
    router = Router(Random(1))
    assert (router.endpoints, router.fleet_version, router.open_leases(), router.targets()) == ({}, 0, 0, {})


def test_a_newer_fleet_replaces_the_old_one():
    bench = Bench()
    assert bench.router.apply_fleet(fleet(7, other=[variant(RANDOM, targets("1"))]))
    assert list(bench.router.endpoints) == ["other"]
    assert bench.router.fleet_version == 7


@pytest.mark.parametrize("version", [0, 4, 5])
def test_an_older_fleet_or_the_same_is_ignored(version):
    router = Router(Random(1))
    router.apply_fleet(fleet(5, e=[variant(RANDOM, targets("1"))]))
    assert not router.apply_fleet(fleet(version))
    assert list(router.endpoints) == ["e"]
    assert router.fleet_version == 5


def test_an_endpoint_that_is_being_created_is_known_and_not_in_service():
    router = Router(Random(1))
    router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), False, ()),)))
    endpoint = router.endpoints["e"]
    assert (endpoint.in_service, endpoint.variants) == (False, {})
    assert router.choose_variant(endpoint, None) is None


def test_an_endpoint_comes_into_service_with_its_fleet():
    router = Router(Random(1))
    router.apply_fleet(Fleet(1, "us-east-1", "0" * 12, (Endpoint(EndpointName("e"), False, ()),)))
    router.apply_fleet(fleet(2, e=[variant(RANDOM, targets("1"))]))
    assert router.endpoints["e"].in_service


def test_a_variants_keys_carry_its_endpoint_and_name():
    assert Bench().book.key_head == partition(endpoint="e", variant="v")


@pytest.mark.parametrize(("routing", "length"), [(RANDOM, 0), (LEAST, 0), (prefix_aware(2, 4096), 4096)])
def test_a_book_says_how_much_of_a_prompt_its_strategy_wants(routing, length):
    assert Bench(routing).book.prefix_length == length


def test_a_change_of_strategy_keeps_every_lease():
    bench = Bench(RANDOM)
    held = [bench.take() for _ in range(20)]
    before = bench.in_flight()
    bench.set(prefix_aware(), targets(*IDS))
    assert bench.in_flight() == before
    assert bench.take().strategy is RoutingStrategy.PREFIX_AWARE
    for decision in held:
        bench.complete(decision)
    assert bench.router.open_leases() == 1


def test_a_joining_target_takes_requests():
    bench = Bench(LEAST, targets("1"))
    held = [bench.take() for _ in range(3)]
    bench.set(LEAST, targets("1", "2"))
    assert [bench.take().target.target_id for _ in range(3)] == ["2", "2", "2"]
    assert len(held) == 3


def test_a_target_that_left_takes_no_request_and_keeps_what_it_has():
    bench = Bench(LEAST)
    held = bench.take_from("2")
    bench.set(LEAST, targets("1", "11"))
    assert {bench.take().target.target_id for _ in range(20)} == {"1", "11"}
    assert bench.in_flight()["2"] == 1
    bench.complete(held)
    assert "2" not in bench.router.targets()


def test_a_target_that_left_idle_is_forgotten_at_once():
    bench = Bench(LEAST)
    bench.set(LEAST, targets("1"))
    assert list(bench.router.targets()) == ["1"]


def test_a_target_that_left_is_forgotten_with_its_last_lease():
    bench = Bench(LEAST)
    first, second = bench.take_from("2"), bench.take_from("2")
    bench.set(LEAST, targets("1"))
    bench.complete(first)
    assert bench.in_flight() == {"1": 0, "2": 1}
    bench.complete(second)
    assert bench.in_flight() == {"1": 0}


def test_a_target_that_returns_in_the_same_generation_has_its_leases_still():
    bench = Bench(LEAST)
    held = bench.take_from("2")
    bench.set(LEAST, targets("1"))
    bench.set(LEAST, targets("1", "2"))
    assert bench.in_flight() == {"1": 0, "2": 1}
    bench.complete(held)
    assert bench.in_flight() == {"1": 0, "2": 0}


def test_a_target_that_returns_in_a_new_generation_starts_at_zero_and_late_releases_are_void():
    bench = Bench(LEAST)
    old = bench.take_from("2")
    bench.set(LEAST, [target("2", 2)])
    assert bench.in_flight() == {"2": 0}
    new = bench.take()
    assert bench.complete(old) is None
    assert bench.in_flight() == {"2": 1}
    assert bench.router.open_leases() == 1
    bench.complete(new)
    assert (bench.in_flight(), bench.router.open_leases()) == ({"2": 0}, 0)


def test_a_late_failure_of_an_older_generation_does_not_eject_the_new_one():
    bench = Bench(LEAST)
    old = bench.take_from("2")
    bench.set(LEAST, [target("2", 2)])
    assert bench.fail(old) is None
    assert bench.take().target.generation == 2


def test_a_new_generation_of_an_ejected_target_takes_requests_at_once():
    bench = Bench(LEAST, targets("1"))
    bench.fail(bench.take())
    assert bench.decide() == Refused(Refusal.ALL_EJECTED)
    bench.set(LEAST, [target("1", 2)])
    assert bench.take().target.generation == 2


def test_a_failure_of_a_target_that_left_is_nobodys_concern():
    bench = Bench(LEAST)
    first, second = bench.take_from("2"), bench.take_from("2")
    bench.set(LEAST, targets("1"))
    assert bench.fail(first) is None
    assert bench.fail(second) is None
    assert bench.router.next_deadline_ns() is None


@pytest.mark.parametrize("state", [TargetState.STARTING, TargetState.DRAINING])
def test_a_starting_or_draining_target_takes_no_request(state):
    bench = Bench(LEAST, [target("1", state=state), target("2")])
    assert {bench.take().target.target_id for _ in range(10)} == {"2"}


def test_a_draining_target_keeps_its_leases():
    bench = Bench(LEAST, targets("1", "2"))
    held = bench.take(tried=("2",))
    bench.set(LEAST, [target("1", state=TargetState.DRAINING), target("2")])
    assert bench.in_flight()["1"] == 1
    bench.complete(held)
    assert bench.in_flight()["1"] == 0


def test_draining_one_target_moves_only_its_keys():
    bench = Bench(prefix_aware(threshold=1000))
    keys = range(300)
    before = {key: bench.take(key).target.target_id for key in keys}
    members = [
        target(name, state=TargetState.DRAINING if name == "11" else TargetState.IN_SERVICE) for name in IDS
    ]
    bench.set(prefix_aware(threshold=1000), members)
    after = {key: bench.take(key).target.target_id for key in keys}
    assert {before[key] for key in keys if before[key] != after[key]} == {"11"}
    assert "11" not in after.values()


# --- variants and endpoints that come and go --------------------------------------------------
def test_a_deleted_endpoints_leases_are_open_until_they_are_released():
    bench = Bench(LEAST)
    held = [bench.take() for _ in range(3)]
    bench.clear()
    assert bench.router.endpoints == {}
    assert bench.router.open_leases() == 3
    for left, decision in zip([2, 1, 0], held, strict=True):
        assert bench.complete(decision) is None
        assert bench.router.open_leases() == left


def test_a_deleted_endpoints_targets_are_known_until_their_leases_are_released():
    bench = Bench(LEAST)
    held = bench.take_from("2")
    bench.clear()
    assert bench.in_flight() == {"2": 1}
    bench.complete(held)
    assert bench.in_flight() == {}


def test_an_exchange_that_chose_its_variant_before_the_deletion_is_refused():
    bench = Bench(LEAST)
    book = bench.book
    held = bench.take_from("2")
    bench.clear()
    assert bench.router.decide(book, RoutingRequest(key=KEY), NOW) == Refused(Refusal.NO_TARGET)
    bench.complete(held)


def test_an_endpoint_that_is_created_again_under_load_counts_what_is_open_on_its_targets():
    bench = Bench(LEAST)
    held = [bench.take_from("2") for _ in range(3)]
    bench.clear()
    bench.set(LEAST, targets("1", "2"))
    assert bench.in_flight() == {"1": 0, "2": 3}
    for decision in held:
        bench.complete(decision)
    assert (bench.in_flight(), bench.router.open_leases()) == ({"1": 0, "2": 0}, 0)


def test_an_endpoint_that_is_created_again_does_not_inherit_from_another_of_a_similar_name():
    router = Router(Random(1))
    router.apply_fleet(fleet(1, **{"1": [variant(LEAST, targets("1"), name="11")]}))
    held = router.decide(router.endpoints["1"].variants["11", 0], NO_PROMPT, NOW)
    router.apply_fleet(fleet(2, **{"11": [variant(LEAST, targets("1"), name="1")]}))
    assert router.endpoints["11"].variants["1", 0].rows["1"].in_flight == 0
    router.apply(Completed(held.lease), NOW)
    assert router.open_leases() == 0


def test_an_endpoint_that_is_created_again_with_new_servers_starts_at_zero():
    bench = Bench(LEAST, targets("1"))
    held = bench.take()
    bench.clear()
    bench.set(LEAST, [target("1", 2)])
    assert bench.in_flight() == {"1": 0}
    bench.complete(held)
    assert (bench.in_flight(), bench.router.open_leases()) == ({"1": 0}, 0)


def test_a_variant_that_is_removed_keeps_its_leases_open():
    bench = Bench()
    bench.set_variants(variant(LEAST, targets("1")), variant(LEAST, targets("2"), name="w"))
    held = bench.router.decide(bench.router.endpoints["e"].variants["w", 0], NO_PROMPT, NOW)
    bench.set_variants(variant(LEAST, targets("1")))
    assert bench.router.open_leases() == 1
    bench.complete(held)
    assert bench.router.open_leases() == 0


def test_nothing_of_a_deleted_endpoint_is_kept_once_its_leases_are_released():
    bench = Bench()
    held = bench.take()
    bench.clear()
    bench.complete(held)
    bench.clear()
    assert bench.router._retired == {}


# --- choosing a variant -----------------------------------------------------------------------
def two_variants(weight, other_weight):
    bench = Bench()
    bench.set_variants(
        variant(RANDOM, targets("1"), weight=weight),
        variant(RANDOM, targets("2"), name="w", weight=other_weight),
    )
    return bench.router, bench.router.endpoints["e"]


def test_the_only_variant_serves():
    bench = Bench()
    assert bench.router.choose_variant(bench.router.endpoints["e"], None) is bench.book


def test_variants_share_the_traffic_by_weight():
    router, endpoint = two_variants(3.0, 1.0)
    counts = Counter(router.choose_variant(endpoint, None).name for _ in range(4000))
    assert counts["v"] == pytest.approx(3000, abs=110)  # four standard deviations


def test_new_weights_apply_to_the_next_invocation():
    bench = Bench()
    both = lambda a, b: (
        variant(RANDOM, targets("1"), weight=a),
        variant(RANDOM, targets("2"), name="w", weight=b),
    )
    bench.set_variants(*both(1.0, 0.0))
    endpoint = bench.router.endpoints["e"]
    assert {bench.router.choose_variant(endpoint, None).name for _ in range(50)} == {"v"}
    bench.set_variants(*both(0.0, 1.0))
    assert {bench.router.choose_variant(endpoint, None).name for _ in range(50)} == {"w"}


def test_variants_without_weight_serve_nothing():
    router, endpoint = two_variants(0.0, 0.0)
    assert router.choose_variant(endpoint, None) is None


def test_a_single_variant_without_weight_serves_nothing():
    bench = Bench()
    bench.set_variants(variant(RANDOM, targets("1"), weight=0.0))
    assert bench.router.choose_variant(bench.router.endpoints["e"], None) is None


def test_a_named_variant_overrides_the_weights():
    router, endpoint = two_variants(1.0, 0.0)
    assert router.choose_variant(endpoint, "w").name == "w"


def test_an_unknown_variant_is_none():
    router, endpoint = two_variants(1.0, 1.0)
    assert router.choose_variant(endpoint, "V") is None


# --- deciding ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("routing", "reason", "rank"),
    [
        (RANDOM, Reason.RANDOM, -1),
        (LEAST, Reason.LEAST_OUTSTANDING, -1),
        (prefix_aware(), Reason.AFFINITY, 0),
    ],
)
def test_a_decision_says_how_it_was_made(routing, reason, rank):
    bench = Bench(routing)
    decision = bench.take()
    assert (decision.reason, decision.rank, decision.candidates) == (reason, rank, 5)
    assert (decision.variant, decision.strategy) == ("v", routing.strategy)


def test_a_decision_reserves_in_the_same_step():
    bench = Bench(prefix_aware(threshold=3))
    decisions = [bench.take() for _ in range(7)]
    assert [d.target.target_id for d in decisions] == ["11"] * 3 + ["21"] * 3 + ["2"]
    assert [d.in_flight for d in decisions] == [0, 1, 2, 0, 1, 2, 0]
    assert [d.rank for d in decisions] == [0, 0, 0, 1, 1, 1, 2]
    assert [d.reason for d in decisions] == [Reason.AFFINITY] * 3 + [Reason.OVERFLOW] * 4
    assert bench.router.open_leases() == 7


def test_a_full_fleet_still_serves_and_says_so():
    bench = Bench(prefix_aware(threshold=1))
    assert [bench.take().reason for _ in range(6)][-1] is Reason.SATURATED


def test_a_request_without_text_is_routed_by_load():
    bench = Bench(prefix_aware())
    decision = bench.take(key=None)
    assert (decision.reason, decision.rank) == (Reason.NO_KEY, -1)


@pytest.mark.parametrize(
    ("routing", "key", "rank"), [(RANDOM, KEY, -1), (LEAST, KEY, -1), (prefix_aware(), KEY, 0),
                                 (prefix_aware(), None, -1)],
)  # fmt: skip
def test_a_single_target_takes_everything_and_says_so(routing, key, rank):
    bench = Bench(routing, targets("1"))
    decisions = [bench.take(key) for _ in range(5)]
    assert {(d.reason, d.rank, d.candidates) for d in decisions} == {(Reason.ONLY_CANDIDATE, rank, 1)}
    assert decisions[-1].in_flight == 4


def test_targets_that_were_tried_are_not_tried_again():
    bench = Bench(prefix_aware())
    assert [bench.take(tried=tuple(RANKED[:n])).target.target_id for n in range(5)] == RANKED


def test_tried_is_compared_by_whole_ids():
    bench = Bench(LEAST, targets("1", "11"))
    assert bench.take(tried=("1",)).target.target_id == "11"
    assert bench.take(tried=("111",)).candidates == 2


@pytest.mark.parametrize("state", [TargetState.STARTING, TargetState.DRAINING])
def test_a_variant_without_a_target_in_service_refuses(state):
    bench = Bench(LEAST, [target("1", state=state)])
    assert bench.decide() == Refused(Refusal.NO_TARGET)
    assert bench.router.open_leases() == 0


def test_a_variant_without_targets_refuses():
    bench = Bench()
    bench.set_variants(variant(LEAST, ()))
    assert bench.decide() == Refused(Refusal.NO_TARGET)


def test_an_invocation_that_tried_every_target_is_refused():
    bench = Bench(LEAST, targets("1", "2"))
    assert bench.decide(tried=("2", "1")) == Refused(Refusal.ALL_TRIED)


def test_an_invocation_that_tried_every_target_that_is_not_ejected_is_refused():
    bench = Bench(LEAST, targets("1", "2"))
    bench.fail(bench.take(tried=("2",)))
    assert bench.decide(tried=("2",)) == Refused(Refusal.ALL_EJECTED)


def test_a_prefix_aware_variant_has_a_threshold():
    bench = Bench(Routing(RoutingStrategy.PREFIX_AWARE))
    with pytest.raises(AssertionError, match="control validates RoutingConfig"):
        bench.decide()


def test_routers_that_share_nothing_agree_on_every_home_and_overflow():
    forward = Bench(prefix_aware(threshold=1), targets(*IDS), seed=1)
    backward = Bench(prefix_aware(threshold=1), targets(*reversed(IDS)), seed=2)
    late = Bench(prefix_aware(threshold=1), targets("21"), seed=3)
    late.set(prefix_aware(threshold=1), targets("21", "2", "1", "111", "11"))
    for key in range(100):
        orders = []
        for bench in (forward, backward, late):
            held = [bench.take(key) for _ in IDS]
            orders.append([decision.target.target_id for decision in held])
            for decision in held:
                bench.complete(decision)
        assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("routing", [RANDOM, LEAST])
def test_the_same_seed_decides_the_same_however_the_targets_came(routing):
    at_once = Bench(routing, targets(*IDS), seed=5)
    one_by_one = Bench(routing, targets("21"), seed=5)
    for n in range(2, len(IDS) + 1):
        one_by_one.set(routing, targets(*reversed(IDS))[:n])
    decided = [[bench.take().target.target_id for _ in range(50)] for bench in (at_once, one_by_one)]
    assert decided[0] == decided[1]


# --- ending attempts --------------------------------------------------------------------------
@pytest.mark.parametrize("end", [Bench.complete, Bench.cancel, Bench.fail])
def test_every_end_of_an_attempt_releases_its_lease(end):
    bench = Bench(LEAST)
    end(bench, bench.take())
    assert bench.router.open_leases() == 0
    assert set(bench.in_flight().values()) == {0}


@pytest.mark.parametrize("end", [Bench.complete, Bench.cancel, Bench.fail])
def test_an_attempt_ends_once(end):
    bench = Bench(LEAST)
    decision = bench.take()
    end(bench, decision)
    with pytest.raises(AssertionError, match="released twice"):
        bench.complete(decision)


def test_a_lease_that_routing_did_not_make_is_a_broken_assumption():
    bench = Bench(LEAST)
    decision = bench.take()
    decision.lease.book = "a book"
    with pytest.raises(AssertionError, match="leases come from decide"):
        bench.complete(decision)


# --- health -----------------------------------------------------------------------------------
def test_a_refused_connection_ejects_at_once():
    bench = Bench(LEAST)
    change = bench.eject("11")
    assert (change.target_id, change.generation, change.ejected) == ("11", 1, True)
    assert change.reason == "connect_failed"
    assert {bench.take().target.target_id for _ in range(20)} == set(IDS) - {"11"}
    assert bench.router.targets()["11"][2] is True


def test_ejecting_a_target_moves_only_its_keys():
    bench = Bench(prefix_aware(threshold=1000))
    before = {key: bench.take(key).target.target_id for key in range(300)}
    bench.eject("11")
    after = {key: bench.take(key).target.target_id for key in range(300)}
    assert {before[key] for key in after if before[key] != after[key]} == {"11"}


def test_server_errors_in_a_row_eject():
    bench = Bench(LEAST)
    changes = [bench.fail(bench.take_from("2"), FailureCause.SERVER_ERROR) for _ in range(5)]
    assert changes[:4] == [None] * 4
    assert (changes[4].target_id, changes[4].reason) == ("2", "server_error")


def test_a_callers_disconnect_neither_counts_nor_ends_a_run_of_failures():
    bench = Bench(LEAST)
    for _ in range(4):
        bench.fail(bench.take_from("2"), FailureCause.SERVER_ERROR)
    for _ in range(20):
        assert bench.cancel(bench.take_from("2")) is None
    assert bench.fail(bench.take_from("2"), FailureCause.SERVER_ERROR).ejected


def test_server_errors_everywhere_eject_at_most_half():
    bench = Bench(LEAST)
    for _ in range(20):
        for name in IDS:
            if name in {row.target.target_id for row in bench.book.candidates}:
                bench.fail(bench.take_from(name), FailureCause.SERVER_ERROR)
    assert sum(ejected for _, _, ejected in bench.router.targets().values()) == 2


def test_targets_that_do_not_serve_do_not_count_in_the_half():
    draining = [target(name, state=TargetState.DRAINING) for name in ("2", "21", "111")]
    bench = Bench(LEAST, [target("1"), *draining])
    for _ in range(20):
        assert bench.fail(bench.take(), FailureCause.SERVER_ERROR) is None


def test_refused_connections_may_eject_every_target():
    bench = Bench(LEAST)
    for name in IDS:
        bench.eject(name)
    assert bench.decide() == Refused(Refusal.ALL_EJECTED)


def test_without_an_ejection_there_is_no_deadline():
    bench = Bench(LEAST)
    bench.take()
    assert bench.router.next_deadline_ns() is None
    assert bench.router.on_deadline(NOW) == []


def test_the_next_deadline_is_the_end_of_the_first_ejection():
    bench = Bench(LEAST)
    bench.eject("1", now_ns=NOW + 7)
    bench.eject("2", now_ns=NOW)
    assert bench.router.next_deadline_ns() == NOW + EJECTION_NS_MIN


@pytest.mark.parametrize(("late_ns", "ended"), [(-1, False), (0, True), (1, True)])
def test_an_ejection_ends_at_its_deadline(late_ns, ended):
    bench = Bench(LEAST)
    bench.eject("1")
    changes = bench.router.on_deadline(NOW + EJECTION_NS_MIN + late_ns)
    assert [(c.target_id, c.ejected, c.reason) for c in changes] == [("1", False, "probation")] * ended
    assert (bench.router.next_deadline_ns() is None) is ended


def on_probation(*, held=0, members=()):
    """A bench whose target 11 is on probation, with leases from before its ejection still open."""
    bench = Bench(prefix_aware(threshold=1000), members or targets(*IDS))
    before = [bench.take_from("11") for _ in range(held)]
    bench.eject("11")
    bench.router.on_deadline(NOW + EJECTION_NS_MIN)
    return bench, before


def test_a_target_on_probation_takes_one_request_at_a_time():
    bench, _ = on_probation()
    assert [bench.take().target.target_id for _ in range(3)] == ["11", "21", "21"]


def test_a_success_on_probation_brings_a_target_back_into_full_service():
    bench, _ = on_probation()
    change = bench.complete(bench.take())
    assert (change.target_id, change.ejected, change.reason) == ("11", False, "recovered")
    assert [bench.take().target.target_id for _ in range(3)] == ["11"] * 3


def test_a_disconnect_on_probation_decides_nothing_and_lets_the_next_request_try():
    bench, _ = on_probation()
    assert bench.cancel(bench.take()) is None
    assert [bench.take().target.target_id for _ in range(2)] == ["11", "21"]


def test_a_stale_connection_on_probation_decides_nothing_and_lets_the_next_request_try():
    bench, _ = on_probation()
    assert bench.fail(bench.take(), FailureCause.STALE_CONNECTION) is None
    assert [bench.take().target.target_id for _ in range(2)] == ["11", "21"]


def test_a_failure_on_probation_ejects_again_for_twice_as_long():
    bench, _ = on_probation()
    assert bench.fail(bench.take(), FailureCause.BROKEN).ejected
    assert bench.router.next_deadline_ns() == NOW + 2 * EJECTION_NS_MIN


def test_ejections_in_a_row_are_bounded():
    bench, _ = on_probation()
    now_ns = NOW
    for _ in range(10):
        bench.fail(bench.take(), now_ns=now_ns)
        assert bench.router.next_deadline_ns() <= now_ns + EJECTION_NS_MAX
        now_ns = bench.router.next_deadline_ns()
        bench.router.on_deadline(now_ns)


def test_requests_from_before_the_ejection_do_not_keep_a_target_from_its_probation():
    bench, _ = on_probation(held=3)
    assert [bench.take().target.target_id for _ in range(3)] == ["11", "21", "21"]


def test_a_success_from_before_the_ejection_is_no_recovery():
    bench, before = on_probation(held=1)
    assert bench.complete(before[0]) is None
    assert [bench.take().target.target_id for _ in range(2)] == ["11", "21"]


def test_a_failure_from_before_the_ejection_does_not_eject_again():
    bench, before = on_probation(held=1)
    assert bench.fail(before[0], FailureCause.IDLE_TIMEOUT) is None
    assert bench.take().target.target_id == "11"


def test_a_target_that_returns_during_its_probation_may_be_tried_though_a_request_is_lost_on_the_way():
    bench, _ = on_probation(held=1)
    probe = bench.take()
    rest = tuple(member for member in targets(*IDS) if member.target_id != "11")
    bench.set(prefix_aware(threshold=1000), rest)
    bench.complete(probe)
    bench.set(prefix_aware(threshold=1000), targets(*IDS))
    assert [bench.take().target.target_id for _ in range(2)] == ["11", "21"]


def test_when_the_only_target_is_busy_with_its_probation_others_are_refused():
    bench, _ = on_probation(members=targets("11"))
    held = bench.take()
    assert bench.decide() == Refused(Refusal.ALL_EJECTED)
    bench.complete(held)
    assert bench.take().target.target_id == "11"


@pytest.mark.parametrize("end", [Bench.complete, Bench.cancel, Bench.fail])
def test_a_probe_that_ended_keeps_nothing_in_memory(end):
    # Leases are not tracked by the cycle collector: one that a row remembers keeps its book for ever.
    before = books_in_memory()
    bench, _ = on_probation()
    end(bench, bench.take())
    del bench
    assert books_in_memory() == before


def books_in_memory():
    gc.collect()
    return sum(isinstance(each, VariantBook) for each in gc.get_objects())


# --- copies -----------------------------------------------------------------------------------
def copy(instance, component, number=1, *, generation=1, state=TargetState.IN_SERVICE, adapters=()):
    return Target(
        TargetId(f"{instance}/{component}/{number}"), InstanceId(instance), generation, "host", 80,
        state=state, component=component, adapters=adapters,
    )  # fmt: skip


def copies(*components):
    """Two copies of each component on each of two instances."""
    return tuple(copy(i, c, n) for i in ("1", "2") for c in components for n in (1, 2))


class Copies(Bench):
    """The same with copies; requests name component ``c`` unless they say otherwise."""

    def __init__(self, routing=LEAST, members=(), seed=1):
        super().__init__(routing, members or copies("c", "d"), seed)

    def decide(self, key=KEY, tried=(), component="c", adapter="", session="", now_ns=NOW):
        request = RoutingRequest(key=key, component=component, adapter=adapter, session=session)
        return self.router.decide(self.book, request, now_ns, tried)

    def take(self, key=KEY, tried=(), **names):
        decision = self.decide(key, tried, **names)
        assert isinstance(decision, Assigned), decision
        return decision

    def names(self, component):
        return [row.target.target_id for row in self.book.pool_of(component).serving]

    def take_from(self, name, component="c", adapter=""):
        others = tuple(other for other in self.names(component) if other != name)
        return self.take(tried=others, component=component, adapter=adapter)

    def eject(self, name, now_ns=NOW):
        assert self.fail(self.take_from(name), now_ns=now_ns).ejected


def test_server_errors_eject_at_most_half_of_a_components_copies_whatever_others_there_are():
    bench = Copies()
    for _ in range(30):
        for name in bench.names("c"):
            if name in {row.target.target_id for row in bench.book.candidates}:
                bench.fail(bench.take_from(name), FailureCause.SERVER_ERROR)
    ejected = [name for name, (_, _, out) in bench.router.targets().items() if out]
    assert len(ejected) == 2
    assert all("/c/" in name for name in ejected)


def test_a_refused_connection_to_a_copy_ejects_that_copy_and_no_other_on_its_instance():
    bench = Copies()
    bench.eject("1/c/1")
    assert {bench.take().target.target_id for _ in range(20)} == {"1/c/2", "2/c/1", "2/c/2"}
    assert {bench.take(component="d").target.target_id for _ in range(20)} == set(bench.names("d"))


def test_an_ejected_copys_keys_go_to_the_copy_beside_it():
    bench = Copies(prefix_aware(threshold=1000))
    before = {key: bench.take(key).target for key in range(200)}
    bench.eject("1/c/1")
    for key, target in before.items():
        after = bench.take(key).target.target_id
        assert after == ("1/c/2" if target.target_id == "1/c/1" else target.target_id)


def test_a_copy_on_probation_takes_one_request_at_a_time_and_the_rest_go_to_the_copy_beside_it():
    bench = Copies(prefix_aware(threshold=1000))
    key = next(key for key in range(100) if bench.take(key).target.target_id == "1/c/1")
    bench.eject("1/c/1")
    bench.router.on_deadline(NOW + EJECTION_NS_MIN)
    first, *rest = [bench.take(key).target.target_id for _ in range(4)]
    assert (first, set(rest)) == ("1/c/1", {"1/c/2"})


def test_a_retry_goes_to_the_copy_beside_the_one_that_failed_and_then_to_the_next_instance():
    bench = Copies(prefix_aware(threshold=1000))
    first = bench.take(7).target
    second = bench.take(7, tried=(first.target_id,)).target
    third = bench.take(7, tried=(first.target_id, second.target_id)).target
    assert first.instance_id == second.instance_id != third.instance_id


def test_an_invocation_that_tried_every_copy_of_its_component_is_refused():
    bench = Copies()
    assert bench.decide(tried=tuple(bench.names("c"))) == Refused(Refusal.ALL_TRIED)
    assert isinstance(bench.decide(tried=tuple(bench.names("c")), component="d"), Assigned)


def test_a_component_whose_copies_are_all_ejected_is_refused():
    bench = Copies()
    for name in bench.names("c"):
        bench.eject(name)
    assert bench.decide() == Refused(Refusal.ALL_EJECTED)
    assert bench.decide(adapter="lora") == Refused(Refusal.ALL_EJECTED)
    assert isinstance(bench.decide(component="d"), Assigned)


def test_an_adapter_whose_only_copy_is_busy_with_its_probation_goes_to_another_copy():
    bench = Copies(prefix_aware(), [copy("1", "c", adapters=("lora",)), copy("2", "c")])
    bench.fail(bench.take_from("1/c/1"))
    bench.router.on_deadline(NOW + EJECTION_NS_MIN)
    decisions = [bench.take(adapter="lora") for _ in range(2)]
    assert [(d.target.target_id, d.reason) for d in decisions] == [
        ("1/c/1", Reason.ONLY_CANDIDATE), ("2/c/1", Reason.ADAPTER_NOT_LOADED),
    ]  # fmt: skip


def test_a_cold_adapter_on_the_one_copy_there_is_says_so():
    bench = Copies(LEAST, [copy("1", "c")])
    assert bench.take(adapter="lora").reason is Reason.ADAPTER_NOT_LOADED


def test_a_cold_adapters_request_may_be_the_probe_of_a_copy_on_probation():
    bench = Copies(LEAST, [copy("1", "c")])
    bench.eject("1/c/1")
    bench.router.on_deadline(NOW + EJECTION_NS_MIN)
    probe = bench.take(adapter="lora")
    assert bench.decide() == Refused(Refusal.ALL_EJECTED)
    assert bench.complete(probe).reason == "recovered"


def test_a_named_component_leaves_only_the_variants_that_have_it():
    bench = Copies()
    bench.set_variants(
        variant(LEAST, copies("c"), weight=9.0),
        variant(LEAST, copies("d"), name="w"),
        variant(LEAST, copies("d"), name="x", weight=0.0),
    )
    choose = lambda component: bench.router.choose_variant(
        bench.router.endpoints["e"], None, component=component
    )
    assert {choose("d").name for _ in range(50)} == {"w"}
    assert {choose("c").name for _ in range(50)} == {"v"}
    assert choose("dd") is None


# --- sessions ---------------------------------------------------------------------------------
LIFE_NS = 60 * 10**9
ID = "a-session"


class Sessions(Copies):
    """A bench whose every target can be asked to begin a session."""

    def begin(self, name="1/c/1", *, session=ID, life_ns=LIFE_NS, component="c"):
        others = tuple(other for other in self.names(component) if other != name)
        decision = self.take(tried=others, session=NEW_SESSION, component=component)
        opened = self.router.open_session(decision.lease, session, NOW + life_ns, NOW)
        self.complete(decision)
        return opened

    def go_on(self, *, session=ID, now_ns=NOW, tried=(), component="c"):
        return self.decide(None, tried, session=session, now_ns=now_ns, component=component)

    def where(self, **names):
        decision = self.go_on(**names)
        assert isinstance(decision, Assigned), decision
        self.complete(decision)
        return decision.target.target_id

    def with_state(self, name, state, generation=1):
        at = name.split("/")
        changed = copy(at[0], at[1], int(at[2]), state=state, generation=generation)
        members = [each for each in copies("c", "d") if each.target_id != name]
        self.set(self.book.routing, [*members, changed])


@pytest.mark.parametrize("routing", [RANDOM, LEAST, prefix_aware(threshold=1)])
def test_a_sessions_requests_go_to_its_target_before_any_strategy(routing):
    bench = Sessions(routing)
    assert bench.begin("2/c/1")
    held = [bench.go_on() for _ in range(5)]
    assert {(d.target.target_id, d.reason, d.rank, d.candidates) for d in held} == {
        ("2/c/1", Reason.SESSION, -1, 1)
    }
    assert [d.in_flight for d in held] == [0, 1, 2, 3, 4], "also at and above the threshold"
    assert bench.router.open_leases() == 5


@pytest.mark.parametrize(
    ("routing", "reason"),
    [(RANDOM, Reason.RANDOM), (LEAST, Reason.LEAST_OUTSTANDING), (prefix_aware(), Reason.AFFINITY)],
)
def test_a_new_session_is_placed_by_the_strategy(routing, reason):
    assert Sessions(routing).take(session=NEW_SESSION).reason is reason


def test_a_session_goes_on_at_its_target_while_that_drains_and_no_new_one_begins_there():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.with_state("1/c/1", TargetState.DRAINING)
    assert {bench.where() for _ in range(5)} == {"1/c/1"}
    placed = {bench.take(session=NEW_SESSION).target.target_id for _ in range(30)}
    assert placed == {"1/c/2", "2/c/1", "2/c/2"}


def test_a_target_that_began_to_drain_while_it_began_a_session_keeps_it():
    bench = Sessions()
    decision = bench.take(session=NEW_SESSION)
    bench.with_state(decision.target.target_id, TargetState.DRAINING)
    assert bench.router.open_session(decision.lease, ID, NOW + LIFE_NS, NOW)
    assert bench.where() == decision.target.target_id


@pytest.mark.parametrize(("late_ns", "open_"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("told", [True, False])
def test_a_session_ends_at_its_deadline_whether_the_deadline_was_met_or_not(late_ns, open_, told):
    bench = Sessions()
    bench.begin()
    if told:
        bench.router.on_deadline(NOW + LIFE_NS + late_ns)
    decision = bench.go_on(now_ns=NOW + LIFE_NS + late_ns)
    assert isinstance(decision, Assigned) is open_
    assert open_ or decision == Refused(Refusal.SESSION_UNKNOWN)


def test_the_next_deadline_is_also_the_end_of_the_first_session():
    bench = Sessions()
    bench.begin(life_ns=2 * EJECTION_NS_MIN)
    assert bench.router.next_deadline_ns() == NOW + 2 * EJECTION_NS_MIN
    bench.eject("2/c/2")
    assert bench.router.next_deadline_ns() == NOW + EJECTION_NS_MIN
    bench.router.on_deadline(NOW + 2 * EJECTION_NS_MIN)
    assert (bench.router.next_deadline_ns(), len(bench.router.sessions)) == (None, 0)


def test_a_session_that_was_never_opened_is_unknown():
    assert Sessions().go_on() == Refused(Refusal.SESSION_UNKNOWN)


def test_a_closed_session_is_unknown():
    bench = Sessions()
    bench.begin()
    closing = bench.go_on()
    assert bench.router.close_session(closing.lease, ID)
    bench.complete(closing)
    assert bench.go_on() == Refused(Refusal.SESSION_UNKNOWN)


def test_a_model_server_cannot_close_the_session_of_another():
    bench = Sessions()
    bench.begin("1/c/1")
    assert not bench.router.close_session(bench.take_from("1/c/2").lease, ID)
    assert not bench.router.close_session(bench.take_from("1/d/1", "d").lease, ID)
    assert not bench.router.close_session(bench.take_from("1/c/1").lease, "another")
    assert bench.where() == "1/c/1"


def test_a_server_that_was_started_anew_cannot_close_what_the_old_one_began():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.with_state("1/c/1", TargetState.IN_SERVICE, generation=2)
    assert not bench.router.close_session(bench.take_from("1/c/1").lease, ID)


def test_a_session_from_elsewhere_goes_on_at_its_target_and_one_whose_target_is_gone_is_gone():
    bench = Sessions()
    session = Session("v", "1/c/2", 1, NOW + LIFE_NS)
    assert bench.router.adopt_session("e", ID, session, NOW)
    decision = bench.go_on()
    assert (decision.reason, decision.target.target_id) == (Reason.SESSION, "1/c/2")
    assert bench.router.adopt_session("e", ID, replace(session, generation=2), NOW)
    assert bench.go_on() == Refused(Refusal.SESSION_GONE)
    assert not bench.router.adopt_session("e", "other", session, NOW + LIFE_NS)


def test_a_session_whose_target_left_is_gone():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.set(LEAST, copies("d"))
    assert bench.go_on() == Refused(Refusal.SESSION_GONE)


def test_a_session_whose_target_left_with_requests_open_is_gone():
    bench = Sessions()
    bench.begin("1/c/1")
    held = bench.take_from("1/c/1")
    bench.set(LEAST, copies("d"))
    assert bench.go_on() == Refused(Refusal.SESSION_GONE)
    bench.complete(held)


def test_a_session_whose_target_returns_as_it_was_goes_on():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.set(LEAST, copies("d"))
    bench.set(LEAST, copies("c", "d"))
    assert bench.where() == "1/c/1"


def test_a_session_whose_target_was_started_anew_is_gone():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.with_state("1/c/1", TargetState.IN_SERVICE, generation=2)
    assert bench.go_on() == Refused(Refusal.SESSION_GONE)


def test_a_session_whose_target_is_not_in_service_yet_is_unavailable():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.with_state("1/c/1", TargetState.STARTING)
    assert bench.go_on() == Refused(Refusal.SESSION_UNAVAILABLE)


def test_a_session_whose_target_is_ejected_is_unavailable_and_its_request_is_the_probe_afterwards():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.eject("1/c/1")
    assert bench.go_on() == Refused(Refusal.SESSION_UNAVAILABLE)
    bench.router.on_deadline(NOW + EJECTION_NS_MIN)
    probe = bench.go_on()
    assert bench.go_on() == Refused(Refusal.SESSION_UNAVAILABLE)
    assert bench.complete(probe).reason == "recovered"
    assert bench.where() == "1/c/1"


def test_a_sessions_failure_on_a_draining_target_ejects_it():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.with_state("1/c/1", TargetState.DRAINING)
    assert bench.fail(bench.go_on()).ejected
    assert bench.go_on() == Refused(Refusal.SESSION_UNAVAILABLE)


def test_a_session_whose_target_was_tried_goes_nowhere_else():
    bench = Sessions()
    bench.begin("1/c/1")
    assert bench.go_on(tried=("1/c/1",)) == Refused(Refusal.ALL_TRIED)
    assert bench.where(tried=("1/c/2",)) == "1/c/1"


def test_a_session_is_unknown_to_another_component():
    bench = Sessions()
    bench.begin("1/c/1")
    assert bench.go_on(component="d") == Refused(Refusal.SESSION_UNKNOWN)
    assert bench.go_on(component="") == Refused(Refusal.SESSION_UNKNOWN)


def test_a_session_works_on_an_endpoint_without_components():
    bench = Sessions(LEAST, targets(*IDS))
    bench.begin("21", component="")
    assert {bench.where(component="") for _ in range(5)} == {"21"}


# --- ids that are not unique --------------------------------------------------------------------
def test_an_id_that_is_open_on_another_target_opens_no_second_session():
    bench = Sessions()
    assert bench.begin("1/c/1")
    assert not bench.begin("1/c/2")
    assert bench.where() == "1/c/1"


def test_an_id_that_is_open_on_another_variant_opens_no_second_session():
    bench = two_variants_with_a_session()
    assert not bench.begin("1", component="")
    assert bench.router.choose_variant(bench.router.endpoints["e"], None, session=ID).name == "w"


def test_a_target_may_begin_its_session_again_and_give_it_another_end():
    bench = Sessions()
    assert bench.begin(life_ns=LIFE_NS)
    assert bench.begin(life_ns=2 * LIFE_NS)
    assert isinstance(bench.go_on(now_ns=NOW + LIFE_NS), Assigned)


@pytest.mark.parametrize("why", ["left", "restarted", "over"])
def test_the_id_of_a_session_that_is_lost_or_over_may_be_given_again(why):
    bench = Sessions()
    bench.begin("1/c/1")
    if why == "restarted":
        bench.with_state("1/c/1", TargetState.IN_SERVICE, generation=2)
    elif why == "left":
        bench.set(LEAST, [each for each in copies("c") if each.target_id != "1/c/1"])
    decision = bench.take(tried=("1/c/1",), session=NEW_SESSION)
    now_ns = NOW + LIFE_NS * (why == "over")
    assert bench.router.open_session(decision.lease, ID, now_ns + LIFE_NS, now_ns)
    assert bench.where(now_ns=now_ns) == decision.target.target_id


# --- sessions and variants ----------------------------------------------------------------------
def two_variants_with_a_session():
    bench = Sessions(LEAST, targets("1"))
    bench.set_variants(variant(LEAST, targets("1")), variant(LEAST, targets("2"), name="w", weight=0.0))
    other = bench.router.endpoints["e"].variants["w", 0]
    decision = bench.router.decide(other, RoutingRequest(session=NEW_SESSION), NOW)
    assert bench.router.open_session(decision.lease, ID, NOW + LIFE_NS, NOW)
    bench.complete(decision)
    return bench


def test_a_session_is_served_by_the_variant_it_was_opened_on_whatever_the_weights():
    bench = two_variants_with_a_session()
    endpoint = bench.router.endpoints["e"]
    assert {bench.router.choose_variant(endpoint, None, session=ID).name for _ in range(20)} == {"w"}
    assert bench.router.choose_variant(endpoint, None, session="unknown").name == "v"


def test_a_named_variant_overrides_the_session_which_is_unknown_there():
    bench = two_variants_with_a_session()
    book = bench.router.choose_variant(bench.router.endpoints["e"], "v", session=ID)
    assert book.name == "v"
    assert bench.go_on(component="") == Refused(Refusal.SESSION_UNKNOWN)


def test_a_session_of_a_variant_that_left_is_gone():
    bench = two_variants_with_a_session()
    bench.set(LEAST, targets("1"))
    assert bench.router.choose_variant(bench.router.endpoints["e"], None, session=ID) is bench.book
    assert bench.go_on(component="") == Refused(Refusal.SESSION_GONE)


def test_a_session_of_a_deleted_endpoint_is_gone_also_for_an_exchange_that_had_chosen_its_variant():
    bench = Sessions()
    bench.begin("1/c/1")
    book = bench.book
    bench.clear()
    request = RoutingRequest(component="c", session=ID)
    assert bench.router.decide(book, request, NOW) == Refused(Refusal.SESSION_GONE)


def blue_and_green(*, green=0.25, weight=1.0):
    """Put a second revision of the variant beside the first."""
    blue = variant(LEAST, targets("1", "2"), weight=weight, revision=1, share=1 - green)
    return blue, variant(LEAST, targets("3"), weight=weight, revision=2, share=green)


def chosen(bench, target_variant=None, *, times=400):
    found = [bench.router.choose_variant(bench.router.endpoints["e"], target_variant) for _ in range(times)]
    return Counter((book.name, book.revision) for book in found)


def test_two_revisions_of_a_variant_share_its_weight():
    bench = Bench()
    bench.set_variants(*blue_and_green(), variant(LEAST, targets("11"), name="w", weight=1.0))
    shares = chosen(bench, times=4000)
    assert shares["v", 1] == pytest.approx(1500, abs=120)
    assert shares["v", 2] == pytest.approx(500, abs=80)
    assert shares["w", 0] == pytest.approx(2000, abs=130)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_target_variant_is_drawn_among_the_revisions_of_the_name_whatever_its_weight(weight):
    bench = Bench()
    bench.set_variants(*blue_and_green(weight=weight), variant(LEAST, targets("11"), name="w", weight=1.0))
    shares = chosen(bench, "v", times=4000)
    assert sum(shares.values()) == shares["v", 1] + shares["v", 2] == 4000
    assert shares["v", 2] == pytest.approx(1000, abs=120)


def test_a_target_variant_that_is_leaving_is_still_found_and_has_nothing_to_serve_with():
    bench = Bench()
    draining = target("1", state=TargetState.DRAINING)
    bench.set_variants(variant(LEAST, [draining], weight=0.0, revision=1, share=0.0),
                       variant(LEAST, [], weight=0.0, revision=2, share=0.0))  # fmt: skip
    book = bench.router.choose_variant(bench.router.endpoints["e"], "v")
    assert bench.router.decide(book, NO_PROMPT, NOW) == Refused(Refusal.NO_TARGET)


def test_a_draining_revision_keeps_its_leases_in_its_own_book():
    bench = Bench()
    blue, green = blue_and_green(green=0.0)
    bench.set_variants(blue)
    held = bench.router.decide(bench.router.endpoints["e"].variants["v", 1], NO_PROMPT, NOW)
    bench.set_variants(green, replace(blue, share=0.0))
    books = bench.router.endpoints["e"].variants
    assert list(books) == [("v", 2), ("v", 1)]
    assert held.lease.book is books["v", 1]
    assert (books["v", 1].ledger.open_leases, books["v", 2].ledger.open_leases) == (1, 0)
    bench.set_variants(green)
    assert bench.router.open_leases() == 1
    bench.complete(held)
    assert bench.router.open_leases() == 0


def test_a_revision_that_comes_back_while_it_has_leases_finds_its_book():
    bench = Bench()
    blue, green = blue_and_green()
    bench.set_variants(blue)
    held = bench.router.decide(bench.router.endpoints["e"].variants["v", 1], NO_PROMPT, NOW)
    bench.set_variants(green)
    bench.set_variants(green, blue)
    assert bench.router.endpoints["e"].variants["v", 1] is held.lease.book


def test_a_change_of_strategy_alone_keeps_the_book_of_a_revision():
    bench = Bench()
    blue, _ = blue_and_green()
    bench.set_variants(blue)
    before = bench.router.endpoints["e"].variants["v", 1]
    bench.set_variants(replace(blue, routing=RANDOM, weight=3.0))
    assert bench.router.endpoints["e"].variants["v", 1] is before
    assert before.routing == RANDOM


def test_a_session_stays_with_the_revision_that_it_was_opened_on():
    bench = Bench()
    blue, green = blue_and_green(green=0.0)
    bench.set_variants(blue)
    first = bench.router.decide(bench.router.endpoints["e"].variants["v", 1], NO_PROMPT, NOW)
    assert bench.router.open_session(first.lease, ID, NOW + LIFE_NS, NOW)
    bench.set_variants(green, replace(blue, share=0.0, targets=tuple(
        replace(each, state=TargetState.DRAINING) for each in blue.targets)))  # fmt: skip
    for named in (None, "v"):
        book = bench.router.choose_variant(bench.router.endpoints["e"], named, session=ID)
        again = bench.router.decide(book, RoutingRequest(session=ID), NOW)
        assert (book.revision, again.target) == (1, book.rows[first.target.target_id].target)
    assert bench.router.close_session(first.lease, ID)


def test_what_a_new_revision_cannot_serve_goes_to_the_old_one():
    bench = Bench()
    blue, green = blue_and_green(green=0.5)
    bench.set_variants(blue, replace(green, targets=()))
    books = bench.router.endpoints["e"].variants
    decision = bench.router.decide(books["v", 2], NO_PROMPT, NOW)
    assert decision.lease.book is books["v", 1]
    assert decision.variant == "v"


def test_an_attempt_that_failed_on_a_revision_is_made_again_on_the_other():
    bench = Bench()
    blue, green = blue_and_green(green=0.5)
    green = replace(green, targets=targets("11", "21"))
    bench.set_variants(blue, green)
    books = bench.router.endpoints["e"].variants
    again = bench.router.decide(books["v", 2], NO_PROMPT, NOW, ("11",))
    assert again.lease.book is books["v", 1]
    both = bench.router.decide(books["v", 2], NO_PROMPT, NOW, ("11", again.target.target_id))
    assert both.target.target_id not in ("11", again.target.target_id)
    everything = ("1", "2", "11", "21")
    assert bench.router.decide(books["v", 2], NO_PROMPT, NOW, everything) == Refused(Refusal.ALL_TRIED)


def test_what_began_on_a_revision_that_left_is_served_by_the_one_that_is_there():
    bench = Bench()
    blue, green = blue_and_green(green=1.0)
    bench.set_variants(blue)
    left = bench.router.endpoints["e"].variants["v", 1]
    bench.set_variants(green)
    again = bench.router.decide(left, NO_PROMPT, NOW, ("1",))
    assert again.lease.book is bench.router.endpoints["e"].variants["v", 2]


def test_another_variant_takes_nothing_over():
    bench = Bench()
    bench.set_variants(variant(LEAST, ()), variant(LEAST, targets("1"), name="w"))
    book = bench.router.endpoints["e"].variants["v", 0]
    assert bench.router.decide(book, NO_PROMPT, NOW) == Refused(Refusal.NO_TARGET)


# --- shadows ------------------------------------------------------------------------------------
def shadowed(bench, shadow, *variants):
    bench.version += 1
    endpoint = Endpoint(EndpointName("e"), True, variants, shadow)
    assert bench.router.apply_fleet(Fleet(bench.version, "us-east-1", "0" * 12, (endpoint,)))
    return bench.router.endpoints["e"]


def test_a_shadow_is_never_drawn_and_cannot_be_named():
    bench = Bench()
    endpoint = shadowed(bench, variant(LEAST, targets("2"), name="s"), variant(LEAST, targets("1")))
    assert chosen(bench) == {("v", 0): 400}
    assert bench.router.choose_variant(endpoint, "s") is None
    assert endpoint.variant_names() == ["v"]
    assert bench.router.shadow_of(endpoint).name == "s"


def test_a_shadow_without_a_share_gets_no_copies():
    bench = Bench()
    endpoint = shadowed(
        bench, variant(LEAST, targets("2"), name="s", share=0.0), variant(LEAST, targets("1"))
    )
    assert endpoint.variants["v", 0].shadow is None
    endpoint = shadowed(
        bench, variant(LEAST, targets("2"), name="s", share=0.5), variant(LEAST, targets("1"))
    )
    assert endpoint.variants["v", 0].shadow is endpoint.shadow
    endpoint = shadowed(bench, None, variant(LEAST, targets("1")))
    assert endpoint.variants["v", 0].shadow is None
    assert bench.router.shadow_of(endpoint) is None


def test_a_shadows_leases_and_ejections_are_kept_as_those_of_others():
    bench = Bench()
    shadow = variant(LEAST, targets("2"), name="s", revision=3)
    endpoint = shadowed(bench, shadow, variant(LEAST, targets("1")))
    held = bench.router.decide(endpoint.shadow, NO_PROMPT, NOW)
    assert (bench.router.open_leases(), bench.router.targets()["2"][1]) == (1, 1)
    leaving = replace(shadow, share=0.0, weight=0.0)
    endpoint = shadowed(bench, None, variant(LEAST, targets("1")), leaving)
    assert endpoint.variants["s", 3] is held.lease.book
    endpoint = shadowed(bench, shadow, variant(LEAST, targets("1")))
    assert endpoint.shadow is held.lease.book
    bench.clear()
    assert bench.router.open_leases() == 1
    bench.complete(held)
    assert bench.router.open_leases() == 0


def test_sessions_of_two_endpoints_with_the_same_id_are_two():
    bench = Sessions()
    bench.begin("1/c/1")
    bench.version += 1
    members = [variant(LEAST, copies("c"))]
    bench.router.apply_fleet(fleet(bench.version, e=members, e2=members))
    book = bench.router.endpoints["e2"].variants["v", 0]
    request = RoutingRequest(component="c", session=ID)
    assert bench.router.decide(book, request, NOW) == Refused(Refusal.SESSION_UNKNOWN)


# --- how many sessions ------------------------------------------------------------------------
def test_where_no_more_sessions_fit_none_begins_and_open_ones_go_on():
    bench = Sessions()
    bench.router.sessions = SessionTable(2)
    bench.begin("1/c/1", session="1")
    bench.begin("1/c/2", session="2")
    assert bench.decide(session=NEW_SESSION) == Refused(Refusal.SESSIONS_FULL)
    assert bench.router.open_leases() == 0
    assert bench.where(session="1") == "1/c/1"
    assert isinstance(bench.decide(session=NEW_SESSION, now_ns=NOW + LIFE_NS), Assigned)


def test_a_session_that_no_longer_fits_when_its_model_server_has_begun_it_is_not_open():
    bench = Sessions()
    bench.router.sessions = SessionTable(1)
    both = [bench.take(session=NEW_SESSION) for _ in range(2)]
    opened = [
        bench.router.open_session(decision.lease, f"{n}", NOW + LIFE_NS, NOW)
        for n, decision in enumerate(both)
    ]
    assert opened == [True, False]
    assert bench.go_on(session="1") == Refused(Refusal.SESSION_UNKNOWN)


def test_a_session_of_a_lease_that_routing_did_not_make_is_a_broken_assumption():
    bench = Sessions()
    lease = bench.take().lease
    lease.book = "a book"
    with pytest.raises(AssertionError, match="leases come from decide"):
        bench.router.open_session(lease, ID, NOW + LIFE_NS, NOW)
    with pytest.raises(AssertionError, match="leases come from decide"):
        bench.router.close_session(lease, ID)


# --- KV_AWARE ---------------------------------------------------------------------------------
KV_AWARE = Routing(RoutingStrategy.KV_AWARE)
CHAIN = (KEY, 1002, 1003, 1004)
"""A prompt whose first block has the same order of targets as ``KEY``."""


class KvBench(Bench):
    """A KV_AWARE variant, with numbers of the rule of its own."""

    def __init__(self, members=(), routing=KV_AWARE):
        super().__init__(routing, members)
        self.router = Router(Random(1), KvTuning(anchor=0.25, price=0.0, harm=0.125, decode=1e-3, room=0.0))
        self.set(routing, members or targets(*IDS))

    def ask(self, *chain, key=KEY, tried=(), now_ns=NOW):
        request = RoutingRequest(key=key, chain=chain, characters=characters_of(len(chain)) + 100)
        decision = self.router.decide(self.book, request, now_ns, tried)
        assert isinstance(decision, Assigned), decision
        return decision

    def ask_of(self, name, *chain):
        return self.ask(*chain, tried=tuple(other for other in IDS if other != name))

    def learn(self, event):
        self.router.learn(event, NOW)

    def shelf(self, name):
        return self.book.rows[name].shelf

    def queues(self):
        """Pending and resident characters by target, where there are any."""
        return {
            name: (row.shelf.pending, row.shelf.resident)
            for name, row in self.book.rows.items()
            if row.shelf is not None and (row.shelf.pending or row.shelf.resident)
        }


def test_kv_aware_sends_a_new_prompt_home_and_one_like_it_after_it():
    bench = KvBench()
    first = bench.ask(*CHAIN)
    assert (first.target.target_id, first.strategy, first.reason) == (
        RANKED[0], RoutingStrategy.KV_AWARE, Reason.HOME,
    )  # fmt: skip
    assert (first.rank, first.in_flight, first.candidates) == (0, 0, 5)
    bench.complete(first)
    second = bench.ask(*CHAIN)
    assert (second.target.target_id, second.reason, second.rank) == (RANKED[0], Reason.CACHED, 0)


def test_kv_aware_goes_where_an_engine_says_that_the_prompt_is():
    bench = KvBench()
    bench.learn(CacheCleared("111", 1))
    bench.learn(TextBlocksStored("111", 1, CHAIN))
    assert bench.ask(*CHAIN).target.target_id == "111"


@pytest.mark.parametrize("generation", [0, 2])
def test_what_is_told_of_another_generation_or_target_is_void(generation):
    bench = KvBench()
    bench.learn(CacheCleared("111", generation))
    bench.learn(CacheCleared("112", 1))
    bench.learn(TextBlocksStored("111", generation, CHAIN))
    assert bench.shelf("111").trust is Trust.ESTIMATED
    assert bench.ask(*CHAIN).reason is Reason.HOME


@pytest.mark.parametrize(
    ("cause", "doubtful"),
    [
        (FailureCause.CONNECT_FAILED, True), (FailureCause.LOADING, True),
        (FailureCause.SERVER_ERROR, False), (FailureCause.FIRST_BYTE_TIMEOUT, False),
    ],
)  # fmt: skip
def test_a_server_that_is_away_may_come_back_without_its_cache(cause, doubtful):
    bench = KvBench()
    home = bench.ask(*CHAIN)
    bench.complete(home)
    bench.fail(bench.ask(*CHAIN), cause)
    shelf = bench.shelf(home.target.target_id)
    assert shelf.doubtful is doubtful
    assert len(shelf.blocks) == len(CHAIN)


def test_what_is_told_of_a_target_of_another_strategy_means_nothing():
    bench = Bench(LEAST)
    bench.router.learn(CacheCleared("1", 1), NOW)
    assert bench.book.rows["1"].shelf is None


def test_a_request_is_pending_until_its_first_token_and_resident_until_its_end():
    bench = KvBench()
    decision = bench.ask(*CHAIN)
    assert bench.queues() == {RANKED[0]: (characters_of(4) + 100,) * 2}
    assert bench.router.apply(FirstToken(decision.lease), NOW) is None
    assert bench.queues() == {RANKED[0]: (0, characters_of(4) + 100)}
    bench.complete(decision)
    assert bench.queues() == {}
    assert bench.router.apply(FirstToken(decision.lease), NOW) is None
    assert bench.queues() == {}


@pytest.mark.parametrize("end", ["complete", "cancel", "fail"])
def test_nothing_stays_pending_however_a_request_ends(end):
    bench = KvBench()
    getattr(bench, end)(bench.ask(*CHAIN))
    assert bench.queues() == {}


def test_a_first_token_under_another_strategy_means_nothing():
    bench = Bench(LEAST)
    decision = bench.take()
    assert bench.router.apply(FirstToken(decision.lease), NOW) is None
    assert bench.in_flight()[decision.target.target_id] == 1


def test_reports_of_cached_tokens_reach_what_is_known_of_the_target():
    bench = KvBench()
    for _ in range(1 + CONTRADICTIONS_MAX):
        decision = bench.ask(*CHAIN, 1005, 1006)
        bench.router.apply(Completed(decision.lease, prompt_tokens=1000, cached_tokens=0), NOW)
    assert bench.shelf(RANKED[0]).trust is Trust.UNKNOWN


def test_the_only_candidate_gets_the_request_and_what_it_brings():
    bench = KvBench()
    decision = bench.ask_of("111", *CHAIN)
    assert (decision.reason, decision.rank) == (Reason.ONLY_CANDIDATE, 0)
    bench.complete(decision)
    assert bench.queues() == {}
    assert bench.ask(*CHAIN).target.target_id == "111"


def test_requests_without_text_go_to_the_least_loaded_whatever_their_first_tokens_said():
    """They have no length: nothing of them is ever pending or resident."""
    bench = KvBench()
    picked = []
    for _ in range(2 * len(IDS)):
        decision = bench.router.decide(bench.book, NO_PROMPT, NOW)
        bench.router.apply(FirstToken(decision.lease), NOW)
        assert (decision.reason, decision.rank) == (Reason.NO_KEY, -1)
        picked.append(decision.target.target_id)
    assert Counter(picked) == dict.fromkeys(IDS, 2)


def test_a_target_of_a_new_generation_holds_nothing_and_owes_nothing_to_the_old():
    bench = KvBench()
    old = bench.ask(*CHAIN)
    home = RANKED[0]
    bench.set(KV_AWARE, (target(home, generation=2), *targets(*(name for name in IDS if name != home))))
    assert bench.queues() == {}
    new = bench.ask(*CHAIN)
    assert (new.target.target_id, new.reason) == (home, Reason.HOME)
    before = bench.queues()
    bench.router.apply(FirstToken(old.lease), NOW)
    bench.complete(old)
    assert bench.queues() == before
    bench.complete(new)
    assert bench.queues() == {}


def test_a_target_that_left_and_came_back_holds_nothing_and_what_it_had_under_way_is_void():
    bench = KvBench()
    old = bench.ask(*CHAIN)
    bench.set(KV_AWARE, targets(*(name for name in IDS if name != RANKED[0])))
    elsewhere = bench.ask(*CHAIN)
    assert elsewhere.target.target_id == RANKED[1]
    bench.complete(elsewhere)
    bench.set(KV_AWARE, targets(*IDS))
    assert bench.in_flight()[RANKED[0]] == 1
    assert RANKED[0] not in bench.queues()
    bench.router.apply(FirstToken(old.lease), NOW)
    bench.complete(old)
    assert RANKED[0] not in bench.queues()
    assert bench.ask(*CHAIN).target.target_id == RANKED[1]


def test_another_strategy_forgets_what_was_known_and_kv_aware_begins_anew():
    bench = KvBench()
    old = bench.ask(*CHAIN)
    bench.set(LEAST, targets(*IDS))
    assert bench.book.kv is None
    between = bench.take()
    assert between.lease.visit is None
    bench.router.apply(FirstToken(old.lease), NOW)
    bench.set(KV_AWARE, targets(*IDS))
    assert len(bench.book.kv.index) == 0
    for decision in (old, between):
        bench.complete(decision)
    assert bench.queues() == {}
    assert bench.router.open_leases() == 0


def test_a_draining_target_gets_nothing_new_and_is_still_known():
    bench = KvBench()
    home = RANKED[0]
    bench.complete(bench.ask(*CHAIN))
    others = targets(*(name for name in IDS if name != home))
    bench.set(KV_AWARE, (target(home, state=TargetState.DRAINING), *others))
    assert bench.ask(*CHAIN).target.target_id == RANKED[1]
    bench.set(KV_AWARE, targets(*IDS))
    assert bench.ask(*CHAIN).reason is Reason.CACHED


def test_the_routers_of_a_fleet_are_known_to_the_rule():
    bench = KvBench()
    endpoint = Endpoint(EndpointName("e"), True, (variant(KV_AWARE, targets(*IDS)),))
    bench.router.apply_fleet(Fleet(9, "us-east-1", "000000000000", (endpoint,), routers=4))
    assert bench.book.kv.routers == 4


def test_a_session_counts_where_it_goes():
    bench = KvBench()
    request = RoutingRequest(key=KEY, chain=CHAIN, characters=5000, session=NEW_SESSION)
    begun = bench.router.decide(bench.book, request, NOW)
    bench.router.open_session(begun.lease, "s", NOW + 10**12, NOW)
    pinned = RoutingRequest(key=KEY, chain=(7, 8), characters=3000, session="s")
    decision = bench.router.decide(bench.book, pinned, NOW)
    assert (decision.reason, decision.target) == (Reason.SESSION, begun.target)
    assert bench.queues() == {begun.target.target_id: (8000, 8000)}
    for each in (begun, decision):
        bench.complete(each)
    assert bench.queues() == {}
