"""The bar that KV_AWARE and PREFIX_AWARE are held to, cell by cell. Pure: numbers in, verdicts out.

A cell is one rule for one policy in one sub-case. Changes are paired by seed; a cell misses only if its
whole 95 % interval lies beyond the limit, so a single seed can miss nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warmroute.core.fleet import RoutingStrategy
from warmroute.report.simulation import Estimate, Row, estimate, paired_change
from warmroute.sim.suite import CANDIDATES, KV_AWARE, PREFIX_AWARE, SubCase

LEAST_OUTSTANDING = RoutingStrategy.LEAST_OUTSTANDING_REQUESTS.value
HARMLESS = ("do-no-harm", "bursts", "mt-bench")
"""Cases in which nothing can be gained."""
STEADY_CASES = ("aws-long", "aws-short", "skew")
"""Cases in which a change of the fleet must not be felt; in the others it is only reported."""
ROUTERS_KEEP = {KV_AWARE: 0.10, f"{KV_AWARE}:estimated": 0.15}
"""Share of the throughput that several routers without shared state may lose."""
CHANGE_LIMIT = 0.5
"""By how much the 99th percentile of the minute after a change may exceed the one before: 1.5 times."""


class Verdict(StrEnum):
    """What becomes of a cell."""

    MET = "met"
    UNCLEAR = "unclear"
    """The mean is beyond the limit, the interval is not wholly."""
    MISSED = "missed"
    UNKNOWN = "unknown"
    """The runs for it are missing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is compared.

    Attributes:
        name: As tables show it.
        field: Of a row.
        limit: By how much it may be worse, as a share.
        more_is_better: Else less is.
        binding: Whether a miss counts; else it is an aim.
    """

    name: str
    field: str
    limit: float
    more_is_better: bool = False
    binding: bool = True

    @property
    def text(self) -> str:
        """The rule, such as ``mean TTFT at most +3 %``."""
        return f"{self.name} {self.bound}".rstrip()

    @property
    def bound(self) -> str:
        """The limit, such as ``at most +3 %``; empty for none."""
        if not self.limit:
            return ""
        sign, bound = ("-", "least") if self.more_is_better else ("+", "most")
        return f"at {bound} {sign}{self.limit * 100:g} %"


MEAN = Rule("mean TTFT", "ttft_mean_ms", 0.03)
P50 = Rule("P50 TTFT", "ttft_p50_ms", 0.10, binding=False)
P90 = Rule("P90 TTFT", "ttft_p90_ms", 0.10)
THROUGHPUT = Rule("throughput", "throughput_rps", 0.03, more_is_better=True)
AGAINST_BEST = (MEAN, P50, P90, THROUGHPUT)
"""Against the best of the other policies, metric by metric."""
WITHOUT_HARM = (Rule("P50 TTFT", "ttft_p50_ms", 0.02), Rule("P99 TTFT", "ttft_p99_ms", 0.02))
"""Against least outstanding requests where nothing can be gained."""
DOMINATED = Rule("never dominated", "", 0)
CHANGE = Rule("P99 TTFT after a change", "", CHANGE_LIMIT)


class Group(StrEnum):
    """What the rules are about."""

    BEST = "against the best other policy"
    DOMINATED = "against every other policy"
    PREFIX_AWARE = "PREFIX_AWARE's best pair against least outstanding requests"
    HARMLESS = "where nothing can be gained, against least outstanding requests"
    ROUTERS = "four routers that share nothing, against one"
    CHANGE = "the minute after a change, against the time before it"


@dataclass(frozen=True, slots=True)
class Cell:
    """One rule for one policy in one sub-case.

    Attributes:
        group: What the rule is about.
        rule: What is compared.
        case: Name of the sub-case.
        policy: Who is held to it.
        against: Whom it is compared with.
        change: Relative change against that one; None where there is none to tell.
        verdict: What becomes of it.
        binding: Whether a miss counts.
    """

    group: Group
    rule: Rule
    case: str
    policy: str
    against: str
    change: Estimate | None
    verdict: Verdict
    binding: bool = True


@dataclass(frozen=True, slots=True)
class Wins:
    """In how many sub-cases a policy has the best mean TTFT of all others.

    Attributes:
        policy: Who.
        won: Sub-cases in which its mean is the lowest.
        tied: Sub-cases in which another mean is lower, but not by more than the interval.
        of: Sub-cases in all.
    """

    policy: str
    won: int
    tied: int
    of: int

    @property
    def verdict(self) -> Verdict:
        """Most of them is more than half."""
        if not self.of:
            return Verdict.UNKNOWN
        if 2 * self.won > self.of:
            return Verdict.MET
        return Verdict.UNCLEAR if 2 * (self.won + self.tied) > self.of else Verdict.MISSED


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts.

    Attributes:
        cells: Of every rule, policy and sub-case.
        wins: Of every candidate.
    """

    cells: tuple[Cell, ...]
    wins: tuple[Wins, ...]

    @property
    def missed(self) -> int:
        """How many binding verdicts are misses."""
        cells = sum(cell.binding and cell.verdict is Verdict.MISSED for cell in self.cells)
        return cells + sum(wins.verdict is Verdict.MISSED for wins in self.wins)

    def of(self, case: str, policy: str, group: Group = Group.BEST) -> Mapping[str, Cell]:
        """Return the cells of a policy in a sub-case, by the field they compare."""
        return {
            cell.rule.field: cell
            for cell in self.cells
            if cell.case == case and cell.policy == policy and cell.group is group
        }


