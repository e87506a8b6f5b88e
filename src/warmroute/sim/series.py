"""What a run looks like: distributions and courses for figures. Pure: records in, numbers out.

Made only for who draws them; `warmroute.sim.metrics` has the numbers of every run.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.sim.metrics import NS_PER_MS, NS_PER_S, percentile
from warmroute.sim.records import Record, Run

QUANTILES = (*(place / 100 for place in range(100)), 0.995, 0.999, 1.0)
"""Where a distribution is read off."""
BUCKETS_MAX = 36
"""Points of a course: as many as a figure of the width of a phone can show."""
_WIDTHS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
WINDOW_NS = 60 * 1_000_000_000
"""How long after a change the requests count as those that felt it."""
GOODPUT_TTFT_MS, GOODPUT_ITL_MS = 2000.0, 25.0
"""The limits that are usual for the goodput of a conversation trace."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a run went over time, warm-up included.

    Attributes:
        bucket_s: Seconds that each point of a sequence stands for; the first begins at 0.
        hit_rate: Prompt tokens found in caches, of those of the completed requests that came then, 0 to 1;
            None without such requests.
        in_flight: Invocations on their way, in the mean over the bucket.
        waiting: Of these, the ones without a first token.
        shares: Requests after the warm-up by instance, 0 to 1 of all, in order of the instances' numbers.
    """

    bucket_s: float
    hit_rate: tuple[float | None, ...]
    in_flight: tuple[float, ...]
    waiting: tuple[float, ...]
    shares: tuple[tuple[str, float], ...]


def course_of(run: Run, *, warmup_ns: int = 0) -> Course:
    """Return how a run went.

    Args:
        run: It has ended.
        warmup_ns: Requests that came before this have no part in the shares.
    """
    width_s = next((width for width in _WIDTHS_S if run.ended_ns <= width * BUCKETS_MAX * NS_PER_S), 7200)
    width = round(width_s * NS_PER_S)
    count = max(1, -(-run.ended_ns // width))
    prompt, cached = [0] * count, [0] * count
    in_flight, waiting = [0] * count, [0] * count
    for record in run.records:
        at_ns = record.arrival.at_ns
        if record.outcome == "completed":
            place = min(at_ns // width, count - 1)
            prompt[place] += record.arrival.request.prompt_tokens
            cached[place] += record.cached_tokens
        _spread(in_flight, at_ns, record.ended_ns, width)
        _spread(waiting, at_ns, record.first_token_ns or record.ended_ns, width)
    counted = Counter(record.target for record in _after(run.records, warmup_ns) if record.target)
    total = sum(counted.values())
    return Course(
        bucket_s=width_s,
        hit_rate=tuple(found / asked if asked else None for found, asked in zip(cached, prompt, strict=True)),
        in_flight=tuple(spent / width for spent in in_flight),
        waiting=tuple(spent / width for spent in waiting),
        shares=tuple((target, counted[target] / total if total else 0.0) for target in run.targets),
    )


def _spread(buckets: list[int], start_ns: int, end_ns: int, width: int) -> None:
    """Add the nanoseconds of a span to the buckets it lies in; the last one ends with the run."""
    while start_ns < end_ns:
        place = start_ns // width
        if place >= len(buckets):
            return
        until = min(end_ns, (place + 1) * width)
        buckets[place] += until - start_ns
        start_ns = until


def ttft_quantiles(run: Run, *, warmup_ns: int = 0) -> tuple[float, ...]:
    """Return the times to first token, in milliseconds, at `QUANTILES`; all 0 without completed requests."""
    done = _ttft_ms(_after(run.records, warmup_ns))
    return tuple(percentile(done, share) for share in QUANTILES)


@dataclass(frozen=True, slots=True)
class Change:
    """What a change of the fleet did to those who came in the minute after it.

    Attributes:
        ttft_p99_before_ms: 99th percentile of the times to first token between the warm-up and the change.
        ttft_p99_after_ms: The same of the requests that came in the minute after it.
        hit_before: Hit rate before, 0 to 1.
        hit_after: Hit rate in that minute.
    """

    ttft_p99_before_ms: float
    ttft_p99_after_ms: float
    hit_before: float
    hit_after: float


def change_of(run: Run, *, at_ns: int, warmup_ns: int = 0) -> Change:
    """Return what changed at a moment.

    Args:
        run: It has ended.
        at_ns: When the fleet changed.
        warmup_ns: Requests that came before this do not count.
    """
    before = [record for record in _after(run.records, warmup_ns) if record.arrival.at_ns < at_ns]
    after = [record for record in _after(run.records, at_ns) if record.arrival.at_ns < at_ns + WINDOW_NS]
    return Change(
        ttft_p99_before_ms=percentile(_ttft_ms(before), 0.99),
        ttft_p99_after_ms=percentile(_ttft_ms(after), 0.99),
        hit_before=_hit_rate(before),
        hit_after=_hit_rate(after),
    )


def goodput_share(run: Run, *, warmup_ns: int = 0) -> float:
    """Return the share of all requests that began within 2 s and then had a token every 25 ms."""
    records = _after(run.records, warmup_ns)
    good = sum(record.outcome == "completed" and _good(record) for record in records)
    return good / len(records) if records else 0.0


def _good(record: Record) -> bool:
    wait_ms = (record.first_token_ns - record.arrival.at_ns) / NS_PER_MS
    gaps = max(1, record.arrival.request.output_tokens - 1)
    return (
        wait_ms <= GOODPUT_TTFT_MS
        and (record.ended_ns - record.first_token_ns) / NS_PER_MS / gaps <= GOODPUT_ITL_MS
    )


def _after(records: Sequence[Record], warmup_ns: int) -> list[Record]:
    return [record for record in records if record.arrival.at_ns >= warmup_ns]


def _ttft_ms(records: Sequence[Record]) -> list[float]:
    done = (record for record in records if record.outcome == "completed")
    return sorted((record.first_token_ns - record.arrival.at_ns) / NS_PER_MS for record in done)


def _hit_rate(records: Sequence[Record]) -> float:
    done = [record for record in records if record.outcome == "completed"]
    prompt = sum(record.arrival.request.prompt_tokens for record in done)
    return sum(record.cached_tokens for record in done) / prompt if prompt else 0.0
