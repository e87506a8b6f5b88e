"""Deployments of each kind under 200 requests a second: nothing fails, and shares are as configured."""

import os
import signal
import time

import pytest

from tests.faults.deployments import RATE, SETTINGS, Endpoint, Load, Phases, variant
from tests.policies import blue_green, instances, percent, rolling
from tests.running import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

KINDS = {
    "all at once": (blue_green("ALL_AT_ONCE", bake=2), [1.0]),
    "canary": (blue_green("CANARY", bake=4, CanarySize=percent(25), termination=1), [0.25, 1.0]),
    "linear": (blue_green("LINEAR", bake=3, LinearStepSize=percent(40)), [0.4, 0.8, 1.0]),
    "rolling": (rolling(instances(1), bake=3), [0.5, 1.0]),
}
SETTLE_S = 0.4
"""From the first look at a phase: what was sent before it is answered, and a look is at most this old."""


@pytest.fixture
def llm(warmroute_server, tmp_path):
    """Return a function that starts warmroute with an endpoint of blue instances."""
    (tmp_path / "settings.toml").write_text(SETTINGS)
    made = []

    def start(**keywords):
        made.append(Endpoint(warmroute_server("--config", tmp_path / "settings.toml"), **keywords))
        return made[-1]

    yield start
    for endpoint in made:
        endpoint.kill()


