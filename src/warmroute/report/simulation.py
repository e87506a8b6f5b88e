"""Runs of the simulator as rows, with confidence intervals over seeds. Pure: numbers in, texts out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, str | int | float]
"""One run: ``case``, ``policy``, ``seed``, then its numbers."""
_T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for two-sided 95 %, by degrees of freedom from 1; 1.96 beyond."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: Of the values.
        half: Half the width of its 95 % confidence interval; None of fewer than two values.
    """

    mean: float
    half: float | None

    @property
    def text(self) -> str:
        """The mean and its interval, with as many digits as the mean needs."""
        size = abs(self.mean)
        digits = 0 if size >= 100 else 1 if size >= 1 else 2
        return f"{self.mean:,.{digits}f}" + ("" if self.half is None else f"±{self.half:,.{digits}f}")


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of at least one value with its 95 % confidence interval (Student's t)."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Estimate(mean, None)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    t = _T_95[count - 2] if count - 2 < len(_T_95) else 1.96
    return Estimate(mean, t * deviation / math.sqrt(count))


def paired_change(rows: Sequence[Row], baseline: Sequence[Row], field: str) -> Estimate | None:
    """Return the relative change of a number against a baseline, seed by seed.

    Args:
        rows: Of one policy.
        baseline: Of another one, same case.
        field: Which number.

    Returns:
        1.16 - 1 = 0.16 for 16 % more; None without a common seed, or if the baseline is 0 somewhere.
    """
    before = {row["seed"]: float(row[field]) for row in baseline}
    pairs = [(float(row[field]), before[row["seed"]]) for row in rows if row["seed"] in before]
    if not pairs or any(not old for _, old in pairs):
        return None
    return estimate([new / old - 1 for new, old in pairs])


_LATENCY = (
    ("TTFT mean", "ttft_mean_ms"), ("P50", "ttft_p50_ms"), ("P90", "ttft_p90_ms"), ("P99 ms", "ttft_p99_ms"),
)  # fmt: skip
_CHANGES = (
    *((heading.removesuffix(" ms"), field) for heading, field in _LATENCY),
    ("req/s", "throughput_rps"),
)


def case_tables(rows: Sequence[Row]) -> "list[Table]":
    """Return the tables of one case: latency, what was served, and the change against the first policy.

    Args:
        rows: All of one case, in any order; the first row's policy is the baseline.
    """
    policies: dict[str, list[Row]] = {}
    for row in rows:
        policies.setdefault(str(row["policy"]), []).append(row)
    case, seeds = rows[0]["case"], len({row["seed"] for row in rows})
    title = f"{case}, {seeds} seed{'s' * (seeds != 1)}" + (" (± 95 %)" if seeds > 1 else "")
    title += f", ideal hit rate {_mean(rows, 'ideal_hit_rate'):.1%}"
    tables = [_latency(title, policies), _served(policies)]
    return [*tables, _changes(policies)] if len(policies) > 1 else tables


def _latency(title: str, policies: Mapping[str, Sequence[Row]]) -> "Table":
    table = plain_table([heading for heading, _ in _LATENCY], title)
    for policy, rows in policies.items():
        table.add_row(policy, *(_estimate(rows, field).text for _, field in _LATENCY))
    return table


def _served(policies: Mapping[str, Sequence[Row]]) -> "Table":
    table = plain_table(["req/s", "tok/s", "hit %", "share %", "overflow", "failed"])
    for policy, rows in policies.items():
        hit = _estimate(rows, "hit_rate")
        table.add_row(
            policy,
            _estimate(rows, "throughput_rps").text,
            f"{_mean(rows, 'output_tokens_per_s'):,.0f}",
            percent(hit, sign=""),
            f"{_mean(rows, 'share_min') * 100:.1f}-{_mean(rows, 'share_max') * 100:.1f}",
            f"{_mean(rows, 'overflow_rate'):.1%}",
            f"{sum(int(row['failed']) for row in rows)}",
        )
    return table


def _changes(policies: Mapping[str, Sequence[Row]]) -> "Table":
    baseline, *others = policies
    table = plain_table(
        [heading for heading, _ in _CHANGES], f"change in % against {baseline}, paired by seed"
    )
    for policy in others:
        changes = (paired_change(policies[policy], policies[baseline], field) for _, field in _CHANGES)
        table.add_row(policy, *(percent(change, sign="+") for change in changes))
    return table


def plain_table(headings: Sequence[str], title: str | None = None, *, first: str = "Policy") -> "Table":
    """Return a table without rows: a column of names, then right-aligned ones."""
    from rich import box  # noqa: PLC0415  (an extra)
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=0, min_width=79,
    )  # fmt: skip
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _estimate(rows: Sequence[Row], field: str) -> Estimate:
    return estimate([float(row[field]) for row in rows])


def _mean(rows: Sequence[Row], field: str) -> float:
    return _estimate(rows, field).mean


def percent(share: Estimate | None, *, sign: str) -> str:
    """Return a share and its interval in percent, without the sign for it; a dash for None."""
    if share is None:
        return "-"
    half = "" if share.half is None else f"±{share.half * 100:.1f}"
    return f"{share.mean * 100:{sign}.1f}{half}"