_Runs = Mapping[str, Sequence[Row]]
"""Rows by policy."""


def judge(rows: Sequence[Row], sub_cases: Sequence[SubCase]) -> Judgement:
    """Hold what was run to the bar.

    Args:
        rows: Of all sub-cases; those in which the fleet changes have ``ttft_p99_before_ms`` and
            ``ttft_p99_after_ms`` as well.
        sub_cases: Those that count, without the ones with several routers: these are found by their names.
    """
    runs: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        runs.setdefault(str(row["case"]), {}).setdefault(str(row["policy"]), []).append(row)
    cells: list[Cell] = []
    for sub_case in sub_cases:
        own = runs.get(sub_case.name, {})
        for policy in CANDIDATES:
            cells += _against_best(sub_case.name, policy, own)
            cells.append(_dominated(sub_case.name, policy, own))
        cells += _against_least(sub_case, own)
        cells += _changes(sub_case, own)
        if not sub_case.changes:
            cells += _routers(sub_case, own, runs.get(sub_case.with_routers().name, {}))
    return Judgement(tuple(cells), tuple(_wins(policy, cells) for policy in CANDIDATES))


def verdict_of(change: Estimate | None, rule: Rule) -> Verdict:
    """Return what becomes of a relative change under a rule."""
    if change is None:
        return Verdict.UNKNOWN
    worse = -change.mean if rule.more_is_better else change.mean
    if worse <= rule.limit:
        return Verdict.MET
    return Verdict.MISSED if change.half is not None and worse - change.half > rule.limit else Verdict.UNCLEAR


def _mean(rows: Sequence[Row], field: str) -> float:
    return sum(float(row[field]) for row in rows) / len(rows)


def _others(runs: _Runs) -> list[str]:
    return [policy for policy in runs if policy not in CANDIDATES]


def _against_best(case: str, policy: str, runs: _Runs) -> Iterator[Cell]:
    for rule in AGAINST_BEST:
        ranked = sorted(_others(runs), key=lambda other: _mean(runs[other], rule.field))
        best = (ranked[-1] if rule.more_is_better else ranked[0]) if ranked else ""
        pair = (runs.get(policy, ()), runs.get(best, ()))
        yield _cell(Group.BEST, rule, pair, case=case, policy=policy, against=best)


