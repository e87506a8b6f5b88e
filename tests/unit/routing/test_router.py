import gc
from collections import Counter
from random import Random

import pytest

from warmroute.core.decision import NO_PROMPT, Assigned, Reason, Refusal, Refused, RoutingRequest
from warmroute.core.events import Cancelled, Completed, Failed, FailureCause
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, TargetState, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.health import EJECTION_NS_MAX, EJECTION_NS_MIN
from warmroute.routing.key import partition
from warmroute.routing.router import Router, VariantBook

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


def variant(routing, members, *, name="v", weight=1.0):
    return Variant(VariantName(name), weight, routing, tuple(members))


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
        return self.router.endpoints["e"].variants["v"]

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
    held = router.decide(router.endpoints["1"].variants["11"], NO_PROMPT, NOW)
    router.apply_fleet(fleet(2, **{"11": [variant(LEAST, targets("1"), name="1")]}))
    assert router.endpoints["11"].variants["1"].rows["1"].in_flight == 0
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
    held = bench.router.decide(bench.router.endpoints["e"].variants["w"], NO_PROMPT, NOW)
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
