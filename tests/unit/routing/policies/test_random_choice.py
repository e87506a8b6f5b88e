from collections import Counter
from random import Random

from warmroute.core.decision import Reason
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.random_choice import pick_random


def rows(*in_flight):
    made = []
    for i, count in enumerate(in_flight):
        row = TargetRow(Target(TargetId(f"{i}"), InstanceId(f"{i}"), 1, "host", 80))
        row.in_flight = count
        made.append(row)
    return made


def test_the_only_candidate_is_picked():
    (row,) = rows(5)
    assert pick_random([row], Random(1)) == (row, Reason.RANDOM, -1)


def test_every_candidate_is_picked_equally_often_whatever_its_load():
    candidates, rng = rows(0, 100, 3, 7, 0, 1, 50), Random(3)
    counts = Counter(pick_random(candidates, rng)[0].target.target_id for _ in range(7000))
    assert len(counts) == 7
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 22.5  # 99.9 % of fair draws


def test_the_same_seed_picks_the_same():
    candidates = rows(0, 0, 0, 0)
    picks = [[pick_random(candidates, rng)[0] for _ in range(50)] for rng in (Random(9), Random(9))]
    assert picks[0] == picks[1]
