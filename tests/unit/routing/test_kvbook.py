import pytest

from warmroute.core.decision import Lease, RoutingRequest
from warmroute.core.events import CacheCleared, Completed, EventsLost, TextBlocksRemoved, TextBlocksStored
from warmroute.core.fleet import Target
from warmroute.core.ids import InstanceId, TargetId
from warmroute.core.limits import KV_RECORD_BLOCKS_MAX, KV_RECORD_BLOCKS_MIN
from warmroute.routing.key import characters_of
from warmroute.routing.kvbook import (
    ANSWER_TOKENS_MIN,
    ANSWERS_MIN,
    RATE,
    WORK_MIN,
    KvBook,
    KvTuning,
    Slope,
)
from warmroute.routing.kvindex import CONTRADICTIONS_MAX, EXPECTED_NS, LEARNING, Trust

NOW = 10**12
SECOND = 10**9
# Numbers of their own, so that those that routing uses may change.
TUNING = KvTuning(anchor=0.25, price=2.0, blind=0.5, harm=0.125, decode=1e-3, spread=4.0)
LEASE = Lease(Target(TargetId("a"), InstanceId("a"), 1, "host", 80), 1, object())


def size(blocks):
    """Characters of so many text blocks; of part of one, its part."""
    whole = int(blocks)
    return characters_of(whole) + round((blocks - whole) * (characters_of(whole + 1) - characters_of(whole)))


def request(*chain, more=100):
    """A prompt of these whole blocks and some characters that are no whole one."""
    return RoutingRequest(key=1, chain=chain, characters=size(len(chain)) + more)


