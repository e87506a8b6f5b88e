"""When requests come: times of an open loop, and clients of a closed one. Times are nanoseconds."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from warmroute.workload.prompts import Maker, Request

NS_PER_S = 1_000_000_000
NOBODY = -1
"""The client of requests that come from nobody in particular."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes at a time.

    Attributes:
        at_ns: When, from the start.
        request: What.
        client: Who sends it; numbers from 0, or `NOBODY`.
    """

    at_ns: int
    request: Request
    client: int = NOBODY


class Source(Protocol):
    """Where requests come from."""

    def first(self) -> Iterator[Arrival]:
        """Return what comes whatever the answers are, in order of time."""
        ...

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:
        """Return what comes because a request has ended: mostly its client's next one, or nothing."""
        ...


# --- times of an open loop ------------------------------------------------------------------


def constant(rate_per_s: float, *, start_ns: int, end_ns: int) -> Iterator[int]:
    """Return times at equal distances, the first one at the start."""
    count = 0
    while (at := start_ns + round(count * NS_PER_S / rate_per_s)) < end_ns:
        yield at
        count += 1


def gamma(rate_per_s: float, variation: float, rng: Random, *, start_ns: int, end_ns: int) -> Iterator[int]:
    """Return times whose distances are gamma-distributed.

    Args:
        rate_per_s: Mean rate.
        variation: Coefficient of variation of the distances: 1 is a Poisson process, more is bursty.
        rng: Source of randomness.
        start_ns: The first distance begins here.
        end_ns: All times are before it.
    """
    shape = 1 / (variation * variation)
    scale = NS_PER_S / (rate_per_s * shape)
    at = float(start_ns)
    while (at := at + rng.gammavariate(shape, scale)) < end_ns:
        yield int(at)


def poisson(rate_per_s: float, rng: Random, *, start_ns: int, end_ns: int) -> Iterator[int]:
    """Return times of a Poisson process."""
    at = float(start_ns)
    while (at := at + rng.expovariate(rate_per_s) * NS_PER_S) < end_ns:
        yield int(at)


def bursts(rate_per_s: float, size: int, rng: Random, *, start_ns: int, end_ns: int) -> Iterator[int]:
    """Return times of bursts, each of ``size`` requests at once, with ``rate_per_s`` requests in the mean."""
    for at in poisson(rate_per_s / size, rng, start_ns=start_ns, end_ns=end_ns):
        yield from [at] * size


def scattered(rate_per_s: float, rng: Random, *, start_ns: int, end_ns: int) -> Iterator[int]:
    """Return as many times as a rate makes, at random: a Poisson process whose number is known."""
    count = int(rate_per_s * (end_ns - start_ns) / NS_PER_S)
    yield from sorted([start_ns + int(rng.random() * (end_ns - start_ns)) for _ in range(count)])


def varying(
    rate_per_s: Callable[[float], float], highest: float, rng: Random, *, start_ns: int, end_ns: int
) -> Iterator[int]:
    """Return times of a Poisson process whose rate varies.

    Args:
        rate_per_s: The rate at a time in seconds; never above ``highest``.
        highest: Requests per second.
        rng: Source of randomness.
        start_ns: All times are from here.
        end_ns: All times are before it.
    """
    for at in poisson(highest, rng, start_ns=start_ns, end_ns=end_ns):
        if rng.random() * highest < rate_per_s(at / NS_PER_S):
            yield at


def wave(mean: float, swing: float, period_s: float, *, square: bool = False) -> Callable[[float], float]:
    """Return a rate that goes up and down around a mean, up first.

    Args:
        mean: Requests per second.
        swing: Share of the mean by which it goes up and down, 0 to 1.
        period_s: Seconds from one rise to the next.
        square: Jump between the two ends in place of a sine.
    """

    def rate(at_s: float) -> float:
        height = math.sin(2 * math.pi * at_s / period_s)
        return mean * (1 + swing * (math.copysign(1, height) if square else height))

    return rate


# --- sources --------------------------------------------------------------------------------


class OpenLoop:
    """Requests at given times, whatever the answers are.

    Args:
        times: In order.
        maker: What is asked; the client of a request is its number, modulo ``clients``.
        clients: How many there are; 0 = nobody in particular.
    """

    def __init__(self, times: Iterable[int], maker: Maker, *, clients: int = 0) -> None:
        self._times = times
        self._maker = maker
        self._clients = clients

    def first(self) -> Iterator[Arrival]:
        """Return all of them."""
        for number, at in enumerate(self._times):
            client = number % self._clients if self._clients else NOBODY
            request = self._maker.next(client)
            if request is None:
                return
            yield Arrival(at, request, client)

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:  # noqa: ARG002  (a Source)
        """Return nothing: nobody waits for an answer."""
        return ()


