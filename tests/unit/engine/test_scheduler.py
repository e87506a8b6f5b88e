"""The scheduler against steps worked out by hand, and against a slow one that takes step by step."""

from collections import OrderedDict, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engine.adapters import AdapterSlots
from warmroute.engine.jitter import Jitter
from warmroute.engine.profile import PROFILES
from warmroute.engine.scheduler import Engine, Finished, Load, Sequence
from warmroute.engine.step import PS_PER_MS, StepCost

BIG = PROFILES["llama-3.1-70b-8xh100"]
COST = StepCost(BIG)


def sequence(number=1, prompt=100, output=10, runs=None, adapter=""):
    return Sequence(
        number,
        prompt_tokens=prompt,
        output_tokens=output,
        runs=runs or [(number * 10_000, 9_000)],
        adapter=adapter,
    )


def drive(engine, arrivals, aborts=()):
    """Let requests arrive, and be given up, at their times.

    Returns:
        (time, number, what) of everything that comes out.
    """
    coming = deque(sorted(arrivals, key=lambda each: each[0]))
    leaving = deque(sorted(aborts, key=lambda each: each[0]))
    log, over = [], set()
    while coming or engine.ends_ps is not None:
        due = engine.ends_ps
        now = min([each[0][0] for each in (coming, leaving) if each] + ([] if due is None else [due]))
        if due == now:
            for each in engine.advance():
                log.append((now, each.sequence.number, type(each).__name__))
                over |= {each.sequence} if isinstance(each, Finished) else set()
        while coming and coming[0][0] == now:
            engine.submit(coming.popleft()[1], now)
        while leaving and leaving[0][0] == now:
            given_up = leaving.popleft()[1]
            if given_up not in over:
                engine.abort(given_up, now)
        engine.plan(now)
    return log


# --- single sequences -------------------------------------------------------------------------


def test_a_prompt_is_computed_in_one_step_and_then_a_token_comes_with_each():
    engine = Engine(BIG)
    log = drive(engine, [(0, sequence(prompt=100, output=3))])
    prefill = COST.mixed_ps([(100, 0)], decoding=0, context=0)
    second = COST.mixed_ps([], decoding=1, context=101)
    third = COST.mixed_ps([], decoding=1, context=102)
    assert log == [(prefill, 1, "FirstToken"), (prefill + second + third, 1, "Finished")]
    assert (engine.running, len(engine.waiting), engine.cache.used) == ([], 0, 0)


def test_one_token_of_output_ends_with_the_prompt():
    log = drive(Engine(BIG), [(5, sequence(output=1))])
    end = 5 + COST.mixed_ps([(100, 0)], decoding=0, context=0)
    assert log == [(end, 1, "FirstToken"), (end, 1, "Finished")]


def test_a_prompt_beyond_the_budget_is_computed_in_chunks():
    log = drive(Engine(BIG), [(0, sequence(prompt=10_000, output=1))])
    chunks = COST.mixed_ps([(8192, 0)], decoding=0, context=0) + COST.mixed_ps(
        [(1808, 8192)], decoding=0, context=0
    )
    assert log[0] == (chunks, 1, "FirstToken")


def test_the_second_of_two_equal_prompts_computes_the_last_block_only():
    engine = Engine(BIG)
    first, second = sequence(1, prompt=160, runs=[(0, 20)]), sequence(2, prompt=160, runs=[(0, 20)])
    drive(engine, [(0, first), (10**12, second)])
    assert (first.cached_tokens, second.cached_tokens) == (0, 144)


def test_generated_tokens_are_cached_up_to_the_last_full_block():
    engine = Engine(BIG)
    drive(engine, [(0, sequence(1, prompt=100, output=61, runs=[(0, 10)]))])
    # 160 tokens are computed (the last one generated is not): ten blocks.
    assert engine.cache.match([(0, 20)], 20) == (10, 10)
    again = sequence(2, prompt=200, runs=[(0, 20)])
    drive(engine, [(10**12, again)])
    assert again.cached_tokens == 160


