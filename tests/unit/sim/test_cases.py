"""The built-in scenarios: each one runs, and its workload has the published shape."""

import json
from random import Random

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim.cases import AGENTIC, AZURE, CASES, LADDER, MOONCAKE, SERVEGEN
from warmroute.sim.metrics import metrics_of
from warmroute.sim.scenario import run_scenario
from warmroute.sim.shapes import MT_BENCH, SQUALITY
from warmroute.workload.arrivals import NS_PER_S

SESSION = (
    '{"tool_tokens": 64, "system_tokens": 64, "block": 64, "req": '
    "[[0, 300, 9, 0, 1, [[1, 4]]], [1, 400, 9, 1, 1, [[1, 6]]]]}"
)
FILES = {
    MOONCAKE: [
        f'{{"timestamp": {n * 100}, "input_length": 1500, "output_length": 20, "hash_ids": [0, 1, {n + 2}]}}'
        for n in range(100)
    ],
    AGENTIC: [SESSION] * 6,
    AZURE: ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    + [f"2023-11-16 18:17:{n:02}.9799600,480,10" for n in range(60)],
    MT_BENCH: [f'{{"turns": ["{"x" * 40 * n}", "and then?"]}}' for n in range(1, 9)],
    SQUALITY: [
        json.dumps(
            {
                "document": "x" * 9000 * n,
                "questions": [{"question_text": "why?", "responses": [{"response_text": "x" * 450}]}] * 5,
            }
        )
        for n in range(1, 4)
    ],
    SERVEGEN: ["client,window_start_s,rate_per_s,cv", "1,129600,3,1", "2,129600,1,1"],
    SERVEGEN.replace("rates", "lengths"): [
        "client,window_start_s,in_p50,in_p95,out_p50,out_p95",
        "1,0,90,200,9,20",
        "2,0,90,200,9,20",
    ],
}
SHORT = {"duration_s": "20", "warmup_s": "0"}


def go(name, policy="PREFIX_AWARE", **overrides):
    case = CASES[name]
    parameters = case.parameters({**SHORT, **overrides})
    return run_scenario(case, parameters, policy=policy, seed=1, read=FILES.__getitem__)


def test_every_case_of_the_suite_is_there():
    assert list(CASES) == [
        "aws-long", "aws-short", "ladder", "pressure", "mooncake", "agents", "do-no-harm", "bursts", "skew",
        "hot", "prefixes", "churn", "mt-bench", "rag", "chat", "updates", "tenants", "waves", "autoscaling",
    ]  # fmt: skip
    assert all(case.name == name and case.title for name, case in CASES.items())


@pytest.mark.parametrize("name", [name for name in CASES if name != "ladder"])
def test_every_case_runs_and_completes_what_arrives(name):
    run = go(name)
    assert len(run.records) > 10
    assert {record.outcome for record in run.records} == {"completed"}


def test_aws_long_gains_what_aws_reports():
    random, aware = [
        metrics_of(go("aws-long", policy, duration_s="300", warmup_s="60"), warmup_ns=60 * NS_PER_S)
        for policy in ("RANDOM", "PREFIX_AWARE")
    ]
    assert random.hit_rate == pytest.approx(0.29, abs=0.04)
    assert aware.hit_rate == pytest.approx(0.81, abs=0.03)
    assert aware.throughput_rps / random.throughput_rps == pytest.approx(1.16, abs=0.05)


def test_conversations_have_the_published_lengths_of_their_prompts():
    case = CASES["aws-short"]
    source = case.source(case.parameters({}), Random(1), FILES.__getitem__)
    (*_, last) = source.first()
    tokens = []
    for _ in range(20_000):
        tokens.append(last.request.prompt_tokens)
        (last,) = source.after(last, 0)
    tokens.sort()
    assert tokens[10_000] == pytest.approx(725, rel=0.05)
    assert sum(tokens) / len(tokens) == pytest.approx(796, rel=0.05)
    assert tokens[19_800] == pytest.approx(1940, rel=0.05)


def test_the_ladder_has_its_stages():
    case = CASES["ladder"]

    def arrivals(**overrides):
        source = case.source(case.parameters(overrides), Random(1), FILES.__getitem__)
        came = list(source.first())
        for each in came:
            came += source.after(each, each.at_ns)
        return came

    assert len(arrivals()) == sum(rate * seconds for rate, seconds in LADDER)
    assert len(arrivals(qps="10")) == 9 * 30 + 10 * 70
    assert len(arrivals(qps="7")) == 9 * 30 + 7 * 60
    assert {each.request.prompt_tokens for each in arrivals(qps="3")} == {9000}
    # Whatever is measured comes after the warm-up and its drain.
    assert arrivals(qps="3")[9 * 30].at_ns >= case.parameters({}).ns("warmup_s")


def test_pressure_needs_a_rate():
    with pytest.raises(ConfigurationError, match="qps must be more than 0"):
        go("pressure", qps="0")


def test_the_hot_prefix_has_its_share():
    run = go("hot")
    firsts = [record.arrival.request.runs[0][0] for record in run.records]
    assert firsts.count(0) / len(firsts) == pytest.approx(0.6, abs=0.05)


def test_a_system_prompt_that_changes_costs_what_was_cached():
    usual, updated = [
        metrics_of(go(name, duration_s="60", **how))
        for name, how in (("chat", {}), ("updates", {"update_s": "20"}))
    ]
    assert updated.hit_rate < usual.hit_rate - 0.05


def test_near_identical_tenants_share_the_first_half_of_their_system_prompt():
    firsts = [record.arrival.request.runs[:2] for record in go("tenants").records]
    assert {runs[0] for runs in firsts} == {(0, 188)}
    assert len({runs[1] for runs in firsts}) > 50


def test_one_key_for_all_tenants_is_one_hot_spot():
    trapped, spread = [metrics_of(go("tenants", prefix_length=length)) for length in ("4096", "16384")]
    assert trapped.overflow_rate > 0.3 > spread.overflow_rate


def test_instances_follow_the_load():
    run = go("autoscaling", duration_s="1800", qps="6", instance_qps="1.5")
    assert len(run.targets) == 7
    last = [record for record in run.records if record.arrival.at_ns > 1700 * NS_PER_S]
    # At half of the hour the load is nearly back at its mean of four; the youngest have gone.
    assert {record.target for record in last} == {f"instance-{number}" for number in range(5)}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("ladder", "autoscaling")])
def test_every_case_goes_on_when_an_instance_is_replaced_in_mid_run(name):
    run = go(name, fault="replace")
    assert {record.outcome for record in run.records} == {"completed"}
    assert len(run.targets) == CASES[name].parameters({}).whole("instances") + 1


def test_recordings_end_with_the_duration_and_go_at_their_speed():
    assert len(go("mooncake", duration_s="5").records) == 50
    assert len(go("mooncake", duration_s="2.5", speed="2").records) == 50
    assert len(go("bursts", duration_s="10").records) == 10


def test_thresholds_grow_with_the_clients():
    case = CASES["aws-long"]
    thresholds = [case.threshold(case.parameters({"clients": clients})) for clients in ("14", "112")]
    assert thresholds == [8, 64]
