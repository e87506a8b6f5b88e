"""``warmroute simulate``."""

import importlib.util
import json
import os
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from warmroute.app.simulate import Job, Row

SHORTHANDS = ("instances", "profile", "speed", "routers")
"""Options that are parameters as well."""


@click.command(context_settings={"show_default": True})
@click.argument("what", nargs=-1, required=True, metavar="CASE… | list | trace FILE")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Repeatable; SageMaker's without it.")
@click.option("--seeds", default=3, type=click.IntRange(1, 1000), help="Runs of every case and policy.")
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
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write one object per run."
)
def simulate(
    *,
    what: tuple[str, ...],
    policies: tuple[str, ...],
    seeds: int,
    first_seed: int,
    sets: tuple[str, ...],
    format_name: str | None,
    jobs: int | None,
    json_file: Path | None,
    **shorthands: str | None,
) -> int:
    """Run the live routing code against models of engines, in virtual time.

    \b
      warmroute simulate list                      cases; `list CASE` shows a case's parameters
      warmroute simulate aws-long aws-short        compare all policies over three seeds
      warmroute simulate aws-long --set clients=56 --policy PREFIX_AWARE --json runs.json
      warmroute simulate trace FILE --format mooncake --instances 8 --speed 2

    Cases made of recordings read them below the directory that WARMROUTE_DATA names.
    """  # noqa: D301  (\b keeps click from joining the lines)
    from warmroute.app.simulate import Job, data_directory, scenario_of
    from warmroute.sim.policy import LIVE_POLICIES

    if what[0] == "list":
        return _list(what[1:])
    file = ""
    cases: tuple[str, ...] = tuple(dict.fromkeys(what))
    if what[0] == "trace":
        if len(what) != 2 or not format_name:
            raise click.UsageError("trace needs one FILE and its --format")
        cases, file = ("trace",), what[1]
    overrides = tuple((name, value) for name, value in shorthands.items() if value is not None) + tuple(
        _pair(each) for each in sets
    )
    data = data_directory(os.environ)
    todo = [
        Job(case, overrides, policy, seed, data, file, format_name or "")
        for case in cases
        for policy in dict.fromkeys(policies or LIVE_POLICIES)
        for seed in range(first_seed, first_seed + seeds)
    ]
    for job in todo:
        if job.seed == first_seed:
            scenario_of(job)  # a mistake shows before anything runs
    if importlib.util.find_spec("rich") is None:
        raise click.ClickException('simulate needs rich: pip install "warmroute[demo]"')
    return _run(todo, jobs or os.cpu_count() or 1, json_file)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"--set must be KEY=VALUE, got {text}")
    return name.strip(), value.strip()


def _run(todo: "Sequence[Job]", processes: int, json_file: Path | None) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from warmroute.app.simulate import Broken, in_order, run_all

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows: list[Row] = []
    broken: list[Broken] = []
    interrupted = False
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("simulating", total=len(todo))
        try:
            for result in run_all(todo, processes=processes):
                progress.advance(task)
                if isinstance(result, Broken):
                    broken.append(result)
                else:
                    rows.append(result)
                    progress.update(task, description=f"{result['case']} {result['policy']} done")
        except KeyboardInterrupt:
            interrupted = True
        except BrokenExecutor:
            raise click.ClickException(
                "a process was ended from outside, perhaps for want of memory; try fewer --jobs"
            ) from None
    rows = in_order(rows, todo)
    if json_file is not None:
        _write(json_file, rows)
    _show(Console(), rows)
    for each in broken:
        click.echo(f"{each.error}\nwarmroute: a run failed; this command shows it again:", err=True)
        click.echo(f"  {each.job.command()}", err=True)
    if interrupted:
        click.echo(f"Interrupted; {len(rows)} of {len(todo)} runs were finished.", err=True)
        return 130
    return 1 if broken else 0


def _write(file: Path, rows: "Sequence[Row]") -> None:
    # An array with an object per line: for json.load and for grep.
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from None


def _show(console: "Console", rows: "Sequence[Row]") -> None:
    from warmroute.report.simulation import case_tables

    for case in dict.fromkeys(row["case"] for row in rows):
        for table in case_tables([row for row in rows if row["case"] == case]):
            console.print(table)


def _list(names: Sequence[str]) -> int:
    from warmroute.sim.cases import CASES
    from warmroute.sim.scenario import PARAMETER_HELP

    for name in names:
        if name not in CASES:
            raise click.UsageError(f"there is no case {name}; there are {', '.join(CASES)}")
        click.echo(f"{name}: {CASES[name].title}")
        for parameter, value in CASES[name].defaults.items():
            note = PARAMETER_HELP.get(parameter, "")
            click.echo(f"  {f'{parameter}={value}':<40} {note}".rstrip())
    if not names:
        for case in CASES.values():
            click.echo(f"{case.name:<12} {case.title}{' (reads WARMROUTE_DATA)' if case.data else ''}")
    return 0
