"""Runs many simulations, in processes of their own when there are several."""

import gzip
import multiprocessing
import os
import shlex
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from warmroute.core.errors import ConfigurationError
from warmroute.sim.cases import CASES
from warmroute.sim.faults import faults_of
from warmroute.sim.metrics import metrics_of
from warmroute.sim.policies import POLICIES
from warmroute.sim.recordings import recording
from warmroute.sim.records import Run
from warmroute.sim.scenario import Parameters, Scenario, run_scenario
from warmroute.sim.series import Course, change_of, course_of, goodput_share, ttft_quantiles
from warmroute.sim.suite import policy_of
from warmroute.workload.traces import TraceError


@dataclass(frozen=True, slots=True)
class Job:
    """One run. Everything a process needs to make it.

    Attributes:
        case: Name of a built-in scenario, or ``trace``.
        overrides: Parameters by name, as texts.
        policy: Name of the policy, perhaps with a pair, as in ``PREFIX_AWARE[4096,40]``.
        seed: Of everything random.
        data: Directory of the data files; None when there is none.
        file: Recording, for ``trace``.
        format: Its format.
        name: What its row calls the case; empty for the case itself.
        curves: The distribution is wanted as well.
        course: The course over time is wanted as well.
    """

    case: str
    overrides: tuple[tuple[str, str], ...]
    policy: str
    seed: int
    data: Path | None = None
    file: str = ""
    format: str = ""
    name: str = ""
    curves: bool = False
    course: bool = False

    @property
    def shown(self) -> str:
        """What tables call the case."""
        return self.name or self.case

    def command(self) -> str:
        """Return the command that makes this run again."""
        what = [self.case]
        if self.case == "trace":
            what += [self.file, "--format", self.format]
        what += ["--policy", self.policy, "--first-seed", f"{self.seed}", "--seeds", "1"]
        for name, value in self.overrides:
            what += ["--set", f"{name}={value}"]
        return shlex.join(["warmroute", "simulate", *what])


Row = dict[str, str | int | float]
FIELDS = (
    "case", "policy", "seed", "requests", "failed", "ttft_mean_ms", "ttft_p50_ms", "ttft_p90_ms",
    "ttft_p99_ms", "itl_p50_ms", "throughput_rps", "output_tokens_per_s", "hit_rate", "ideal_hit_rate",
    "share_min", "share_max", "overflow_rate", "decision_us",
)  # fmt: skip
"""Of a row, in this order: an interface that others script against."""


