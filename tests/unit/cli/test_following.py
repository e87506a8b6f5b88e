import itertools

import pytest

from tests.unit.cli.scripted import (
    ScriptedApi,
    component,
    endpoint_document,
    instance,
    missing,
    variant,
)
from warmroute.cli.failure import CommandFailed, Refused
from warmroute.cli.following import Follower, component_progress, each_once, endpoint_progress


def follower(operation, *answers, timeout_s=None):
    api = ScriptedApi(**{operation: list(answers)})
    clock = itertools.count()
    return Follower(api, timeout_s=timeout_s, clock=lambda: float(next(clock)), sleep=lambda _: None)


def endpoint(*answers, **given):
    return follower("Warmroute_DescribeEndpoint", *answers, **given)


CREATING = endpoint_document(status="Creating", variants=[variant()])
HALF = endpoint_document(status="Creating", variants=[variant()], instances=[instance(1)])
DONE = endpoint_document(variants=[variant()], instances=[instance(1), instance(2)])


def test_each_step_is_said_once_until_nothing_changes():
    lines = list(each_once(endpoint(CREATING, CREATING, HALF, DONE).endpoint("chat")))
    assert lines == [
        "chat: Creating: AllTraffic 0 of 2 in service",
        "chat: Creating: AllTraffic 1 of 2 in service",
        "chat: InService: AllTraffic 2 of 2 in service",
    ]


def test_a_failed_endpoint_is_a_failure_with_its_reason():
    failed = endpoint_document(status="Failed", FailureReason="no\nimage")
    with pytest.raises(CommandFailed, match=r"^endpoint chat is Failed: no image$"):
        list(endpoint(CREATING, failed).endpoint("chat"))
    with pytest.raises(CommandFailed, match="no reason is known"):
        list(endpoint(endpoint_document(status="Failed")).endpoint("chat"))


def test_an_update_that_was_rolled_back_is_a_failure_although_it_serves():
    back = endpoint_document(config="c1", FailureReason="the new one did not start")
    with pytest.raises(
        CommandFailed, match="update of endpoint chat was rolled back, and it serves as before"
    ):
        list(endpoint(back).endpoint("chat", config="c2"))
    assert list(endpoint(back).endpoint("chat", config="c1"))


def test_a_deletion_ends_when_there_is_none():
    deleting = endpoint_document(status="Deleting")
    lines = list(endpoint(deleting, missing("endpoint")).endpoint("chat", deleted=True))
    assert lines == ["chat: Deleting"]
    with pytest.raises(Refused):
        list(endpoint(missing("endpoint")).endpoint("chat"))
    with pytest.raises(Refused, match="other"):
        list(endpoint(Refused("X", "other")).endpoint("chat", deleted=True))


def test_a_deletion_that_did_not_begin_is_waited_for_and_a_failed_one_is_said():
    with pytest.raises(CommandFailed, match="still changing"):
        list(endpoint(DONE, timeout_s=2).endpoint("chat", deleted=True))
    with pytest.raises(CommandFailed, match="is Failed"):
        list(endpoint(endpoint_document(status="Failed")).endpoint("chat", deleted=True))


def test_it_gives_up_after_its_time():
    with pytest.raises(
        CommandFailed, match=r"^After 3 s endpoint chat is still changing; the server goes on"
    ):
        list(endpoint(CREATING, timeout_s=3).endpoint("chat"))


def test_a_component_is_followed_likewise():
    creating = component(status="Creating", RuntimeConfig={"DesiredCopyCount": 2, "CurrentCopyCount": 1})
    lines = list(follower("DescribeInferenceComponent", creating, component()).component("base"))
    assert lines == ["base: Creating: 1 of 2 copies in service", "base: InService: 2 of 2 copies in service"]
    failed = component(status="Failed", FailureReason="no room")
    with pytest.raises(CommandFailed, match="component base is Failed: no room"):
        list(follower("DescribeInferenceComponent", failed).component("base"))
    gone = follower("DescribeInferenceComponent", component(status="Deleting"), missing("component"))
    assert list(gone.component("base", deleted=True)) == ["base: Deleting: 2 of 2 copies in service"]


def test_progress_tells_revisions_shares_and_steps():
    document = endpoint_document(
        status="Updating",
        variants=[
            variant(Share=0.9),
            variant("shadow", Shadow=True),
            variant(revision=2, Share=0.1),
            variant("shadow", revision=2, Shadow=True),
        ],
        instances=[
            instance(1),
            instance(2, Revision=2, State="starting"),
            instance(3, InferenceComponentName="c"),
        ],
    )
    document["Rollout"] = {"Step": 0, "Steps": 2, "Phase": "baking", "Since": 5.0}
    assert endpoint_progress(document) == (
        "chat: Updating, step 1 of 2, baking: AllTraffic revision 1 1/2 with 90% of the traffic, "
        "revision 2 0/2 with 10% of the traffic; shadow revision 1 0/2, revision 2 0/2"
    )
    assert component_progress(component(RuntimeConfig={})) == "base: InService"
