"""Deployments in steps from the call to the fleet, over a provider in memory and with restarts of control."""

import pytest

from tests.policies import percent
from warmroute.controlplane.planning import is_quiet
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.planner import Plan
from warmroute.resources.records import InstanceState, RolloutPhase

S = EndpointStatus


def blue_green(kind, **more):
    routing = {"Type": kind, "WaitIntervalInSeconds": 10} | more
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}


KINDS = {
    "all at once": blue_green("ALL_AT_ONCE"),
    "canary": blue_green("CANARY", CanarySize=percent(10)),
    "linear": blue_green("LINEAR", LinearStepSize=percent(50)),
    "rolling": {"RollingUpdatePolicy": {"MaximumBatchSize": percent(25), "WaitIntervalInSeconds": 10}},
}


async def begin(p, policy, **more):
    await p.create(count=4)
    await p.settle()
    await p.service.invoke(
        "CreateModel", {"ModelName": "m2", "PrimaryContainer": {"Image": "img", "Environment": {"A": "2"}}}
    )
    await p.config("c2", count=4, ModelName="m2")
    await p.service.invoke(
        "UpdateEndpoint",
        {"EndpointName": "ep", "EndpointConfigName": "c2", "DeploymentConfig": policy} | more,
    )


def shares(p):
    """Return the shares of the newest fleet by revision, those that drain left out."""
    return {v.revision: v.share for v in p.routers.fleets[-1].endpoints[0].variants if v.share}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_to_its_end_whatever_restarts_there_are(plane, kind, restarts):
    async def test(p):
        await begin(p, KINDS[kind])
        seen = []
        for number in range(300):
            await p.step()
            seen.append(shares(p).get(2, 0.0))
            if restarts and number % 3 == 2:  # a process needs two steps to hear of servers and of routers
                p.restart()
            if p.endpoint().status is S.IN_SERVICE:
                break
        assert p.endpoint().active.config_name == "c2"
        assert seen == sorted(seen), "the new share only grows"
        assert shares(p) == {2: 1.0}
        await p.step(5)
        assert {(r.revision, r.state) for r in p.instances()} == {(2, InstanceState.IN_SERVICE)}
        assert len(p.provider.instances) == 4

    plane(test)


@pytest.mark.parametrize("kind", KINDS)
def test_an_alarm_turns_every_kind_back(plane, kind):
    async def test(p):
        p.service._alarms = ("high",)
        policy = KINDS[kind] | {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "high"}]}}
        await begin(p, policy)
        while shares(p).get(2, 0.0) == 0.0:
            await p.step()
        p.reconciler._alarms = lambda: {"high": AlarmState.ALARM}
        await p.step()
        assert p.endpoint().status is S.ROLLING_BACK
        assert shares(p) == {1: 1.0}
        await p.step(8)
        assert (p.endpoint().status, p.endpoint().active.config_name) == (S.IN_SERVICE, "c")
        assert {(r.revision, r.state) for r in p.instances()} == {(1, InstanceState.IN_SERVICE)}

    plane(test)


def test_an_alarm_that_does_not_exist_is_refused_with_those_that_do(plane):
    async def test(p):
        p.service._alarms = ("high", "low")
        policy = KINDS["canary"] | {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "typo"}]}}
        with pytest.raises(ApiError, match='do not exist: "typo". There are: "high", "low"'):
            await begin(p, policy)
        assert p.endpoint().status is S.IN_SERVICE

    plane(test)


def test_the_last_policy_can_be_used_again(plane):
    async def test(p):
        await begin(p, KINDS["canary"])
        with pytest.raises(ApiError, match="Cannot update in-progress endpoint"):
            await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        while p.endpoint().status is not S.IN_SERVICE:
            await p.step()
        request = {"EndpointName": "ep", "EndpointConfigName": "c", "RetainDeploymentConfig": True}
        await p.service.invoke("UpdateEndpoint", request)
        assert p.endpoint().rollout is not None
        assert p.endpoint().last_policy == KINDS["canary"]

    plane(test)


def test_a_bake_is_quiet_and_what_it_waits_for_before_is_not(plane):
    async def test(p):
        await begin(p, KINDS["canary"])
        quiet = {}
        while p.endpoint().status is not S.IN_SERVICE:
            await p.step()
            rollout = p.endpoint().rollout
            if rollout is not None:
                quiet[rollout.phase] = is_quiet(Plan(p.endpoint(), p.instances()))
        assert not quiet[RolloutPhase.PROVISIONING]
        assert quiet[RolloutPhase.BAKING]

    plane(test)
