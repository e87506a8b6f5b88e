import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import children_of, wait_until
from warmroute.app import simulate
from warmroute.app.simulate import (
    FIELDS,
    Broken,
    Job,
    changed_ns,
    data_directory,
    in_order,
    run_all,
    run_job,
    scenario_of,
)
from warmroute.core.errors import ConfigurationError
from warmroute.sim.series import QUANTILES

QUICK = (("duration_s", "5"), ("warmup_s", "0"), ("instances", "2"), ("clients", "3"))
TRACE = json.dumps({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]})


def job(case="aws-long", overrides=QUICK, policy="RANDOM", seed=1, **more):
    return Job(case, overrides, policy, seed, **more)


def test_a_row_has_exactly_the_promised_fields_in_their_order():
    row = run_job(job()).row
    assert tuple(row) == FIELDS == (
        "case", "policy", "seed", "requests", "failed", "ttft_mean_ms", "ttft_p50_ms", "ttft_p90_ms",
        "ttft_p99_ms", "itl_p50_ms", "throughput_rps", "output_tokens_per_s", "hit_rate", "ideal_hit_rate",
        "share_min", "share_max", "overflow_rate", "decision_us",
    )  # fmt: skip
    assert row["requests"] > 0
    assert row["decision_us"] > 0


def test_processes_give_the_rows_that_one_gives():
    jobs = [job(policy=policy, seed=seed) for policy in ("RANDOM", "PREFIX_AWARE") for seed in (1, 2)]
    alone = [{**done.row, "decision_us": 0} for done in run_all(jobs, processes=1)]
    together = [{**done.row, "decision_us": 0} for done in in_order(run_all(jobs, processes=2), jobs)]
    assert together == alone


def test_leaving_early_ends_the_processes():
    results = run_all([job(seed=seed) for seed in range(20)], processes=2)
    next(results)
    results.close()  # the test's own end would hang or warn otherwise


def simulates(pid):
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_began_them(number):
    arguments = ["simulate", "aws-long", "--seeds", "300", "--jobs", "2", "--set", "duration_s=900"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-m", "warmroute", *arguments], **quiet) as parent:
        workers = []

        def begun():
            workers[:] = filter(simulates, children_of(parent.pid))
            return len(workers) == 2

        try:
            wait_until(begun)
        finally:
            parent.send_signal(number)
    wait_until(lambda: not any(map(simulates, workers)))


def test_a_broken_run_names_the_command_that_shows_it_again(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("3 requests in flight and 2 open leases")

    monkeypatch.setattr(simulate, "run_scenario", broken)
    result = run_job(job(overrides=(("clients", "3"),), seed=7))
    assert isinstance(result, Broken)
    assert "3 requests in flight" in result.error
    assert result.job.command() == (
        "warmroute simulate aws-long --policy RANDOM --first-seed 7 --seeds 1 --set clients=3"
    )


def test_a_command_can_be_pasted_into_a_shell_and_gives_the_run_again():
    made = job(policy="PREFIX_AWARE[1024,4]", overrides=(("profile", "a b"),), name="aws-long@3")
    assert made.command() == (
        "warmroute simulate aws-long --policy 'PREFIX_AWARE[1024,4]' --first-seed 1 --seeds 1"
        " --set 'profile=a b'"
    )


def test_a_pair_in_the_name_of_a_policy_sets_its_parameters():
    named = run_job(job(policy="PREFIX_AWARE[65536,1]"))
    set_ = run_job(
        job(policy="PREFIX_AWARE", overrides=(*QUICK, ("prefix_length", "65536"), ("threshold", "1")))
    )
    assert named.row["policy"] == "PREFIX_AWARE[65536,1]"
    for done in (named, set_):
        del done.row["policy"], done.row["decision_us"]
    assert named.row == set_.row
    assert named.row["overflow_rate"] > 0


def test_a_row_is_called_as_its_job_says():
    assert run_job(job(name="aws-long@3")).row["case"] == "aws-long@3"


def test_distributions_and_courses_are_made_when_they_are_wanted():
    plain, both = run_job(job()), run_job(job(curves=True, course=True))
    assert (plain.quantiles, plain.course) == ((), None)
    assert both.quantiles[QUANTILES.index(0.5)] == pytest.approx(both.row["ttft_p50_ms"], rel=1e-5)
    assert len(both.course.shares) == 2
    assert plain.more["goodput_share"] > 0


def test_what_a_change_of_the_fleet_did_is_told_where_there_was_one():
    assert "ttft_p99_after_ms" not in run_job(job()).more
    more = run_job(job(overrides=(*QUICK, ("fault", "add")))).more
    assert more["ttft_p99_before_ms"] > 0
    assert more["ttft_p99_after_ms"] > 0


@pytest.mark.parametrize(
    ("overrides", "at_s"),
    [
        ({}, None),
        ({"fault": "kill"}, 2.5),
        ({"fault": "add", "fault_s": "1"}, 1),
        ({"fault": "add@4,drain@3:1"}, 3),
    ],
)
def test_the_first_change_that_was_asked_for_is_the_one_that_is_told_of(overrides, at_s):
    _, parameters = scenario_of(job(overrides=(*QUICK, *overrides.items())))
    assert changed_ns(parameters) == (None if at_s is None else at_s * 1e9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"case": "nothing"}, "there is no case nothing; there are aws-long, "),
        ({"policy": "BEST"}, "--policy must be one of RANDOM, .*, got BEST"),
        ({"policy": "RANDOM[1024,4]"}, r"only PREFIX_AWARE\[.*\] has a pair, got RANDOM"),
        (
            {"case": "mooncake", "overrides": ()},
            "mooncake reads mooncake/.* below WARMROUTE_DATA, which is not set",
        ),
        (
            {"case": "mooncake", "overrides": (), "data": Path("/nowhere")},
            "mooncake reads /nowhere/.*, which is not",
        ),
        (
            {"case": "trace", "file": "/nowhere", "format": "chat", "overrides": ()},
            "trace reads /nowhere, which",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_runs(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        scenario_of(job(**wrong))


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_recording_is_read_plain_or_compressed(tmp_path, suffix):
    file = tmp_path / f"trace{suffix}"
    file.write_bytes(gzip.compress(TRACE.encode()) if suffix.endswith("gz") else TRACE.encode())
    made = job(case="trace", overrides=(), file=str(file), format="mooncake")
    assert run_job(made).row["requests"] == 1
    assert made.command().startswith(f"warmroute simulate trace {file} --format mooncake --policy RANDOM")


def test_a_built_in_recording_is_read_below_the_data_directory(tmp_path):
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake/conversation_trace.jsonl").write_text(TRACE)
    assert run_job(job(case="mooncake", overrides=(), data=tmp_path)).row["requests"] == 1


def test_a_wrong_recording_is_a_mistake_with_its_file_and_line(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("{}")
    with pytest.raises(ConfigurationError, match=r"trace.jsonl: line 1: 'hash_ids' is missing"):
        run_job(job(case="trace", overrides=(), file=str(file), format="mooncake"))


def test_a_parameter_that_makes_no_workload_is_a_mistake():
    with pytest.raises(ConfigurationError, match="qps must be more than 0"):
        run_job(job(case="pressure", overrides=(("qps", "0"),)))


def test_the_data_directory_comes_from_the_environment(tmp_path):
    assert data_directory({}) is None
    assert data_directory({"WARMROUTE_DATA": str(tmp_path)}) == tmp_path
    with pytest.raises(ConfigurationError, match="WARMROUTE_DATA must name a directory, got /nowhere"):
        data_directory({"WARMROUTE_DATA": "/nowhere"})
