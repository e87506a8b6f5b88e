import json

import pytest
from click.testing import CliRunner

from warmroute.app import simulate as app
from warmroute.cli.main import main

QUICK = [*"--set duration_s=4 --set warmup_s=0 --set clients=3 --instances 2 --jobs 1".split()]  # noqa: SIM905


def run(*arguments):
    return CliRunner().invoke(
        main, ["simulate", *arguments], prog_name="warmroute", env={"WARMROUTE_DATA": ""}
    )


def test_the_list_names_the_cases_and_what_they_read():
    result = run("list")
    assert result.exit_code == 0
    assert "  aws-long     AWS's test with 8,000-token prefixes" in result.stdout
    assert "conversations (reads WARMROUTE_DATA)" in result.stdout


def test_the_list_of_a_case_has_its_parameters():
    result = run("list", "aws-short")
    assert "  clients=140" in result.stdout
    assert "Model servers at the start." in result.stdout


def test_a_comparison_is_shown_and_written(tmp_path):
    file = tmp_path / "runs.json"
    policies = ("--policy", "RANDOM", "--policy", "PREFIX_AWARE")
    result = run("aws-long", "churn", *QUICK, "--seeds", "2", *policies, "--json", str(file))
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["case"], row["policy"], row["seed"]) for row in rows] == [
        (case, policy, seed)
        for case in ("aws-long", "churn")
        for policy in ("RANDOM", "PREFIX_AWARE")
        for seed in (1, 2)
    ]
    assert all(tuple(row) == app.FIELDS for row in rows)
    assert "aws-long, 2 seeds" in result.stdout
    assert "change in % against RANDOM" in result.stdout


