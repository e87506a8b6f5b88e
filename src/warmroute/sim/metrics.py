"""What a run comes to: one row of numbers. Pure: records in, numbers out."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.core.decision import Reason
from warmroute.sim.records import Record, Run

NS_PER_MS, NS_PER_S = 1e6, 1e9
MOST = 0.95
"""Share of the completed requests over which throughput is measured."""
_PASSED_OVER = (Reason.OVERFLOW.value, Reason.SATURATED.value)


@dataclass(frozen=True, slots=True)
class Metrics:
    """One run in numbers. Only requests that came after the warm-up count; ratios are 0 to 1.

    Attributes:
        requests: All of them.
        failed: Failed and rejected ones.
        ttft_mean_ms: Time to first token, from arrival, of completed ones.
        ttft_p50_ms: Its median.
        ttft_p90_ms: Its 90th percentile.
        ttft_p99_ms: Its 99th percentile.
        itl_p50_ms: Median over requests of the mean time between two tokens of an answer.
        throughput_rps: Completed requests per second, from the first arrival until `MOST` of them were over:
            one slow answer after everybody has gone says nothing about what a cluster can do.
        output_tokens_per_s: Tokens of their answers, likewise.
        hit_rate: Prompt tokens found in caches, of all prompt tokens of completed requests.
        ideal_hit_rate: The same with one cache without limits.
        share_min: Requests on the instance with the fewest, of all.
        share_max: Requests on the instance with the most, of all.
        overflow_rate: Requests whose home was at or above the threshold.
        decision_us: Mean time of a decision by the stopwatch that was handed in.
    """

    requests: int
    failed: int
    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_p99_ms: float
    itl_p50_ms: float
    throughput_rps: float
    output_tokens_per_s: float
    hit_rate: float
    ideal_hit_rate: float
    share_min: float
    share_max: float
    overflow_rate: float
    decision_us: float


def metrics_of(run: Run, *, warmup_ns: int = 0) -> Metrics:
    """Return what a run comes to.

    Args:
        run: It has ended.
        warmup_ns: Requests that came before this do not count.
    """
    records = [record for record in run.records if record.arrival.at_ns >= warmup_ns]
    done = [record for record in records if record.outcome == "completed"]
    ttft = sorted((record.first_token_ns - record.arrival.at_ns) / NS_PER_MS for record in done)
    between = sorted(
        _between_tokens_ms(record) for record in done if record.arrival.request.output_tokens > 1
    )
    prompt = sum(record.arrival.request.prompt_tokens for record in done)
    by_end = sorted(done, key=lambda record: record.ended_ns)[: math.ceil(MOST * len(done))]
    output = sum(record.arrival.request.output_tokens for record in by_end)
    span_s = (by_end[-1].ended_ns - records[0].arrival.at_ns) / NS_PER_S if by_end else 0.0
    shares = _shares(records, run.targets)
    passed_over = sum(record.reason in _PASSED_OVER for record in records)
    return Metrics(
        requests=len(records),
        failed=sum(record.outcome in ("failed", "rejected") for record in records),
        ttft_mean_ms=_ratio(sum(ttft), len(ttft)),
        ttft_p50_ms=percentile(ttft, 0.5),
        ttft_p90_ms=percentile(ttft, 0.9),
        ttft_p99_ms=percentile(ttft, 0.99),
        itl_p50_ms=percentile(between, 0.5),
        throughput_rps=_ratio(len(by_end), span_s),
        output_tokens_per_s=_ratio(output, span_s),
        hit_rate=_ratio(sum(record.cached_tokens for record in done), prompt),
        ideal_hit_rate=_ratio(sum(record.ideal_tokens for record in done), prompt),
        share_min=min(shares, default=0.0),
        share_max=max(shares, default=0.0),
        overflow_rate=_ratio(passed_over, len(records)),
        decision_us=_ratio(run.decision_ns / 1000, run.decisions),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, interpolated; 0 of none.

    Args:
        ordered: In rising order.
        share: 0 to 1.
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _between_tokens_ms(record: Record) -> float:
    return (record.ended_ns - record.first_token_ns) / NS_PER_MS / (record.arrival.request.output_tokens - 1)


def _shares(records: Sequence[Record], targets: Sequence[str]) -> list[float]:
    counts = Counter(record.target for record in records if record.target)
    return [_ratio(counts[target], len(records)) for target in targets]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
