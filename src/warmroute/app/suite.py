"""The suite: which runs it is made of, and a directory of results that a second start completes."""

import ast
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_hexdigest

import warmroute
from warmroute.app.simulate import FIELDS, Done, Job, scenario_of
from warmroute.core.errors import ConfigurationError
from warmroute.sim.policies import POLICIES
from warmroute.sim.policy import LIVE_POLICIES
from warmroute.sim.series import Course
from warmroute.sim.suite import CANDIDATES, FULL, SHORT, SubCase, policy_of

SIMULATED = ("core", "engine", "sim", "workload")
"""Packages whose code decides what any run comes to."""
OF_LIVE = ("routing",)
"""What decides with them in runs of live policies."""
OF_BASELINES = ("sim/baselines", "routing/ledger.py", "routing/retry.py")
"""The same in runs of the others."""
OF_NEITHER = ("sim/suite.py", "sim/policies.py")
"""Modules that only choose what is run."""
NOT_OF_BASELINES = ("core/limits.py", "core/errors.py")
"""Modules that the others do not look at."""
RUNS, CURVES = "runs.jsonl", "curves.jsonl"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run.

    Attributes:
        sub_cases: In order, without those with several routers.
        jobs: Of all sub-cases, policies and seeds.
        left_out: Sub-cases whose recordings are not there, with what they read.
    """

    sub_cases: tuple[SubCase, ...]
    jobs: tuple[Job, ...]
    left_out: tuple[tuple[str, str], ...]


def plan(
    names: Sequence[str],
    *,
    full: bool,
    policies: Sequence[str],
    seeds: Iterable[int],
    overrides: Mapping[str, str],
    data: Path | None,
    curves: bool,
) -> Plan:
    """Return what is to be run.

    Args:
        names: Sub-cases, cases or patterns (``*`` and ``?``); all without any.
        full: Everything instead of the short selection.
        policies: Names; all without any, and a grid of pairs of PREFIX_AWARE.
        seeds: Of every sub-case and policy.
        overrides: Parameters by name; a sub-case takes those that it has.
        data: Directory of the recordings; None when there is none.
        curves: Distributions are wanted, and courses over time of the first seed.

    Raises:
        ConfigurationError: A name, a policy or a parameter does not exist anywhere.
    """
    chosen = [each.having(overrides) for each in _chosen(names, FULL if full else SHORT)]
    for name in overrides:
        if not any(name in each.scenario.defaults for each in chosen):
            raise ConfigurationError(f"no sub-case has a parameter {name}")
    readable = [each for each in chosen if not each.scenario.data or data is not None]
    jobs: list[Job] = []
    first, *others = seeds
    for sub_case in readable:
        wanted = tuple(dict.fromkeys(policies or _all_policies(sub_case, full=full)))
        runs = [(sub_case, policy) for policy in wanted]
        if not sub_case.changes:
            runs += [(sub_case.with_routers(), policy) for policy in wanted if policy in CANDIDATES]
        for each, policy in runs:
            course = curves and each is sub_case
            made = Job(
                each.case, each.overrides, policy, first, data, name=each.name, curves=curves, course=course
            )
            scenario_of(made)  # a mistake shows before anything runs
            jobs.append(made)
            jobs += (
                Job(each.case, each.overrides, policy, seed, data, name=each.name, curves=curves)
                for seed in others
            )
    left_out = tuple((each.name, each.scenario.data[0]) for each in chosen if each not in readable)
    return Plan(tuple(readable), tuple(jobs), left_out)


def _chosen(names: Sequence[str], sub_cases: Mapping[str, SubCase]) -> list[SubCase]:
    for name in names:
        if not any(_meant(name, each) for each in sub_cases.values()):
            raise ConfigurationError(f"there is no sub-case {name}; there are {', '.join(sub_cases)}")
    return [each for each in sub_cases.values() if not names or any(_meant(name, each) for name in names)]


def _meant(name: str, sub_case: SubCase) -> bool:
    return name == sub_case.case or fnmatch(sub_case.name, name)


def _all_policies(sub_case: SubCase, *, full: bool) -> tuple[str, ...]:
    if sub_case.changes:
        return tuple(POLICIES)
    return (*POLICIES, *(sub_case.grid() if full else sub_case.short_grid()))


# --- what was run already -------------------------------------------------------------------


class Results:
    """A directory with a line per finished run; lines of other code than this are left alone.

    Args:
        directory: Made if it is not there.
        revision: What is written beside each run for people; `revision` has it.
        of_any_code: Take runs of whatever code made them, the last ones where there are several.

    Attributes:
        foreign: How many runs of other code there are.
        revisions: Those that made the runs that were found, in order.

    Raises:
        ConfigurationError: The directory cannot be made or read.
    """

    def __init__(self, directory: Path, *, revision: str, of_any_code: bool = False) -> None:
        self._directory = directory
        self._revision = revision
        self._of_any_code = of_any_code
        self.foreign = 0
        self.revisions: list[str] = []
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._rows = dict(self._read(RUNS))
            self._curves = dict(self._read(CURVES))
            for name in (RUNS, CURVES):
                self._end_line(directory / name)
        except OSError as error:
            raise ConfigurationError(f"cannot use {directory}: {error.strerror}") from None

    def done(self, job: Job) -> Done | None:
        """Return a run that was made before; None when it has to be made."""
        key = self._key(job)
        if self._of_any_code:
            key = key.partition(" ")[2]
        kept = self._rows.get(key)
        if kept is None:
            return None
        if kept["revision"] not in self.revisions:
            self.revisions.append(kept["revision"])
        curves = self._curves.get(key, {})
        course = curves.get("course")
        return Done(
            job,
            {name: kept["result"][name] for name in FIELDS},
            kept["more"],
            tuple(curves.get("ttft_quantiles_ms", ())),
            None if course is None else _course(course),
        )

    def add(self, done: Done) -> None:
        """Keep a run: when this returns it is in the file."""
        job = done.job
        about = {
            "key": self._key(job), "scenario": job.case, "overrides": dict(job.overrides),
            "command": job.command(), "revision": self._revision,
        }  # fmt: skip
        self._append(RUNS, {**about, "result": done.row, "more": dict(done.more)})
        if done.quantiles:
            course = None if done.course is None else asdict(done.course)
            curves = {"ttft_quantiles_ms": done.quantiles, "course": course}
            self._append(CURVES, {"key": about["key"], **curves})

    def _append(self, name: str, value: Mapping[str, object]) -> None:
        with (self._directory / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, separators=(",", ":")) + "\n")

    def _read(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        file = self._directory / name
        codes = {code_digest(live=True), code_digest(live=False)}
        if not file.exists():
            return
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                kept = json.loads(line)
            except ValueError:
                continue  # cut off when a run of ours was ended
            code, _, run = kept["key"].partition(" ")
            if code not in codes and name == RUNS:
                self.foreign += 1
            if code in codes or self._of_any_code:
                yield run if self._of_any_code else kept["key"], kept

    def _end_line(self, file: Path) -> None:
        if file.exists() and (text := file.read_bytes()) and not text.endswith(b"\n"):
            with file.open("ab") as opened:
                opened.write(b"\n")

    def _key(self, job: Job) -> str:
        policy, pair = policy_of(job.policy)
        sets = json.dumps({**dict(job.overrides), **pair}, sort_keys=True, separators=(",", ":"))
        return f"{code_digest(live=policy in LIVE_POLICIES)} {job.shown} {policy} {job.seed} {sets}"


def _course(kept: Mapping[str, Any]) -> Course:
    return Course(
        bucket_s=kept["bucket_s"],
        hit_rate=tuple(kept["hit_rate"]),
        in_flight=tuple(kept["in_flight"]),
        waiting=tuple(kept["waiting"]),
        shares=tuple((target, share) for target, share in kept["shares"]),
    )


# --- revisions ------------------------------------------------------------------------------


@cache
def code_digest(*, live: bool) -> str:
    """Return what identifies the code that decides what a run comes to; comments have no part in it.

    Args:
        live: For runs of live policies; else for those of other projects, which outlast changes of routing.
    """
    root = Path(warmroute.__file__).parent
    parts = (*SIMULATED, *(OF_LIVE if live else OF_BASELINES))
    left_out = (*OF_NEITHER, *(() if live else NOT_OF_BASELINES))
    found: set[str] = set()
    for part in parts:
        paths = [root / part] if part.endswith(".py") else (root / part).rglob("*.py")
        found |= {path.relative_to(root).as_posix() for path in paths}
    if live:
        found = {name for name in found if not name.startswith("sim/baselines/")}
    texts = [_without_words((root / name).read_text("utf-8")) for name in sorted(found - {*left_out})]
    return xxh3_64_hexdigest("\n".join(texts).encode())


def _without_words(source: str) -> str:
    """Return a module as its syntax alone: no comments, no docstrings, no layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def revision() -> str:
    """Return what git calls this checkout, or the package's version where it is not run from one."""
    place = Path(warmroute.__file__).resolve().parent.parent
    built = place.parts[-3:] == ("build", "compiled", "site")  # by make, from the checkout around it
    root = place.parents[2] if built else place.parent
    if (built or place.name == "src") and (root / ".git").exists():
        command = ["git", "-C", f"{root}", "describe", "--always", "--tags", "--dirty"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            return warmroute.__version__
        return told.stdout.strip()
    return warmroute.__version__
