"""Adapters, salts and changing prompts: who shares blocks with whom."""

from random import Random

import pytest

from warmroute.workload.arrivals import NOBODY, NS_PER_S, Arrival, ClosedLoop, Recorded
from warmroute.workload.partitions import PARTITION_BLOCKS, Partitioned
from warmroute.workload.prompts import Request

SAME = Request(100, 10, ((5, 3), (50, 4)))


class Always:
    def next(self, client):
        return SAME


def placed(*arrivals, **how):
    source = Partitioned(Recorded(arrivals), Random(1), **how)
    return [each.request for each in source.first()]


def partition(request):
    return request.runs[0][0] // PARTITION_BLOCKS


def test_blocks_keep_their_order_within_a_partition():
    (moved,) = placed(Arrival(0, SAME, 3), adapters=1)
    assert moved.runs == ((PARTITION_BLOCKS + 5, 3), (PARTITION_BLOCKS + 50, 4))
    assert (moved.adapter, moved.prompt_tokens, moved.output_tokens) == ("adapter-1", 100, 10)


def test_a_client_keeps_its_adapter_and_its_salt():
    for how in ({"adapters": 9}, {"salts": 9}, {"adapters": 3, "salts": 3}):
        requests = placed(*[Arrival(n, SAME, n % 20) for n in range(100)], **how)
        assert all(requests[n] == requests[n % 20] for n in range(100))
        assert len({partition(each) for each in requests}) > 4


def test_requests_of_nobody_draw_one_by_one_and_some_adapters_are_more_popular():
    requests = placed(*[Arrival(n, SAME, NOBODY) for n in range(3000)], adapters=3, exponent=1.0)
    counts = [sum(each.adapter == f"adapter-{n}" for each in requests) for n in (1, 2, 3)]
    assert counts == pytest.approx([3000 * 6 / 11, 3000 * 3 / 11, 3000 * 2 / 11], rel=0.1)


def test_different_adapters_and_salts_share_nothing():
    requests = placed(*[Arrival(n, SAME, n) for n in range(300)], adapters=3, salts=4)
    assert len({partition(each) for each in requests}) == 12
    assert all(partition(each) % 4 == int(each.adapter[-1]) for each in requests)


def test_salts_alone_name_no_adapter():
    assert {each.adapter for each in placed(*[Arrival(n, SAME, n) for n in range(9)], salts=4)} == {""}


def test_prompts_have_another_start_after_every_while():
    times = [0, 59, 60, 61, 180]
    requests = placed(*[Arrival(at * NS_PER_S, SAME, 0) for at in times], every_ns=60 * NS_PER_S)
    assert [partition(each) for each in requests] == [0, 0, 1, 1, 3]


def test_what_comes_later_is_placed_as_well():
    inner = ClosedLoop(2, Always(), think=lambda: 7, ramp_ns=0, end_ns=1 << 40)
    source = Partitioned(inner, Random(1), adapters=4)
    first = list(source.first())
    (later,) = source.after(first[1], 50)
    assert (later.at_ns, later.client, later.request) == (57, 1, first[1].request)


def test_too_many_partitions_are_a_broken_assumption():
    with pytest.raises(AssertionError, match="more than 16384 partitions"):
        placed(Arrival(NS_PER_S, SAME, 0), every_ns=1000)


def test_equal_seeds_place_equally():
    arrivals = [Arrival(n, SAME, n) for n in range(50)]
    assert placed(*arrivals, adapters=5, salts=2) == placed(*arrivals, adapters=5, salts=2)
