"""How long the simulator takes: its bound is an hour of aws-long per minute of one core."""

import time

import pytest

from warmroute.sim.cases import CASES
from warmroute.sim.scenario import run_scenario

CPU_S_MAX = 60


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["RANDOM", "PREFIX_AWARE", "KV_AWARE"])
def test_an_hour_of_aws_long_takes_at_most_a_minute_of_one_core(policy):
    case = CASES["aws-long"]
    began = time.process_time()
    run = run_scenario(case, case.parameters({}), policy=policy, seed=1, read=lambda _: [])
    assert time.process_time() - began < CPU_S_MAX
    assert len(run.records) > 10_000
