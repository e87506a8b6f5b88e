"""Keys of first user messages, made up for prompts without messages."""

import pytest

from warmroute.sim.baselines.first_message import FirstMessages, number_at
from warmroute.workload.prompts import Request


def request(*runs, tokens=None):
    blocks = sum(count for _, count in runs)
    return Request(tokens or blocks * 16 - 8, 8, tuple(runs))


def keys(*requests, characters=100):
    messages = FirstMessages(characters)
    return [messages.key(each) for each in requests]


def test_without_a_common_start_the_message_is_the_start_of_the_prompt():
    other, one, same_head, next_block = keys(
        request((900, 50)), request((0, 50)), request((0, 2), (70, 20)), request((0, 1), (70, 20))
    )
    assert one == same_head  # 100 characters end in the second block
    assert len({other, one, next_block}) == 3


def test_the_start_that_all_share_is_passed_over():
    first, one, one_again, other = keys(
        request((0, 10), (100, 20)),
        request((0, 10), (200, 20)),
        request((0, 10), (200, 5), (400, 9)),
        request((0, 10), (300, 20)),
    )
    assert one == one_again
    assert len({first, one, other}) == 3


def test_a_start_that_not_all_share_is_no_system_prompt():
    _, one, other = keys(request((900, 50)), request((0, 10), (200, 20)), request((0, 10), (300, 20)))
    assert one == other


def test_a_prompt_that_is_all_system_prompt_has_a_key_too():
    *_, short, shorter = keys(
        request((0, 10), (100, 20)), request((0, 10), (200, 20)), request((0, 10)), Request(5, 5, ((0, 1),))
    )
    assert short == keys(request((900, 5)), request((0, 10)))[1]
    assert shorter != short


def test_turns_of_a_conversation_keep_their_key():
    _, *turns = keys(request((900, 50)), *(Request(tokens, 100, ((0, 200),)) for tokens in (60, 500, 3000)))
    assert len(set(turns)) == 1


@pytest.mark.parametrize(("place", "number"), [(0, 5), (2, 7), (3, 40), (4, 41), (9, 41)])
def test_a_place_in_a_chain_has_a_number(place, number):
    assert number_at(((5, 3), (40, 2)), place) == number
