"""What was measured, and what it comes to. Pure: data in, data out."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One request.

    Attributes:
        strategy: RoutingStrategy of its variant at the time.
        round: Which round, from 1.
        document: Title of what was asked about.
        question: Which question about it, from 1.
        instance: Who answered, as the decision receipt says; ``""`` when nobody did.
        ttft_s: Seconds until the first part of the answer; None when there was none.
        prompt_tokens: Of the whole prompt, as the engine counts.
        cached_tokens: Of these, taken from its cache, as the engine reports.
        error: Why it failed; None when it did not.
    """

    strategy: str
    round: int
    document: str
    question: int
    instance: str
    ttft_s: float | None
    prompt_tokens: int
    cached_tokens: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What one strategy comes to.

    Attributes:
        strategy: Its name.
        requests: All, failed ones included.
        failures: Failed ones.
        ttft_p50_s: Median of the seconds until the first part of an answer; None without answers.
        ttft_p90_s: Of ten answers nine began by then.
        prompt_tokens: Of all prompts.
        cached_tokens: Of these, taken from a cache.
        requests_per_instance: In order of the instances' names.
    """

    strategy: str
    requests: int
    failures: int
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    prompt_tokens: int
    cached_tokens: int
    requests_per_instance: tuple[tuple[str, int], ...]

    @property
    def cached_share(self) -> float:
        """Share of all prompt tokens that came from a cache, 0 to 1; 0 without prompts."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of the values lies, interpolated; None of none.

    Args:
        values: In any order.
        share: 0 to 1.
    """
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarise(samples: Iterable[Sample]) -> tuple[Summary, ...]:
    """Return one summary per strategy, in the order in which they first appear."""
    by_strategy: dict[str, list[Sample]] = {}
    instances: set[str] = set()
    for sample in samples:
        by_strategy.setdefault(sample.strategy, []).append(sample)
        if sample.instance:
            instances.add(sample.instance)
    return tuple(_summary(strategy, own, sorted(instances)) for strategy, own in by_strategy.items())


def _summary(strategy: str, samples: list[Sample], instances: list[str]) -> Summary:
    waits = [sample.ttft_s for sample in samples if sample.ttft_s is not None and sample.error is None]
    counts = Counter(sample.instance for sample in samples)
    return Summary(
        strategy=strategy,
        requests=len(samples),
        failures=sum(sample.error is not None for sample in samples),
        ttft_p50_s=percentile(waits, 0.5),
        ttft_p90_s=percentile(waits, 0.9),
        prompt_tokens=sum(sample.prompt_tokens for sample in samples),
        cached_tokens=sum(sample.cached_tokens for sample in samples),
        requests_per_instance=tuple((instance, counts[instance]) for instance in instances),
    )


def conclusion(summaries: Sequence[Summary], *, subject: str, baseline: str) -> str:
    """Return in one sentence what the numbers say of one strategy beside another.

    Args:
        summaries: Of both, and of others.
        subject: The strategy it is about.
        baseline: The one it is compared with.
    """
    by_name = {summary.strategy: summary for summary in summaries}
    ours, theirs = by_name.get(subject), by_name.get(baseline)
    if ours is None or theirs is None or ours.ttft_p50_s is None or theirs.ttft_p50_s is None:
        return f"There is too little to compare {subject} with {baseline}."
    cache = f"{ours.cached_share:.0%} of all prompt tokens came from a cache"
    if theirs.cached_share > 0:
        ratio = ours.cached_share / theirs.cached_share
        cache += f", {ratio:.1f} times the {theirs.cached_share:.0%} of {baseline}"
    else:
        cache += f", and none with {baseline}"
    return (
        f"With {subject} {cache}; half of the answers began within {milliseconds(ours.ttft_p50_s)}, "
        f"against {milliseconds(theirs.ttft_p50_s)}."
    )


def milliseconds(seconds: float | None) -> str:
    """Return a duration for people, such as ``41 ms``; a dash for None."""
    if seconds is None:
        return "-"
    value = seconds * 1000
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"
