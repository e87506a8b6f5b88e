"""Which runs the suite is made of, and a directory of results that a second start completes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import warmroute
from warmroute.app import suite
from warmroute.app.simulate import FIELDS, run_job
from warmroute.app.suite import CURVES, RUNS, Results, code_digest, plan, revision
from warmroute.core.errors import ConfigurationError
from warmroute.sim.suite import SHORT

QUICK = {"duration_s": "4", "warmup_s": "0", "fault_s": "2", "clients": "3", "instances": "2"}


def planned(*names, **options):
    usual = {
        "full": False, "policies": ("RANDOM",), "seeds": (1, 2), "overrides": QUICK, "data": None,
        "curves": False,
    }  # fmt: skip
    return plan(names, **{**usual, **options})


def test_every_sub_case_runs_with_every_policy_and_seed():
    made = planned("aws-long@14", policies=())
    assert [each.name for each in made.sub_cases] == ["aws-long@14"]
    jobs = [(job.shown, job.policy, job.seed) for job in made.jobs]
    assert ("aws-long@14", "chwbl", 2) in jobs
    assert len(jobs) == 2 * (17 + 2 + 2)  # 17 policies, a grid of two, and two with four routers as well
    assert jobs.count(("aws-long@14+4routers", "KV_AWARE", 1)) == 1
    assert ("aws-long@14+4routers", "RANDOM", 1) not in jobs


def test_changes_of_the_fleet_are_not_run_with_several_routers():
    made = planned("aws-long@28+drain", policies=("KV_AWARE",))
    assert [job.shown for job in made.jobs] == ["aws-long@28+drain"] * 2


def test_the_full_suite_has_the_grid_where_the_fleet_does_not_change():
    policies = {job.policy for job in planned("aws-long@14", full=True, policies=()).jobs}
    assert "PREFIX_AWARE[1024,1]" not in policies
    assert "PREFIX_AWARE[1024,4]" in policies
    changed = {job.policy for job in planned("aws-long@28+add", full=True, policies=()).jobs}
    assert not any("[" in policy for policy in changed)


def test_what_reads_recordings_is_left_out_without_them():
    made = planned("aws-long@14", "skew@1x")
    assert [each.name for each in made.sub_cases] == ["aws-long@14"]
    assert made.left_out == (("skew@1x", "servegen/language_m-small_rates.csv.gz"),)


def test_sub_cases_are_chosen_by_name_case_or_pattern():
    assert [each.name for each in planned("aws-long", "hot@56").sub_cases] == [
        "aws-long@14", "aws-long@112", "aws-long@112/8b", "hot@56", "aws-long@28+drain", "aws-long@28+add",
    ]  # fmt: skip
    assert {each.name for each in planned("*/8b").sub_cases} == {
        name for name, each in SHORT.items() if name.endswith("/8b") and not each.scenario.data
    }
    assert len(planned().sub_cases) + len(planned().left_out) == len(SHORT)


def test_courses_are_of_the_first_seed_and_one_router():
    made = planned("aws-long@14", policies=("KV_AWARE",), curves=True)
    assert [(job.shown, job.seed, job.course) for job in made.jobs] == [
        ("aws-long@14", 1, True), ("aws-long@14", 2, False),
        ("aws-long@14+4routers", 1, False), ("aws-long@14+4routers", 2, False),
    ]  # fmt: skip
    assert all(job.curves for job in made.jobs)


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["nothing"], {}, "there is no sub-case nothing; there are aws-long@14"),
        ([], {"overrides": {"clents": "3"}}, "no sub-case has a parameter clents"),
        ([], {"policies": ("BEST",)}, "--policy must be one of"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(names, options, message):
    with pytest.raises(ConfigurationError, match=message):
        planned(*names, **options)


# --- results --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done():
    return [
        run_job(job) for job in planned("aws-long@28+drain", policies=("RANDOM", "lmetric"), curves=True).jobs
    ]


def test_what_was_run_is_found_again_and_nothing_else(tmp_path, done):
    results = Results(tmp_path / "deep/suite", revision="v1-3-gabc")
    assert results.done(done[0].job) is None
    for each in done[:3]:
        results.add(each)
    again = Results(tmp_path / "deep/suite", revision="v2")
    assert [again.done(each.job) for each in done] == [*done[:3], None]
    assert again.foreign == 0


def test_a_run_is_kept_with_its_command_and_revision(tmp_path, done):
    Results(tmp_path, revision="v1-3-gabc").add(done[0])
    (line,) = (tmp_path / RUNS).read_text().splitlines()
    kept = json.loads(line)
    assert kept["revision"] == "v1-3-gabc"
    assert kept["command"] == done[0].job.command()
    assert kept["scenario"] == "aws-long"
    assert kept["overrides"]["fault"] == "drain"
    assert tuple(kept["result"]) == FIELDS
    assert kept["more"]["ttft_p99_after_ms"] > 0


def test_other_parameters_policies_seeds_and_code_are_other_runs(tmp_path, done, monkeypatch):
    Results(tmp_path, revision="").add(done[0])
    results = Results(tmp_path, revision="")
    (other,) = planned("aws-long@28+drain", seeds=(1,), overrides={**QUICK, "clients": "4"}).jobs
    assert results.done(other) is None
    monkeypatch.setattr(suite, "code_digest", lambda *, live: "0123")
    changed = Results(tmp_path, revision="")
    assert changed.done(done[0].job) is None
    assert changed.foreign == 1


def test_runs_of_any_code_can_be_shown_and_the_last_one_counts(tmp_path, done, monkeypatch):
    monkeypatch.setattr(suite, "code_digest", lambda *, live: "0123")
    Results(tmp_path, revision="v1").add(done[0])
    monkeypatch.undo()
    later = replace(done[0], row={**done[0].row, "requests": 7})
    Results(tmp_path, revision="v2").add(later)
    shown = Results(tmp_path, revision="v3", of_any_code=True)
    assert shown.done(done[0].job) == later
    assert (shown.foreign, shown.revisions) == (1, ["v2"])
    assert shown.done(done[1].job) is None


def test_a_line_that_was_cut_off_is_made_again(tmp_path, done):
    for each in done[:2]:
        Results(tmp_path, revision="").add(each)
    for name in (RUNS, CURVES):
        file = tmp_path / name
        file.write_bytes(file.read_bytes()[:-9])
    results = Results(tmp_path, revision="")
    assert results.done(done[0].job) == done[0]
    assert results.done(done[1].job) is None
    results.add(done[1])
    assert Results(tmp_path, revision="").done(done[1].job) == done[1]


def test_a_directory_that_cannot_be_made_is_a_mistake(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot use .*file/suite: Not a directory"):
        Results(tmp_path / "file/suite", revision="")


# --- revisions ------------------------------------------------------------------------------


def copied(tmp_path, monkeypatch):
    """A package of a few modules in place of ours."""
    for name in (
        "core/a.py",
        "engine/a.py",
        "sim/a.py",
        "sim/suite.py",
        "sim/baselines/a.py",
        "workload/a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('"""Words."""\nX = 1\n')
    for name in (
        "routing/policies/a.py",
        "routing/ledger.py",
        "routing/retry.py",
        "core/limits.py",
        "core/errors.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("X = 1\n")
    (tmp_path / "__init__.py").write_text("")
    monkeypatch.setattr(suite.warmroute, "__file__", str(tmp_path / "__init__.py"))


@pytest.mark.parametrize(
    ("file", "live", "others"),
    [
        ("engine/a.py", True, True),
        ("sim/a.py", True, True),
        ("routing/policies/a.py", True, False),
        ("routing/ledger.py", True, True),
        ("sim/baselines/a.py", False, True),
        ("core/limits.py", True, False),
        ("sim/suite.py", False, False),
    ],
)
def test_a_change_of_code_makes_those_runs_again_that_it_decides(tmp_path, monkeypatch, file, live, others):
    copied(tmp_path, monkeypatch)

    def digests():
        code_digest.cache_clear()
        return code_digest(live=True), code_digest(live=False)

    before = digests()
    (tmp_path / file).write_text('"""Other words."""\n\n# why\nX    =   1\n')
    assert digests() == before
    (tmp_path / file).write_text("X = 2\n")
    after = digests()
    assert [old != new for old, new in zip(before, after, strict=True)] == [live, others]
    code_digest.cache_clear()


def test_the_revision_is_gits_in_a_checkout_and_the_version_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(suite.subprocess, "run", lambda *_, **__: type("Told", (), {"stdout": "v1-2-gabc\n"}))
    root = tmp_path / "checkout"
    (root / "src/warmroute").mkdir(parents=True)
    monkeypatch.setattr(suite.warmroute, "__file__", str(root / "src/warmroute/__init__.py"))
    assert revision() == warmroute.__version__  # installed from there, but no checkout
    (root / ".git").mkdir()
    assert revision() == "v1-2-gabc"
    built = root / "build/compiled/site/warmroute/__init__.py"
    monkeypatch.setattr(suite.warmroute, "__file__", str(built))
    assert revision() == "v1-2-gabc", "what make compiled there"

    def no_git(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(suite.subprocess, "run", no_git)
    assert revision() == warmroute.__version__


def test_our_own_code_has_two_digests():
    assert len({code_digest(live=True), code_digest(live=False)}) == 2
    assert Path(warmroute.__file__).name == "__init__.py"
