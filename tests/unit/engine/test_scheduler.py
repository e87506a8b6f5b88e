"""The scheduler against steps worked out by hand, and against a slow one that takes step by step."""

from collections import OrderedDict, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.engine.profile import PROFILES
from warmroute.engine.scheduler import Engine, Sequence
from warmroute.engine.step import StepCost

BIG = PROFILES["llama-3.1-70b-8xh100"]
COST = StepCost(BIG)


def sequence(number=1, prompt=100, output=10, runs=None):
    return Sequence(
        number, prompt_tokens=prompt, output_tokens=output, runs=runs or [(number * 10_000, 9_000)]
    )


def drive(engine, arrivals):
    """Let requests arrive at their times; return (time, number, what) of everything that comes out."""
    arrivals = sorted(arrivals, key=lambda each: each[0])
    log, position = [], 0
    while position < len(arrivals) or engine.ends_ps is not None:
        due = engine.ends_ps
        now = min(
            t for t in (due, arrivals[position][0] if position < len(arrivals) else None) if t is not None
        )
        if due == now:
            log += [(now, each.sequence.number, type(each).__name__) for each in engine.advance()]
        while position < len(arrivals) and arrivals[position][0] == now:
            engine.submit(arrivals[position][1], now)
            position += 1
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


# --- against a slow one -----------------------------------------------------------------------


class StepByStep:
    """The rules once more, one step at a time and one entry per block."""

    def __init__(self, profile):
        self.profile, self.cost = profile, StepCost(profile)
        self.cached = OrderedDict()  # block -> references, least recently released first
        self.running, self.waiting, self.private = [], deque(), 0

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
        while (
            not self.preempted and self.waiting and budget and len(self.running) < self.profile.sequences_max
        ):
            state, found = self.waiting[0], 0
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
            state.setdefault("hit", found * 16)
            self.reserve(state, need)
            self.running.append(state)
            chunks.append((state, tokens))
            budget -= tokens
        self.decoding = [state for state in decoding if state in self.running]
        self.chunks = [chunk for chunk in chunks if chunk[0] in self.running]
        return self.cost.mixed_ps(
            [(tokens, state["computed"]) for state, tokens in self.chunks],
            decoding=len(self.decoding),
            context=sum(state["computed"] + 1 for state in self.decoding),
        )

    def drive(self, arrivals):
        now, log, coming = 0, [], deque(sorted(arrivals, key=lambda each: each[0]))
        while coming or self.running or self.waiting:
            if not self.running and not self.waiting:
                now = max(now, coming[0][0])
            while coming and coming[0][0] <= now:
                request = coming.popleft()[1]
                self.waiting.append(
                    {"s": request, "computed": 0, "generated": 0, "private": 0, "held": [],
                     "target": request.prompt_tokens}
                )  # fmt: skip
            now += self.plan()
            for state, tokens in [(state, 1) for state in self.decoding] + self.chunks:
                state["computed"] += tokens
                if state["computed"] >= state["target"]:
                    state["generated"] += 1
                    if state["generated"] == 1:
                        log.append((now, state["s"].number, "FirstToken"))
                    if state["generated"] == state["s"].output_tokens:
                        log.append((now, state["s"].number, "Finished"))
            for state, _ in self.chunks:
                self.publish(state)
            for state in [each for each in self.running if each["generated"] == each["s"].output_tokens]:
                self.running.remove(state)
                self.release(state)
                state["s"].hit = state["hit"]
        return log


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 400),  # arrival in ms
        st.integers(1, 120),  # prompt
        st.integers(1, 60),  # output
        st.integers(0, 3),  # which shared start
        st.integers(0, 5),  # blocks of it
    ),
    min_size=1,
    max_size=14,
)


class Noted(Sequence):
    hit = None


@settings(max_examples=200, deadline=None)
@given(
    requests=REQUESTS,
    blocks=st.integers(12, 40),
    budget=st.sampled_from([20, 64, 8192]),
    most=st.sampled_from([2, 5, 256]),
)
def test_every_history_is_the_one_of_single_steps(requests, blocks, budget, most):
    profile = replace(BIG, kv_blocks=blocks, batch_tokens=budget, sequences_max=most)
    arrivals = []
    for number, (at, prompt, output, which, wanted) in enumerate(requests):
        shared = min(wanted, prompt // 16)
        runs = ([(which * 100, shared)] if shared else []) + [((number + 10) * 1000, 20)]
        arrivals.append((at * 10**9, Noted(number, prompt_tokens=prompt, output_tokens=output, runs=runs)))
    expected = StepByStep(profile).drive(arrivals)
    log = drive(Engine(profile), arrivals)
    assert sorted(log) == sorted(expected)
    assert [each.cached_tokens for _, each in arrivals] == [each.hit for _, each in arrivals]