def test_a_prefix_is_visible_after_the_step_that_computed_it_and_not_before():
    engine = Engine(BIG)
    together = [
        sequence(number, prompt=1600, output=2, runs=[(0, 100), (number * 1000, 5)]) for number in (1, 2)
    ]
    later = sequence(3, prompt=1608, output=2, runs=[(0, 100), (3000, 5)])
    drive(engine, [(0, together[0]), (0, together[1]), (1, later)])
    assert [each.cached_tokens for each in (*together, later)] == [0, 0, 1600]


def test_an_arrival_is_admitted_when_the_decode_step_under_way_ends():
    engine = Engine(BIG)
    prefill = COST.mixed_ps([(100, 0)], decoding=0, context=0)
    step = COST.mixed_ps([], decoding=1, context=101)
    log = drive(engine, [(0, sequence(1, output=200)), (prefill + step + 1, sequence(2, output=1))])
    two_steps = prefill + COST.decode_ps(2, decoding=1, context=101)
    mixed = COST.mixed_ps([(100, 0)], decoding=1, context=103)
    assert (two_steps + mixed, 2, "Finished") in log


def test_decoding_comes_before_prompts_in_the_budget():
    small = replace(BIG, batch_tokens=64)
    engine = Engine(small)
    first, second = sequence(1, prompt=10, output=50), sequence(2, prompt=100, output=5)
    engine.submit(first, 0)
    engine.plan(0)
    engine.advance()
    engine.submit(second, 0)
    engine.plan(0)
    engine.advance()
    assert (first.generated, second.computed) == (2, 63)


def test_no_more_sequences_run_than_allowed_and_the_first_come_are_first():
    engine = Engine(replace(BIG, sequences_max=2))
    log = drive(engine, [(0, sequence(number, output=number)) for number in (1, 2, 3)])
    assert [number for _, number, what in log if what == "FirstToken"] == [1, 2, 3]
    assert log[1] == (log[0][0], 1, "Finished")


def test_a_request_larger_than_the_cache_fits_never():
    engine = Engine(replace(BIG, kv_blocks=10))
    assert engine.fits(100, 60)
    assert not engine.fits(100, 61)
    with pytest.raises(AssertionError, match="fits in no cache"):
        engine.submit(sequence(prompt=100, output=61), 0)


def test_when_blocks_run_out_the_last_admitted_is_computed_again():
    engine = Engine(replace(BIG, kv_blocks=14))
    old, young = sequence(1, prompt=96, output=60), sequence(2, prompt=96, output=60)
    log = drive(engine, [(0, old), (0, young)])
    assert (old.preemptions, young.preemptions, engine.preemptions) == (0, 1, 1)
    assert sorted((number, what) for _, number, what in log) == [
        (1, "Finished"), (1, "FirstToken"), (2, "Finished"), (2, "FirstToken"),
    ]  # fmt: skip
    assert (old.generated, young.generated) == (60, 60)


def test_planning_twice_or_idle_changes_nothing():
    engine = Engine(BIG)
    engine.plan(0)
    assert engine.ends_ps is None
    engine.submit(sequence(), 0)
    engine.plan(0)
    ends = engine.ends_ps
    engine.plan(5)
    assert engine.ends_ps == ends


def test_the_load_is_what_runs_what_waits_and_the_share_of_the_cache_in_use():
    engine = Engine(replace(BIG, kv_blocks=100, sequences_max=1))
    assert engine.load == Load(0, 0, 0.0)
    engine.submit(sequence(1, prompt=320), 0)
    engine.submit(sequence(2), 0)
    engine.plan(0)
    assert engine.load == Load(1, 1, 0.2)


# --- the published sanity points, by the engine itself ----------------------------------------


def first_token_ms(engine, **how):
    at, _, what = drive(engine, [(0, sequence(output=1, **how))])[0]
    assert what == "FirstToken"
    return at / PS_PER_MS


