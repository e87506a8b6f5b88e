"""Scheduled actions, and the list of activities."""

from datetime import UTC, datetime

import pytest

from tests.unit.resources.scaling_api import COMPONENT, NOW_S, VARIANT, ScalingApi
from warmroute.core import limits
from warmroute.resources.errors import ApiCode
from warmroute.resources.scaling.activities import begun, not_scaled
from warmroute.resources.scaling.scheduled_actions import next_of

DAILY = {
    "ScheduledActionName": "daily",
    "Schedule": "rate(1 day)",
    "ScalableTargetAction": {"MinCapacity": 2},
}
DAY_S = 86_400


@pytest.fixture
def api():
    made = ScalingApi()
    made.register()
    return made


def put(api, **changes):
    request = {name: value for name, value in (DAILY | changes).items() if value is not None}
    api.call("PutScheduledAction", **VARIANT, **request)
    return api.actions()[-1]


def test_a_rate_begins_one_period_from_now_or_at_its_start(api):
    assert put(api).next_s == NOW_S + DAY_S
    later = put(api, ScheduledActionName="later", StartTime=NOW_S + 10.0)
    assert later.next_s == NOW_S + 10.0
    assert next_of(later, NOW_S + 10.0) == NOW_S + 10.0 + DAY_S


def test_a_cron_does_not_come_before_its_start(api):
    start = datetime(2027, 3, 1, 12, 0, tzinfo=UTC).timestamp()
    action = put(api, Schedule="cron(0 9 * * ? *)", StartTime=start)
    assert action.next_s == datetime(2027, 3, 2, 9, 0, tzinfo=UTC).timestamp()


def test_nothing_comes_after_the_end(api):
    action = put(api, EndTime=NOW_S + DAY_S)
    assert action.next_s == NOW_S + DAY_S
    assert next_of(action, action.next_s) is None


def test_an_action_is_described_with_what_was_given(api):
    put(api, Timezone="Europe/Berlin", StartTime=NOW_S + 1, EndTime=NOW_S + 2)
    (told,) = api.call("DescribeScheduledActions", **VARIANT)["ScheduledActions"]
    assert told["ScalableTargetAction"] == {"MinCapacity": 2}
    assert (told["StartTime"], told["EndTime"], told["Timezone"]) == (NOW_S + 1, NOW_S + 2, "Europe/Berlin")
    put(api)
    (told,) = api.call("DescribeScheduledActions", **VARIANT)["ScheduledActions"]
    assert not {"StartTime", "EndTime"} & set(told)
    assert told["Timezone"] == "Europe/Berlin"


def test_what_a_second_call_leaves_out_stays(api):
    put(api, ScalableTargetAction={"MinCapacity": 1, "MaxCapacity": 3})
    kept = put(api, Schedule=None, ScalableTargetAction=None)
    assert (kept.schedule, kept.min_capacity, kept.max_capacity) == ("rate(1 day)", 1, 3)
    changed = put(api, ScalableTargetAction={"MaxCapacity": 9})
    assert (changed.min_capacity, changed.max_capacity) == (None, 9)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"Schedule": None}, "must be given for a new"),
        ({"ScalableTargetAction": None}, "must be given for a new"),
        ({"ScalableTargetAction": {}}, "must have MinCapacity"),
        ({"ScalableTargetAction": {"MinCapacity": 3, "MaxCapacity": 2}}, "cannot be less"),
        ({"ScalableTargetAction": {"MinCapacity": -1}}, "From 0 to"),
        ({"Schedule": "daily"}, "is not at"),
        ({"Timezone": "Nowhere/Town"}, "is not known here"),
        ({"Schedule": "at(2020-01-01T00:00:00)"}, "no time after now"),
        ({"EndTime": NOW_S + DAY_S - 1}, "no time after now"),
        ({"StartTime": NOW_S + 2, "EndTime": NOW_S + 2}, "EndTime must be later"),
    ],
)
def test_an_action_that_means_nothing_is_refused(api, changes, part):
    request = {name: value for name, value in (DAILY | changes).items() if value is not None}
    error = api.refused("PutScheduledAction", **VARIANT, **request)
    assert error.code is ApiCode.VALIDATION
    assert part in error.message


def test_an_action_may_raise_the_least_above_what_is_the_most_now(api):
    assert put(api, ScalableTargetAction={"MinCapacity": 99}).min_capacity == 99


def test_an_action_needs_a_target_and_is_deleted_once(api):
    assert api.refused("PutScheduledAction", **COMPONENT, **DAILY).code is ApiCode.OBJECT_NOT_FOUND
    put(api)
    name = {"ScheduledActionName": "daily"}
    api.call("DeleteScheduledAction", **VARIANT, **name)
    assert api.actions() == ()
    assert api.refused("DeleteScheduledAction", **VARIANT, **name).code is ApiCode.OBJECT_NOT_FOUND


def test_there_is_a_greatest_number_of_actions(api, monkeypatch):
    monkeypatch.setattr(limits, "SCHEDULED_ACTIONS_MAX", 1)
    put(api)
    put(api)
    error = api.refused("PutScheduledAction", **VARIANT, **DAILY | {"ScheduledActionName": "other"})
    assert error.code is ApiCode.TOO_MANY


def test_activities_come_newest_first_and_those_not_done_only_when_asked_for(api):
    target = api.target()
    done = begun(target, activity_id="a", capacity=2, cause="c", now_s=10.0)
    unmet = not_scaled(
        target, activity_id="b", capacity=4, cause="c", code="AlreadyAtMaxCapacity", now_s=20.0
    )
    with api.store.transaction() as tables:
        tables.put_scaling(done)
        tables.put_scaling(unmet)

    def listed(**more):
        return api.call("DescribeScalingActivities", **VARIANT, **more)["ScalingActivities"]

    (only,) = listed()
    assert (only["ActivityId"], only["StatusCode"], only["StartTime"]) == ("a", "InProgress", 10.0)
    assert "EndTime" not in only
    newest, _ = listed(IncludeNotScaledActivities=True)
    assert newest["NotScaledReasons"][0]["Code"] == "AlreadyAtMaxCapacity"