class Stages:
    """Stages of an open loop, each of which begins when every request of the one before has ended.

    Args:
        rates: Requests per second, and seconds, of each stage.
        times: Makes the times of a rate between a start and an end.
        maker: What is asked.
        pause_ns: Between the end of a stage's arrivals and the next stage there is at least this.
    """

    def __init__(
        self,
        rates: Iterable[tuple[float, float]],
        times: Callable[[float, int, int], Iterator[int]],
        maker: Maker,
        *,
        pause_ns: int,
    ) -> None:
        self._coming = iter(rates)
        self._times = times
        self._maker = maker
        self._pause_ns = pause_ns
        self._next_ns = 0
        self._open = 0

    def first(self) -> Iterator[Arrival]:
        """Return the first stage."""
        return iter(self._stage(0))

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:  # noqa: ARG002  (a Source)
        """Return the next stage when this was the last request of one."""
        self._open -= 1
        return () if self._open else self._stage(now_ns)

    def _stage(self, now_ns: int) -> Sequence[Arrival]:
        for rate_per_s, seconds in self._coming:
            start = max(now_ns, self._next_ns)
            end = start + round(seconds * NS_PER_S)
            self._next_ns = end + self._pause_ns
            arrivals = list(OpenLoop(self._times(rate_per_s, start, end), self._maker).first())
            if arrivals:
                self._open = len(arrivals)
                return arrivals
        return ()


class Recorded:
    """Requests as they were recorded.

    Args:
        arrivals: In order of time.
        speed: 2 replays twice as fast.
    """

    def __init__(self, arrivals: Iterable[Arrival], *, speed: float = 1.0) -> None:
        self._arrivals = arrivals
        self._speed = speed

    def first(self) -> Iterator[Arrival]:
        """Return all of them."""
        for each in self._arrivals:
            yield Arrival(round(each.at_ns / self._speed), each.request, each.client)

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:  # noqa: ARG002  (a Source)
        """Return nothing: nobody waited for an answer."""
        return ()


class ClosedLoop:
    """Clients that each wait for an answer, think, and ask again.

    Args:
        clients: How many.
        maker: What they ask.
        think: Draws how long a client thinks, in nanoseconds.
        ramp_ns: They begin one after the other over this time.
        end_ns: Nobody asks from then on.
    """

    def __init__(
        self, clients: int, maker: Maker, *, think: Callable[[], int], ramp_ns: int, end_ns: int
    ) -> None:
        self._clients = clients
        self._maker = maker
        self._think = think
        self._ramp_ns = ramp_ns
        self._end_ns = end_ns

    def first(self) -> Iterator[Arrival]:
        """Return each client's first request."""
        for client in range(self._clients):
            yield from self._ask(client, self._ramp_ns * client // self._clients)

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:
        """Return the client's next request."""
        return self._ask(ended.client, now_ns + self._think())

    def _ask(self, client: int, at_ns: int) -> Sequence[Arrival]:
        request = self._maker.next(client) if at_ns < self._end_ns else None
        return () if request is None else (Arrival(at_ns, request, client),)


def thinking(mean_s: float, rng: Random) -> Callable[[], int]:
    """Return a think time: exponentially distributed with this mean, or always 0."""
    if mean_s <= 0:
        return lambda: 0
    return lambda: int(rng.expovariate(1 / mean_s) * NS_PER_S)


Session = Sequence[tuple[int, Request]]
"""Requests of one session in order, each with the nanoseconds of thought before it."""


class SessionLoop:
    """Sessions, a number of them at the same time; when one ends the next one begins.

    Args:
        sessions: In the order in which they begin.
        at_once: How many run at the same time.
        ramp_ns: The first ones begin one after the other over this time.
        end_ns: Nothing is asked from then on.
    """

    def __init__(self, sessions: Sequence[Session], *, at_once: int, ramp_ns: int, end_ns: int) -> None:
        self._coming = iter(sessions)
        self._at_once = min(at_once, len(sessions))
        self._ramp_ns = ramp_ns
        self._end_ns = end_ns
        self._running: dict[int, Iterator[tuple[int, Request]]] = {}

    def first(self) -> Iterator[Arrival]:
        """Return the first request of each of the first sessions."""
        for client in range(self._at_once):
            yield from self._ask(client, self._ramp_ns * client // self._at_once)

    def after(self, ended: Arrival, now_ns: int) -> Sequence[Arrival]:
        """Return the session's next request, or the next session's first."""
        return self._ask(ended.client, now_ns)

    def _ask(self, client: int, now_ns: int) -> Sequence[Arrival]:
        while True:
            step = next(self._running.get(client, iter(())), None)
            if step is not None:
                thought_ns, request = step
                at_ns = now_ns + thought_ns
                return (Arrival(at_ns, request, client),) if at_ns < self._end_ns else ()
            session = next(self._coming, None)
            if session is None:
                return ()
            self._running[client] = iter(session)
