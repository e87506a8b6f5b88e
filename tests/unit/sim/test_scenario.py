"""Parameters of scenarios, and running one."""

from dataclasses import replace

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim.cases import CASES
from warmroute.sim.faults import Fault, FaultKind
from warmroute.sim.metrics import metrics_of
from warmroute.sim.scenario import COMMON, PARAMETER_HELP, Scenario, run_scenario
from warmroute.workload.arrivals import NS_PER_S

CASE = CASES["aws-long"]
SHORT = {"duration_s": "30", "warmup_s": "0", "instances": "3", "clients": "4"}


def go(policy="PREFIX_AWARE", seed=1, **overrides):
    parameters = CASE.parameters({**SHORT, **overrides})
    return run_scenario(CASE, parameters, policy=policy, seed=seed, read=lambda _: [])


def log(run):
    return [record.line() for record in run.records]


def test_every_common_parameter_is_explained():
    assert set(COMMON) <= set(PARAMETER_HELP)


def test_own_defaults_come_before_common_ones_and_overrides_before_both():
    scenario = Scenario("x", "", {"instances": 2, "think_s": 1.5}, CASE.source)
    assert scenario.parameters({}).whole("instances") == 2
    parameters = scenario.parameters({"think_s": "0.25", "instances": "5"})
    assert (parameters.ns("think_s"), parameters.whole("instances")) == (NS_PER_S // 4, 5)
    assert (parameters.ns("overhead_ms"), parameters.text("fault")) == (33_000_000, "")
    assert scenario.threshold(parameters) == 32


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"clents": "3"},
            "aws-long has no parameter clents; it has adapter_load_ms, .*, clients, compute_scale",
        ),
        ({"clients": "many"}, "clients must be a whole number, got many"),
        ({"think_s": "x"}, "think_s must be a number, got x"),
        ({"profile": "a100"}, "profile must be one of llama-3.1-70b-8xh100, .*, got a100"),
        ({"fault": "fire"}, "fault must be empty or a comma-separated list of kill, .*, got fire"),
        ({"instances": "0"}, "instances must be more than 0, got 0"),
        ({"think_s": "-1"}, "think_s must be 0 or more, got -1.0"),
        ({"think_s": "nan"}, "think_s must be 0 or more, got nan"),
        ({"duration_s": "inf"}, "duration_s must be 0 or more, got inf"),
        ({"duration_s": "300"}, r"warmup_s must be less than duration_s \(300.0\), got 300.0"),
        ({"signal_loss": "1.5"}, "signal_loss must be a share from 0 to 1, got 1.5"),
        ({"jitter": "1.1"}, "jitter must be a share from 0 to 1, got 1.1"),
        ({"adapter_slots": "0"}, "adapter_slots must be more than 0, got 0"),
        ({"salts": "99", "update_s": "9"}, "16384 partitions of the caches together, got 39699"),
        ({"unique_tokens": "0"}, "unique_tokens must be more than 0, got 0.0"),
        ({"fault": "kill", "fault_instance": "7"}, r"instance must be below their number \(7\), got 7"),
    ],
)
def test_a_wrong_parameter_is_a_mistake_that_says_what_is_allowed(overrides, message):
    with pytest.raises(ConfigurationError, match=message):
        CASE.parameters(overrides)


def test_several_faults_come_each_at_its_time():
    run = go(fault="drain@5:1,replace@10:2")
    late = {record.target for record in run.records if record.dispatched_ns > 10 * NS_PER_S}
    assert late == {"instance-0", "instance-3"}


def test_a_scenario_may_change_its_fleet_by_itself_and_faults_come_on_top():
    scenario = replace(CASE, changes=lambda _: (Fault(5 * NS_PER_S, FaultKind.ADD),))
    run = run_scenario(
        scenario, scenario.parameters({**SHORT, "fault": "add"}), policy="RANDOM", seed=1, read=lambda _: []
    )
    assert len(run.targets) == 5


def test_a_conversation_has_no_fewer_turns_at_most_than_at_least():
    with pytest.raises(ConfigurationError, match="turns_min must not be more than turns_max"):
        CASES["aws-short"].parameters({"turns_min": "9"})


def test_equal_arguments_give_equal_logs_and_another_seed_another_one():
    assert log(go()) == log(go())
    assert log(go(seed=2)) != log(go())


def test_the_workload_of_a_seed_is_the_same_for_every_policy():
    first = [go(policy).records[:4] for policy in ("RANDOM", "PREFIX_AWARE")]
    assert [record.arrival for record in first[0]] == [record.arrival for record in first[1]]


def test_a_fault_comes_in_mid_run_unless_told_when():
    drained = go(fault="drain")
    late = [record for record in drained.records if record.dispatched_ns > 15 * NS_PER_S]
    assert {record.target for record in late} == {"instance-1", "instance-2"}
    early = go(fault="drain", fault_s="5", fault_instance="2")
    assert "instance-2" not in {r.target for r in early.records if r.dispatched_ns > 5 * NS_PER_S}


def test_a_dearer_prompt_takes_longer():
    slow, usual = [metrics_of(go(compute_scale=scale)) for scale in ("2", "1")]
    assert slow.ttft_p90_ms > 1.5 * usual.ttft_p90_ms


def test_several_routers_run_side_by_side():
    assert {record.outcome for record in go(routers="3").records} == {"completed"}


def test_impatient_clients_and_routers_give_up():
    cancelled = [record.outcome for record in go(patience_s="0.4", clients="8").records]
    failed = [record.outcome for record in go(timeout_s="0.4", clients="8").records]
    assert set(cancelled) == {"completed", "cancelled"}
    assert set(failed) == {"completed", "failed"}


def test_steps_may_jitter_as_the_seed_draws_it():
    assert log(go(jitter="0.1")) == log(go(jitter="0.1"))
    assert log(go(jitter="0.1")) != log(go())


def test_clients_may_have_adapters_of_their_own():
    run = go(adapters="2", adapter_slots="1", adapter_load_ms="500")
    assert {record.arrival.request.adapter for record in run.records} <= {"adapter-1", "adapter-2"}
    assert run.adapter_loads > 0


def test_tenants_with_salts_share_nothing_and_neither_do_versions_of_a_prompt():
    usual, salted, updated = [
        metrics_of(go("RANDOM", clients="20", prefixes="2", **how))
        for how in ({}, {"salts": "10"}, {"update_s": "2"})
    ]
    assert salted.ideal_hit_rate < usual.ideal_hit_rate
    assert updated.ideal_hit_rate < usual.ideal_hit_rate


def test_news_of_caches_may_get_lost_and_be_asked_for():
    runs = [go("KV_AWARE", **how) for how in ({"signal_loss": "0.5", "signal_resync_ms": "100"}, {})]
    assert [{record.outcome for record in run.records} for run in runs] == [{"completed"}] * 2


def test_smaller_caches_hit_less():
    full, small = [
        metrics_of(go(cache_scale=scale, duration_s="60", prefixes="12")) for scale in ("1", "0.02")
    ]
    assert small.hit_rate < 0.5 < full.hit_rate
