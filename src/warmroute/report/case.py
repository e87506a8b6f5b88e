"""One case under several policies, as figures and pages need it. Pure: data in, data out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warmroute.core.fleet import RoutingStrategy
from warmroute.report.simulation import Row
from warmroute.sim.series import Course
from warmroute.sim.suite import CANDIDATES

LIVE = (*(strategy.value for strategy in RoutingStrategy), CANDIDATES[1])
"""Policies that have a colour of their own, in this order."""
ROUTERS_MARK = ", "
"""Stands between a policy and the routers it ran on, in a row that is shown with those of one router."""


@dataclass(frozen=True, slots=True)
class Case:
    """What was run of one case.

    Attributes:
        name: As its rows call it.
        title: What it is, in a line.
        settings: Parameters that were set, as texts.
        rows: Of all policies and seeds; perhaps with numbers beyond the usual ones.
        quantiles: By policy, times to first token in milliseconds at `warmroute.sim.series.QUANTILES`, each
            in the mean over the seeds.
        courses: By policy, of one seed.
        warmup_s: Requests before this do not count.
        change_s: When the fleet changed; None if it did not.
    """

    name: str
    title: str
    settings: Mapping[str, str]
    rows: Sequence[Row]
    quantiles: Mapping[str, Sequence[float]] = field(default_factory=dict)
    courses: Mapping[str, Course] = field(default_factory=dict)
    warmup_s: float = 0.0
    change_s: float | None = None

    @property
    def by_policy(self) -> Mapping[str, Sequence[Row]]:
        """Rows by policy, in order of their first ones."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(str(row["policy"]), []).append(row)
        return found

    @property
    def best_other(self) -> str | None:
        """The policy with the lowest mean time to first token of those that have no colour of their own."""
        others = {
            policy: sum(float(row["ttft_mean_ms"]) for row in rows) / len(rows)
            for policy, rows in self.by_policy.items()
            if policy not in LIVE and ROUTERS_MARK not in policy
        }
        return min(others, key=lambda policy: others[policy], default=None)


def mean_quantiles(of_seeds: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return each quantile in the mean over the seeds; nothing of nothing."""
    return tuple(sum(values) / len(values) for values in zip(*of_seeds, strict=True))
