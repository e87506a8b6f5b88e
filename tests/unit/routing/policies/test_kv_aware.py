"""Choices are worked out by hand with numbers of their own, so that those routing uses may change.

With `TUNING` and answers of 100 tokens a target costs, in characters,

    miss * (1 + 0.25 off home + 0.125 * in_flight) + pending + 0.1 * (resident + in_flight * length)

where ``miss`` is the prompt less what the target holds of it. What room and copies of popular starts are
worth is zero in it, and has tests of its own.
"""

from random import Random

import pytest

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.core.limits import KV_RECORD_BLOCKS_MIN
from warmroute.routing.key import characters_of
from warmroute.routing.kvbook import KvBook, KvTuning
from warmroute.routing.kvindex import EXPECTED_NS, Trust
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.kv_aware import pick_kv_aware

# The order of key 1 over the ids below; pinned in test_rendezvous.py.
IDS = ["1", "11", "111", "2", "21"]
RANKED = ["11", "21", "2", "1", "111"]
HOME, SECOND, THIRD = RANKED[:3]
KEY = 1
NOW = 10**12
TUNING = KvTuning(
    anchor=0.25, price=0.0, blind=0.0, harm=0.125, decode=1e-3, spread=4.0, room=0.0, copies=0.0
)
# A first block of which `HOME` is the home, as it is of key 1, and a second of which it is as well.
CHAIN = (KEY, *range(1002, 1014))


class Bench:
    """Rows with shelves, and a book; all are told by name."""

    def __init__(self, tuning=TUNING, names=IDS):
        self.book = KvBook(tuning)
        self.book.output_tokens = 100.0
        self.rows = []
        for name in names:
            row = TargetRow(Target(TargetId(name), InstanceId(name), 1, "host", 80))
            row.shelf = self.book.index.join(name)
            self.rows.append(row)

    def row(self, name):
        return next(row for row in self.rows if row.target.target_id == name)

    def holds(self, thousands, *names, chain=CHAIN):
        """So many times 1,024 characters."""
        for name in names:
            self.book.index.sent(self.row(name).shelf, chain[: 3 + thousands])

    def busy(self, name, in_flight=1, pending=0, resident=0):
        row = self.row(name)
        row.in_flight, row.shelf.pending, row.shelf.resident = in_flight, pending, resident

    def pick(self, chain=CHAIN, *, key=KEY, length=None, now_ns=NOW):
        length = characters_of(len(chain)) + 240 if length is None else length
        request = RoutingRequest(key=key, chain=chain, characters=length)
        row, reason, rank, depth = pick_kv_aware(self.rows, request, self.book, now_ns)
        return row.target.target_id, reason, rank, depth


# --- nothing known ------------------------------------------------------------------------------
def test_with_nothing_known_and_no_load_the_home_is_picked():
    assert Bench().pick() == (HOME, Reason.HOME, 0, 0)


def test_a_prompt_of_less_than_a_block_goes_to_the_home_of_its_key():
    assert Bench().pick((), length=300) == (HOME, Reason.HOME, 0, 0)


def test_a_chain_without_a_key_has_a_home():
    assert Bench().pick(key=None) == (HOME, Reason.HOME, 0, 0)


def test_a_request_without_any_text_has_none():
    with pytest.raises(AssertionError, match="without any text"):
        Bench().pick((), key=None, length=0)


@pytest.mark.parametrize("anchor", [0.0, 0.25])
def test_equal_costs_go_to_the_first_of_the_keys_order(anchor):
    """Without an anchor the home costs as much as the others."""
    assert Bench(KvTuning(anchor=anchor, price=0.0)).pick()[0] == HOME
    others = Bench(KvTuning(anchor=anchor, price=0.0))
    others.busy(HOME, in_flight=50)
    assert others.pick() == (SECOND, Reason.LOAD, 1, 0)


def test_the_home_is_that_of_a_longer_start_when_the_first_block_is_everybodys():
    bench = Bench()
    homes = {bench.pick((7, 100 + n), length=2048)[0] for n in range(100)}
    assert homes == set(IDS)


# --- load ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("pending", "picked"), [(2559, HOME), (2560, HOME), (2561, SECOND)])
def test_the_home_is_left_when_what_is_pending_there_outweighs_the_anchor(pending, picked):
    """Off home a prompt of 10,240 characters costs 0.25 * 10,240 = 2,560 more."""
    bench = Bench()
    bench.busy(HOME, in_flight=0, pending=pending)
    assert bench.pick(length=10_240)[0] == picked