def test_a_recording_is_replayed(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"timestamp": 1, "messages": [{"role": "user", "content": "hello"}]}))
    result = run("trace", str(file), "--format", "chat", "--seeds", "1", "--jobs", "1", "--speed", "2")
    assert result.exit_code == 0, result.output
    assert "trace, 1 seed" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no case nothing; there are aws-long"),
        (["list", "nothing"], "there is no case nothing"),
        (["trace", "x"], "trace needs one FILE and its --format"),
        (["trace", "--format", "chat"], "trace needs one FILE and its --format"),
        (["aws-long", "--set", "clients"], "--set must be KEY=VALUE, got clients"),
        (["aws-long", "--policy", "BEST"], "--policy must be one of RANDOM"),
        (["aws-long", "--speed", "2"], "aws-long has no parameter speed"),
        (["agents"], "which is not set"),
    ],
)
def test_a_mistake_is_one_line_with_status_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    result = run(
        "aws-long", *QUICK, "--seeds", "1", "--policy", "RANDOM", "--json", str(tmp_path / "no/x.json")
    )
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_a_broken_run_shows_the_command_for_it(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("leases do not add up")

    monkeypatch.setattr(app, "run_scenario", broken)
    result = run("aws-long", *QUICK, "--seeds", "1", "--policy", "RANDOM")
    assert result.exit_code == 1
    assert "leases do not add up" in result.stderr
    assert (
        "warmroute simulate aws-long --policy RANDOM --first-seed 1 --seeds 1 --set instances=2"
        in result.stderr
    )


def test_an_interrupt_shows_what_was_finished(monkeypatch, tmp_path):
    def two_then_interrupt(jobs, *, processes):
        yield from map(app.run_job, jobs[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run_all", two_then_interrupt)
    file = tmp_path / "runs.json"
    result = run("aws-long", *QUICK, "--json", str(file))
    assert result.exit_code == 130
    assert "Interrupted; 2 of 15 runs were finished." in result.stderr
    assert len(json.loads(file.read_text())) == 2


def test_without_rich_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run("aws-long", *QUICK)
    assert result.exit_code == 2
    assert 'simulate needs rich: pip install "warmroute[report]"' in result.stderr


# --- the suite ------------------------------------------------------------------------------

TINY = [*"--set duration_s=4 --set warmup_s=0 --set fault_s=2 --set clients=3 --instances 2 --jobs 1".split()]  # noqa: SIM905


def test_the_list_names_policies_and_the_suite():
    text = run("list").stdout
    assert (
        "policies: RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE, KV_AWARE, KV_AWARE:estimated\n" in text
    )
    assert "policies of other projects: round-robin, " in text
    assert "  aws-long@14                clients=14 duration_s=900 warmup_s=60\n" in text
    assert "sub-cases; `list suite` shows them" in text
    assert "agents@300" not in text
    assert "agents@300" in run("list", "suite").stdout
    both = run("list", "aws-long@14").stdout
    assert both.count("aws-long@14 ") == 2  # in the short selection and in the full one


def test_a_tiny_suite_runs_and_is_judged(tmp_path):
    policies = ("--policy", "RANDOM", "--policy", "KV_AWARE")
    files = ("--json", str(tmp_path / "runs.json"), "--csv", str(tmp_path / "runs.csv"))
    result = run("suite", "aws-long@14", "aws-long@28+add", "skew@1x", *TINY, *policies, *files)
    assert result.exit_code == 0, result.output
    assert "skew@1x is left out: it reads servegen/" in result.stdout
    assert "KV_AWARE: change in % against the best other policy" in result.stdout
    assert "The bar" in result.stdout
    rows = json.loads((tmp_path / "runs.json").read_text())
    assert {row["case"] for row in rows} == {"aws-long@14", "aws-long@14+4routers", "aws-long@28+add"}
    assert len(rows) == 5 * (2 + 1 + 2)
    assert (tmp_path / "runs.csv").read_text().count("\n") == 1 + len(rows)


def test_a_suite_with_results_makes_only_what_is_missing(tmp_path, monkeypatch):
    made = []
    original = app.run_all

    def counted(jobs, *, processes):
        made.append(len(jobs))
        return original(jobs, processes=processes)

    monkeypatch.setattr(app, "run_all", counted)
    usual = ("suite", "aws-long@14", *TINY, "--policy", "RANDOM", "--results", str(tmp_path / "kept"))
    first = run(*usual, "--seeds", "1")
    assert "0 of 1 runs are there" in first.stdout
    second = run(*usual, "--seeds", "3")
    assert "1 of 3 runs are there" in second.stdout
    third = run(*usual, "--seeds", "3", "--show")
    assert "3 of 3 runs are there" in third.stdout
    assert [first.exit_code, second.exit_code, third.exit_code] == [0, 0, 0]
    assert made == [1, 2]
    assert "aws-long@14" in third.stdout


def test_an_interrupted_suite_keeps_what_was_finished(tmp_path, monkeypatch):
    def two_then_interrupt(jobs, *, processes):
        yield from map(app.run_job, jobs[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run_all", two_then_interrupt)
    usual = ("suite", "aws-long@14", *TINY, "--policy", "RANDOM", "--results", str(tmp_path))
    result = run(*usual)
    assert result.exit_code == 130
    assert "Interrupted; 2 of 5 runs were finished." in result.stderr
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 2
    assert "2 of 5 runs are there" in run(*usual, "--show").stdout


def test_a_miss_ends_with_status_1_only_when_asked_to(tmp_path, monkeypatch):
    def worse(job):
        done = original(job)
        if job.policy == "KV_AWARE":
            done.row["ttft_mean_ms"] = 1e6 + job.seed
        return done

    original = app.run_job
    monkeypatch.setattr(app, "run_job", worse)
    usual = ("suite", "aws-long@14", *TINY, "--policy", "RANDOM", "--policy", "KV_AWARE")
    result = run(*usual)
    assert result.exit_code == 0
    assert "✗ aws-long@14: KV_AWARE mean TTFT +" in result.stdout
    assert run(*usual, "--check").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["suite", "nothing"], "there is no sub-case nothing"),
        (["suite", "--set", "clents=3"], "no sub-case has a parameter clents"),
        (["suite", "--show"], "--show needs the directory of --results"),
        (["aws-long", "--full"], "--full belongs to `simulate suite`"),
        (["aws-long", "--check"], "--check belongs to `simulate suite`"),
    ],
)
def test_a_mistake_with_the_suite_is_one_line_with_status_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


# --- reports --------------------------------------------------------------------------------


def test_a_comparison_is_reported_as_a_page_and_figures(tmp_path):
    html, plots = tmp_path / "report.html", tmp_path / "plots"
    result = run(
        "aws-long", *QUICK, "--seeds", "2", "--policy", "RANDOM", "--html", str(html), "--plots", str(plots)
    )
    assert result.exit_code == 0, result.output
    text = html.read_text()
    assert "<title>Simulation: aws-long</title>" in text
    assert text.count("<svg") == 4
    assert "aws-long-ttft.png" in {file.name for file in plots.iterdir()}


def test_a_suite_is_reported_with_its_verdicts_and_what_was_left_out(tmp_path):
    html = tmp_path / "report.html"
    policies = ("--policy", "RANDOM", "--policy", "KV_AWARE")
    result = run("suite", "aws-long@14", "skew@1x", *TINY, *policies, "--seeds", "2", "--html", str(html))
    assert result.exit_code == 0, result.output
    text = html.read_text()
    assert "The bar" in text
    assert "skew@1x is left out" in text


def test_a_suite_that_is_only_shown_names_the_code_that_made_it(tmp_path, monkeypatch):
    html, kept = tmp_path / "report.html", str(tmp_path / "kept")
    usual = ("suite", "aws-long@14", *TINY, "--policy", "RANDOM", "--seeds", "1", "--results", kept)
    monkeypatch.setattr("warmroute.app.suite.revision", lambda: "v1-old")
    assert run(*usual).exit_code == 0
    monkeypatch.setattr("warmroute.app.suite.revision", lambda: "v2-new")
    monkeypatch.setattr("warmroute.app.suite.code_digest", lambda *, live: "0123")
    result = run(*usual, "--show", "--html", str(html))
    assert "1 runs of other code are shown as well" in result.stdout
    assert "by warmroute v1-old" in html.read_text()


def test_nothing_run_makes_no_report(tmp_path):
    html = tmp_path / "report.html"
    result = run("suite", "aws-long@14", "--results", str(tmp_path), "--show", "--html", str(html))
    assert result.exit_code == 0, result.output
    assert "0 of 105 runs are there" in result.stdout
    assert not html.exists()


@pytest.mark.parametrize(
    ("option", "package"), [("--html", "jinja2"), ("--html", "matplotlib"), ("--plots", "matplotlib")]
)
def test_without_what_a_report_needs_it_says_what_to_install(monkeypatch, option, package):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    result = run("aws-long", *QUICK, option, "somewhere")
    assert result.exit_code == 2
    assert f'simulate needs {package}: pip install "warmroute[report]"' in result.stderr
