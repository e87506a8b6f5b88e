"""A report on runs as one HTML file: nothing is loaded from anywhere, light or dark as the reader has it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from warmroute.report.bar import AGAINST_BEST, Judgement, Verdict
from warmroute.report.case import LIVE, ROUTERS_MARK, Case
from warmroute.report.figures import VARIABLES, Line, figures, lines, themed_svg
from warmroute.report.simulation import Row, estimate, percent
from warmroute.report.suite import MARKS, grouped_cells, missed_lines
from warmroute.sim.suite import CANDIDATES


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is told of a report as a whole.

    Attributes:
        title: Of the page.
        command: That made it.
        revision: Of the code that ran.
        made: When, as a text.
        notes: What else the reader should know, such as cases that were left out.
    """

    title: str
    command: str
    revision: str
    made: str
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a table.

    Attributes:
        name: Its heading.
        field: Of a row.
        hint: What it is, in a sentence.
        factor: What the number is multiplied with before it is shown.
        more_is_better: None where neither is.
    """

    name: str
    field: str
    hint: str
    factor: float = 1.0
    more_is_better: bool | None = False


COLUMNS = (
    Column("TTFT mean", "ttft_mean_ms", "Time to first token from arrival, milliseconds, mean"),
    Column("P50", "ttft_p50_ms", "Median time to first token, milliseconds"),
    Column("P90", "ttft_p90_ms", "90th percentile of the time to first token, milliseconds"),
    Column("P99", "ttft_p99_ms", "99th percentile of the time to first token, milliseconds"),
    Column("ITL P50", "itl_p50_ms", "Median time between two tokens of an answer, milliseconds"),
    Column("req/s", "throughput_rps", "Completed requests per second", more_is_better=True),
    Column("tok/s", "output_tokens_per_s", "Output tokens per second", more_is_better=True),
    Column(
        "goodput %", "goodput_share", "Requests that began within 2 s and went on at a token per 25 ms",
        factor=100, more_is_better=True,
    ),
    Column("hit %", "hit_rate", "Prompt tokens found in caches, of all", factor=100, more_is_better=True),
    Column("busiest %", "share_max", "Requests on the busiest instance, of all", factor=100),
    Column("idlest %", "share_min", "Requests on the idlest instance, of all", 100, more_is_better=True),
    Column(
        "overflow %", "overflow_rate", "Decisions for another instance than the one with the cached prompt",
        factor=100, more_is_better=None,
    ),
    Column("failed", "failed", "Failed and rejected requests, mean per run"),
    Column("µs", "decision_us", "Time per decision on the machine that ran this", more_is_better=None),
)  # fmt: skip
OVERVIEW = tuple(column for column in COLUMNS if column.name in ("TTFT mean", "P50", "P90", "P99", "req/s"))
_HEAT = (1.005, 1.03, 1.10, 1.25, 1.5, 2.0)
"""Limits of the shades of the overview, as multiples of the best."""


def page(about: About, cases: Sequence[Case], judgement: Judgement | None = None) -> str:
    """Return the report.

    Args:
        about: The report as a whole.
        cases: In order, at least one, each with at least one row.
        judgement: Verdicts; None where nothing is held to a bar.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  (an extra)

    source = resources.files("warmroute.report").joinpath("page.html.j2").read_text("utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = _breakable
    text: str = environment.from_string(source).render(
        about=about,
        facts=_facts(cases),
        columns=COLUMNS,
        cases=[_case(case, place, judgement) for place, case in enumerate(cases)],
        overviews=[_overview(cases, column) for column in OVERVIEW] if len(cases) > 1 else [],
        bar=None if judgement is None else _bar(judgement),
    )
    return text


def _breakable(name: str) -> Any:
    """Return a name that may be broken where a narrow column needs it."""
    from markupsafe import Markup, escape  # noqa: PLC0415  (comes with jinja2)

    return Markup(re.sub(r"([_:@+/,])", r"\1<wbr>", str(escape(name))))  # noqa: S704  (escaped before)


def _facts(cases: Sequence[Case]) -> Mapping[str, int]:
    rows = [row for case in cases for row in case.rows]
    return {
        "cases": len(cases),
        "policies": len({row["policy"] for row in rows}),
        "seeds": len({row["seed"] for row in rows}),
        "runs": len(rows),
        "requests": sum(int(row["requests"]) for row in rows),
    }


# --- a case ---------------------------------------------------------------------------------


def _case(case: Case, place: int, judgement: Judgement | None) -> Mapping[str, Any]:
    drawn = lines(case)
    return {
        "id": f"case-{place}",
        "name": case.name,
        "title": case.title,
        "settings": " ".join(f"{name}={value}" for name, value in case.settings.items()),
        "ideal": estimate([float(row["ideal_hit_rate"]) * 100 for row in case.rows]).text,
        "seeds": len({row["seed"] for row in case.rows}),
        "rows": list(_table(case, judgement)),
        "figures": [
            themed_svg(
                figure, name=f"{place}-{name}", label=f"{case.name}: {figure.axes[0].get_title('left')}"
            )
            for name, figure in figures(case, legend=False)
        ],
        "legend": [_key(line) for line in reversed(drawn) if line.front],
        "background": [line.policy for line in drawn if not line.front],
        "warmup": case.warmup_s,
        "changes": case.change_s is not None,
        "after": list(_after(case)),
    }


def _key(line: Line) -> Mapping[str, Any]:
    return {"policy": line.policy, "colour": VARIABLES[line.colour], "dashed": line.dashed}


def _table(case: Case, judgement: Judgement | None) -> Iterator[Mapping[str, Any]]:
    best = {column.field: _best(case.by_policy, column) for column in COLUMNS}
    for policy, rows in case.by_policy.items():
        verdicts = judgement.of(case.name, policy) if judgement else {}
        cells = []
        for column in COLUMNS:
            if column.field not in rows[0]:
                cells.append({"text": "-", "half": "", "best": False, "verdict": "", "note": ""})
                continue
            found = estimate([float(row[column.field]) * column.factor for row in rows])
            cell = verdicts.get(column.field)
            text, _, half = found.text.partition("±")
            cells.append(
                {
                    "text": text,
                    "half": half,
                    "best": len(case.by_policy) > 1 and found.mean == best[column.field],
                    "verdict": cell.verdict.value if cell and cell.verdict is not Verdict.MET else "",
                    "note": f"{percent(cell.change, sign='+')} % against {cell.against}" if cell else "",
                }
            )
        yield {"policy": policy, "live": policy in LIVE, "ours": policy in CANDIDATES, "cells": cells}


def _best(policies: Mapping[str, Sequence[Row]], column: Column) -> float | None:
    if column.more_is_better is None:
        return None
    means = [
        estimate([float(row[column.field]) * column.factor for row in rows]).mean
        for policy, rows in policies.items()
        if column.field in rows[0] and ROUTERS_MARK not in policy
    ]
    if len(set(means)) < 2:
        return None
    return max(means) if column.more_is_better else min(means)


def _after(case: Case) -> Iterator[Mapping[str, str]]:
    """Return what the minute after a change of the fleet was like."""
    for policy, rows in case.by_policy.items():
        if "ttft_p99_after_ms" not in rows[0]:
            continue
        found = {
            name: estimate([float(row[name]) * factor for row in rows]).text
            for name, factor in (
                ("ttft_p99_before_ms", 1), ("ttft_p99_after_ms", 1), ("hit_before", 100), ("hit_after", 100),
            )
        }  # fmt: skip
        pairs = [(float(row["ttft_p99_after_ms"]), float(row["ttft_p99_before_ms"])) for row in rows]
        times = estimate([new / old for new, old in pairs]).text if all(old for _, old in pairs) else "-"
        yield {"policy": policy, "times": times, **found}


# --- all of them ----------------------------------------------------------------------------


def _overview(cases: Sequence[Case], column: Column) -> Mapping[str, Any]:
    """Return a table of all cases and policies, each as a multiple of the best in the case."""
    named = dict.fromkeys(policy for case in cases for policy in case.by_policy)
    policies = [policy for policy in named if ROUTERS_MARK not in policy]
    rows = []
    for place, case in enumerate(cases):
        means = {
            policy: sum(float(row[column.field]) for row in rows) / len(rows)
            for policy, rows in case.by_policy.items()
            if policy in policies
        }
        best = (max if column.more_is_better else min)(means.values())
        cells = [_multiple(means.get(policy), best, more=bool(column.more_is_better)) for policy in policies]
        rows.append({"id": f"case-{place}", "name": case.name, "cells": cells, "best": f"{best:,.4g}"})
    return {"name": column.name, "hint": column.hint, "policies": policies, "ours": CANDIDATES, "rows": rows}


def _multiple(value: float | None, best: float, *, more: bool) -> Mapping[str, Any]:
    if not value or not best:
        return {"text": "", "shade": "none"}
    times = best / value if more else value / best
    shade = sum(times > limit for limit in _HEAT)
    return {"text": f"{times:.2f}" if times < 10 else f"{times:,.0f}", "shade": shade}


def _bar(judgement: Judgement) -> Mapping[str, Any]:
    return {
        "missed": judgement.missed,
        "rules": list(_rules(judgement)),
        "wins": [
            {**asdict(wins), "verdict": wins.verdict.value}
            for wins in judgement.wins
        ],
        "lines": list(missed_lines(judgement)),
        "headings": [{"name": rule.name, "bound": rule.bound} for rule in AGAINST_BEST],
        "tables": [{"policy": policy, "rows": list(_changes(policy, judgement))} for policy in CANDIDATES],
    }  # fmt: skip


def _rules(judgement: Judgement) -> Iterator[Mapping[str, Any]]:
    before = ""
    for (about, policy, text, binding), cells in grouped_cells(judgement.cells).items():
        counts = {verdict.value: sum(cell.verdict is verdict for cell in cells) for verdict in Verdict}
        yield {
            "about": about if about != before else "", "policy": policy, "text": text, "binding": binding,
            **counts,
        }  # fmt: skip
        before = about


def _changes(policy: str, judgement: Judgement) -> Iterator[Mapping[str, Any]]:
    for case in dict.fromkeys(cell.case for cell in judgement.cells):
        cells = [judgement.of(case, policy).get(rule.field) for rule in AGAINST_BEST]
        if all(cell is None or cell.verdict is Verdict.UNKNOWN for cell in cells):
            continue
        yield {
            "case": case,
            "cells": [
                {
                    "text": percent(cell.change, sign="+"), "against": cell.against,
                    "verdict": cell.verdict.value, "mark": MARKS[cell.verdict].strip(),
                }
                for cell in cells
                if cell is not None
            ],
        }  # fmt: skip
