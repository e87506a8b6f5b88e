import pytest

from warmroute.report.measurements import Sample, Summary, conclusion, milliseconds, percentile, summarise


def sample(strategy="RANDOM", *, instance="i-1", ttft_s=0.1, prompt=100, cached=0, error=None) -> Sample:
    return Sample(strategy, 1, "a manual", 1, instance, ttft_s, prompt, cached, error)


@pytest.mark.parametrize(
    ("values", "share", "result"),
    [
        ([], 0.5, None),
        ([3.0], 0.9, 3.0),
        ([3.0, 1.0], 0.5, 2.0),
        ([4.0, 1.0, 2.0, 3.0], 0.0, 1.0),
        ([1, 2, 3], 1.0, 3),
    ],
)
def test_percentiles_are_interpolated_between_the_values(values, share, result):
    assert percentile(values, share) == result


def test_a_summary_counts_what_one_strategy_did():
    samples = [
        sample(instance="i-2", ttft_s=0.3, cached=90),
        sample(instance="i-2", ttft_s=0.1, cached=0),
        sample("PREFIX_AWARE", instance="i-1"),
        sample(instance="", ttft_s=None, prompt=0, error="EventStreamError: gone"),
    ]

    random_, prefix = summarise(samples)

    assert random_ == Summary("RANDOM", 3, 1, 0.2, pytest.approx(0.28), 200, 90, (("i-1", 0), ("i-2", 2)))
    assert random_.cached_share == 0.45
    assert prefix.strategy == "PREFIX_AWARE"


def test_an_answer_that_broke_off_does_not_count_as_a_quick_one():
    (summary,) = summarise([sample(ttft_s=0.01, error="broken"), sample(ttft_s=0.5)])
    assert summary.ttft_p50_s == 0.5


def test_nothing_comes_to_nothing():
    assert summarise([]) == ()
    (summary,) = summarise([sample(ttft_s=None, prompt=0, error="refused", instance="")])
    assert (summary.ttft_p50_s, summary.cached_share, summary.requests_per_instance) == (None, 0.0, ())


def test_the_conclusion_compares_with_the_baseline():
    summaries = summarise([sample(cached=40, ttft_s=0.41), sample("PREFIX_AWARE", cached=80, ttft_s=0.0048)])
    assert conclusion(summaries, subject="PREFIX_AWARE", baseline="RANDOM") == (
        "With PREFIX_AWARE 80% of all prompt tokens came from a cache, 2.0 times the 40% of RANDOM; "
        "half of the answers began within 4.8 ms, against 410 ms."
    )


def test_the_conclusion_does_not_divide_by_nothing():
    summaries = summarise([sample(cached=0), sample("PREFIX_AWARE", cached=80)])
    assert "and none with RANDOM" in conclusion(summaries, subject="PREFIX_AWARE", baseline="RANDOM")


@pytest.mark.parametrize(
    "samples", [[], [sample()], [sample(), sample("PREFIX_AWARE", ttft_s=None, error="x")]]
)
def test_too_little_is_said_to_be_too_little(samples):
    said = conclusion(summarise(samples), subject="PREFIX_AWARE", baseline="RANDOM")
    assert said == "There is too little to compare PREFIX_AWARE with RANDOM."


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0012, "1.2 ms"), (0.0412, "41 ms"), (1.5, "1,500 ms")]
)
def test_durations_are_readable(seconds, text):
    assert milliseconds(seconds) == text