@dataclass(frozen=True, slots=True)
class Done:
    """A run that ended well.

    Attributes:
        job: Which.
        row: Its numbers: `FIELDS`.
        more: Further numbers: ``goodput_share``, and those of `Change` where the fleet changed.
        quantiles: Times to first token in milliseconds at `QUANTILES`, if they were wanted.
        course: How it went over time, if that was wanted.
    """

    job: Job
    row: Row
    more: Mapping[str, float] = field(default_factory=dict)
    quantiles: tuple[float, ...] = ()
    course: Course | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A run that ended with an error.

    Attributes:
        job: Which.
        error: What happened, with where.
    """

    job: Job
    error: str


def scenario_of(job: Job) -> tuple[Scenario, Parameters]:
    """Return a job's scenario and parameters.

    Raises:
        ConfigurationError: The case, a parameter, the policy or a data file does not exist.
    """
    if job.case == "trace":
        scenario = recording(job.file, job.format)
    elif job.case in CASES:
        scenario = CASES[job.case]
    else:
        raise ConfigurationError(f"there is no case {job.case}; there are {', '.join(CASES)}")
    policy, pair = policy_of(job.policy)
    if policy not in POLICIES:
        raise ConfigurationError(f"--policy must be one of {', '.join(POLICIES)}, got {job.policy}")
    parameters = scenario.parameters({**dict(job.overrides), **pair})
    for file in scenario.data:
        if job.case != "trace" and job.data is None:
            raise ConfigurationError(f"{job.case} reads {file} below WARMROUTE_DATA, which is not set")
        if not _path(job, file).is_file():
            raise ConfigurationError(f"{job.case} reads {_path(job, file)}, which is not there")
    return scenario, parameters


def run_job(job: Job) -> Done | Broken:
    """Make one run; an error is returned, with the job that had it.

    Raises:
        ConfigurationError: A data file is not what its format says.
    """
    scenario, parameters = scenario_of(job)
    with ExitStack() as opened:

        def read(file: str) -> Iterable[str]:
            path = _path(job, file)
            if path.suffix == ".gz":
                return opened.enter_context(gzip.open(path, "rt", encoding="utf-8"))
            return opened.enter_context(path.open(encoding="utf-8"))

        try:
            run = run_scenario(
                scenario,
                parameters,
                policy=policy_of(job.policy)[0],
                seed=job.seed,
                read=read,
                stopwatch=time.perf_counter_ns,
            )
        except ConfigurationError:
            raise
        except (TraceError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{' and '.join(scenario.data)}: {error}") from None
        except Exception:  # noqa: BLE001  (whatever it is, the user gets the command that shows it again)
            return Broken(job, traceback.format_exc())
    return _done(job, parameters, run)


def _done(job: Job, parameters: Parameters, run: Run) -> Done:
    warmup_ns = parameters.ns("warmup_s")
    values = asdict(metrics_of(run, warmup_ns=warmup_ns))
    row: Row = {"case": job.shown, "policy": job.policy, "seed": job.seed, **values}
    more = {"goodput_share": goodput_share(run, warmup_ns=warmup_ns)}
    at_ns = changed_ns(parameters)
    if at_ns is not None:
        more |= asdict(change_of(run, at_ns=at_ns, warmup_ns=warmup_ns))
    return Done(
        job,
        {name: _short(row[name]) for name in FIELDS},
        {name: float(_short(value)) for name, value in more.items()},
        ttft_quantiles(run, warmup_ns=warmup_ns) if job.curves else (),
        course_of(run, warmup_ns=warmup_ns) if job.course else None,
    )


def changed_ns(parameters: Parameters) -> int | None:
    """Return when the first fault that was asked for happens; None without one."""
    faults = faults_of(
        parameters.text("fault"),
        at_ns=parameters.ns("fault_s") or parameters.end_ns // 2,
        instance=parameters.whole("fault_instance"),
        notice_ns=parameters.ns("fault_notice_ms"),
        instances=parameters.whole("instances"),
    )
    return min((fault.at_ns for fault in faults), default=None)


def run_all(jobs: Sequence[Job], *, processes: int) -> Iterator[Done | Broken]:
    """Make all runs and return each when it is there, in any order.

    Args:
        jobs: Checked by `scenario_of`.
        processes: How many run at the same time; with 1 they run here, one after the other.

    Leaving early (an exception, or closing the iterator) ends the processes at once.
    """
    if processes == 1 or len(jobs) == 1:
        yield from map(run_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context, initializer=_belong_to_parent)
    finished = False
    try:
        for future in as_completed([pool.submit(run_job, job) for job in jobs]):
            yield future.result()
        finished = True
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)
        if not finished:
            for child in multiprocessing.active_children():
                child.terminate()


def in_order(done: Iterable[Done], jobs: Sequence[Job]) -> list[Done]:
    """Return runs in the order of their jobs."""
    places = {(job.shown, job.policy, job.seed): place for place, job in enumerate(jobs)}
    return sorted(done, key=lambda each: places[each.job.shown, each.job.policy, each.job.seed])


def data_directory(environment: Mapping[str, str]) -> Path | None:
    """Return the directory that WARMROUTE_DATA names.

    Raises:
        ConfigurationError: It is no directory.
    """
    named = environment.get("WARMROUTE_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise ConfigurationError(f"WARMROUTE_DATA must name a directory, got {named}")
    return Path(named)


def _path(job: Job, file: str) -> Path:
    return Path(file) if job.case == "trace" or job.data is None else job.data / file


def _short(value: str | float) -> str | int | float:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _belong_to_parent() -> None:
    # Ctrl-C reaches the whole process group; the parent ends its children itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # One that is killed cannot, and they would go on for nobody.
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "it runs in a child"
    parent.join()
    os._exit(1)
