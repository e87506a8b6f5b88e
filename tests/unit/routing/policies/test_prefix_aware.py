from collections import Counter
from random import Random

import pytest

from warmroute.core.decision import Reason
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.prefix_aware import pick_prefix_aware
from warmroute.routing.pool import by_instance
from warmroute.routing.rendezvous import weights

# The order of key 1 over the ids below; pinned in test_rendezvous.py.
IDS = ["1", "11", "111", "2", "21"]
RANKED = ["11", "21", "2", "1", "111"]
KEY = 1
THRESHOLD = 10


def rows(**in_flight):
    """Rows in order of name; counts by id, 0 where none is given."""
    made = []
    for name in IDS:
        row = TargetRow(Target(TargetId(name), InstanceId(name), 1, "host", 80))
        row.in_flight = in_flight.get(f"t{name}", 0)
        made.append(row)
    return made


def pick(candidates, *, key=KEY, threshold=THRESHOLD, rng=None):
    row, reason, rank = pick_prefix_aware(candidates, rng or Random(1), key=key, threshold=threshold)
    return row.target.target_id, reason, rank


def full_up_to(rank, count=THRESHOLD):
    return rows(**{f"t{name}": count for name in RANKED[:rank]})


def test_an_idle_fleet_serves_a_key_at_its_home():
    assert pick(rows()) == ("11", Reason.AFFINITY, 0)


@pytest.mark.parametrize(
    ("in_flight", "picked"),
    [
        (THRESHOLD - 1, ("11", Reason.AFFINITY, 0)),
        (THRESHOLD, ("21", Reason.OVERFLOW, 1)),
        (THRESHOLD + 1, ("21", Reason.OVERFLOW, 1)),
    ],
)
def test_a_target_is_passed_over_at_the_threshold_and_above_it(in_flight, picked):
    assert pick(rows(t11=in_flight)) == picked


@pytest.mark.parametrize(
    ("in_flight", "picked"), [(0, ("11", Reason.AFFINITY, 0)), (1, ("21", Reason.OVERFLOW, 1))]
)
def test_the_smallest_threshold_is_one_request_per_target(in_flight, picked):
    assert pick(rows(t11=in_flight), threshold=1) == picked


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_overflow_goes_down_the_keys_own_order(rank):
    assert pick(full_up_to(rank)) == (RANKED[rank], Reason.OVERFLOW, rank)


def test_overflow_goes_to_the_same_second_home_every_time():
    candidates = full_up_to(1)
    assert {pick(candidates, rng=Random(seed)) for seed in range(50)} == {("21", Reason.OVERFLOW, 1)}


def test_a_second_home_that_is_busier_than_a_later_one_still_takes_the_overflow():
    assert pick(rows(t11=THRESHOLD, t21=THRESHOLD - 1)) == ("21", Reason.OVERFLOW, 1)


def test_the_home_takes_the_next_request_again_as_soon_as_it_has_room():
    candidates = full_up_to(1)
    pick(candidates)
    candidates[1].in_flight -= 1
    assert pick(candidates) == ("11", Reason.AFFINITY, 0)


def test_load_on_others_does_not_move_a_key():
    assert pick(rows(t1=99, t2=99, t21=99, t111=99)) == ("11", Reason.AFFINITY, 0)


def test_a_saturated_fleet_gives_the_request_to_the_least_loaded():
    candidates = rows(t1=13, t11=12, t111=14, t2=11, t21=12)
    assert pick(candidates) == ("2", Reason.SATURATED, RANKED.index("2"))


def test_a_saturated_fleet_may_give_the_request_to_the_home():
    candidates = rows(t1=13, t11=10, t111=14, t2=11, t21=12)
    assert pick(candidates) == ("11", Reason.SATURATED, 0)


def test_ties_in_a_saturated_fleet_are_broken_evenly():
    candidates, rng = rows(t1=10, t11=10, t111=11, t2=10, t21=12), Random(4)
    counts = Counter(pick(candidates, rng=rng)[0] for _ in range(3000))
    assert set(counts) == {"1", "11", "2"}
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 13.8  # 99.9 % of fair draws


def test_a_request_without_a_key_goes_to_the_least_loaded():
    candidates = rows(t1=3, t11=1, t111=2, t2=0, t21=5)
    assert pick(candidates, key=None) == ("2", Reason.NO_KEY, -1)


def test_a_request_without_a_key_is_not_held_back_by_the_threshold():
    candidates = rows(t1=30, t11=31, t111=32, t2=33, t21=34)
    assert pick(candidates, key=None) == ("1", Reason.NO_KEY, -1)


def test_key_0_is_a_key():
    assert pick(rows(), key=0)[1:] == (Reason.AFFINITY, 0)


def test_affinity_and_overflow_spend_no_random_number():
    rng = Random(1)
    before = rng.getstate()
    pick(rows(), rng=rng)
    pick(full_up_to(3), rng=rng)
    assert rng.getstate() == before


# --- copies on instances ----------------------------------------------------------------------
INSTANCES = ["1", "11", "2"]
PLACES = [(instance, copy) for instance in INSTANCES for copy in ("a", "b", "c")]


