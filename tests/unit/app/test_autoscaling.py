"""The parts of autoscaling, joined."""

import asyncio
import itertools
import json

import pytest

from tests.unit.resources.scaling_api import VARIANT, endpoint
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.totals import Totals
from warmroute.app.autoscaling import Autoscaling, new_id
from warmroute.controlplane.calls import Calls
from warmroute.resources.arns import Place
from warmroute.resources.metrics.alarms import Alarm, AlarmState, MetricId, Query, Statistic

DECLARED = Alarm("slow", {"m": Query(MetricId("ModelLatency", "llm", "a"), Statistic.AVERAGE)}, 1.0)


def joined(**options):
    return Autoscaling(store=MemoryStore(), place=Place("eu-west-1", "1"), declared=(DECLARED,), **options)


def test_declared_alarms_are_there_from_the_start():
    made = joined()
    assert made.states() == {"slow": AlarmState.INSUFFICIENT_DATA}
    assert list(made.names) == ["slow"]
    assert len(made.names) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slow", True),
        ("Invocation5XXErrors-endpoint/new/variant/a", True),
        ("fast", False),
        (None, False),
    ],
)
def test_an_alarm_that_comes_with_its_resource_may_be_named_before(name, expected):
    assert (name in joined().names) is expected


def test_the_service_answers_by_the_services_own_model():
    async def call():
        calls = Calls({})
        service = joined().service(calls)
        body = json.dumps({"ServiceNamespace": "sagemaker"}).encode()
        return await service.call("DescribeScalableTargets", body), calls.by_result

    answer, counted = asyncio.run(call())
    assert answer == {"ScalableTargets": []}
    assert counted == {("DescribeScalableTargets", ""): 1}


def test_it_runs_as_fast_as_it_is_told():
    async def run():
        looks, enough = itertools.count(1), asyncio.Event()

        def fleet():
            if next(looks) == 20:
                enough.set()

        made = joined(speed=600.0)
        scaling = asyncio.create_task(made.run(totals=Totals(), invoke=None, fleet=fleet))
        await asyncio.wait_for(enough.wait(), 10.0)  # twenty seconds of its clock
        scaling.cancel()
        return made

    assert asyncio.run(run()).states() == {"slow": AlarmState.INSUFFICIENT_DATA}


def test_a_call_that_changes_something_is_carried_out_at_once():
    store, calls = MemoryStore(), []
    with store.transaction() as tables:
        tables.put(endpoint(1))

    async def run():
        done = asyncio.Event()

        async def invoke(operation, request):
            calls.append(request["DesiredWeightsAndCapacities"][0]["DesiredInstanceCount"])
            done.set()

        made = Autoscaling(store=store, place=Place("eu-west-1", "1"))
        scaling = asyncio.create_task(made.run(totals=Totals(), invoke=invoke, fleet=lambda: None))
        service = made.service(Calls({}))
        body = json.dumps(VARIANT | {"MinCapacity": 2, "MaxCapacity": 4}).encode()
        await service.call("RegisterScalableTarget", body)
        await asyncio.wait_for(done.wait(), 5.0)  # and not ten seconds
        scaling.cancel()

    asyncio.run(run())
    assert calls == [2]


def test_ids_fit_into_arns():
    assert new_id() != new_id()
    assert new_id().replace("-", "").isalnum()