class Bench:
    """A book of two targets, ``a`` and ``b``."""

    def __init__(self, tuning=TUNING):
        self.book = KvBook(tuning)
        self.a = self.book.index.join("a")
        self.b = self.book.index.join("b")

    def send(self, *chain, shelf=None, at_home=False, now_ns=NOW, more=100):
        """Send where ``shelf`` is known to hold what it holds; return the visit."""
        shelf = shelf or self.a
        depths = [held for bits, held in self.book.index.depths(chain) if bits & shelf.bit]
        depth = depths[0] if depths else 0
        return self.book.sent(shelf, request(*chain, more=more), depth, at_home=at_home, now_ns=now_ns)

    def end(self, visit, *, prompt=-1, cached=-1, output=-1, now_ns=NOW):
        told = Completed(LEASE, prompt_tokens=prompt, cached_tokens=cached, output_tokens=output)
        self.book.ended(visit, now_ns, told)

    def visit(self, *chain, blocks_cached=None, shelf=None, at_home=False):
        """Send and complete; the engine reports so many blocks, at four characters a token."""
        visit = self.send(*chain, shelf=shelf, at_home=at_home, more=0)
        if blocks_cached is None:
            self.end(visit)
        else:
            self.end(visit, prompt=size(len(chain)) // 4, cached=size(blocks_cached) // 4)
        return visit

    def depth(self, *chain, shelf=None):
        shelf = shelf or self.a
        return max((held for bits, held in self.book.index.depths(chain) if bits & shelf.bit), default=0)

    def learn(self, event, now_ns=NOW):
        self.book.learn(self.a, event, now_ns)

    def clear(self):
        self.learn(CacheCleared("a", 1))

    def store(self, *blocks, now_ns=NOW):
        self.learn(TextBlocksStored("a", 1, blocks), now_ns)

    def remove(self, *blocks):
        self.learn(TextBlocksRemoved("a", 1, blocks))


# --- requests under way -----------------------------------------------------------------------
def test_what_a_request_has_to_wait_for_is_pending_until_its_first_token():
    bench = Bench()
    visit = bench.send(1, 2, 3)
    assert (bench.a.pending, bench.a.resident) == (size(3) + 100,) * 2
    bench.book.computed(visit, NOW)
    assert (bench.a.pending, bench.a.resident) == (0, size(3) + 100)
    bench.end(visit)
    assert (bench.a.pending, bench.a.resident) == (0, 0)


def test_what_a_target_holds_is_not_pending():
    bench = Bench()
    bench.visit(1, 2, 3)
    bench.send(1, 2, 3, 4, 5)
    assert bench.a.pending == size(5) - size(3) + 100


def test_of_a_prompt_that_is_held_as_a_whole_one_character_is_pending():
    """Engines compute the last token always; and a request that waits is never for nothing."""
    bench = Bench()
    bench.visit(1, 2)
    bench.send(1, 2, more=0)
    assert bench.a.pending == 1


@pytest.mark.parametrize("first_tokens", [0, 1, 3])
@pytest.mark.parametrize("well", [True, False])
def test_nothing_is_pending_after_the_end_however_often_a_first_token_was_told(first_tokens, well):
    bench = Bench()
    visits = [bench.send(1, 2), bench.send(3, more=5000), bench.send(more=7)]
    for visit in visits:
        for _ in range(first_tokens):
            bench.book.computed(visit, NOW + SECOND)
        bench.book.ended(visit, NOW + SECOND, Completed(LEASE) if well else None)
        bench.book.computed(visit, NOW + 2 * SECOND)
    assert (bench.a.pending, bench.a.resident) == (0, 0)


def test_a_request_to_a_target_is_noted_there_only():
    bench = Bench()
    bench.send(1, 2, shelf=bench.b)
    assert (bench.a.pending, bench.a.resident) == (0, 0)
    assert (bench.depth(1, 2), bench.depth(1, 2, shelf=bench.b)) == (0, 2)


def test_a_request_that_another_rule_sent_counts_with_what_its_target_holds():
    bench = Bench()
    bench.visit(1, 2, shelf=bench.b)
    visit = bench.book.sent_anyhow(bench.b, request(1, 2, 3), NOW)
    assert (visit.depth, visit.at_home, bench.b.pending) == (2, False, size(3) - size(2) + 100)
    other = bench.book.sent_anyhow(bench.a, request(1, 2, 3), NOW)
    assert (other.depth, bench.a.pending) == (0, size(3) + 100)


def test_what_was_expected_too_long_is_not_counted_for_such_a_request():
    bench = Bench()
    bench.clear()
    bench.end(bench.send(1, 2))
    assert bench.book.sent_anyhow(bench.a, request(1, 2), NOW + EXPECTED_NS).depth == 0


def test_a_request_knows_whether_what_it_finds_is_settled():
    bench = Bench()
    assert not bench.send(1, 2).settled
    assert not bench.send(1, 2).settled
    bench.visit(1, 2)
    assert bench.send(1, 2, 3).settled
    assert not bench.send(4).settled


# --- the rate of engines ----------------------------------------------------------------------
def test_no_rate_is_known_before_a_first_token_that_says_something():
    bench = Bench()
    assert bench.book.rate == 0
    bench.book.computed(bench.send(1, more=0), NOW + SECOND)
    assert bench.book.rate == 0
    assert WORK_MIN > 1024


LONG = 16 * 1024


def long(first):
    """A prompt of 16,384 characters."""
    return range(first, first + 19)


def test_the_rate_is_characters_before_first_tokens_over_the_time_to_them():
    bench = Bench()
    bench.book.computed(bench.send(*long(0), more=0), NOW + SECOND)
    assert bench.book.rate * SECOND == pytest.approx(LONG)


def test_a_request_waits_for_those_before_it():
    """Three prompts, each of which takes a second: the last has its first token after three."""
    bench = Bench()
    visits = [bench.send(*long(100 * n), more=0) for n in range(3)]
    assert [visit.work for visit in visits] == [LONG, 2 * LONG, 3 * LONG]
    for n, visit in enumerate(visits):
        bench.book.computed(visit, NOW + (n + 1) * SECOND)
    assert bench.book.rate * SECOND == pytest.approx(LONG)


def test_what_is_pending_gets_less_at_the_rate_that_was_seen_and_a_late_engine_is_stalled():
    bench = Bench()
    bench.book.computed(bench.send(*long(0), more=0), NOW + SECOND)
    later = NOW + 10 * SECOND
    bench.send(*long(100), more=0, now_ns=later)
    pending = [bench.book.pending(bench.a, later + part * SECOND // 4) for part in range(6)]
    assert pending == pytest.approx([LONG, 0.75 * LONG, LONG / 2, LONG / 4, LONG, LONG])
    assert bench.book.pending(bench.b, later) == 0


def test_what_is_pending_without_a_rate_stays_pending():
    bench = Bench()
    bench.send(*long(0), more=0)
    assert bench.book.pending(bench.a, NOW + 100 * SECOND) == LONG


def test_a_first_token_shows_how_far_the_engine_is():
    bench = Bench()
    bench.book.computed(bench.send(*long(0), more=0), NOW + SECOND)
    later = NOW + 10 * SECOND
    first = bench.send(*long(100), more=0, now_ns=later)
    bench.send(*long(200), more=0, now_ns=later)
    bench.book.computed(first, later + SECOND)
    assert bench.book.pending(bench.a, later + SECOND) == pytest.approx(LONG)
    assert bench.book.pending(bench.a, later + 3 * SECOND // 2) == pytest.approx(LONG / 2)


def test_a_first_token_told_twice_or_after_the_end_says_nothing_of_the_rate():
    bench = Bench()
    visit = bench.send(*long(0), more=0)
    bench.book.computed(visit, NOW + SECOND)
    rate = bench.book.rate
    bench.book.computed(visit, NOW + 100 * SECOND)
    bench.end(visit)
    bench.book.computed(visit, NOW + 100 * SECOND)
    ended = bench.send(*long(100), more=0)
    bench.end(ended)
    bench.book.computed(ended, NOW + 100 * SECOND)
    assert bench.book.rate == rate


def test_a_first_token_in_no_time_makes_no_rate():
    bench = Bench()
    bench.book.computed(bench.send(*long(0), more=0), NOW)
    assert bench.book.rate == 0
    assert bench.send(*long(100)).work > 0


# --- home keys ----------------------------------------------------------------------------------
def test_what_is_popular_is_a_matter_of_one_component():
    """Two of forty components: each has a start that all its prompts have, 2.5 % of all."""
    bench = Bench()
    keys = {"1": [], "11": []}
    for n in range(2000):
        for component, seen in keys.items():
            prompt = (int(component), 100_000 * int(component) + n)
            seen.append(bench.book.homes_of(component).key(prompt, 4))
        for other in range(38):
            bench.book.homes_of(f"c{other}").key((10**9 + other, 10**10 + n), 4)
    assert bench.book.homes_of("1") is not bench.book.homes_of("11")
    for component, seen in keys.items():
        assert len(set(seen[1000:])) == 1000, component


# --- the numbers of the rule ------------------------------------------------------------------
def test_one_router_counts_what_is_tuned_and_the_price_of_space():
    bench = Bench()
    bench.book.output_tokens = 300.0
    bench.book.surprise = 0.5  # from a time with others
    bench.book.index.evicted, bench.book.index.asked_again = 3.0, 1.0
    rule = bench.book.rule(bench.a)
    assert rule.anchor == pytest.approx(0.25 + 2.0 * 1 / 4)
    assert rule.harm == 0.125
    assert rule.decode == pytest.approx(0.3)
    assert rule.surprise == 0


def test_space_costs_nothing_while_nothing_is_evicted_and_at_most_the_price():
    bench = Bench()
    assert bench.book.rule(bench.a).anchor == 0.25
    bench.book.index.evicted, bench.book.index.asked_again = 1.0, 50.0
    assert bench.book.rule(bench.a).anchor == 2.25


def test_several_routers_count_each_others_load_and_leave_a_home_less_gladly():
    bench = Bench()
    bench.book.routers = 4
    bench.book.surprise = 0.5
    rule = bench.book.rule(bench.a)
    assert rule.anchor == pytest.approx(0.25 + 3 * 0.5)
    assert rule.harm == pytest.approx(4 * 0.125)
    assert rule.decode == pytest.approx(4 * 1e-3 * bench.book.output_tokens)
    assert rule.surprise == 0.5


def test_what_others_send_is_no_surprise_where_the_home_tells_or_there_is_none():
    bench = Bench()
    bench.book.routers = 4
    bench.book.surprise = 0.5
    bench.clear()
    for home in (bench.a, None):
        rule = bench.book.rule(home)
        assert (rule.anchor, rule.surprise, rule.harm) == (0.25, 0, 0.5)


def test_the_mean_length_of_answers_is_learnt_from_those_that_tell():
    bench = Bench()
    before = bench.book.output_tokens
    bench.end(bench.send(1))
    assert bench.book.output_tokens == before
    bench.end(bench.send(1), output=0)
    assert bench.book.output_tokens == pytest.approx(before * (1 - RATE))
    for _ in range(500):
        bench.end(bench.send(1), output=1000)
    assert bench.book.output_tokens == pytest.approx(1000, rel=0.01)


# --- reports of cached tokens -------------------------------------------------------------------
def chain_of(blocks, first=1):
    return tuple(range(first, first + blocks))


def test_a_report_that_agrees_changes_nothing():
    bench = Bench()
    bench.visit(*chain_of(10), blocks_cached=0)
    for _ in range(5):
        bench.visit(*chain_of(10), blocks_cached=10)
        bench.visit(*chain_of(10), blocks_cached=8.6)
    assert (bench.a.capacity, bench.a.contradictions) == (KV_RECORD_BLOCKS_MAX, 0)
    assert bench.depth(*chain_of(10)) == 10


def test_a_report_that_much_is_missing_trims_the_record():
    bench = Bench()
    for first in range(0, 1000, 100):
        bench.visit(*chain_of(100, first))
    bench.visit(*chain_of(100), blocks_cached=50)
    assert bench.a.capacity == len(bench.a.blocks) == int(1000 * LEARNING)
    assert bench.depth(*chain_of(100, 900)) == 100
    assert bench.depth(*chain_of(100, 100)) < 100


def test_a_record_is_never_trimmed_below_the_least_it_may_have():
    bench = Bench()
    bench.visit(*chain_of(100))
    for _ in range(10 * CONTRADICTIONS_MAX):
        bench.visit(*chain_of(100), blocks_cached=4)
    assert bench.a.capacity == KV_RECORD_BLOCKS_MIN
    assert bench.depth(*chain_of(100)) == KV_RECORD_BLOCKS_MIN


def test_a_report_on_blocks_that_were_only_on_their_way_trims_nothing():
    bench = Bench()
    first = bench.send(*chain_of(100))
    second = bench.send(*chain_of(100))
    bench.end(first, prompt=size(100) // 4, cached=0)
    bench.end(second, prompt=size(100) // 4, cached=0)
    assert bench.a.capacity == KV_RECORD_BLOCKS_MAX


@pytest.mark.parametrize("end", [1.0, 1.5, 4.5, 6.0])
def test_a_start_of_longer_tokens_than_the_rest_is_no_contradiction(end):
    """English, of 4.5 characters a token, is cached as a whole before a text of other density."""
    bench = Bench()
    for n in range(100):
        visit = bench.send(*chain_of(10), *chain_of(10, 1000 + 10 * n), more=0)
        start, rest = int(size(10) / 4.5), int((size(20) - size(10)) / end)
        bench.end(visit, prompt=start + rest, cached=start if n else 0)
    assert (bench.a.capacity, bench.a.contradictions) == (KV_RECORD_BLOCKS_MAX, 0)
    assert len(bench.a.blocks) == 10 + 100 * 10


@pytest.mark.parametrize("characters_per_token", [1.0, 1.5, 3.0, 4.5, 6.0])
def test_nothing_cached_of_much_that_is_expected_is_a_contradiction_in_every_text(characters_per_token):
    bench = Bench()
    bench.visit(*chain_of(100))
    visit = bench.send(*chain_of(100), more=0)
    bench.end(visit, prompt=int(size(100) / characters_per_token), cached=16)
    assert bench.a.capacity == 97


def test_a_record_grows_by_reports_of_blocks_that_it_gave_up():
    bench = Bench()
    for first in range(0, 1000, 100):
        bench.visit(*chain_of(100, first))
    bench.book.index.set_capacity(bench.a, 500)
    bench.visit(*chain_of(100), blocks_cached=100)
    assert bench.a.capacity == int(500 / LEARNING) + 1


def test_a_record_that_grows_stops_at_the_limit():
    bench = Bench()
    bench.visit(*chain_of(200))
    bench.book.index.set_capacity(bench.a, 100)
    visit = bench.send(*chain_of(200), more=0)
    bench.book.index.set_capacity(bench.a, KV_RECORD_BLOCKS_MAX)
    bench.end(visit, prompt=size(200) // 4, cached=size(200) // 4)
    assert visit.returns
    assert bench.a.capacity == KV_RECORD_BLOCKS_MAX


@pytest.mark.parametrize("cached", [0, 100, 101])
def test_a_record_does_not_grow_by_reports_of_what_it_has(cached):
    """Some more than it has, by the rounding of blocks, says nothing."""
    bench = Bench()
    bench.visit(*chain_of(200))
    bench.book.index.set_capacity(bench.a, 100)
    bench.visit(*chain_of(200), blocks_cached=cached)
    assert bench.a.capacity <= 100


def test_a_record_does_not_grow_by_what_others_have_sent():
    bench = Bench()
    bench.book.index.set_capacity(bench.a, 100)
    bench.visit(*chain_of(50), blocks_cached=50)
    assert bench.a.capacity == 100


@pytest.mark.parametrize(
    ("prompt", "cached"), [(-1, -1), (0, 0), (0, 50), (-1, 50), (24_832, -1), (0, -1), (-5, 3)]
)
def test_a_report_that_says_nothing_changes_nothing(prompt, cached):
    bench = Bench()
    bench.visit(*chain_of(100))
    visit = bench.send(*chain_of(100), at_home=True)
    bench.end(visit, prompt=prompt, cached=cached)
    assert (bench.a.capacity, bench.a.contradictions, bench.book.surprise) == (KV_RECORD_BLOCKS_MAX, 0, 0)


@pytest.mark.parametrize("cached", [24_833, 10**9, 2**63])
def test_a_report_of_more_than_the_prompt_is_taken_as_all_of_it(cached):
    bench = Bench()
    bench.visit(*chain_of(50))
    visit = bench.send(*chain_of(100), at_home=True, more=0)
    bench.end(visit, prompt=24_832, cached=cached)
    assert bench.book.surprise == pytest.approx(RATE)
    assert (bench.a.capacity, bench.a.trust) == (KV_RECORD_BLOCKS_MAX, Trust.ESTIMATED)


def test_a_report_on_a_prompt_of_less_than_a_block_says_nothing_of_the_record():
    bench = Bench()
    bench.end(bench.send(more=500), prompt=125, cached=0)
    assert (bench.a.capacity, bench.a.contradictions) == (KV_RECORD_BLOCKS_MAX, 0)


def test_an_answer_without_a_prompt_settles_nothing():
    """It was a client's mistake, which the model server answered at once."""
    bench = Bench()
    bench.end(bench.send(1, 2), prompt=0)
    assert not bench.send(1, 2).settled


def test_a_request_that_failed_reports_nothing_and_settles_nothing():
    bench = Bench()
    visit = bench.send(1, 2)
    bench.book.ended(visit, NOW, None)
    assert bench.depth(1, 2) == 2
    assert not bench.send(1, 2).settled


# --- what others have sent ----------------------------------------------------------------------
@pytest.mark.parametrize(("reported", "more"), [(10, 1.0), (6.625, 0.5), (2, 0.0), (0, 0.0), (20, 1.0)])
def test_a_home_that_holds_more_than_we_know_has_got_it_from_others(reported, more):
    bench = Bench()
    bench.visit(1, 2)
    bench.visit(*chain_of(10), blocks_cached=reported, at_home=True)
    assert bench.book.surprise == pytest.approx(more * RATE)


def test_what_is_off_home_or_known_as_a_whole_is_no_measure_of_that():
    bench = Bench()
    bench.visit(*chain_of(10), blocks_cached=10)
    bench.visit(*chain_of(10), blocks_cached=10, at_home=True)
    assert bench.book.surprise == 0


# --- engines that cache nothing -----------------------------------------------------------------
def contradict(bench, times, start=1):
    """The record expects ten blocks, the engine reports none."""
    bench.visit(*chain_of(10, start))
    for _ in range(times):
        bench.visit(*chain_of(10, start), blocks_cached=0)


def test_an_engine_that_reports_nothing_cached_twenty_times_in_a_row_is_unknown():
    bench = Bench()
    contradict(bench, CONTRADICTIONS_MAX - 1)
    assert bench.a.trust is Trust.ESTIMATED
    contradict(bench, 1)
    assert (bench.a.trust, bench.a.why) == (Trust.UNKNOWN, "the engine reports no cached tokens")
    assert CONTRADICTIONS_MAX == 20
    assert bench.b.trust is Trust.ESTIMATED


def test_nothing_is_expected_of_an_unknown_engine():
    bench = Bench()
    contradict(bench, CONTRADICTIONS_MAX)
    bench.visit(*chain_of(10), blocks_cached=0)
    assert bench.depth(*chain_of(10)) == 0
    assert len(bench.book.index) == 0
    assert bench.a.trust is Trust.UNKNOWN


def test_an_unknown_engine_comes_back_with_the_first_report_of_cached_tokens():
    bench = Bench()
    contradict(bench, CONTRADICTIONS_MAX)
    bench.visit(*chain_of(10), blocks_cached=3.9)
    assert bench.a.trust is Trust.UNKNOWN
    bench.visit(*chain_of(10), blocks_cached=4)
    assert (bench.a.trust, bench.a.why) == (Trust.ESTIMATED, "the engine reports cached tokens")
    bench.visit(*chain_of(10), blocks_cached=8)
    assert bench.depth(*chain_of(10)) == 10


def test_one_report_of_cached_tokens_in_between_begins_the_row_anew():
    bench = Bench()
    contradict(bench, CONTRADICTIONS_MAX - 1)
    bench.visit(*chain_of(10), blocks_cached=10)
    contradict(bench, CONTRADICTIONS_MAX - 1)
    assert bench.a.trust is Trust.ESTIMATED


def test_some_cached_where_more_is_expected_begins_the_row_anew_too():
    bench = Bench()
    contradict(bench, CONTRADICTIONS_MAX - 1)
    bench.visit(*chain_of(10), blocks_cached=5)
    contradict(bench, CONTRADICTIONS_MAX - 1)
    assert bench.a.trust is Trust.ESTIMATED


def test_new_prompts_in_between_do_not_hide_that_an_engine_caches_nothing():
    """That nothing of a new prompt is cached is what was expected: it is no part of the row."""
    bench = Bench()
    bench.visit(*chain_of(10))
    for n in range(CONTRADICTIONS_MAX):
        bench.visit(*chain_of(10, 1000 + 100 * n), blocks_cached=0)
        bench.visit(*chain_of(10), blocks_cached=0)
    assert bench.a.trust is Trust.UNKNOWN


# --- engines that tell --------------------------------------------------------------------------
def test_an_engine_that_begins_to_tell_is_known_exactly():
    bench = Bench()
    bench.visit(1, 2)
    bench.clear()
    assert (bench.a.trust, bench.a.why) == (Trust.EXACT, "the engine tells of its cache")
    assert bench.depth(1, 2) == 0
    bench.store(1, 2, 3)
    bench.remove(3)
    assert bench.depth(1, 2, 3) == 2


def test_after_events_were_lost_a_shelf_is_estimated_with_the_reason_and_after_a_clear_exact_again():
    bench = Bench()
    bench.clear()
    bench.store(1, 2)
    bench.learn(EventsLost("a", 1, "gap"))
    assert (bench.a.trust, bench.a.why) == (Trust.ESTIMATED, "events of the engine were lost: gap")
    assert bench.depth(1, 2) == 2
    bench.store(3)
    assert bench.depth(3) == 0
    bench.clear()
    assert bench.a.trust is Trust.EXACT
    assert bench.depth(1, 2) == 0


def test_a_loss_of_events_of_an_engine_that_told_nothing_says_nothing():
    bench = Bench()
    bench.learn(EventsLost("a", 1, "silent"))
    assert (bench.a.trust, bench.a.why) == (
        Trust.ESTIMATED,
        "the engine has told nothing of its cache",
    )
    contradict(bench, CONTRADICTIONS_MAX)
    bench.learn(EventsLost("a", 1, "silent"))
    assert bench.a.trust is Trust.UNKNOWN


def test_reports_correct_nothing_where_the_engine_tells():
    bench = Bench()
    bench.clear()
    bench.store(*chain_of(10))
    for _ in range(2 * CONTRADICTIONS_MAX):
        bench.visit(*chain_of(10), blocks_cached=0)
    assert (bench.a.trust, bench.a.contradictions, bench.a.capacity) == (
        Trust.EXACT, 0, KV_RECORD_BLOCKS_MAX
    )  # fmt: skip
    bench.visit(*chain_of(20), blocks_cached=20, at_home=True)
    assert bench.book.surprise == 0


def test_what_an_engine_does_not_tell_of_in_time_is_expected_no_more():
    bench = Bench()
    bench.clear()
    bench.end(bench.send(1, 2))
    bench.store(1, now_ns=NOW + 1)
    assert bench.depth(1, 2) == 2
    bench.store(9, now_ns=NOW + EXPECTED_NS)
    assert bench.depth(1, 2) == 1


def test_a_request_from_before_a_clear_takes_nothing_from_one_behind_it():
    bench = Bench()
    bench.clear()
    before = bench.send(1, 2)
    bench.clear()
    behind = bench.send(1, 2)
    bench.end(before)
    bench.store(9, now_ns=NOW + EXPECTED_NS)
    assert bench.depth(1, 2) == 2
    bench.end(behind, now_ns=NOW + EXPECTED_NS)
    bench.store(10, now_ns=NOW + 2 * EXPECTED_NS)
    assert bench.depth(1, 2) == 0


def test_a_server_that_was_away_is_forgotten_when_its_next_report_says_that_its_cache_is_empty():
    bench = Bench()
    bench.visit(*chain_of(10))
    bench.visit(100, 101)
    bench.book.away(bench.a)
    assert bench.depth(100, 101) == 2
    bench.visit(*chain_of(10), blocks_cached=0)
    assert bench.depth(100, 101) == 0
    assert bench.depth(*chain_of(10)) == 10


def test_a_server_that_was_out_of_reach_and_still_has_its_cache_keeps_its_record():
    bench = Bench()
    bench.visit(*chain_of(10))
    bench.visit(100, 101)
    bench.book.away(bench.a)
    bench.visit(*chain_of(10), blocks_cached=10)
    bench.visit(*chain_of(10), blocks_cached=0)
    assert bench.depth(100, 101) == 2


# --- answers ------------------------------------------------------------------------------------
def answers(bench, *, tokens=101, count=ANSWERS_MIN, slow_ns=0):
    """Answers of two sizes of context, slower by ``slow_ns`` per token and per 1,024 characters more."""
    for number in range(count):
        more = 1024 * (10 + 10 * (number % 2))
        visit = bench.send(more=more)
        bench.book.computed(visit, NOW + SECOND)
        took_ns = (tokens - 1) * (10_000_000 + slow_ns * more // 1024)
        bench.end(visit, output=tokens, now_ns=NOW + SECOND + took_ns)


def test_what_context_costs_answers_is_learnt_from_how_much_slower_they_are():
    bench = Bench(KvTuning(decode=1e-4, answers=0.5))
    answers(bench, slow_ns=50_000)
    # 50 us more per 1,024 characters, in which the engine computes so many characters of prompt.
    learnt = 0.5 * 50_000 / 1024 * bench.book.rate
    assert bench.book.decode == pytest.approx(learnt)
    assert 1e-4 / 3 < learnt < 6e-4


@pytest.mark.parametrize(("slow_ns", "factor"), [(0, 1 / 3), (10_000_000, 6)])
def test_what_is_learnt_of_answers_stays_within_bounds(slow_ns, factor):
    bench = Bench(KvTuning(decode=1e-4, answers=0.5))
    answers(bench, slow_ns=slow_ns)
    assert bench.book.decode == pytest.approx(1e-4 * factor)


@pytest.mark.parametrize(
    "given", [{"count": ANSWERS_MIN - 1}, {"tokens": ANSWER_TOKENS_MIN - 1}], ids=["few", "short"]
)
def test_few_answers_or_short_ones_say_nothing(given):
    bench = Bench(KvTuning(decode=1e-4, answers=0.5))
    answers(bench, slow_ns=100_000, **given)
    assert bench.book.decode == 1e-4


def test_what_answers_say_may_be_left_out():
    bench = Bench(KvTuning(decode=1e-4, answers=0.0))
    answers(bench, slow_ns=100_000)
    assert bench.book.decode == 1e-4


def test_a_slope_of_one_place_is_none():
    slope = Slope()
    slope.add(3.0, 1.0)
    slope.add(3.0, 2.0)
    assert slope.slope == 0


def test_where_no_answer_is_streamed_nothing_is_late():
    bench = Bench()
    for number in range(300):
        bench.visit(number, number + 1)
    bench.send(1000, 1001, 1002)
    assert bench.book.silent > 0.99
    assert bench.book.pending(bench.a, NOW) < 0.01 * bench.a.pending


# --- what evictions cost ------------------------------------------------------------------------
def test_blocks_asked_for_again_after_their_eviction_make_leaving_home_dearer():
    bench = Bench()
    bench.clear()
    bench.store(1, 2, 3, 4)
    bench.remove(4, 3)
    bench.send(1, 2, 3, 4)
    assert bench.book.rule(bench.b).anchor == pytest.approx(0.25 + 2.0 * 2 / 3)


def test_evictions_of_what_nobody_asks_for_again_do_not():
    bench = Bench()
    bench.clear()
    bench.store(*chain_of(50))
    bench.remove(*chain_of(50))
    bench.send(100, 101)
    assert bench.book.rule(bench.b).anchor == 0.25
