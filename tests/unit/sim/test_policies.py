"""The registry of all policies, and what holds for each of them."""

import hashlib
import os
import subprocess
import sys
from random import Random

import pytest

from warmroute.sim.cases import CASES
from warmroute.sim.policies import BASELINES, POLICIES
from warmroute.sim.policy import LIVE_POLICIES, Settings
from warmroute.sim.scenario import run_scenario

LOG = """
import hashlib
from warmroute.sim.cases import CASES
from warmroute.sim.policies import BASELINES
from warmroute.sim.scenario import run_scenario
case = CASES["prefixes"]
sets = {"duration_s": "4", "warmup_s": "1", "zipf": "1", "instances": "4", "fault": "kill", "routers": "2"}
for name in BASELINES:
    run = run_scenario(case, case.parameters(sets), policy=name, seed=3, read=lambda _: ())
    print(name, hashlib.sha256("".join(each.line() for each in run.records).encode()).hexdigest())
"""


def test_the_names():
    assert list(BASELINES) == [
        "round-robin", "power-of-two", "chwbl", "radix-fleet-gate", "radix-candidate-gate", "deepest-holder",
        "sticky-until-saturated", "dynamo-cost", "lmetric", "dual-map", "llmd-precise", "llmd-approximate",
    ]  # fmt: skip
    assert list(POLICIES) == [*LIVE_POLICIES, *BASELINES]


@pytest.mark.parametrize("name", BASELINES)
def test_every_run_is_complete_and_makes_use_of_all_instances(name):
    case = CASES["churn"]
    sets = {"duration_s": "20", "warmup_s": "2", "prefixes": "12", "fault": "add"}
    run = run_scenario(case, case.parameters(sets), policy=name, seed=1, read=lambda _: ())
    assert len(run.records) > 50
    assert {record.outcome for record in run.records} == {"completed"}
    assert len({record.target for record in run.records}) >= 7


@pytest.mark.parametrize("name", ["dynamo-cost", "lmetric", "llmd-precise"])
def test_those_that_listen_to_engines_differ_when_engines_are_heard_late(name):
    case = CASES["prefixes"]

    def cached(signal_ms):
        sets = {
            "duration_s": "20",
            "warmup_s": "0",
            "prefixes": "20",
            "clients": "14",
            "signal_ms": signal_ms,
        }
        run = run_scenario(case, case.parameters(sets), policy=name, seed=1, read=lambda _: ())
        return sum(record.cached_tokens for record in run.records) / len(run.records)

    assert cached("0") > cached("15000")


def test_what_an_operator_knows_of_the_instances_comes_from_the_profile(monkeypatch):
    told = []

    def spy(settings: Settings, rng: Random):
        told.append(settings)
        return LIVE_POLICIES["RANDOM"](settings, rng)

    monkeypatch.setattr("warmroute.sim.scenario.POLICIES", {"spy": spy})
    case = CASES["aws-long"]
    sets = {"duration_s": "1", "warmup_s": "0", "cache_scale": "2"}
    run_scenario(case, case.parameters(sets), policy="spy", seed=1, read=lambda _: ())
    assert told[0].cache_blocks == 168_750
    assert told[0].prefill_tokens_per_s == pytest.approx(8192 / 0.334, rel=0.05)


@pytest.mark.timeout(60)
def test_equal_seeds_give_equal_logs_under_any_hash_seed():
    logs = [
        subprocess.run(
            [sys.executable, "-c", LOG],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert logs[0] == logs[1]
    lines = logs[0].splitlines()
    assert [line.split()[0] for line in lines] == list(BASELINES)
    # They do differ from each other.
    assert len({line.split()[1] for line in lines}) == len(lines)
    assert len(lines[0].split()[1]) == hashlib.sha256().digest_size * 2