def bound(share, count):
    """Return four standard deviations of a share that was drawn so often."""
    return 4 * (share * (1 - share) / max(count, 1)) ** 0.5 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_deployment_fails_no_request_and_shifts_the_shares_it_was_asked_to(llm, kind):
    policy, shares = KINDS[kind]
    endpoint = llm()
    with Load(endpoint.server) as load, Phases(endpoint) as phases:
        wait_until(lambda: len(load.answers) > RATE // 2)
        endpoint.update("green", policy)
        endpoint.wait_for("InService")
        ended_s = time.time()
        wait_until(lambda: time.time() > ended_s + 0.5)
    assert load.failures == []
    assert len(load.answers) > RATE * 2
    bakes = phases.bakes()
    assert len(bakes) == len(shares)
    for share, (begin_s, end_s) in zip(shares, bakes, strict=True):
        served = load.between(begin_s + SETTLE_S, end_s - 0.1)
        count = served.total()
        assert count > RATE // 2
        assert abs(served["green"] / count - share) <= bound(share, count), (share, served)
    assert load.between(0, bakes[0][0] - 2)["green"] == 0
    assert set(load.between(ended_s, ended_s + 9)) == {"green"}
    assert endpoint.describe()["EndpointConfigName"] == "green"


@pytest.mark.parametrize("kind", ["all at once", "rolling"])
def test_a_model_that_does_not_start_leaves_the_old_variant_serving_throughout(llm, kind):
    endpoint = llm()
    with Load(endpoint.server) as load:
        wait_until(lambda: len(load.answers) > RATE // 2)
        endpoint.update("broken", KINDS[kind][0])
        endpoint.wait_for("RollingBack", "InService")
        endpoint.wait_for("InService")
    assert load.failures == []
    assert set(load.between(0, time.time())) == {"blue"}
    shown = endpoint.describe()
    assert shown["EndpointConfigName"] == "blue"
    assert "no such weights" in shown["FailureReason"]


@pytest.mark.parametrize("kind", ["canary", "rolling"])
def test_a_model_that_breaks_with_traffic_on_it_is_turned_back_and_fails_no_request(llm, kind):
    policy = KINDS[kind][0]
    for each in policy.values():
        (each.get("TrafficRoutingConfiguration") or each)["WaitIntervalInSeconds"] = 60
    endpoint = llm()
    with Load(endpoint.server) as load, Phases(endpoint) as phases:
        endpoint.update("green", policy)
        wait_until(phases.bakes)
        wait_until(lambda: load.between(0, time.time())["green"] > 0)
        endpoint.behave("green", ready=False)  # 503 "Loading model", to health checks and callers alike
        broken_s = time.time()
        endpoint.wait_for("RollingBack", "InService")
        endpoint.wait_for("InService")
        ended_s = time.time()
        wait_until(lambda: time.time() > ended_s + 0.5)
    assert load.failures == []
    assert load.between(broken_s + 0.1, ended_s).total() > RATE
    assert set(load.between(broken_s + 0.1, ended_s + 9)) == {"blue"}
    assert "health checks" in endpoint.describe()["FailureReason"]


def test_a_rolling_update_that_breaks_late_gets_its_old_instances_back_and_fails_no_request(llm):
    endpoint = llm()
    with Load(endpoint.server) as load, Phases(endpoint) as phases:
        endpoint.update("green", rolling(instances(1), bake=10))
        wait_until(lambda: len(phases.bakes()) == 2, seconds=40)
        wait_until(lambda: len(endpoint.of("blue")) == 1)
        endpoint.behave("green", ready=False)
        endpoint.wait_for("RollingBack", "InService")
        endpoint.wait_for("InService")
        ended_s = time.time()
        wait_until(lambda: time.time() > ended_s + 0.5)
    assert load.failures == []
    assert set(load.between(ended_s, ended_s + 9)) == {"blue"}
    shown = endpoint.describe()
    assert (shown["EndpointConfigName"], shown["ProductionVariants"][0]["CurrentInstanceCount"]) == (
        "blue",
        2,
    )


def test_a_control_process_that_dies_in_a_bake_goes_on_where_it_was(llm):
    policy = blue_green("CANARY", bake=5, CanarySize=percent(25))
    endpoint = llm()
    with Load(endpoint.server) as load, Phases(endpoint) as phases:
        endpoint.update("green", policy)
        wait_until(phases.bakes)
        control = endpoint.server.child("control")
        os.kill(control, signal.SIGKILL)
        killed_s = time.time()
        wait_until(lambda: any(at > killed_s + 0.2 for at, *_ in phases.seen))
        endpoint.wait_for("InService")
    assert load.failures == []
    ((begin_s, end_s), _) = phases.bakes()
    assert begin_s <= killed_s <= end_s + 1.0
    assert 4.5 <= end_s - begin_s <= 9.0, "the bake began once, and went on after the restart"
    assert endpoint.describe()["EndpointConfigName"] == "green"


def test_a_shadow_gets_its_share_and_whatever_it_does_reaches_nobody(llm):
    endpoint = llm(count=1, shadow=variant("green", 1, VariantName="Shadow", InitialVariantWeight=0.5))
    shown = endpoint.describe()
    assert [each["VariantName"] for each in shown["ShadowProductionVariants"]] == ["Shadow"]
    with Load(endpoint.server) as load:
        wait_until(lambda: len(load.answers) > 3 * RATE)
        asked, copied = len(load.answers), endpoint.executions("green")
        endpoint.behave("green", status=500)
        wait_until(lambda: len(load.answers) > asked + RATE)
        endpoint.behave("green", status=200, delay_s=60.0)
        wait_until(lambda: len(load.answers) > asked + 3 * RATE)
        running = endpoint.executions("green")
        wait_until(lambda: len(load.answers) > asked + 5 * RATE)
    assert load.failures == []
    assert set(load.between(0, time.time())) == {"blue"}
    assert abs(copied / asked - 0.5) <= bound(0.5, asked) + 0.05
    assert endpoint.executions("green") - running <= 2, "places are all taken by copies that hang"
    page = endpoint.server.get("/metrics", admin=True)[1].decode()
    assert "warmroute_shadow_copies_total{" in page
    assert 'outcome="dropped_full"' in page
    assert 'status="500"' in page


ALARM = """
[alarms."model-errors"]
metric = "InvocationModelErrors"
statistic = "Sum"
endpoint = "llm"
variant = "AllTraffic"
threshold = 5
period_s = 10
missing = "notBreaching"

[autoscaling]
speed = 10
"""


def test_an_alarm_turns_a_deployment_back_and_the_old_variant_serves_throughout(llm, tmp_path):
    (tmp_path / "settings.toml").write_text(SETTINGS + ALARM)
    policy = blue_green("CANARY", bake=600, CanarySize=percent(10))
    policy["AutoRollbackConfiguration"] = {"Alarms": [{"AlarmName": "model-errors"}]}
    endpoint = llm()
    with Load(endpoint.server) as load, Phases(endpoint) as phases:
        endpoint.update("green", policy)
        wait_until(phases.bakes)
        endpoint.behave("green", status=500)
        endpoint.wait_for("RollingBack", "InService")
        endpoint.wait_for("InService")
        ended_s = time.time()
        wait_until(lambda: time.time() > ended_s + 1.0)
    assert "Alarm model-errors" in endpoint.describe()["FailureReason"]
    assert all(status == 424 for _, status, _ in load.failures), "what green answered, and nothing else"
    assert 0 < len(load.failures) < len(load.answers) * 0.2
    assert not [at for at, *_ in load.failures if at > ended_s]
    assert load.between(ended_s, ended_s + 9).total() > RATE // 2
    assert set(load.between(ended_s, ended_s + 9)) == {"blue"}
