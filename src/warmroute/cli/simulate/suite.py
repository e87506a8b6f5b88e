"""``warmroute simulate suite``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from warmroute.app.simulate import Done
    from warmroute.app.suite import Plan
    from warmroute.report.bar import Judgement

RESULTS = Path("warmroute-suite")
"""Where the full suite keeps what it has, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked for.

    Attributes:
        names: Sub-cases; all without any.
        full: Everything instead of the short selection.
        policies: Names; all without any.
        seeds: Of every sub-case and policy.
        overrides: Parameters by name.
        data: Directory of the recordings.
        processes: Runs at the same time.
        results: Directory that keeps what was run; None for nowhere.
        show: Run nothing, show what the directory has, whatever code made it.
        check: End with status 1 when a cell misses the bar.
        curves: The report needs distributions and courses.
    """

    names: Sequence[str]
    full: bool
    policies: Sequence[str]
    seeds: Sequence[int]
    overrides: Mapping[str, str]
    data: Path | None
    processes: int
    results: Path | None
    show: bool
    check: bool
    curves: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it.

    Attributes:
        plan: What was to be run.
        done: Runs, in order.
        judgement: Their verdicts.
        revision: Of the code that made them.
        status: To end with.
    """

    plan: "Plan"
    done: "Sequence[Done]"
    judgement: "Judgement"
    revision: str
    status: int


def run_suite(asked: Asked) -> Ran:
    """Run what is missing, show all tables, and return what came of it."""
    from warmroute.app.simulate import in_order
    from warmroute.app.suite import Results, plan, revision
    from warmroute.cli.simulate.runs import Outcome, make
    from warmroute.report.bar import judge

    directory = asked.results or (RESULTS if asked.full else None)
    planned = plan(
        asked.names, full=asked.full, policies=asked.policies, seeds=asked.seeds, overrides=asked.overrides,
        data=asked.data, curves=asked.curves or directory is not None,
    )  # fmt: skip
    for name, file in planned.left_out:
        click.echo(f"{name} is left out: it reads {file} below WARMROUTE_DATA, which is not set")
    results = None
    if directory is not None:
        results = Results(directory, revision=revision(), of_any_code=asked.show)
    found = [each for job in planned.jobs if results and (each := results.done(job))]
    kept = {each.job for each in found}
    todo = [job for job in planned.jobs if job not in kept]
    if results is not None:
        click.echo(f"{directory}: {len(found)} of {len(planned.jobs)} runs are there")
        if results.foreign:
            taken = "shown as well" if asked.show else "left alone"
            click.echo(f"{directory}: {results.foreign} runs of other code are {taken}")
    outcome = Outcome(0)
    if todo and not asked.show:
        outcome = make(todo, processes=asked.processes, keep=results.add if results else lambda _: None)
    done = in_order([*found, *outcome.done], planned.jobs)
    judgement = judge([{**each.row, **each.more} for each in done], planned.sub_cases)
    _show(planned, done, judgement)
    status = outcome.tell()
    made_by = results.revisions if results else []
    if outcome.done and revision() not in made_by:
        made_by = [*made_by, revision()]
    return Ran(
        planned, done, judgement, " and ".join(made_by), status or int(asked.check and judgement.missed > 0)
    )


def _show(planned: "Plan", done: "Sequence[Done]", judgement: "Judgement") -> None:
    from rich.console import Console

    from warmroute.report.suite import (
        LEGEND,
        bar_table,
        case_table,
        missed_lines,
        summary_table,
        wins_lines,
    )
    from warmroute.sim.suite import CANDIDATES

    console = Console(highlight=False)
    rows = [each.row for each in done]
    for sub_case in planned.sub_cases:
        own = [row for row in rows if row["case"] == sub_case.name]
        if own:
            console.print(case_table(sub_case.name, own, judgement))
    if not rows:
        return
    policies = {row["policy"] for row in rows}
    for policy in CANDIDATES:
        if policy in policies:
            console.print(bar_table(policy, judgement))
    console.print(summary_table(judgement))
    console.print(LEGEND)
    for line in wins_lines(judgement):
        console.print(line, markup=False)
    for line in missed_lines(judgement):
        console.print(f"✗ {line}", markup=False)


def list_suite(names: Sequence[str]) -> None:
    """Print sub-cases with what each one sets: the short selection without names, all for ``suite``."""
    from warmroute.sim.suite import FULL, SHORT

    for title, sub_cases in (("suite", SHORT), ("suite --full", FULL)):
        whole = "suite" in names or (not names and sub_cases is SHORT)
        chosen = [each for name, each in sub_cases.items() if whole or name in names]
        if chosen:
            click.echo(f"{title}:")
        for each in chosen:
            sets = " ".join(f"{name}={value}" for name, value in each.overrides)
            reads = " (reads WARMROUTE_DATA)" if each.scenario.data else ""
            click.echo(f"  {each.name:<26} {sets}{reads}".rstrip())
    if not names:
        click.echo(f"suite --full: {len(FULL)} sub-cases; `list suite` shows them")
