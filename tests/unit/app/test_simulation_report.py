"""Runs become cases with tables and figures."""

import pytest

from warmroute.app.simulate import Job, run_job
from warmroute.app.simulation_report import cases_of, write_plots
from warmroute.app.suite import plan
from warmroute.core.errors import ConfigurationError

QUICK = {"duration_s": "6", "warmup_s": "1", "fault_s": "3", "clients": "3", "instances": "2"}


def runs(*names, policies=("RANDOM", "KV_AWARE"), curves=True):
    made = plan(names, full=False, policies=policies, seeds=(1, 2), overrides=QUICK, data=None, curves=curves)
    return [run_job(job) for job in made.jobs]


@pytest.fixture(scope="module")
def done():
    return runs("aws-long@14", "aws-long@28+add")


def test_runs_are_grouped_by_case_and_those_of_several_routers_stand_with_one(done):
    plain, changed = cases_of(done)
    assert [plain.name, changed.name] == ["aws-long@14", "aws-long@28+add"]
    assert list(plain.by_policy) == ["RANDOM", "KV_AWARE", "KV_AWARE, 4 routers"]
    assert [len(rows) for rows in plain.by_policy.values()] == [2, 2, 2]
    assert plain.settings["clients"] == "3"
    assert "routers" not in plain.settings
    assert plain.title == "AWS's test with 8,000-token prefixes, each used six times"


def test_distributions_are_means_of_one_router_and_courses_those_of_the_first_seed(done):
    case = cases_of(done)[0]
    assert list(case.quantiles) == ["RANDOM", "KV_AWARE"]
    first, second = [each for each in done if each.job.shown == case.name and each.job.policy == "RANDOM"]
    assert case.quantiles["RANDOM"][50] == (first.quantiles[50] + second.quantiles[50]) / 2
    assert case.courses["RANDOM"] == first.course
    assert second.course is None


def test_a_case_knows_when_it_counts_and_when_its_fleet_changes(done):
    plain, changed = cases_of(done)
    assert (plain.warmup_s, plain.change_s, changed.change_s) == (1, None, 3)
    assert changed.rows[0]["ttft_p99_after_ms"] > 0
    (half,) = cases_of(
        [run_job(Job("aws-long", (*QUICK.items(), ("fault", "add"), ("fault_s", "0")), "RANDOM", 1))]
    )
    assert half.change_s == 3


def test_figures_are_written_as_svg_and_png(done, tmp_path):
    files = write_plots(cases_of(done)[:1], tmp_path / "deep/plots")
    assert sorted(file.name for file in files) == [
        f"aws-long@14-{name}.{kind}"
        for name in ("hit-rate", "shares", "ttft", "waiting")
        for kind in ("png", "svg")
    ]
    assert all(file.stat().st_size > 1000 for file in files)


def test_names_of_files_have_no_slashes(tmp_path):
    made = runs("hot@56/8b", policies=("RANDOM",))
    assert "hot@56-8b-ttft.png" in {file.name for file in write_plots(cases_of(made), tmp_path)}


def test_a_directory_that_cannot_be_made_is_a_mistake(done, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot make"):
        write_plots(cases_of(done), tmp_path / "file/plots")
