"""The autoscaler over a store in memory, on a clock and metrics that the test sets."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from tests.unit.resources.scaling_api import COMPONENT, PLACE, VARIANT, ScalingApi, component, endpoint
from warmroute.adapters.store.memory import MemoryStore
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.controlplane.scaling.autoscaler import LATE_WINDOWS_MAX, Autoscaler
from warmroute.core import limits
from warmroute.resources.errors import ApiError, invalid
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.metrics.alarms import Alarm, AlarmBook, AlarmState, MetricId, Query, Statistic
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingActivityRecord

NO_CAPACITY = Query(MetricId("NoCapacityInvocationFailures", component="chat"), Statistic.SUM)
PER_MODEL = Query(MetricId("ConcurrentRequestsPerModel", "llm", "a"), Statistic.AVERAGE)
LATENCY = Query(MetricId("ModelLatency", "llm", "a"), Statistic.AVERAGE)
CONCURRENT = {
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    },
    "TargetValue": 5.0,
}
SLOW = Alarm("slow", {"m": LATENCY}, 1e6, policies=("when-slow",))


class Metrics:
    """Says the same for every period, for each metric that it was told."""

    def __init__(self):
        self.values = {}

    def points(self, query, *, period_s, count):
        return (self.values.get(query),) * count


class World:
    """Control in small: changes take effect when the test says so."""

    def __init__(self):
        self.api = ScalingApi(MemoryStore())
        self.store, self.now_s, self.metrics, self.book = self.api.store, 10_000.0, Metrics(), AlarmBook()
        self.calls, self.refusal = [], None
        self.restart()

    def wall_s(self):
        return self.now_s

    def restart(self):
        """Another process over the same store."""
        ids = itertools.count(int(self.now_s))
        self.book = AlarmBook()
        self.autoscaler = Autoscaler(
            store=self.store,
            invoke=self.invoke,
            source=self.metrics,
            book=self.book,
            clock=self,
            place=PLACE,
            new_id=lambda: f"a-{next(ids)}",
            declared=(SLOW,),
        )

    async def invoke(self, operation, request):
        self.calls.append((operation, request))
        if self.refusal is not None:
            raise self.refusal
        if operation == "UpdateEndpointWeightsAndCapacities":
            count = request["DesiredWeightsAndCapacities"][0]["DesiredInstanceCount"]
            self.api.put(endpoint(count, EndpointStatus.UPDATING))
        else:
            self.api.put(component(request["DesiredRuntimeConfig"]["CopyCount"], ComponentStatus.UPDATING))
        return {}

    def settle(self):
        """Let every change come to its end."""
        with self.store.transaction() as tables:
            tables.put(replace(tables.endpoint("llm"), status=EndpointStatus.IN_SERVICE))
            changed = replace(tables.inference_component("chat"), status=ComponentStatus.IN_SERVICE)
            tables.put(changed)

    def step(self, seconds=10.0, times=1):
        for _ in range(times):
            self.now_s += seconds
            self.api.now_s = self.now_s
            asyncio.run(self.autoscaler.step())
            self.settle()

    @property
    def asked(self):
        """The capacities that were asked for."""
        found = []
        for _, request in self.calls:
            wanted = request.get("DesiredRuntimeConfig") or request["DesiredWeightsAndCapacities"][0]
            found.append(wanted.get("CopyCount", wanted.get("DesiredInstanceCount")))
        return found

    def activities(self, resource=VARIANT):
        with self.store.transaction() as tables:
            found = tables.scaling_records(ScalingActivityRecord, resource["ResourceId"])
        ordered = sorted(found, key=lambda one: one.created_s)
        return [
            (one.capacity, str(one.status))
            for one in ordered
            if not one.description.startswith("Setting min")
        ]


@pytest.fixture
def world():
    made = World()
    made.api.now_s = made.now_s
    return made


def test_registering_brings_capacity_between_the_bounds_once(world):
    world.api.register(least=2, most=4)
    world.step(times=3)
    assert world.calls == [
        (
            "UpdateEndpointWeightsAndCapacities",
            {
                "EndpointName": "llm",
                "DesiredWeightsAndCapacities": [{"VariantName": "a", "DesiredInstanceCount": 2}],
            },
        )
    ]
    assert world.activities() == [(2, "Successful")]
    world.api.put(endpoint(1))
    world.step(times=2)
    assert world.asked == [2], "what somebody else sets later stays until a policy acts"


def test_a_capacity_above_the_bounds_comes_down(world):
    world.api.put(endpoint(9))
    world.api.register(least=1, most=4)
    world.step()
    assert world.asked == [4]


def test_a_component_leaves_zero_by_its_step_policy(world):
    world.api.register(COMPONENT, least=0, most=4)
    world.api.step("any-name", COMPONENT, Cooldown=60)
    world.step()
    assert world.calls == []
    world.metrics.values[NO_CAPACITY] = 3.0
    world.step()
    assert world.calls == [
        (
            "UpdateInferenceComponentRuntimeConfig",
            {"InferenceComponentName": "chat", "DesiredRuntimeConfig": {"CopyCount": 1}},
        )
    ]
    world.step(times=6)
    assert world.asked == [1], "the cooldown runs since the copy is there"
    world.step()
    assert world.asked == [1, 2]


def test_target_tracking_goes_up_and_after_its_cooldown_down(world):
    world.api.register(least=1, most=4)
    world.api.track("follow", **CONCURRENT)
    world.step()
    world.metrics.values[PER_MODEL] = 15.0
    world.step()
    assert world.asked == [3]
    world.metrics.values[PER_MODEL] = 0.0
    world.step(times=30)
    assert world.asked == [3], "five minutes since the change are not over"
    world.step()
    assert world.asked == [3, 1]
    world.step()
    assert world.activities() == [(3, "Successful"), (1, "Successful")]


def test_a_copy_that_loads_for_long_is_not_followed_by_another_at_once(world):
    world.api.register(COMPONENT, least=0, most=4)
    world.api.step("any-name", COMPONENT, Cooldown=60)
    world.metrics.values[NO_CAPACITY] = 3.0
    settle, world.settle = world.settle, lambda: None
    world.step(times=60)  # ten minutes, in which every caller is refused
    world.settle = settle
    world.step(times=7)
    assert world.asked == [1]
    world.metrics.values[NO_CAPACITY] = 0.0
    world.step(times=10)
    assert world.asked == [1]


def test_nothing_is_asked_of_a_resource_that_is_changing(world):
    world.api.register(least=1, most=4)
    world.api.track("follow", **CONCURRENT)
    world.step()
    world.metrics.values[PER_MODEL] = 15.0
    world.api.put(endpoint(1, EndpointStatus.UPDATING))
    asyncio.run(world.autoscaler.step())
    assert world.calls == []
    world.step()
    world.step()
    assert world.asked == [3]


def test_a_declared_alarm_moves_the_policy_that_it_names(world):
    world.api.register(least=1, most=4)
    world.api.step("when-slow")
    world.metrics.values[LATENCY] = 2e6
    world.step()
    assert world.asked == [2]


def test_suspended_scaling_does_nothing_until_resumed(world):
    world.api.register(least=1, most=4, SuspendedState={"DynamicScalingOutSuspended": True})
    world.api.track("follow", **CONCURRENT)
    world.metrics.values[PER_MODEL] = 15.0
    world.step(times=3)
    assert world.asked == []
    state = {"DynamicScalingOutSuspended": False}
    world.api.call("RegisterScalableTarget", **VARIANT, SuspendedState=state)
    world.step()
    assert world.asked == [3]


def schedule(world, text, **bounds):
    world.api.call(
        "PutScheduledAction", **VARIANT, ScheduledActionName="s", Schedule=text, ScalableTargetAction=bounds
    )


def bounds_of(world):
    with world.store.transaction() as tables:
        target = tables.scaling_record(ScalableTargetRecord, VARIANT["ResourceId"])
    return target.min_capacity, target.max_capacity


def test_a_scheduled_action_moves_the_bounds_and_with_them_the_capacity(world):
    world.api.register(least=1, most=4)
    world.step()
    schedule(world, "rate(1 minute)", MinCapacity=3)
    world.step(times=5)
    assert bounds_of(world) == (1, 4)
    world.step()
    assert bounds_of(world) == (3, 4)
    assert world.asked == [3]
    world.step(seconds=60.0)
    assert len(world.api.actions()) == 1


def test_an_action_that_happens_once_is_gone_after_it(world):
    world.api.register(least=1, most=4)
    world.now_s = 1_798_797_600.0  # 2027-01-01 10:00
    world.api.now_s = world.now_s
    schedule(world, "at(2027-01-01T10:00:30)", MaxCapacity=2)
    world.step(times=3)
    assert bounds_of(world) == (1, 2)
    assert world.api.actions() == ()


def test_what_a_process_missed_is_done_once_by_the_next(world):
    world.api.register(least=1, most=4)
    schedule(world, "rate(1 minute)", MinCapacity=2)
    world.now_s += 600.0
    world.restart()
    world.step()
    assert world.asked == [2]
    assert world.api.actions()[0].next_s > world.now_s


def test_an_action_whose_bounds_do_not_fit_fails(world):
    world.api.register(least=1, most=4)
    schedule(world, "rate(1 minute)", MinCapacity=9)
    world.step(seconds=60.0)
    assert bounds_of(world) == (1, 4)
    with world.store.transaction() as tables:
        (failed,) = tables.scaling_records(ScalingActivityRecord)
    assert (failed.status, failed.message) == ("Failed", "MinCapacity 9 would be greater than MaxCapacity 4.")


def test_suspended_schedules_come_round_without_effect(world):
    world.api.register(least=1, most=4, SuspendedState={"ScheduledScalingSuspended": True})
    schedule(world, "rate(1 minute)", MinCapacity=3)
    world.step(seconds=60.0)
    assert bounds_of(world) == (1, 4)
    assert world.api.actions()[0].next_s > world.now_s


# --- What goes wrong -------------------------------------------------------------------------


def test_a_refused_change_is_told_and_tried_again_later(world):
    world.api.register(least=2, most=4)
    world.refusal = invalid("No.")
    world.step(times=3)
    assert world.asked == [2]
    assert world.activities() == [(2, "Failed")]
    world.refusal = None
    world.step()
    assert world.asked == [2, 2]
    assert world.activities()[-1] == (2, "InProgress")
    world.step()
    assert world.activities()[-1] == (2, "Successful")


def test_a_policys_refused_change_leaves_its_cooldown_and_rests(world):
    world.api.register(least=1, most=4)
    world.api.track("follow", **CONCURRENT)
    world.step()
    world.metrics.values[PER_MODEL] = 15.0
    world.refusal = ApiError(invalid("x").code, "No.")
    world.step()
    assert world.api.policies()[0].out_s is None
    world.step(times=29)
    assert world.asked == [3]
    world.refusal = None
    world.step()
    assert world.asked == [3, 3]


def test_a_change_that_is_undone_has_failed_and_is_not_repeated_at_once(world):
    world.api.register(least=1, most=4)
    world.api.track("follow", **CONCURRENT)
    world.step()
    world.metrics.values[PER_MODEL] = 15.0
    world.step()
    world.api.put(endpoint(1, failure_reason="No room."))
    world.step(times=10)
    assert world.asked == [3]
    with world.store.transaction() as tables:
        (one,) = tables.scaling_records(ScalingActivityRecord)
    assert one.status == "Failed"
    assert one.message.endswith("No room.")


def test_a_process_that_ended_after_it_asked_leaves_nothing_open(world):
    world.api.register(least=2, most=4)
    world.now_s += 10.0
    asyncio.run(world.autoscaler.step())
    world.restart()
    world.settle()
    world.step()
    assert world.activities() == [(2, "Successful")]


def test_a_process_that_ended_before_it_asked_leaves_a_failure(world):
    world.api.register(least=2, most=4)

    async def die(operation, request):
        raise KeyboardInterrupt

    world.autoscaler._invoke = die
    world.now_s += 10.0
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(world.autoscaler.step())
    world.restart()
    world.step()
    assert world.activities() == [(2, "Failed")]


def test_a_target_whose_resource_is_gone_waits_for_it(world):
    world.api.register(COMPONENT, least=1, most=2)
    with world.store.transaction() as tables:
        gone = tables.inference_component("chat")
        tables.remove(gone)
    world.settle = lambda: None
    world.step()
    assert world.calls == []
    world.api.put(gone)
    world.step()
    assert world.asked == [1]
    with world.store.transaction() as tables:
        tables.remove(gone)
    world.step()
    assert world.activities(COMPONENT) == [(1, "Failed")]


def test_at_the_bound_it_is_told_once_that_no_more_is_done(world):
    world.api.register(least=1, most=1)
    world.api.track("follow", **CONCURRENT)
    world.metrics.values[PER_MODEL] = 15.0
    world.step(times=5)
    assert world.asked == []
    assert world.activities() == [(1, "Unfulfilled")]
    world.metrics.values[PER_MODEL] = 5.0
    world.step()
    world.metrics.values[PER_MODEL] = 15.0
    world.step()
    assert world.activities() == [(1, "Unfulfilled")] * 2


def test_the_oldest_activities_are_removed(world, monkeypatch):
    monkeypatch.setattr(limits, "SCALING_ACTIVITIES_MAX", 2)
    world.api.register(least=1, most=4)
    for least in (2, 3, 4):
        world.api.call("RegisterScalableTarget", **VARIANT, MinCapacity=least)
        world.step(times=2)
    world.step()
    assert [capacity for capacity, _ in world.activities()] == [3, 4]


def test_a_target_deregistered_meanwhile_is_left_alone(world):
    world.api.register(least=2, most=4)
    world.refusal = invalid("No.")
    before = world.autoscaler._invoke

    async def deregistered(operation, request):
        world.api.call("DeregisterScalableTarget", **VARIANT)
        return await before(operation, request)

    world.autoscaler._invoke = deregistered
    world.step()
    assert world.api.target() is None
    assert world.activities() == []


def test_alarms_are_there_for_others(world):
    world.metrics.values[NO_CAPACITY] = 1.0
    world.step()
    assert world.book.state("NoCapacityInvocationFailures-inference-component/chat") is AlarmState.ALARM
    assert world.book.state("Invocation5XXErrors-endpoint/llm/variant/a") is AlarmState.OK
    assert world.book.state("slow") is AlarmState.INSUFFICIENT_DATA


# --- The loop --------------------------------------------------------------------------------


class Meter:
    def __init__(self):
        self.looks, self.windows = 0, 0

    def look(self, fleet):
        self.looks += 1

    def close_window(self):
        self.windows += 1


class Enough(BaseException):
    pass


def loop(world, pauses):
    """Run the loop for pauses of so many seconds; return the meter."""
    meter, left = Meter(), iter(pauses)

    async def pause(seconds):
        assert seconds == 1.0
        passed = next(left, None)
        if passed is None:
            raise Enough
        world.now_s += passed
        return passed < 1.0  # somebody has changed something

    with pytest.raises(Enough):
        asyncio.run(world.autoscaler.run(meter, lambda: None, pause))
    return meter


def test_it_looks_each_second_and_steps_with_each_window(world):
    world.api.register(least=2, most=4)
    meter = loop(world, [1.0] * 25)
    assert (meter.looks, meter.windows) == (26, 2)
    assert world.asked == [2]


def test_it_steps_at_once_when_somebody_has_changed_something(world):
    world.api.register(least=2, most=4)
    assert loop(world, [0.5]).windows == 0
    assert world.asked == [2]


def test_after_a_long_pause_windows_are_closed_but_not_without_end(world):
    assert loop(world, [31.0]).windows == 3
    assert loop(world, [10_000.0, 1.0]).windows == LATE_WINDOWS_MAX


def test_a_clock_that_is_set_back_stops_nothing(world):
    assert loop(world, [-3600.0] + [1.0] * 20).windows == 2


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ZeroDivisionError()])
def test_it_outlives_what_goes_wrong(world, error, caplog):
    world.api.register(least=2, most=4)
    inner, left = world.autoscaler.step, [error]

    async def step():
        if left:
            raise left.pop()
        await inner()

    world.autoscaler.step = step
    loop(world, [10.0, 10.0])
    assert world.asked == [2]
    assert len(caplog.records) >= 1
