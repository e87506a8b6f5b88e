"""What a run found, and the arithmetic on it: medians over rounds, ratios round by round."""

import dataclasses
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from load import Load
from peers import ROWS, Family, Row
from streams import StreamLoad

KIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of one proxy, KiB.

    Attributes:
        by_streams: With so many streams open, on a process that had served nothing else.
        by_prompts: After so many unique prompts, on another fresh process.
        whole_kib: All processes of the product together, idle (warmroute has three).
    """

    by_streams: dict[int, int]
    by_prompts: dict[int, int]
    whole_kib: int

    @property
    def per_stream_kib(self) -> float | None:
        """KiB per open stream between the smallest and the largest number of streams."""
        counts = sorted(count for count in self.by_streams if count)
        if not counts:
            return None
        low = counts[0] if len(counts) > 1 else 0
        return (self.by_streams[counts[-1]] - self.by_streams[low]) / (counts[-1] - low)


@dataclass(slots=True)
class Results:
    """Everything a run found, filled as it goes.

    Attributes:
        facts: Of the machine.
        settings: Of the run.
        versions: Of the servers, by name.
        reasons: Why a server is missing, by name.
        loads: Runs by row, clients and body bytes, in order of rounds.
        streams: Runs by row, in order of rounds.
        memory: By row.
        failures: What broke where, in words.
    """

    facts: dict[str, str]
    settings: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    loads: dict[tuple[str, int, int], list[Load]] = field(default_factory=dict)
    streams: dict[str, list[StreamLoad]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def median(self, key: tuple[str, int, int], value: Callable[[Load], float]) -> float | None:
        """Return the median of a value over the rounds of a row and case, None without any."""
        runs = self.loads.get(key)
        return statistics.median(map(value, runs)) if runs else None

    def paired(
        self,
        one: tuple[str, int, int],
        other: tuple[str, int, int],
        value: Callable[[Load, Load], float],
    ) -> float | None:
        """Return the median over rounds of a value of two rows measured in the same round."""
        pairs = list(zip(self.loads.get(one, ()), self.loads.get(other, ()), strict=False))
        return statistics.median(value(a, b) for a, b in pairs) if pairs else None

    def ratio(self, one: str, other: str, *, clients: int, size: int) -> float | None:
        """Return requests/s per core of one row over another's."""
        if one == other:
            return 1.0
        return self.paired(
            (one, clients, size),
            (other, clients, size),
            lambda a, b: a.per_core / b.per_core if b.per_core else 0.0,
        )

    def added_us(self, row: str, *, clients: int, size: int, value: Callable[[Load], float]) -> float | None:
        """Return what a proxy adds to a latency, microseconds: with it minus without, in the same round."""
        return self.paired((row, clients, size), ("direct", clients, size), lambda a, b: value(a) - value(b))

    def fastest_rust(self, *, clients: int, size: int) -> str | None:
        """Return the Rust router with the most requests/s per core in a case."""
        found = {
            row.name: self.median((row.name, clients, size), lambda load: load.per_core)
            for row in ROWS
            if row.family is Family.RUST
        }
        present = {name: value for name, value in found.items() if value}
        return max(present, key=lambda name: present[name]) if present else None

    def us_per_chunk(self, row: str) -> float | None:
        """Return the median CPU time per chunk."""
        runs = self.streams.get(row)
        return statistics.median(run.us_per_chunk for run in runs) if runs else None

    def cases(self) -> list[tuple[int, int]]:
        """Return the (body bytes, clients) measured, in order."""
        return sorted({(size, clients) for _, clients, size in self.loads})

    def as_json(self, bars: list[dict[str, Any]]) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "facts": self.facts,
            "settings": self.settings,
            "rows": [_row_json(row, self) for row in ROWS],
            "requests": [
                {
                    "row": name,
                    "clients": clients,
                    "body_bytes": size,
                    "median_requests_per_s_per_core": self.median(
                        (name, clients, size), lambda load: load.per_core
                    ),
                    "added_p50_us": self.added_us(
                        name, clients=clients, size=size, value=lambda load: load.p50_us
                    ),
                    "added_p99_us": self.added_us(
                        name, clients=clients, size=size, value=lambda load: load.p99_us
                    ),
                    "rounds": [dataclasses.asdict(run) for run in runs],
                }
                for (name, clients, size), runs in self.loads.items()
            ],
            "streams": [
                {
                    "row": name,
                    "median_us_per_chunk": self.us_per_chunk(name),
                    "rounds": [dataclasses.asdict(run) for run in runs],
                }
                for name, runs in self.streams.items()
            ],
            "memory_kib": [{"row": name, **dataclasses.asdict(found)} for name, found in self.memory.items()],
            "failures": self.failures,
            "bars": bars,
        }


def _row_json(row: Row, results: Results) -> dict[str, Any]:
    return {
        "row": row.name,
        "family": row.family.value,
        "path": row.path,
        "credential": row.credential.value,
        "version": results.versions.get(row.server),
        "missing_because": results.reasons.get(row.server),
    }
