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
    assert "aws-long     AWS's test with 8,000-token prefixes" in result.stdout
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
    assert "Interrupted; 2 of 9 runs were finished." in result.stderr
    assert len(json.loads(file.read_text())) == 2


def test_without_rich_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run("aws-long", *QUICK)
    assert result.exit_code == 2
    assert 'simulate needs rich: pip install "warmroute[demo]"' in result.stderr