def test_a_long_prompt_takes_as_long_as_published():
    engine = Engine(BIG)
    assert 333 * 0.95 <= first_token_ms(engine, prompt=8192) <= 348 * 1.05
    # 256 tokens behind the same 8,192.
    again = sequence(2, prompt=8448, output=1, runs=[(10_000, 9_000)])
    ((at, _, _), _) = drive(engine, [(10**12, again)])
    assert (again.cached_tokens, (at - 10**12) / PS_PER_MS) == (8192, pytest.approx(18, rel=0.05))


def test_a_small_model_takes_as_long_as_published():
    small = PROFILES["llama-3.1-8b-1xh100"]
    assert first_token_ms(Engine(small), prompt=1000) == pytest.approx(22, rel=0.05)
    first, *_, last = drive(Engine(small), [(0, sequence(prompt=1000, output=101))])
    assert (last[0] - first[0]) / 100 / PS_PER_MS == pytest.approx(6.6, rel=0.05)


@pytest.mark.parametrize(("decoding", "context", "ms"), [(1, 2048, 10.8), (64, 4096, 15.0)])
def test_decoding_takes_as_long_as_published(decoding, context, ms):
    # All on the same prompt, so that the whole batch decodes from the third step on.
    together = [sequence(number, prompt=context, output=5, runs=[(0, 9_000)]) for number in range(decoding)]
    log = drive(Engine(BIG), [(0, each) for each in together])
    begins = max(at for at, _, what in log if what == "FirstToken")
    ends = max(at for at, _, what in log if what == "Finished")
    assert (ends - begins) / 4 / PS_PER_MS == pytest.approx(ms, rel=0.05)


# --- requests that are given up ---------------------------------------------------------------


def test_a_waiting_request_that_is_given_up_is_never_computed():
    engine = Engine(replace(BIG, sequences_max=1))
    first, second, third = sequence(1), sequence(2), sequence(3)
    log = drive(engine, [(0, first), (1, second), (2, third)], aborts=[(3, second)])
    assert {number for _, number, _ in log} == {1, 3}
    assert second.cached_tokens is None


def test_a_prompt_that_is_given_up_is_cached_as_far_as_it_is_computed():
    engine = Engine(replace(BIG, batch_tokens=64))
    given_up = sequence(1, prompt=200, output=5, runs=[(0, 20)])
    step = COST.mixed_ps([(64, 0)], decoding=0, context=0)
    assert drive(engine, [(0, given_up)], aborts=[(step + 5, given_up)]) == []
    # The second step was under way and is ended.
    assert engine.cache.match([(0, 20)], 20) == (8, 8)
    assert (engine.running, engine.cache.used) == ([], 0)


def test_an_answer_that_is_given_up_ends_with_the_step_under_way_and_frees_its_blocks():
    engine = Engine(BIG)
    given_up, stays = sequence(1, output=500), sequence(2, output=500)
    log = drive(engine, [(0, given_up), (0, stays)], aborts=[(10**12, given_up)])
    assert [(number, what) for _, number, what in log] == [
        (1, "FirstToken"), (2, "FirstToken"), (2, "Finished"),
    ]  # fmt: skip
    first = COST.mixed_ps([(100, 0)] * 2, decoding=0, context=0)
    together = COST.steps_begun(10**12 - first, decoding=2, context=202, limit=499)
    alone = COST.decode_ps(499 - together, decoding=1, context=101 + together)
    assert log[-1][0] == first + COST.decode_ps(together, decoding=2, context=202) + alone


def test_giving_up_makes_room_for_who_waits():
    engine = Engine(replace(BIG, sequences_max=1))
    first, second = sequence(1, output=5000), sequence(2, output=1)
    log = drive(engine, [(0, first), (1, second)], aborts=[(10**12, first)])
    assert [number for _, number, _ in log] == [1, 2, 2]
    assert log[1][0] < 1.1 * 10**12