@pytest.mark.parametrize(("resident", "picked"), [(25_600, HOME), (25_610, SECOND)])
def test_the_home_is_left_when_the_context_of_those_in_flight_outweighs_it(resident, picked):
    bench = Bench()
    bench.busy(HOME, in_flight=0, resident=resident)
    assert bench.pick(length=10_240)[0] == picked


@pytest.mark.parametrize(("in_flight", "picked"), [(1, HOME), (2, SECOND)])
def test_the_home_is_left_when_too_many_would_wait_for_the_prefill(in_flight, picked):
    """Each request in flight costs 0.225 of the prompt: 0.125 that it waits, 0.1 that it slows down."""
    bench = Bench()
    bench.busy(HOME, in_flight=in_flight)
    assert bench.pick(length=10_240)[0] == picked


def test_among_those_off_home_the_least_loaded_is_picked_and_load_is_the_reason():
    bench = Bench()
    for name in IDS:
        bench.busy(name, in_flight=0, pending=9000)
    bench.busy("111", in_flight=0, pending=100)
    assert bench.pick(length=10_240) == ("111", Reason.LOAD, 4, 0)


def test_what_is_pending_counts_less_when_the_engine_is_known_to_have_computed_it_by_now():
    bench = Bench()
    bench.busy(HOME, in_flight=0, pending=10_000)
    assert bench.pick()[0] == SECOND
    bench.book._computed, bench.book._took_ns = 10_000.0, 10_000.0
    bench.row(HOME).shelf.clear_ns = NOW + 10_000
    assert bench.pick(now_ns=NOW)[0] == SECOND
    assert bench.pick(now_ns=NOW + 9000)[0] == HOME


# --- what is held -------------------------------------------------------------------------------
@pytest.mark.parametrize(("blocks", "picked"), [(2, HOME), (3, "111")])
def test_a_target_off_home_is_picked_when_it_holds_more_than_the_anchor_is_worth(blocks, picked):
    """``(10,240 - held) * 1.25 < 10,240`` from 2,048 characters on, where both cost the same."""
    bench = Bench()
    bench.holds(blocks, "111")
    assert bench.pick(length=10_240)[0] == picked


def test_what_is_held_is_the_reason_however_little_it_is():
    bench = Bench()
    bench.holds(1, HOME)
    assert bench.pick() == (HOME, Reason.CACHED, 0, 4)


def test_load_is_the_reason_where_nothing_is_held_though_others_hold_something():
    bench = Bench()
    bench.holds(10, HOME)
    bench.busy(HOME, in_flight=40, pending=100_000, resident=100_000)
    assert bench.pick() == (SECOND, Reason.LOAD, 1, 0)


@pytest.mark.parametrize(("pending", "picked"), [(10_179, "111"), (10_181, HOME)])
def test_a_target_that_holds_the_prompt_is_left_when_waiting_there_takes_longer(pending, picked):
    """240 * 1.25 and what is pending there, against 10,480 at the home."""
    bench = Bench()
    bench.holds(10, "111")
    bench.busy("111", in_flight=0, pending=pending)
    assert bench.pick(length=10_480)[0] == picked


def test_the_longest_start_is_picked_of_equal_loads():
    bench = Bench()
    for blocks, name in ((4, "1"), (9, "111"), (6, "2"), (4, "21")):
        bench.holds(blocks, name)
    assert bench.pick() == ("111", Reason.CACHED, 4, 12)


def test_a_prompt_held_as_a_whole_costs_its_last_character():
    bench = Bench()
    bench.holds(10, "111", "2")
    assert bench.pick(length=10_240) == ("2", Reason.CACHED, 2, 13)


@pytest.mark.parametrize("name", IDS)
def test_who_holds_the_whole_prompt_is_picked_with_no_more_load_than_the_others(name):
    bench = Bench()
    bench.holds(10, name)
    for other in IDS:
        bench.busy(other, in_flight=3, pending=5000, resident=20_000)
        bench.holds(2, other)
    assert bench.pick() == (name, Reason.CACHED, RANKED.index(name), 13)


def test_many_different_depths_are_told_apart():
    names = [f"t{n:02}" for n in range(40)]
    chain = tuple(range(1, 101))
    for holder in names[::7]:
        bench = Bench(names=names)
        for n, name in enumerate(names):
            bench.holds(n + 1, name, chain=chain)
            bench.busy(name, in_flight=0, pending=0 if name == holder else 500_000)
        assert bench.pick(chain)[::3] == (holder, names.index(holder) + 4)


