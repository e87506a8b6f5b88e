"""What is kept of each request of a run, and of the run."""

from dataclasses import dataclass, field

from warmroute.workload.arrivals import Arrival

OUTCOMES = ("completed", "failed", "rejected", "cancelled")
"""Ways for an invocation to end: answered; given up by the router after a try, or without one; given up by
its client."""


class Record:
    """One invocation. Times are nanoseconds of virtual time; 0 = did not happen.

    Attributes:
        number: In order of arrival, from 0.
        arrival: What came, when and from whom.
        ideal_tokens: Prompt tokens that one cache without limits would have held.
        attempts: Tries, the first included.
        target: Who served it, or tried last.
        reason: Of the last decision.
        rank: Place of the target in the key's order; -1 without one.
        cached_tokens: Prompt tokens that the engine found in its cache.
        dispatched_ns: When the last decision was made.
        first_token_ns: When the first token came.
        ended_ns: When it was over.
        outcome: One of `OUTCOMES`; ``""`` while it is in flight.
    """

    __slots__ = (
        "arrival", "attempts", "cached_tokens", "dispatched_ns", "ended_ns", "first_token_ns",
        "ideal_tokens", "number", "outcome", "rank", "reason", "target",
    )  # fmt: skip

    def __init__(self, number: int, arrival: Arrival) -> None:
        self.number = number
        self.arrival = arrival
        self.ideal_tokens = 0
        self.attempts = 0
        self.target = ""
        self.reason = ""
        self.rank = -1
        self.cached_tokens = 0
        self.dispatched_ns = 0
        self.first_token_ns = 0
        self.ended_ns = 0
        self.outcome = ""

    def line(self) -> str:
        """Return the record as a line of a log: equal runs have equal logs, byte for byte."""
        at = self.arrival
        return (
            f"{self.number} {at.at_ns} {at.client} {at.request.prompt_tokens} {at.request.output_tokens} "
            f"{self.attempts} {self.target} {self.reason} {self.rank} {self.cached_tokens} "
            f"{self.dispatched_ns} {self.first_token_ns} {self.ended_ns} {self.outcome}"
        )


@dataclass(slots=True)
class Run:
    """What a simulation returns.

    Attributes:
        records: Of every request, in order of arrival.
        targets: Names of all instances there were, in order of their numbers.
        preemptions: Sequences that engines threw out and computed again.
        evicted_blocks: Cached blocks that engines gave up for others.
        decisions: How many were made.
        decision_ns: What they took by the stopwatch that was handed in; 0 without one.
        adapter_loads: Times that engines loaded an adapter.
        ended_ns: Virtual time at the end of the last request.
    """

    records: list[Record] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    preemptions: int = 0
    evicted_blocks: int = 0
    adapter_loads: int = 0
    decisions: int = 0
    decision_ns: int = 0
    ended_ns: int = 0