def test_giving_up_the_first_in_the_queue_lets_the_next_one_in():
    engine = Engine(replace(BIG, kv_blocks=40))
    first, large, small = sequence(1, output=400), sequence(2, prompt=600), sequence(3, output=1)
    log = drive(engine, [(0, first), (1, large), (2, small)], aborts=[(10**12, large)])
    assert [number for _, number, _ in log] == [1, 3, 3, 1]
    assert log[1][0] < 1.1 * 10**12


def test_between_two_steps_a_request_leaves_at_once():
    engine = Engine(BIG)
    one = sequence(1)
    engine.submit(one, 0)
    engine.plan(0)
    engine.advance()
    engine.abort(one, 0)
    assert (engine.running, engine.cache.used, one.hold) == ([], 0, None)


# --- adapters ---------------------------------------------------------------------------------

LOAD = 3 * 10**11


def test_the_first_use_of_an_adapter_waits_for_its_load_and_the_next_does_not():
    engine = Engine(BIG, adapters=AdapterSlots(2, LOAD))
    log = drive(
        engine, [(0, sequence(1, output=1, adapter="a")), (10**12, sequence(2, output=1, adapter="a"))]
    )
    prefill = COST.mixed_ps([(100, 0)], decoding=0, context=0)
    assert [at for at, _, what in log if what == "FirstToken"] == [LOAD + prefill, 10**12 + prefill]
    assert engine.adapters.loads == 1


def test_a_load_holds_up_everybody_in_the_engine():
    engine = Engine(BIG, adapters=AdapterSlots(2, LOAD))
    log = drive(engine, [(0, sequence(1, output=1)), (0, sequence(2, output=1, adapter="a"))])
    both = COST.mixed_ps([(100, 0)] * 2, decoding=0, context=0)
    assert {at for at, _, _ in log} == {LOAD + both}


def test_who_waits_for_room_for_an_adapter_is_passed_by_others_and_comes_when_there_is_some():
    engine = Engine(BIG, adapters=AdapterSlots(1, LOAD))
    requests = [
        sequence(1, output=300, adapter="a"),
        sequence(2, adapter="b"),
        sequence(3, output=1, adapter="a"),
    ]
    log = drive(engine, [(0, requests[0]), (1, requests[1]), (10**12, requests[2])])
    assert [number for _, number, what in log if what == "FirstToken"] == [1, 3, 2]
    ends = {(number, what): at for at, number, what in log}
    assert ends[3, "FirstToken"] < 1.1 * 10**12
    assert ends[2, "FirstToken"] - ends[1, "Finished"] == LOAD + COST.mixed_ps(
        [(100, 0)], decoding=0, context=0
    )


# --- jitter -----------------------------------------------------------------------------------


class Always:
    """A source of randomness that always draws the same factor."""

    def __init__(self, factor):
        self.factor = factor

    def lognormvariate(self, mu, sigma):
        return self.factor


def test_every_step_takes_its_factor():
    arrivals = [(0, {"number": 1, "output": 40}), (10**11, {"number": 2, "prompt": 500})]
    usual, slow = [
        drive(engine, [(at * twice, sequence(**how)) for at, how in arrivals])
        for twice, engine in [(1, Engine(BIG)), (2, Engine(BIG, jitter=Jitter(0.1, Always(2.0))))]
    ]
    assert slow == [(2 * at, number, what) for at, number, what in usual]


def test_jitter_without_a_sigma_draws_nothing():
    arrivals = [(0, {"number": 1, "output": 40}), (10**11, {"number": 2, "prompt": 500})]
    plain, none = [
        drive(engine, [(at, sequence(**how)) for at, how in arrivals])
        for engine in (Engine(BIG), Engine(BIG, jitter=Jitter(0, None)))
    ]
    assert plain == none


# --- against a slow one -----------------------------------------------------------------------