def test_what_targets_hold_that_may_not_be_picked_does_not_matter():
    bench = Bench()
    bench.holds(10, "111")
    bench.rows = [row for row in bench.rows if row.target.target_id != "111"]
    assert bench.pick() == (HOME, Reason.HOME, 0, 0)
    for blocks, name in enumerate(("1", "2", "21", "11")):
        bench.holds(blocks + 2, name)
    assert bench.pick()[::3] == ("11", 8)


def test_what_an_engine_should_have_told_of_by_now_is_not_counted():
    bench = Bench()
    shelf = bench.row("111").shelf
    bench.book.index.trust(shelf, Trust.EXACT, "a test says so")
    bench.holds(10, "111")
    bench.book.index.ended(shelf, CHAIN, NOW, epoch=shelf.epoch, well=True)
    assert bench.pick(now_ns=NOW + EXPECTED_NS - 1) == ("111", Reason.CACHED, 4, 13)
    assert bench.pick(now_ns=NOW + EXPECTED_NS) == (HOME, Reason.HOME, 0, 0)


def test_lengths_that_contradict_the_chain_do_no_harm():
    """Nobody may ask so; a prompt is at least as long as its whole blocks."""
    bench = Bench()
    bench.holds(10, "111")
    for length in (0, 1, 5000):
        assert bench.pick(length=length)[0] in IDS


# --- room -----------------------------------------------------------------------------------------
def fill(bench, **blocks):
    """Let targets, by position in `RANKED`, hold so many blocks of other prompts."""
    for place, count in blocks.items():
        name = RANKED[int(place[1:])]
        bench.book.index.sent(bench.row(name).shelf, tuple(range(10**6, 10**6 + count)))


ROOM = KvTuning(anchor=0.25, price=0.0, harm=0.0, decode=0.0, room=0.5, copies=0.0)


@pytest.mark.parametrize(("second", "picked"), [(51, HOME), (49, SECOND)])
def test_what_nobody_holds_goes_where_there_is_more_room_when_that_outweighs_the_anchor(second, picked):
    """Half of what the fullest has more is worth as much as the anchor: 0.5 * (100 - 50) / 100."""
    bench = Bench(ROOM)
    fill(bench, r0=100, r1=second, r2=100, r3=100, r4=100)
    assert bench.pick()[0] == picked


def test_room_is_measured_from_the_emptiest_and_caches_that_are_all_full_have_none():
    bench = Bench(ROOM)
    fill(bench, r0=5000, r1=4900, r2=4900, r3=4900, r4=4900)
    assert bench.pick()[0] == HOME
    empty = Bench(ROOM)
    assert empty.pick()[0] == HOME


def test_room_moves_nothing_that_is_held_already():
    bench = Bench(ROOM)
    fill(bench, r0=100)
    bench.holds(10, HOME)
    assert bench.pick()[:2] == (HOME, Reason.CACHED)


def test_a_small_cache_that_is_full_has_no_room():
    bench = Bench(ROOM)
    fill(bench, r0=100, r1=40, r2=100, r3=100, r4=100)
    assert bench.pick()[0] == SECOND
    bench.book.index.set_capacity(bench.row(SECOND).shelf, 0)
    fill(bench, r1=KV_RECORD_BLOCKS_MIN + 1)
    fill(bench, r0=1000, r2=1000, r3=1000, r4=1000)
    assert bench.pick()[0] == HOME
    bench.book.index.clear(bench.row(SECOND).shelf)
    assert bench.pick()[0] == SECOND


def test_an_engine_that_keeps_nothing_has_no_room():
    """Its record is empty for good: it has home and load only, and draws no prompt of others."""
    bench = Bench(ROOM)
    bench.book.index.trust(bench.row(SECOND).shelf, Trust.UNKNOWN, "reports nothing cached")
    fill(bench, r0=100, r2=100, r3=100, r4=100)
    assert bench.pick()[0] == HOME


# --- copies of popular starts -----------------------------------------------------------------------
COPIES = KvTuning(anchor=0.25, price=0.0, harm=0.0, decode=0.0, room=0.0, copies=0.5)
SYSTEM = tuple(range(7001, 7014))


def prompts_of_one_system(bench, times=200):
    """Everybody has ten times 1,024 characters in common."""
    for n in range(times):
        bench.book.homes_of("").key((*SYSTEM, 10**6 + n), len(bench.rows))


