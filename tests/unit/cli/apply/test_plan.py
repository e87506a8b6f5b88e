import click

from tests.unit.cli.scripted import ARN, component, endpoint_document
from warmroute.cli.apply.changes import MARK, Action, Change, Present
from warmroute.cli.apply.documents import Difference
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.plan import is_change, plan, plan_lines, summary

MODEL = {"ModelName": "m"}
ENDPOINT = {"EndpointName": "e", "EndpointConfig": {"ProductionVariants": []}}
COMPONENT = {"InferenceComponentName": "c", "EndpointName": "e"}
TARGET = {"ResourceId": "endpoint/e/variant/v", "ScalableDimension": "d"}
WANTED = Wanted("set", (MODEL,), (ENDPOINT,), (COMPONENT,), (TARGET,))


def test_what_is_needed_comes_before_what_needs_it_and_deletions_come_last():
    left = component("left")
    there = Present(components={"left": left}, tags={left["InferenceComponentArn"]: {MARK: "set"}})
    changes = plan(WANTED, there, prune=True)
    assert [change.kind for change in changes] == [
        "model",
        "endpoint",
        "inference component",
        "scalable target",
        "inference component",
    ]
    assert changes[-1].action is Action.DELETE
    assert all(map(is_change, changes))
    assert [change.action for change in plan(WANTED, there, prune=False)] == [Action.CREATE] * 4


CHANGES = (
    Change(Action.CREATE, "model", "a", (Difference("Image", None, "x"),)),
    Change(Action.UPDATE, "endpoint", "b", (Difference("N", "1", "2"), Difference("M", "3", None))),
    Change(Action.REPLACE, "model", "c", note="because\nof that"),
    Change(Action.DELETE, "endpoint configuration", "d"),
    Change(Action.LEAVE, "model", "e"),
)


def test_a_plan_is_shown_as_it_was_looked_at():
    assert [click.unstyle(line) for line in plan_lines(CHANGES)] == [
        "  + create  model a",
        "      Image: x",
        "  ~ update  endpoint b",
        "      N: 1 -> 2",
        "      M: 3, goes",
        "  ± replace model c",
        "      because of that",
        "  - delete  endpoint configuration d",
        "  = leave   model e",
    ]
    assert next(plan_lines(CHANGES[3:])) == click.style("  - delete  endpoint configuration d", fg="red")


def test_a_plan_is_counted():
    assert summary(CHANGES) == "1 to create, 1 to update, 1 to replace, 1 to delete, 1 left alone."
    assert summary(CHANGES[4:]) == "Nothing to do: 1 left alone."
    assert summary(()) == "Nothing to do: 0 left alone."


def test_an_endpoint_that_is_there_needs_nothing_of_the_rest():
    document = endpoint_document("e", config="other")
    (change,) = plan(Wanted("set", endpoints=(ENDPOINT,)), Present(endpoints={"e": document}), prune=False)
    assert change.action is Action.UPDATE


def test_a_component_whose_scaling_goes_has_the_number_of_copies_of_the_file_again():
    document = component("base")
    entry = {
        "InferenceComponentName": "base",
        "EndpointName": "chat",
        "Specification": document["Specification"],
        "RuntimeConfig": {"CopyCount": 1},
    }
    resource, arn = "inference-component/base", f"{ARN}:scalable-target/0123"
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource,
        "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
        "ScalableTargetARN": arn,
    }
    there = Present(components={"base": document}, targets=(target,), tags={arn: {MARK: "set"}})
    wanted = Wanted("set", components=(entry,))
    changes = plan(wanted, there, prune=True)
    update = next(one for one in changes if one.name == "base")
    assert [(one.action, one.name) for one in changes if is_change(one)] == [
        (Action.DELETE, resource),
        (Action.UPDATE, "base"),
    ]
    assert update.details == (Difference("RuntimeConfig.CopyCount", "2", "1"),)
    (left,) = plan(wanted, there, prune=False)
    assert left.action is Action.LEAVE
    assert "its scaling decides" in left.note