def _cell(
    group: Group,
    rule: Rule,
    pair: tuple[Sequence[Row], Sequence[Row]],
    *,
    case: str,
    policy: str,
    against: str,
) -> Cell:
    rows, baseline = pair
    change = paired_change(rows, baseline, rule.field)
    return Cell(group, rule, case, policy, against, change, verdict_of(change, rule), rule.binding)


def _dominated(case: str, policy: str, runs: _Runs) -> Cell:
    """Look for a policy that is better on P50, P90 and throughput at once."""
    found, by = (Verdict.MET if policy in runs and _others(runs) else Verdict.UNKNOWN), ""
    for other in _others(runs) if policy in runs else ():
        verdicts = [
            verdict_of(paired_change(runs[policy], runs[other], rule.field), _strictly(rule))
            for rule in (P50, P90, THROUGHPUT)
        ]
        if all(verdict is Verdict.MISSED for verdict in verdicts):
            found, by = Verdict.MISSED, other
            break
        if all(verdict in (Verdict.MISSED, Verdict.UNCLEAR) for verdict in verdicts):
            found, by = Verdict.UNCLEAR, other
    return Cell(Group.DOMINATED, DOMINATED, case, policy, by, None, found)


def _strictly(rule: Rule) -> Rule:
    return Rule(rule.name, rule.field, 0.0, rule.more_is_better)


def _against_least(sub_case: SubCase, runs: _Runs) -> Iterator[Cell]:
    least, case = runs.get(LEAST_OUTSTANDING, ()), sub_case.name
    pairs = [policy for policy in runs if policy.partition("[")[0] == PREFIX_AWARE]
    # One pair for all metrics: an operator can set only one.
    best = min(pairs, key=lambda pair: _mean(runs[pair], MEAN.field), default=PREFIX_AWARE)
    asked = [(Group.PREFIX_AWARE, rule, best) for rule in (MEAN, THROUGHPUT)]
    if sub_case.case in HARMLESS:
        asked += [(Group.HARMLESS, rule, each) for each in (*CANDIDATES, best) for rule in WITHOUT_HARM]
    for group, rule, policy in asked:
        pair = (runs.get(policy, ()), least)
        yield _cell(group, rule, pair, case=case, policy=policy, against=LEAST_OUTSTANDING)


def _routers(sub_case: SubCase, one: _Runs, several: _Runs) -> Iterator[Cell]:
    for policy, limit in ROUTERS_KEEP.items():
        rule = Rule("throughput", THROUGHPUT.field, limit, more_is_better=True)
        pair = (several.get(policy, ()), one.get(policy, ()))
        yield _cell(Group.ROUTERS, rule, pair, case=sub_case.name, policy=policy, against="one router")


def _changes(sub_case: SubCase, runs: _Runs) -> Iterator[Cell]:
    if not sub_case.changes:
        return
    for policy in CANDIDATES:
        pairs = [
            (float(row["ttft_p99_after_ms"]), float(row["ttft_p99_before_ms"]))
            for row in runs.get(policy, ())
        ]
        change = None
        if pairs and all(before for _, before in pairs):
            change = estimate([after / before - 1 for after, before in pairs])
        yield Cell(
            Group.CHANGE, CHANGE, sub_case.name, policy, "before", change, verdict_of(change, CHANGE),
            binding=policy == KV_AWARE and sub_case.case in STEADY_CASES,
        )  # fmt: skip


def _wins(policy: str, cells: Sequence[Cell]) -> Wins:
    against_best = (cell for cell in cells if cell.group is Group.BEST and cell.rule is MEAN)
    changes = [cell.change for cell in against_best if cell.policy == policy and cell.change is not None]
    lost = [change for change in changes if change.mean > 0]
    tied = sum(change.half is None or change.mean <= change.half for change in lost)
    return Wins(policy, won=len(changes) - len(lost), tied=tied, of=len(changes))
