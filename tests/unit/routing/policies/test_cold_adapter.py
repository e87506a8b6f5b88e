from collections import Counter
from random import Random

import pytest

from warmroute.core.decision import Reason
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.key import order_key, partition
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.cold_adapter import pick_for_cold_adapter
from warmroute.routing.policies.prefix_aware import pick_prefix_aware
from warmroute.routing.pool import by_instance


def copies(*in_flight):
    """Two copies on each instance; counts in their order."""
    made = []
    for number, count in enumerate(in_flight):
        instance = number // 2
        target = Target(
            TargetId(f"{instance}/{number % 2}"), InstanceId(f"{instance}"), 1, "host", 80, component="c"
        )
        row = TargetRow(target)
        row.in_flight = count
        made.append(row)
    return made


def pick(rows, key, *, threshold=None, seed=1):
    row, reason, rank = pick_for_cold_adapter(
        rows, Random(seed), key=key, threshold=threshold, instances=by_instance(rows)
    )
    return row.target.target_id, reason, rank


def test_an_adapter_has_an_order_of_its_own_over_the_copies():
    rows = copies(*[0] * 6)
    keys = [
        order_key(partition(endpoint="e", variant="v", component="c", adapter=f"a{n}")) for n in range(600)
    ]
    homes = Counter(pick(rows, key)[0] for key in keys)
    assert len(homes) == 6
    assert min(homes.values()) > 60


def test_the_reason_is_visible_and_the_rank_is_that_of_the_adapters_order():
    assert pick(copies(0, 0, 0, 0), 1)[1:] == (Reason.ADAPTER_NOT_LOADED, 0)


def test_every_request_and_every_router_picks_the_same_copy_until_one_has_it():
    assert len({pick(copies(n, 3, 0, 7), 1, seed=n) for n in range(50)}) == 1


def test_without_a_threshold_the_load_changes_nothing():
    idle = pick(copies(0, 0, 0, 0), 5)
    assert pick(copies(10**6, 10**6, 10**6, 10**6), 5) == idle
    at = [f"{i}/{n}" for i in range(2) for n in range(2)].index(idle[0])
    assert pick(copies(*[10**6 if n == at else 0 for n in range(4)]), 5) == idle


@pytest.mark.parametrize(
    "in_flight", [(0, 0, 0, 0), (2, 0, 0, 0), (2, 2, 0, 0), (2, 2, 2, 0), (2, 2, 2, 1), (3, 2, 4, 2)]
)
def test_with_a_threshold_it_is_the_first_that_has_room(in_flight):
    rows = copies(*in_flight)
    row, _, rank = pick_prefix_aware(rows, Random(1), key=7, threshold=2, instances=by_instance(rows))
    assert pick(rows, 7, threshold=2) == (row.target.target_id, Reason.ADAPTER_NOT_LOADED, rank)


def test_a_single_copy_is_picked_and_the_reason_stays():
    assert pick(copies(3)[:1], 1, threshold=1) == ("0/0", Reason.ADAPTER_NOT_LOADED, 0)
