"""The step formula: steps worked out by hand for every profile, and runs of steps in closed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engine.jitter import ONE, stretched
from warmroute.engine.profile import PROFILES
from warmroute.engine.step import PS_PER_MS, StepCost

BIG = StepCost(PROFILES["llama-3.1-70b-8xh100"])
SMALL = StepCost(PROFILES["llama-3.1-8b-1xh100"])


# A chunk of 1,000 tokens on 2,000 cached ones (2.5 million pairs) beside 4 sequences that decode with
# 8,000 tokens of context together: N = 1,004.
@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("llama-3.1-70b-8xh100", 10.7 + 0.0375 * 908 + 0.56 * 2.5 + 14.1 * 0.008 + 0.002 * 4),
        ("llama-3.1-70b-8xh100-fp8", 8.2 + 0.0326 * 1004 + 0.51 * 2.5 + 13.8 * 0.008),
        ("llama-3.1-70b-4xh100", 16.3 + 0.0596 * 844 + 1.13 * 2.5 + 28.4 * 0.008 + 0.007 * 4),
        ("llama-3.1-8b-1xh100", 6.55 + 0.0193 * 812 + 0.84 * 2.5 + 43.9 * 0.008 + 0.003 * 4),
        ("llama-3.1-8b-1xh100-fp8", 4.4 + 0.0139 * 908 + 0.82 * 2.5 + 43.8 * 0.008 + 0.002 * 4),
        ("qwen3-32b-2xh100", 14.6 + 0.0485 * 812 + 1.78 * 2.5 + 46.3 * 0.008 + 0.008 * 4),
        ("llama-3.1-8b-l4", 30 + 0.14 * 1004 + 8 * 2.5 + 220 * 0.008 + 0.01 * 4),
    ],
)
def test_a_mixed_step_takes_what_the_formula_says(name, ms):
    took = StepCost(PROFILES[name]).mixed_ps([(1000, 2000)], decoding=4, context=8000)
    assert took == round(ms * PS_PER_MS)


# 200 sequences decode with 1,000 tokens of context each, and nothing else: N = 200.
@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("llama-3.1-70b-8xh100", 10.7 + 0.0375 * 104 + 14.1 * 0.2 + 0.002 * 200),
        ("llama-3.1-70b-8xh100-fp8", 8.2 + 0.0326 * 200 + 13.8 * 0.2),
        ("llama-3.1-70b-4xh100", 16.3 + 0.0596 * 40 + 28.4 * 0.2 + 0.007 * 200),
        ("llama-3.1-8b-1xh100", 6.55 + 0.0193 * 8 + 43.9 * 0.2 + 0.003 * 200),
        ("llama-3.1-8b-1xh100-fp8", 4.4 + 0.0139 * 104 + 43.8 * 0.2 + 0.002 * 200),
        ("qwen3-32b-2xh100", 14.6 + 0.0485 * 8 + 46.3 * 0.2 + 0.008 * 200),
        ("llama-3.1-8b-l4", 30 + 0.14 * 200 + 220 * 0.2 + 0.01 * 200),
    ],
)
def test_a_step_of_decoding_takes_what_the_formula_says(name, ms):
    took = StepCost(PROFILES[name]).mixed_ps([], decoding=200, context=200_000)
    assert took == round(ms * PS_PER_MS)


# Two chunks, 30 tokens from the start and 30 behind 600: 30 * 15 + 30 * 615 = 18,900 pairs, N = 60.
@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("llama-3.1-70b-8xh100", 10.7 + 0.56 * 0.0189),
        ("llama-3.1-70b-8xh100-fp8", 8.2 + 0.0326 * 60 + 0.51 * 0.0189),
        ("llama-3.1-70b-4xh100", 16.3 + 1.13 * 0.0189),
        ("llama-3.1-8b-1xh100", 6.55 + 0.84 * 0.0189),
        ("llama-3.1-8b-1xh100-fp8", 4.4 + 0.82 * 0.0189),
        ("qwen3-32b-2xh100", 14.6 + 1.78 * 0.0189),
        ("llama-3.1-8b-l4", 30 + 0.14 * 60 + 8 * 0.0189),
    ],
)
def test_a_step_of_two_chunks_takes_what_the_formula_says(name, ms):
    took = StepCost(PROFILES[name]).mixed_ps([(30, 0), (30, 600)], decoding=0, context=0)
    assert took == round(ms * PS_PER_MS)


@pytest.mark.parametrize(
    ("cost", "chunks", "decoding", "context", "low_ms", "high_ms"),
    [
        (BIG, [(8192, 0)], 0, 0, 333, 348),
        (BIG, [(256, 8192)], 0, 0, 18, 18),
        (BIG, [], 1, 2048, 10.8, 10.8),
        (BIG, [], 64, 64 * 4096, 15, 15),
        (SMALL, [(1000, 0)], 0, 0, 22, 22),
        (SMALL, [], 1, 1000, 6.6, 6.6),
    ],
)
def test_the_published_sanity_points_are_met_within_5_percent(
    cost, chunks, decoding, context, low_ms, high_ms
):
    took = cost.mixed_ps(chunks, decoding=decoding, context=context) / PS_PER_MS
    assert low_ms * 0.95 <= took <= high_ms * 1.05


def test_tokens_below_the_free_ones_cost_nothing():
    assert BIG.mixed_ps([], decoding=1, context=0) == round(10.702 * PS_PER_MS)


RUNS = st.tuples(
    st.sampled_from(sorted(PROFILES)), st.integers(1, 60), st.integers(1, 300), st.integers(0, 10**6)
)


@given(RUNS)
def test_steps_together_take_as_long_as_one_after_the_other(run):
    name, steps, decoding, context = run
    cost = StepCost(PROFILES[name])
    singly = [
        cost.mixed_ps((), decoding=decoding, context=context + each * decoding) for each in range(steps)
    ]
    assert cost.decode_ps(steps, decoding=decoding, context=context) == sum(singly)


@given(RUNS, st.integers(0, 10**14), st.sampled_from([ONE // 2, ONE, 3 * ONE]))
def test_the_steps_begun_are_those_that_single_steps_show(run, elapsed, factor):
    name, steps, decoding, context = run
    cost = StepCost(PROFILES[name])
    begins = [stretched(cost.decode_ps(n, decoding=decoding, context=context), factor) for n in range(steps)]
    expected = max(1, sum(begin < elapsed for begin in begins))
    begun = cost.steps_begun(elapsed, decoding=decoding, context=context, limit=steps, factor=factor)
    assert begun == expected


def test_a_step_has_begun_when_it_began_before_the_time_and_not_just_then():
    two = BIG.decode_ps(2, decoding=3, context=100)

    def begun(elapsed):
        return BIG.steps_begun(elapsed, decoding=3, context=100, limit=10)

    assert [begun(two - 1), begun(two), begun(two + 1)] == [2, 2, 3]
    assert begun(0) == 1
    assert begun(10**15) == 10
