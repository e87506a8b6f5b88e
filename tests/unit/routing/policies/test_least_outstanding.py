from collections import Counter
from random import Random

import pytest

from warmroute.core.decision import Reason
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.least_outstanding import pick_least_outstanding


def rows(*in_flight):
    made = []
    for i, count in enumerate(in_flight):
        row = TargetRow(Target(TargetId(f"{i}"), InstanceId(f"{i}"), 1, "host", 80))
        row.in_flight = count
        made.append(row)
    return made


@pytest.mark.parametrize("in_flight", [(0, 1, 2), (5, 4, 9), (3, 2, 2 - 1), (7,), (1024, 1023)])
def test_the_exact_minimum_is_picked(in_flight):
    candidates = rows(*in_flight)
    row, reason, rank = pick_least_outstanding(candidates, Random(1))
    assert row.in_flight == min(in_flight)
    assert (reason, rank) == (Reason.LEAST_OUTSTANDING, -1)


def test_ties_are_broken_evenly_and_only_among_the_least_loaded():
    candidates, rng = rows(2, 1, 2, 1, 1, 3), Random(5)
    counts = Counter(pick_least_outstanding(candidates, rng)[0].target.target_id for _ in range(3000))
    assert set(counts) == {"1", "3", "4"}
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 13.8  # 99.9 % of fair draws


def test_load_stays_level_when_every_pick_is_kept():
    candidates, rng = rows(0, 0, 0, 0, 0), Random(2)
    for _ in range(53):
        pick_least_outstanding(candidates, rng)[0].in_flight += 1
    counts = sorted(row.in_flight for row in candidates)
    assert counts == [10, 10, 11, 11, 11]


def test_the_same_seed_breaks_ties_the_same_way():
    candidates = rows(0, 0, 0, 0)
    picks = [
        [pick_least_outstanding(candidates, rng)[0] for _ in range(50)] for rng in (Random(9), Random(9))
    ]
    assert picks[0] == picks[1]