def copies(in_flight=None, places=PLACES):
    """Three copies on each instance; counts by place, 0 where none is given."""
    made = []
    for instance, copy in places:
        target = Target(TargetId(f"{instance}/{copy}"), InstanceId(instance), 1, "host", 80, component="c")
        row = TargetRow(target)
        row.in_flight = (in_flight or {}).get((instance, copy), 0)
        made.append(row)
    return made


def pick_copy(candidates, *, key=KEY, rng=None):
    row, reason, rank = pick_prefix_aware(
        candidates, rng or Random(1), key=key, threshold=THRESHOLD, instances=by_instance(candidates)
    )
    return (row.target.instance_id, row.target.target_id[-1]), reason, rank


def order_of(key):
    """The key's order over all places, instance by instance, from the weights."""
    rows = copies()
    weight = dict(zip(PLACES, weights(key, rows), strict=True))
    at = {
        group.name.decode(): score
        for group, score in zip(by_instance(rows), weights(key, by_instance(rows)), strict=True)
    }
    return sorted(PLACES, key=lambda place: (at[place[0]], weight[place]), reverse=True)


@pytest.mark.parametrize("key", range(20))
def test_copies_are_ordered_by_their_instances_and_then_among_themselves(key):
    order, full = order_of(key), {}
    for rank, place in enumerate(order):
        assert pick_copy(copies(full), key=key) == (place, Reason.OVERFLOW if rank else Reason.AFFINITY, rank)
        full[place] = THRESHOLD
    assert [place[0] for place in order] == [place[0] for place in order[::3] for _ in range(3)]


def test_an_instances_place_is_the_one_it_has_without_copies():
    rows = [TargetRow(Target(TargetId(name), InstanceId(name), 1, "host", 80)) for name in INSTANCES]
    for key in range(100):
        alone, _, _ = pick_prefix_aware(rows, Random(1), key=key, threshold=1)
        assert pick_copy(copies(), key=key)[0][0] == alone.target.instance_id


@pytest.mark.parametrize("rank", range(1, 9))
def test_a_copy_with_room_on_an_earlier_instance_comes_before_one_on_a_later(rank):
    order = order_of(KEY)
    full = dict.fromkeys(order, THRESHOLD)
    full[order[rank]] = full[order[-1]] = THRESHOLD - 1
    assert pick_copy(copies(full)) == (order[rank], Reason.OVERFLOW, rank)


def test_with_one_copy_on_each_instance_overflow_goes_down_the_order_of_the_instances():
    order, full = [place for place in order_of(KEY) if place[1] == "b"], {}
    for rank, place in enumerate(order):
        rows = copies(full, places=[(instance, "b") for instance in INSTANCES])
        assert pick_copy(rows) == (place, Reason.OVERFLOW if rank else Reason.AFFINITY, rank)
        full[place] = THRESHOLD


def test_saturated_copies_give_the_request_to_the_least_loaded_of_all_instances():
    order = order_of(KEY)
    full = dict.fromkeys(order, THRESHOLD + 5)
    full[order[5]] = THRESHOLD
    assert pick_copy(copies(full)) == (order[5], Reason.SATURATED, 5)


def test_ties_among_saturated_copies_are_broken_evenly():
    full, rng = dict.fromkeys(PLACES, THRESHOLD), Random(4)
    counts = Counter(pick_copy(copies(full), rng=rng)[0] for _ in range(3600))
    assert len(counts) == 9
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < 26.1  # 99.9 % of fair draws


def test_keys_spread_over_the_copies_of_their_instances():
    counts = Counter(pick_copy(copies(), key=key)[0] for key in range(9000))
    assert len(counts) == 9
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 26.1


def test_a_copy_that_leaves_moves_only_its_keys_and_only_within_its_instance():
    before = {key: pick_copy(copies(), key=key)[0] for key in range(900)}
    left = [place for place in PLACES if place != ("1", "b")]
    for key, place in before.items():
        after = pick_copy(copies(places=left), key=key)[0]
        assert after == place if place != ("1", "b") else after in (("1", "a"), ("1", "c"))


def test_copies_without_a_key_are_picked_by_load():
    load = dict.fromkeys(PLACES, 3) | {("2", "b"): 1}
    assert pick_copy(copies(load), key=None) == (("2", "b"), Reason.NO_KEY, -1)


@pytest.mark.parametrize("full", range(4))
def test_copies_on_one_instance_are_picked_in_the_same_way_and_the_reason_says_so(full):
    mine = [place for place in order_of(KEY) if place[0] == "2"]
    load = dict.fromkeys(mine[:full], THRESHOLD)
    expected = full
    if full == 3:
        load[mine[0]], load[mine[2]], expected = THRESHOLD + 2, THRESHOLD + 1, 1
    assert pick_copy(copies(load, places=sorted(mine))) == (mine[expected], Reason.ONLY_INSTANCE, expected)


def test_affinity_and_overflow_of_copies_spend_no_random_number():
    rng = Random(1)
    before = rng.getstate()
    pick_copy(copies(), rng=rng)
    pick_copy(copies(dict.fromkeys(order_of(KEY)[:7], THRESHOLD)), rng=rng)
    assert rng.getstate() == before
