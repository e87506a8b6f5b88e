"""Prompts as chains: who shares what with whom, and the text made of it."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.workload import prompts
from warmroute.workload.prompts import (
    Conversations,
    FixedPrefixes,
    Lengths,
    Numbers,
    RenewedPrefixes,
    Request,
    Rounds,
    Zipf,
    blocks_of,
    clipped,
    lognormal,
    shared_start,
    text_of,
)

LENGTHS = Lengths(unique=40, output=20)


def chain(request):
    return [number for first, count in request.runs for number in range(first, first + count)]


def common(one, other):
    """Return how many blocks two requests share at their start."""
    pairs = zip(chain(one), chain(other), strict=False)
    shared = 0
    for mine, theirs in pairs:
        if mine != theirs:
            break
        shared += 1
    return shared


def test_equal_starts_have_equal_text_and_different_ones_do_not():
    one, other = [(5, 3), (90, 2)], [(5, 3), (80, 2)]
    assert text_of(one, 216) == text_of(other, 216)
    assert text_of(one, 217)[:216] == text_of(one, 216)
    assert text_of(one, 300) != text_of(other, 300)
    assert len(text_of(one, 300)) == 300
    assert prompts.BLOCK_CHARACTERS == prompts.BLOCK_TOKENS * prompts.CHARACTERS_PER_TOKEN


def test_the_head_is_as_short_as_the_prompt():
    request = Request(20, 10, ((0, 2),))
    assert request.head(1000) == (((0, 2),), 90)
    assert request.head(72) == (((0, 1),), 72)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), max_size=5), st.integers(0, 60))
def test_clipping_keeps_the_first_blocks(runs, blocks):
    whole = [number for first, count in runs for number in range(first, first + count)]
    kept = [number for first, count in clipped(runs, blocks) for number in range(first, first + count)]
    assert kept == whole[:blocks]


def test_new_numbers_never_continue_old_ones():
    numbers = Numbers(7)
    assert [numbers.take(3), numbers.take(0), numbers.take(2)] == [(7, 3), (11, 0), (12, 2)]


def test_a_request_covers_prompt_and_answer_in_blocks():
    numbers = Numbers()
    prefix = numbers.take(4)
    request = shared_start(prefix, unique_tokens=10, output_tokens=30, numbers=numbers)
    assert (request.prompt_tokens, len(chain(request))) == (74, blocks_of(104))
    assert len(shared_start((0, 0), unique_tokens=10, output_tokens=1, numbers=numbers).runs) == 1


def test_a_lognormal_length_has_its_mean_and_is_at_least_one():
    rng = Random(1)
    values = [lognormal(500, 0.7, rng) for _ in range(20_000)]
    assert sum(values) / len(values) == pytest.approx(500, rel=0.03)
    assert (lognormal(12.4, 0, rng), lognormal(0.01, 0, rng)) == (12, 1)


def test_zipf_draws_the_first_places_more_often():
    rng, zipf = Random(1), Zipf(4, 1.0)
    drawn = [zipf.draw(rng) for _ in range(10_000)]
    counts = [drawn.count(place) for place in range(4)]
    total = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert counts == pytest.approx([10_000 / (place + 1) / total for place in range(4)], rel=0.1)


def test_a_renewed_prefix_is_used_its_number_of_times():
    maker = RenewedPrefixes(live=1, uses=3, prefix_tokens=64, lengths=LENGTHS, rng=Random(2))
    firsts = [maker.next(0).runs[0][0] for _ in range(30)]
    counts = [firsts.count(first) for first in dict.fromkeys(firsts)]
    assert set(counts[1:-1]) == {3}
    assert counts[0] <= 3


def test_fixed_prefixes_are_shared_by_their_requests_and_nothing_else_is():
    maker = FixedPrefixes(count=2, exponent=0, prefix_tokens=64, lengths=LENGTHS, rng=Random(2))
    requests = [maker.next(0) for _ in range(20)]
    assert {request.runs[0] for request in requests} == {(0, 4), (5, 4)}
    assert {common(one, other) for one in requests for other in requests if one is not other} == {0, 4}


def test_a_hot_prefix_has_its_share():
    maker = FixedPrefixes(count=50, exponent=0, prefix_tokens=64, lengths=LENGTHS, rng=Random(2), hot=0.6)
    hot = sum(maker.next(0).runs[0][0] == 0 for _ in range(2000))
    assert hot == pytest.approx(2000 * (0.6 + 0.4 / 50), rel=0.05)


def test_rounds_repeat_the_same_prompts_in_the_same_random_order():
    one, other = [
        Rounds(count=3, prompts=2, prefix_tokens=32, lengths=LENGTHS, rng=Random(seed)) for seed in (1, 2)
    ]
    first, second = [[one.next(0) for _ in range(6)] for _ in range(2)]
    assert first == second != [other.next(0) for _ in range(6)]
    assert len(set(first)) == 6
    assert len({request.runs[0] for request in first}) == 3


def test_a_turn_sends_all_that_was_said_before():
    talk = Conversations(system_tokens=32, lengths=LENGTHS, turns=lambda _: 3, rng=Random(1))
    first, second, third, fresh = [talk.next(0) for _ in range(4)]
    assert [each.prompt_tokens for each in (first, second, third, fresh)] == [72, 132, 192, 72]
    assert common(first, second) == len(chain(first))
    assert common(second, third) == len(chain(second))
    assert common(third, fresh) == 2
    assert common(talk.next(1), first) == 2


def test_a_conversation_without_a_system_prompt_shares_nothing():
    talk = Conversations(system_tokens=0, lengths=LENGTHS, turns=lambda _: 1, rng=Random(1))
    assert common(talk.next(0), talk.next(1)) == 0


def test_a_conversation_ends_before_it_outgrows_the_context():
    talk = Conversations(
        system_tokens=0, lengths=LENGTHS, turns=lambda _: 99, rng=Random(1), context_tokens=130
    )
    assert [talk.next(0).prompt_tokens for _ in range(4)] == [40, 100, 40, 100]