@pytest.mark.parametrize(("copies", "pending", "left"), [(0.0, 12_000, False), (0.5, 12_000, True)])
def test_a_copy_of_a_popular_start_costs_less_for_it_will_be_used_again(copies, pending, left):
    """Elsewhere the prompt costs 1.25 * 10,480 = 13,100, of which half of 10,240 comes back."""
    bench = Bench(KvTuning(anchor=0.25, price=0.0, harm=0.0, decode=0.0, room=0.0, copies=copies))
    prompts_of_one_system(bench)
    bench.holds(10, "111", chain=SYSTEM)
    for name in IDS:
        bench.busy(name, in_flight=0, pending=pending if name == "111" else 0)
    chain = next((*SYSTEM, n) for n in range(100) if Bench().pick((n,), key=None)[0] == "111")
    assert (bench.pick(chain, length=10_480)[0] != "111") is left


def test_a_copy_of_what_few_ask_for_is_no_investment():
    bench = Bench(COPIES)
    bench.holds(10, HOME)
    bench.busy(HOME, in_flight=0, pending=12_000)
    assert bench.pick(length=10_480)[0] == HOME


# --- bursts -------------------------------------------------------------------------------------
def test_equal_new_prompts_in_one_instant_go_to_one_target_until_its_load_outweighs_that():
    """First touch: what was sent there counts as held there.

    One more after k requests costs 10,241 at the home, nearly all of it pending for the first of them, and
    0.2 * 10,240 * k for their context and ours; elsewhere it costs 1.25 * 10,240.
    """
    bench = Bench(KvTuning(anchor=0.25, price=0.0, harm=0.0, decode=1e-3, spread=4.0, room=0.0, copies=0.0))
    picked = []
    for _ in range(4):
        request = RoutingRequest(key=KEY, chain=CHAIN, characters=10_240)
        row, _, rank, depth = pick_kv_aware(bench.rows, request, bench.book, NOW)
        bench.book.sent(row.shelf, request, depth, at_home=rank == 0, now_ns=NOW)
        row.in_flight += 1
        picked.append((row.target.target_id, depth))
    assert picked == [(HOME, 0), (HOME, 13), (SECOND, 0), (SECOND, 13)]


# --- several routers ------------------------------------------------------------------------------
def test_two_routers_that_know_nothing_agree_on_every_home():
    one, other = Bench(), Bench()
    rng = Random(1)
    for _ in range(300):
        chain = tuple(rng.randrange(2**64) for _ in range(rng.randrange(5)))
        request = {"key": rng.randrange(2**64), "length": rng.randrange(1, 10**5)}
        assert one.pick(chain, **request) == other.pick(chain, **request)


def test_a_home_that_held_what_others_sent_is_expected_to_do_so_again():
    """With half of what it seems to lack there in the mean, the home costs 5,120."""
    bench = Bench()
    bench.holds(4, "111")
    assert bench.pick(length=10_240)[0] == "111"
    bench.book.routers, bench.book.surprise = 2, 0.5
    assert bench.pick(length=10_240)[0] == HOME


def test_a_price_for_space_keeps_prompts_at_home():
    bench = Bench(KvTuning(anchor=0.25, price=4.0, harm=0.125, decode=1e-3, room=0.0, copies=0.0))
    bench.book.output_tokens = 100.0
    bench.busy(HOME, in_flight=0, pending=4000)
    assert bench.pick(length=10_240)[0] == SECOND
    bench.book.index.evicted, bench.book.index.asked_again = 9.0, 5.0
    assert bench.pick(length=10_240)[0] == HOME


# --- cost -----------------------------------------------------------------------------------------
class CountedBit(int):
    """A bit that counts how often it is compared with a set of them."""

    compared = 0

    def __and__(self, other):
        CountedBit.compared += 1
        return int(self) & other


def test_many_different_depths_do_not_take_a_pass_over_all_targets_each(monkeypatch):
    monkeypatch.setattr(CountedBit, "compared", 0)
    names, chain = [f"t{n:03}" for n in range(200)], tuple(range(1, 201))
    bench = Bench(names=names)
    for n, name in enumerate(names):
        bench.holds(n + 1, name, chain=chain)
        bench.row(name).shelf.bit = CountedBit(bench.row(name).shelf.bit)
    assert bench.pick(chain)[3] == 200
    assert CountedBit.compared <= 10 * len(names)
