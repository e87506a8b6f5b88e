"""Runs as a report: what was made becomes cases with tables and figures."""

from collections.abc import Sequence
from pathlib import Path

from warmroute.app.outputs import directory, write
from warmroute.app.simulate import Done, Job, changed_ns, scenario_of
from warmroute.report.case import ROUTERS_MARK, Case, mean_quantiles
from warmroute.report.figures import figures, image
from warmroute.sim.suite import ROUTERS, ROUTERS_SUFFIX


def cases_of(done: Sequence[Done]) -> list[Case]:
    """Return the cases that runs belong to; those with several routers stand with those of one."""
    groups: dict[str, list[Done]] = {}
    for each in done:
        groups.setdefault(each.job.shown.removesuffix(ROUTERS_SUFFIX), []).append(each)
    return [_case(name, group) for name, group in groups.items()]


def _case(name: str, done: Sequence[Done]) -> Case:
    job = done[0].job
    scenario, parameters = scenario_of(job)
    quantiles: dict[str, list[Sequence[float]]] = {}
    for each in done:
        if each.quantiles and not _several(each.job):
            quantiles.setdefault(each.job.policy, []).append(each.quantiles)
    at_ns = changed_ns(parameters)
    return Case(
        name=name,
        title=scenario.title,
        settings={key: text for key, text in job.overrides if key != "routers"},
        rows=[{**each.row, **each.more, "policy": f"{each.job.policy}{_mark(each.job)}"} for each in done],
        quantiles={policy: mean_quantiles(seeds) for policy, seeds in quantiles.items()},
        courses={each.job.policy: each.course for each in reversed(done) if each.course},
        warmup_s=parameters.number("warmup_s"),
        change_s=None if at_ns is None else at_ns / 1e9,
    )


def _several(job: Job) -> bool:
    return job.shown.endswith(ROUTERS_SUFFIX)


def _mark(job: Job) -> str:
    return f"{ROUTERS_MARK}{ROUTERS} routers" if _several(job) else ""


def write_plots(cases: Sequence[Case], path: Path) -> list[Path]:
    """Write every figure as SVG and PNG, and return the files.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    directory(path)
    files = []
    for case in cases:
        for name, figure in figures(case, legend=True):
            for kind in ("svg", "png"):
                file = path / f"{case.name.replace('/', '-')}-{name}.{kind}"
                write(file, image(figure, kind))
                files.append(file)
    return files
