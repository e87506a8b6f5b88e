"""``warmroute simulate``."""

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warmroute.cli.replay import replay

if TYPE_CHECKING:
    from warmroute.app.simulate import Done, Job
    from warmroute.report.bar import Judgement

SHORTHANDS = ("instances", "profile", "speed", "routers")
"""Options that are parameters as well."""
SEEDS, SUITE_SEEDS = 3, 5
_FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where the user wants what was found out, beside the tables.

    Attributes:
        json: File of rows.
        csv: The same as a table.
        html: File of the report.
        plots: Directory of figures.
    """

    json: Path | None
    csv: Path | None
    html: Path | None
    plots: Path | None

    @property
    def curves(self) -> bool:
        """Whether distributions and courses are needed."""
        return self.html is not None or self.plots is not None


@click.command(context_settings={"show_default": True})
@click.argument(
    "what", nargs=-1, required=True, metavar="CASE… | suite [NAME…] | list | trace FILE | replay FILE"
)
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME",
    help="Repeatable; SageMaker's strategies without it, in the suite all.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 1000),
    help=f"Runs of every case and policy.  [default: {SEEDS}; {SUITE_SEEDS} in the suite]",
)  # fmt: skip
@click.option("--first-seed", default=1, type=click.IntRange(0), help="Seed of the first of them.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="A parameter; `list CASE` shows them."
)
@click.option(
    "--format",
    "format_name",
    metavar="NAME",
    help="Of FILE: mooncake, blocks, azure, chat, agentic or servegen.",
)
@click.option("--instances", metavar="N", help="Model servers; same as --set instances=N.")
@click.option("--profile", metavar="NAME", help="Engine profile of every instance.")
@click.option("--speed", metavar="X", help="Replay a recording X times as fast.")
@click.option("--routers", metavar="R", help="Routers that share nothing.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Runs at the same time.  [default: all processors]")
@click.option("--json", "json_file", type=_FILE, help="Write one object per run.")
@click.option("--csv", "csv_file", type=_FILE, help="Write the same as a table.")
@click.option("--html", "html_file", type=_FILE, help="Write a report with tables and figures in one file.")
@click.option("--plots", "plots", type=_DIRECTORY, help="Write the figures as SVG and PNG.")
@click.option("--full", is_flag=True, help="Suite: everything, for hours; kept in --results.")
@click.option("--results", type=_DIRECTORY, help="Suite: keep every run here, and make only what is missing.")
@click.option("--show", is_flag=True, help="Suite: run nothing, show what --results has.")
@click.option("--check", is_flag=True, help="Suite: end with status 1 if the bar is missed.")
def simulate(
    *,
    what: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: int | None,
    first_seed: int,
    sets: tuple[str, ...],
    format_name: str | None,
    jobs: int | None,
    **options: str | Path | bool | None,
) -> int:
    """Run the live routing code against models of engines, in virtual time.

    \b
      warmroute simulate list                      cases, policies, the suite; `list CASE` shows parameters
      warmroute simulate aws-long aws-short        compare SageMaker's strategies over three seeds
      warmroute simulate aws-long --set clients=56 --policy PREFIX_AWARE --json runs.json
      warmroute simulate trace FILE --format mooncake --instances 8 --speed 2 --html report.html
      warmroute simulate suite                     all policies, all cases, and the bar (half an hour)
      warmroute simulate suite aws-long 'skew*'    some of it
      warmroute simulate replay decisions.jsonl    make a live router's decisions again

    Cases made of recordings read them below the directory that WARMROUTE_DATA names.
    """  # noqa: D301  (\b keeps click from joining the lines)
    if what[0] == "list":
        return _list(what[1:])
    overrides = {name: str(options[name]) for name in SHORTHANDS if options[name] is not None}
    overrides |= dict(_pair(each) for each in sets)
    if what[0] == "replay":
        return replay(what[1:], policies, tuple(overrides.items()))
    wanted = Wanted(*(_path(options[name]) for name in ("json_file", "csv_file", "html_file", "plots")))
    processes = jobs or os.cpu_count() or 1
    suite_only = [name for name in ("full", "results", "show", "check") if options[name]]
    if what[0] == "suite":
        first = range(first_seed, first_seed + (seeds or SUITE_SEEDS))
        return _suite(what[1:], policies, first, overrides, options, wanted=wanted, processes=processes)
    if suite_only:
        raise click.UsageError(f"--{suite_only[0]} belongs to `simulate suite`")
    todo = _jobs(
        what, policies, range(first_seed, first_seed + (seeds or SEEDS)), overrides,
        format_name=format_name, wanted=wanted,
    )  # fmt: skip
    return _compare(todo, wanted=wanted, processes=processes)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"--set must be KEY=VALUE, got {text}")
    return name.strip(), value.strip()


def _path(option: str | Path | bool | None) -> Path | None:
    return option if isinstance(option, Path) else None


def _need_packages(wanted: Wanted) -> None:
    packages = (
        "rich",
        *(("jinja2", "matplotlib") if wanted.html else ("matplotlib",) if wanted.plots else ()),
    )
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise click.ClickException(f'simulate needs {package}: pip install "warmroute[report]"')


# --- cases ----------------------------------------------------------------------------------


def _jobs(
    what: Sequence[str],
    policies: Sequence[str],
    seeds: range,
    overrides: Mapping[str, str],
    *,
    format_name: str | None,
    wanted: Wanted,
) -> "list[Job]":
    from warmroute.app.simulate import Job, data_directory, scenario_of
    from warmroute.sim.policy import LIVE_POLICIES

    cases, file = tuple(dict.fromkeys(what)), ""
    if what[0] == "trace":
        if len(what) != 2 or not format_name:
            raise click.UsageError("trace needs one FILE and its --format")
        cases, file = ("trace",), what[1]
    data = data_directory(os.environ)
    todo = [
        Job(
            case, tuple(overrides.items()), policy, seed, data, file, format_name or "",
            curves=wanted.curves, course=wanted.curves and seed == seeds[0],
        )
        for case in cases
        for policy in dict.fromkeys(policies or LIVE_POLICIES)
        for seed in seeds
    ]  # fmt: skip
    for job in todo:
        if job.seed == seeds[0]:
            scenario_of(job)  # a mistake shows before anything runs
    return todo


def _compare(todo: "Sequence[Job]", *, wanted: Wanted, processes: int) -> int:
    _need_packages(wanted)
    from rich.console import Console

    from warmroute.cli.simulate.runs import make
    from warmroute.report.simulation import case_tables

    outcome = make(todo, processes=processes)
    rows = [done.row for done in outcome.done]
    console = Console()
    for case in dict.fromkeys(row["case"] for row in rows):
        for table in case_tables([row for row in rows if row["case"] == case]):
            console.print(table)
    _write(
        outcome.done,
        wanted,
        title=f"Simulation: {', '.join(dict.fromkeys(str(row['case']) for row in rows))}",
    )
    return outcome.tell()


def _write(
    done: "Sequence[Done]",
    wanted: Wanted,
    *,
    title: str,
    made_by: str = "",
    notes: Sequence[str] = (),
    judgement: "Judgement | None" = None,
) -> None:
    from warmroute.app.outputs import csv_text, json_text, write

    rows = [each.row for each in done]
    if wanted.json is not None:
        write(wanted.json, json_text(rows))
    if wanted.csv is not None:
        write(wanted.csv, csv_text(rows))
    if not done or not wanted.curves:
        return
    from warmroute.app.simulation_report import cases_of, write_plots
    from warmroute.app.suite import revision
    from warmroute.report.page import About, page

    cases = cases_of(done)
    if wanted.plots is not None:
        write_plots(cases, wanted.plots)
    if wanted.html is not None:
        made = datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
        about = About(
            title=title, command=_command_line(), revision=made_by or revision(), made=made, notes=notes
        )
        write(wanted.html, page(about, cases, judgement))


# --- the suite ------------------------------------------------------------------------------


def _suite(
    names: Sequence[str],
    policies: Sequence[str],
    seeds: range,
    overrides: Mapping[str, str],
    options: Mapping[str, str | Path | bool | None],
    *,
    wanted: Wanted,
    processes: int,
) -> int:
    _need_packages(wanted)
    from warmroute.app.simulate import data_directory
    from warmroute.cli.simulate.suite import Asked, run_suite

    if options["show"] and not (options["results"] or options["full"]):
        raise click.UsageError("--show needs the directory of --results")
    asked = Asked(
        names=names, policies=policies, seeds=seeds, overrides=overrides, data=data_directory(os.environ),
        processes=processes, results=_path(options["results"]), curves=wanted.curves,
        full=bool(options["full"]), show=bool(options["show"]), check=bool(options["check"]),
    )  # fmt: skip
    ran = run_suite(asked)
    notes = [f"{name} is left out: its recording was not there." for name, _ in ran.plan.left_out]
    title = "Simulation: the whole suite" if asked.full else "Simulation: the suite"
    _write(ran.done, wanted, title=title, made_by=ran.revision, notes=notes, judgement=ran.judgement)
    return ran.status


def _command_line() -> str:
    return shlex.join(["warmroute", *sys.argv[1:]])


# --- the list -------------------------------------------------------------------------------


def _list(names: Sequence[str]) -> int:
    from warmroute.cli.simulate.suite import list_suite
    from warmroute.sim.cases import CASES
    from warmroute.sim.policies import BASELINES
    from warmroute.sim.policy import LIVE_POLICIES
    from warmroute.sim.scenario import PARAMETER_HELP
    from warmroute.sim.suite import FULL, SHORT

    for name in names:
        if name in SHORT or name in FULL or name == "suite":
            list_suite((name,))
            continue
        if name not in CASES:
            raise click.UsageError(f"there is no case {name}; there are {', '.join(CASES)}")
        click.echo(f"{name}: {CASES[name].title}")
        for parameter, value in CASES[name].defaults.items():
            note = PARAMETER_HELP.get(parameter, "")
            click.echo(f"  {f'{parameter}={value}':<40} {note}".rstrip())
    if names:
        return 0
    click.echo("cases:")
    for case in CASES.values():
        click.echo(f"  {case.name:<12} {case.title}{' (reads WARMROUTE_DATA)' if case.data else ''}")
    click.echo(f"policies: {', '.join(LIVE_POLICIES)}")
    click.echo(f"policies of other projects: {', '.join(BASELINES)}")
    list_suite(())
    return 0
