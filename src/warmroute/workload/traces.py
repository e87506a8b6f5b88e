"""Recorded workloads as requests: lines in, arrivals or sessions out. Nothing is read from files here.

What a trace leaves open is filled in the same way everywhere: answers are made of blocks of their own,
so an answer that comes back in a later prompt is only found again where the trace itself numbers it.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from random import Random
from typing import Any

from xxhash import xxh3_64_intdigest

from warmroute.workload.arrivals import NS_PER_S, Arrival, Session, gamma
from warmroute.workload.prompts import (
    BLOCK_CHARACTERS,
    BLOCK_TOKENS,
    CHARACTERS_PER_TOKEN,
    Numbers,
    Request,
    Run,
    blocks_of,
    clipped,
    shared_start,
)

OWN_NUMBERS = 1 << 44
"""Blocks that no trace numbers start here."""
MOONCAKE_BLOCK_TOKENS = 512


class TraceError(ValueError):
    """A trace that is not what it should be."""


def mooncake(lines: Iterable[str], *, block_tokens: int | None = MOONCAKE_BLOCK_TOKENS) -> Iterator[Arrival]:
    """Read requests with hashed blocks, one JSON object a line.

    Args:
        lines: ``{"timestamp": ms, "input_length": …, "output_length": …, "hash_ids": […]}``.
        block_tokens: Tokens of a hashed block; None takes each record's own ``block_size``.

    Raises:
        TraceError: A line is something else; the message has its number.
    """
    numbers = Numbers(OWN_NUMBERS)
    parents: dict[int, int | None] = {}
    for number, record in _objects(lines):
        try:
            size = int(record["block_size"]) if block_tokens is None else block_tokens
            if size <= 0 or size % BLOCK_TOKENS:
                raise TraceError(f"block_size must be a multiple of {BLOCK_TOKENS}, got {size}")
            each = size // BLOCK_TOKENS
            blocks = [int(block) for block in record["hash_ids"]]
            for before, block in zip([None, *blocks], blocks, strict=False):
                if parents.setdefault(block, before) != before:
                    raise TraceError(f"hash_ids: block {block} stood behind another block before")
            chain = _joined((block * each, each) for block in blocks)
            at_ns = round(float(record["timestamp"]) * 1_000_000)
            prompt, output = int(record["input_length"]), int(record["output_length"])
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"line {number}: {_what(error)}") from error
        yield Arrival(at_ns, _answered(chain, prompt, output, numbers))


def azure(lines: Iterable[str]) -> Iterator[Arrival]:
    """Read arrival times and lengths; prompts share nothing, since the trace does not say what they share.

    Args:
        lines: CSV with the columns ``TIMESTAMP``, ``ContextTokens`` and ``GeneratedTokens``.

    Raises:
        TraceError: A line is something else.
    """
    numbers = Numbers(OWN_NUMBERS)
    began: datetime | None = None
    for number, row in enumerate(csv.DictReader(lines), start=2):
        try:
            # Seven digits of a second: one more than datetime takes.
            time = datetime.fromisoformat(row["TIMESTAMP"][:26])
            prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"line {number}: {_what(error)}") from error
        began = began or time
        yield Arrival(
            round((time - began).total_seconds() * NS_PER_S), _answered((), prompt, output, numbers)
        )


@dataclass(frozen=True, slots=True)
class _Client:
    """A ServeGen client: windows of its rates and of its lengths, by their starts."""

    rates: dict[int, tuple[float, float]] = field(default_factory=dict)
    lengths: dict[int, tuple[float, ...]] = field(default_factory=dict)


def servegen(
    rates: Iterable[str],
    lengths: Iterable[str],
    *,
    rng: Random,
    start_s: int,
    duration_s: int,
    prefix_tokens: int,
    window_s: int = 600,
) -> Iterator[Arrival]:
    """Draw requests of a population of clients from its rates, burstiness and lengths.

    Args:
        rates: CSV ``client,window_start_s,rate_per_s,cv,…``.
        lengths: CSV ``client,window_start_s,in_mean,in_p50,in_p95,out_mean,out_p50,out_p95``.
        rng: Source of randomness.
        start_s: Where in the recorded time to begin.
        duration_s: How much of it.
        prefix_tokens: Each client's own start of all its prompts, put before the recorded lengths.
        window_s: Length of the windows of ``rates``.

    Raises:
        TraceError: A line is something else.
    """
    clients: dict[int, _Client] = {}
    for client, window, values in _rows(rates, ("rate_per_s", "cv")):
        clients.setdefault(client, _Client()).rates[window] = (values[0], values[1])
    for client, window, values in _rows(lengths, ("in_p50", "in_p95", "out_p50", "out_p95")):
        clients.setdefault(client, _Client()).lengths[window] = values
    numbers = Numbers()
    streams = []
    for client, known in sorted(clients.items()):
        if not known.lengths:
            continue
        prefix = numbers.take(prefix_tokens // BLOCK_TOKENS)
        own = Random(rng.getrandbits(64))  # noqa: S311  (a simulation)
        streams.append(_client_arrivals(client, known, prefix, own, (start_s, duration_s, window_s)))
    return merge(*streams, key=lambda each: each.at_ns)


def _client_arrivals(
    client: int, known: _Client, prefix: Run, rng: Random, span: tuple[int, int, int]
) -> Iterator[Arrival]:
    start_s, duration_s, window_s = span
    numbers = Numbers(OWN_NUMBERS + (client << 36))
    for window, (rate, variation) in sorted(known.rates.items()):
        begin, end = max(window, start_s), min(window + window_s, start_s + duration_s)
        if begin >= end or rate <= 0:
            continue
        at = max((each for each in known.lengths if each <= window), default=min(known.lengths))
        in_p50, in_p95, out_p50, out_p95 = known.lengths[at]
        times = gamma(
            rate, max(variation, 0.1), rng,
            start_ns=(begin - start_s) * NS_PER_S, end_ns=(end - start_s) * NS_PER_S,
        )  # fmt: skip
        for time in times:
            request = shared_start(
                prefix,
                unique_tokens=_spread(in_p50, in_p95, rng),
                output_tokens=_spread(out_p50, out_p95, rng),
                numbers=numbers,
            )
            yield Arrival(time, request, client)


def _spread(p50: float, p95: float, rng: Random) -> int:
    """Draw a length from the lognormal distribution with these percentiles, at most three times the P95."""
    sigma = max(0.0, math.log(max(p95, 1) / max(p50, 1))) / 1.645
    return max(1, min(round(rng.lognormvariate(math.log(max(p50, 1)), sigma)), round(3 * p95)))


def agentic(
    lines: Iterable[str], *, context_tokens: int = 128_000, think_ns_max: int = 1 << 62
) -> list[Session]:
    """Read sessions of coding agents: each request waits for the answer before it, then thinks.

    Args:
        lines: ``{"tool_tokens", "system_tokens", "block", "req": [[t_s, in, out, think_s, api_s,
            [[first_id, count], …]], …]}`` with block numbers of the session's own; objects among ``req``
            (calls of sub-agents) are passed over.
        context_tokens: A session ends before its first request that is longer, with its answer.
        think_ns_max: Longer pauses are cut to this.

    Raises:
        TraceError: A line is something else.
    """
    numbers = Numbers()
    starts: dict[tuple[int, int], Run] = {}
    sessions = []
    for number, record in _objects(lines):
        try:
            tools, system = int(record["tool_tokens"]), int(record["system_tokens"])
            each = int(record["block"]) // BLOCK_TOKENS
            if each <= 0 or int(record["block"]) % BLOCK_TOKENS:
                raise TraceError(f"block must be a multiple of {BLOCK_TOKENS}, got {record['block']}")
            common = (tools + system) // int(record["block"]) * each
            if (tools, system) not in starts:
                starts[tools, system] = numbers.take(common)
            steps = [step for step in record["req"] if not isinstance(step, dict)]
            session = _session(steps, starts[tools, system], each, (numbers, context_tokens, think_ns_max))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise TraceError(f"line {number}: {_what(error)}") from error
        if session:
            sessions.append(session)
    return sessions


def _session(steps: list[Any], start: Run, each: int, shared: tuple[Numbers, int, int]) -> Session:
    numbers, context_tokens, think_ns_max = shared
    highest = max((first + count for step in steps for first, count in step[5]), default=0)
    base, _ = numbers.take((highest + 1) * each)
    session: list[tuple[int, Request]] = []
    for _, prompt, output, think_s, _, blocks in steps:
        if prompt + output > context_tokens:
            break
        local = _joined((int(first), int(count)) for first, count in blocks)
        # Block 1 begins the session's tools and system prompt: as far as it goes, they are everybody's.
        common = min(local[0][1] * each, start[1]) if local and local[0][0] == 1 else 0
        own = _without([(base + first * each, count * each) for first, count in local], common)
        request = _answered([*clipped([start], common), *own], int(prompt), int(output), numbers)
        thought_ns = min(round(think_s * NS_PER_S), think_ns_max) if session else 0
        session.append((thought_ns, request))
    return session


def chat(lines: Iterable[str]) -> Iterator[Arrival]:
    """Read a log of chat requests: OpenAI bodies, one JSON object a line, each with a ``timestamp``.

    The text of all messages is cut into blocks as a tokenizer with 4.5 characters per token would;
    ``max_tokens`` (or ``max_completion_tokens``), else 256, is the length of the answer.

    Args:
        lines: ``{"timestamp": seconds, "messages": […], …}``.

    Raises:
        TraceError: A line is something else.
    """
    known: dict[int, int] = {}
    numbers = Numbers(OWN_NUMBERS)
    began: float | None = None
    for number, record in _objects(lines):
        try:
            time = float(record["timestamp"])
            text = "\n".join(f"{each['role']}: {_text(each.get('content'))}" for each in record["messages"])
            output = int(record.get("max_completion_tokens") or record.get("max_tokens") or 256)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(f"line {number}: {_what(error)}") from error
        began = time if began is None else began
        chain, before = [], 0
        for start in range(0, len(text) - BLOCK_CHARACTERS + 1, BLOCK_CHARACTERS):
            piece = text[start : start + BLOCK_CHARACTERS].encode("utf-8", "surrogatepass")
            before = xxh3_64_intdigest(piece, before)
            chain.append((known.setdefault(before, len(known)), 1))
        tokens = max(1, math.ceil(len(text) / CHARACTERS_PER_TOKEN))
        yield Arrival(
            round((time - began) * NS_PER_S), _answered(_joined(chain), tokens, max(1, output), numbers)
        )


# --- parts ----------------------------------------------------------------------------------


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise TraceError(f"line {number}: not JSON") from error
        if not isinstance(record, dict):
            raise TraceError(f"line {number}: must be a JSON object, got {line.strip()[:40]}")
        yield number, record


def _rows(lines: Iterable[str], columns: tuple[str, ...]) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    for number, row in enumerate(csv.DictReader(lines), start=2):
        try:
            values = tuple(float(row[column]) for column in columns)
            yield int(row["client"]), int(row["window_start_s"]), values
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"line {number}: {_what(error)}") from error


def _what(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Write runs that follow each other as one."""
    joined: list[Run] = []
    for first, count in runs:
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        elif count:
            joined.append((first, count))
    return tuple(joined)


def _without(runs: Iterable[Run], blocks: int) -> Iterator[Run]:
    """Leave out the first blocks of a chain."""
    for first, count in runs:
        skipped = min(count, blocks)
        blocks -= skipped
        if count > skipped:
            yield first + skipped, count - skipped


def _answered(chain: Iterable[Run], prompt: int, output: int, numbers: Numbers) -> Request:
    """Return a request whose prompt has a chain, and an answer of blocks of its own."""
    prompt, output = max(1, prompt), max(1, output)
    kept = clipped(tuple(chain), prompt // BLOCK_TOKENS)
    rest = blocks_of(prompt + output) - sum(count for _, count in kept)
    return Request(prompt, output, (*kept, numbers.take(rest)) if rest else kept)