class StepByStep:
    """The rules once more, one step at a time and one entry per block."""

    def __init__(self, profile, *, slots=1, factor=1):
        self.profile, self.cost = profile, StepCost(profile)
        self.slots, self.loaded, self.factor = slots, [], factor  # adapters by their last release
        self.cached = OrderedDict()  # block -> references, least recently released first
        self.running, self.waiting, self.private = [], deque(), 0
        self.hits = {}  # cached tokens, by sequence

    def chain(self, sequence):
        return [start + each for start, count in sequence.runs for each in range(count)]

    def available(self):
        return self.profile.kv_blocks - self.private - sum(1 for count in self.cached.values() if count)

    def reserve(self, state, count):
        if count > self.available():
            return False
        state["private"] += max(0, count)
        self.private += max(0, count)
        while len(self.cached) + self.private > self.profile.kv_blocks:
            del self.cached[next(block for block, count in self.cached.items() if not count)]
        return True

    def publish(self, state):
        full = state["computed"] // 16
        for block in self.chain(state["s"])[len(state["held"]) : full]:
            self.cached[block] = self.cached.get(block, 0) + 1
            state["held"].append(block)
            state["private"] -= 1
            self.private -= 1

    def release(self, state):
        self.publish(state)
        self.private -= state["private"]
        for block in reversed(state["held"]):
            self.cached[block] -= 1
            if not self.cached[block]:
                self.cached.move_to_end(block)
        state["held"], state["private"] = [], 0
        if state["s"].adapter in self.loaded and state["s"].adapter not in self.used_adapters():
            self.loaded.remove(state["s"].adapter)
            self.loaded.append(state["s"].adapter)

    def used_adapters(self):
        return {state["s"].adapter for state in self.running} - {""}

    def load(self, name):
        """Return how long it takes; the adapter must have room."""
        if not name or name in self.loaded:
            return 0
        if len(self.loaded) == self.slots:
            self.loaded.remove(next(each for each in self.loaded if each not in self.used_adapters()))
        self.loaded.append(name)
        return LOAD

    def grow(self, state, tokens):
        need = -(-(state["computed"] + tokens) // 16) - len(state["held"]) - state["private"]
        while need > 0 and not self.reserve(state, need):
            last = self.running.pop()
            self.release(last)
            last["target"], last["computed"] = last["s"].prompt_tokens + last["generated"], 0
            self.waiting.appendleft(last)
            self.preempted = True
            if last is state:
                return False
        return True

    def plan(self):
        self.preempted, decoding, chunks = False, [], []
        for state in list(self.running):
            if state["computed"] >= state["target"] and state in self.running and self.grow(state, 1):
                decoding.append(state)
        budget = self.profile.batch_tokens - len([state for state in decoding if state in self.running])
        for state in list(self.running):
            if state["computed"] < state["target"] and state in self.running:
                tokens = min(state["target"] - state["computed"], budget)
                if tokens and self.grow(state, tokens):
                    chunks.append((state, tokens))
                    budget -= tokens
        loading, passed_over = 0, []
        while (
            not self.preempted and self.waiting and budget and len(self.running) < self.profile.sequences_max
        ):
            state, found = self.waiting[0], 0
            used = self.used_adapters()
            if (
                state["s"].adapter
                and state["s"].adapter not in {*used, *self.loaded}
                and len(used) >= self.slots
            ):
                passed_over.append(self.waiting.popleft())
                continue
            chain = self.chain(state["s"])[: (state["target"] - 1) // 16]
            while found < len(chain) and chain[found] in self.cached:
                found += 1
            loose = sum(1 for block in chain[:found] if not self.cached[block])
            tokens = min(state["target"] - found * 16, budget)
            need = -(-(found * 16 + tokens) // 16) - found
            if need + loose > self.available():
                break
            self.waiting.popleft()
            for block in chain[:found]:
                self.cached[block] += 1
            state["held"], state["computed"] = chain[:found], found * 16
            self.hits.setdefault(state["s"], found * 16)
            self.reserve(state, need)
            loading += self.load(state["s"].adapter)
            self.running.append(state)
            chunks.append((state, tokens))
            budget -= tokens
        self.waiting.extendleft(reversed(passed_over))
        self.decoding = [state for state in decoding if state in self.running]
        self.chunks = [chunk for chunk in chunks if chunk[0] in self.running]
        return loading + self.factor * self.cost.mixed_ps(
            [(tokens, state["computed"]) for state, tokens in self.chunks],
            decoding=len(self.decoding),
            context=sum(state["computed"] + 1 for state in self.decoding),
        )

    def leave(self, state):
        self.running.remove(state)
        self.release(state)

    def drive(self, arrivals, aborts=()):
        given_up = {request: at for at, request in aborts}
        now, log, coming = 0, [], deque(sorted(arrivals, key=lambda each: each[0]))

        def gone(state, before=1):
            return given_up.get(state["s"], 1 << 62) + before <= now

        while coming or self.running or self.waiting:
            if not self.running and not self.waiting:
                now = max(now, coming[0][0])
            while coming and coming[0][0] <= now:
                request = coming.popleft()[1]
                self.waiting.append(
                    {"s": request, "computed": 0, "generated": 0, "private": 0, "held": [],
                     "target": request.prompt_tokens}
                )  # fmt: skip
            self.waiting = deque(state for state in self.waiting if not gone(state, 0))
            for state in [each for each in self.running if gone(each, 0)]:
                self.leave(state)
            if not self.running and not self.waiting:
                continue
            now += self.plan()
            for state, tokens in [(state, 1) for state in self.decoding] + self.chunks:
                state["computed"] += tokens
                if state["computed"] >= state["target"]:
                    state["generated"] += 1
                    if state["generated"] == 1 and not gone(state):
                        log.append((now, state["s"].number, "FirstToken"))
                    if state["generated"] == state["s"].output_tokens and not gone(state):
                        log.append((now, state["s"].number, "Finished"))
            for state, _ in self.chunks:
                self.publish(state)
            for state in list(self.running):
                if state["generated"] == state["s"].output_tokens or gone(state):
                    self.leave(state)
        return log


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 400),  # arrival in ms
        st.integers(1, 120),  # prompt
        st.integers(1, 60),  # output
        st.integers(0, 3),  # which shared start
        st.integers(0, 5),  # blocks of it
        st.sampled_from([None, None, None, 0, 1, 30, 200, 900]),  # given up so many ms later
        st.sampled_from(["", "", "a", "b", "c"]),  # adapter
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(
    requests=REQUESTS,
    blocks=st.integers(12, 40),
    budget=st.sampled_from([20, 64, 8192]),
    most=st.sampled_from([2, 5, 256]),
    slots=st.integers(1, 3),
    factor=st.sampled_from([1, 3]),
)
def test_every_history_is_the_one_of_single_steps(requests, blocks, budget, most, slots, factor):
    profile = replace(BIG, kv_blocks=blocks, batch_tokens=budget, sequences_max=most)
    arrivals, aborts = [], []
    for number, (at, prompt, output, which, wanted, patience, adapter) in enumerate(requests):
        shared = min(wanted, prompt // 16)
        partition = ord(adapter) * 10**6 if adapter else 0
        runs = ([(partition + which * 100, shared)] if shared else []) + [((number + 10) * 1000, 20)]
        made = Sequence(number, prompt_tokens=prompt, output_tokens=output, runs=runs, adapter=adapter)
        arrivals.append((at * 10**9, made))
        if patience is not None:
            aborts.append(((at + patience) * 10**9, made))
    by_hand = StepByStep(profile, slots=slots, factor=factor)
    expected = by_hand.drive(arrivals, aborts)
    engine = Engine(profile, jitter=Jitter(0.1, Always(float(factor))), adapters=AdapterSlots(slots, LOAD))
    log = drive(engine, arrivals, aborts)
    assert sorted(log) == sorted(expected)
    assert [each.cached_tokens for _, each in arrivals] == [by_hand.hits.get(each) for _, each in arrivals]
    assert (engine.cache.used, engine.running, list(engine.waiting)) == (0, [], [])
