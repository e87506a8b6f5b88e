"""Rules that no service model states: messages of misuse, names and their case, tags, lists and their pages.

Source: SageMaker's API reference, and texts that its callers match on.
"""

import asyncio
import inspect
from dataclasses import replace

import pytest

from tests.conformance.facts import ARN, NEEDS, SPECIFICATION, VARIANT
from tests.conformance.world import ACCOUNT, REGION, World
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus

VALIDATION = "ValidationException"
WEIGHTS = [{"VariantName": "v", "DesiredWeight": 0.5}]


@pytest.fixture
def world(schema, content):
    """A world of one's own, whose calls do not wait."""

    class Sync(World):
        def refused(self, operation, **request):
            answer = self.run(self.call(operation, request))
            assert answer.output is None, answer.output
            return answer.code, answer.message

        def ask(self, operation, **request):
            return self.run(self.do(operation, **request))

        def run(self, coroutine):
            assert inspect.iscoroutine(coroutine)
            return asyncio.run(coroutine)

        def put(self, kind, name, **changes):
            with self.store.transaction() as transaction:
                transaction.put(replace(getattr(transaction, kind)(name), **changes))

    return Sync(schema, content)


# --- Messages of misuse ---------------------------------------------------------------------------


def not_there(kind, path):
    return f'Could not find {kind} "{ARN}:{path}".'


MISSING = [
    ("DescribeModel", {"ModelName": "no"}, not_there("model", "model/no")),
    ("DeleteModel", {"ModelName": "no"}, not_there("model", "model/no")),
    (
        "CreateEndpointConfig",
        {"EndpointConfigName": "x", "ProductionVariants": [VARIANT | {"ModelName": "no"}]},
        not_there("model", "model/no"),
    ),
    (
        "DescribeEndpointConfig",
        {"EndpointConfigName": "no"},
        not_there("endpoint configuration", "endpoint-config/no"),
    ),
    (
        "DeleteEndpointConfig",
        {"EndpointConfigName": "no"},
        not_there("endpoint configuration", "endpoint-config/no"),
    ),
    (
        "CreateEndpoint",
        {"EndpointName": "x", "EndpointConfigName": "no"},
        not_there("endpoint configuration", "endpoint-config/no"),
    ),
    (
        "UpdateEndpoint",
        {"EndpointName": "ep", "EndpointConfigName": "no"},
        not_there("endpoint configuration", "endpoint-config/no"),
    ),
    ("DescribeEndpoint", {"EndpointName": "no"}, not_there("endpoint", "endpoint/no")),
    ("DeleteEndpoint", {"EndpointName": "no"}, not_there("endpoint", "endpoint/no")),
    (
        "UpdateEndpoint",
        {"EndpointName": "no", "EndpointConfigName": "c"},
        not_there("endpoint", "endpoint/no"),
    ),
    (
        "UpdateEndpointWeightsAndCapacities",
        {"EndpointName": "no", "DesiredWeightsAndCapacities": WEIGHTS},
        not_there("endpoint", "endpoint/no"),
    ),
    (
        "CreateInferenceComponent",
        {"InferenceComponentName": "x", "EndpointName": "no", "Specification": SPECIFICATION},
        not_there("endpoint", "endpoint/no"),
    ),
    *(
        (
            operation,
            {"InferenceComponentName": "no"} | more,
            not_there("inference component", "inference-component/no"),
        )
        for operation, more in (
            ("DescribeInferenceComponent", {}),
            ("DeleteInferenceComponent", {}),
            ("UpdateInferenceComponent", {"RuntimeConfig": {"CopyCount": 1}}),
            ("UpdateInferenceComponentRuntimeConfig", {"DesiredRuntimeConfig": {"CopyCount": 1}}),
        )
    ),
    ("ListTags", {"ResourceArn": f"{ARN}:model/no"}, not_there("model", "model/no")),
    ("AddTags", {"ResourceArn": f"{ARN}:endpoint/no", "Tags": []}, not_there("endpoint", "endpoint/no")),
]


@pytest.mark.parametrize(("operation", "request_", "message"), MISSING)
def test_what_is_not_there_is_named_by_its_arn(world, operation, request_, message):
    assert world.refused(operation, **request_) == (VALIDATION, message)


@pytest.mark.parametrize(
    ("operation", "request_", "kind", "path"),
    [
        ("CreateModel", {"ModelName": "m", "PrimaryContainer": {}}, "model", "model/m"),
        (
            "CreateEndpointConfig",
            {"EndpointConfigName": "c", "ProductionVariants": [VARIANT]},
            "endpoint configuration",
            "endpoint-config/c",
        ),
        ("CreateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c"}, "endpoint", "endpoint/ep"),
        ("CreateEndpoint", {"EndpointName": "EP", "EndpointConfigName": "c"}, "endpoint", "endpoint/ep"),
        (
            "CreateInferenceComponent",
            {"InferenceComponentName": "comp", "EndpointName": "hosts", "Specification": SPECIFICATION},
            "inference component",
            "inference-component/comp",
        ),
    ],
)
def test_what_is_there_already_is_not_created_again(world, operation, request_, kind, path):
    message = f'Cannot create already existing {kind} "{ARN}:{path}".'
    assert world.refused(operation, **request_) == (VALIDATION, message)


@pytest.mark.parametrize("status", ["CREATING", "UPDATING", "ROLLING_BACK", "DELETING", "SYSTEM_UPDATING"])
@pytest.mark.parametrize(
    ("operation", "more"),
    [
        ("UpdateEndpoint", {"EndpointConfigName": "c2"}),
        ("UpdateEndpointWeightsAndCapacities", {"DesiredWeightsAndCapacities": WEIGHTS}),
        ("DeleteEndpoint", {}),
    ],
)
def test_an_endpoint_that_is_changing_takes_no_change_and_no_deletion(world, status, operation, more):
    world.put("endpoint", "ep", status=EndpointStatus[status])
    message = f'Cannot update in-progress endpoint "{ARN}:endpoint/ep".'
    assert world.refused(operation, EndpointName="ep", **more) == (VALIDATION, message)


def test_a_failed_endpoint_takes_a_deletion_only(world):
    world.put("endpoint", "ep", status=EndpointStatus.FAILED)
    code, message = world.refused("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c2")
    assert (code, "status is Failed" in message) == (VALIDATION, True)
    assert world.ask("DeleteEndpoint", EndpointName="ep") == {}


@pytest.mark.parametrize(
    ("status", "pending", "state"),
    [
        (ComponentStatus.CREATING, True, "CREATE_IN_PROGRESS"),
        (ComponentStatus.UPDATING, False, "UPDATE_RC_IN_PROGRESS"),
        (ComponentStatus.DELETING, False, "DELETE_IN_PROGRESS"),
    ],
)
def test_a_component_that_is_changing_is_not_deleted(world, status, pending, state):
    with world.store.transaction() as transaction:
        active = transaction.inference_component("other").active
    changes = {"pending": active} if pending else {}
    world.put("inference_component", "other", status=status, **changes)
    code, message = world.refused("DeleteInferenceComponent", InferenceComponentName="other")
    assert code == VALIDATION
    assert message.startswith("Cannot delete inference component ")
    assert message.endswith(f"while it is in state {state}.")


def test_a_base_component_with_adapters_is_not_deleted(world):
    code, message = world.refused("DeleteInferenceComponent", InferenceComponentName="comp")
    assert (code, "is a base inference component for one or more associated" in message) == (VALIDATION, True)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [{"VariantName": "x"}, {"VariantName": "y"}],
            'The variant name(s) "x", "y" is/are not present within endpoint configuration "c".',
        ),
        (WEIGHTS * 2, 'The variant name "v" was non-unique within the request.'),
    ],
)
def test_variants_that_are_unknown_or_named_twice_are_named(world, items, message):
    request = {"EndpointName": "ep", "DesiredWeightsAndCapacities": items}
    assert world.refused("UpdateEndpointWeightsAndCapacities", **request) == (VALIDATION, message)


def test_broken_constraints_are_told_together_in_sagemakers_words(world):
    assert world.refused("ListEndpoints", MaxResults=0, StatusEquals="Up") == (
        VALIDATION,
        (
            "2 validation errors detected: Value '0' at 'maxResults' failed to satisfy constraint: Member "
            "must have value greater than or equal to 1; Value 'Up' at 'statusEquals' failed to satisfy "
            f"constraint: Member must satisfy enum value set: [{', '.join(EndpointStatus)}]"
        ),
    )


# --- Names, their case, and repetition --------------------------------------------------------------


def test_names_of_endpoints_are_unique_without_case_and_found_with_it(world):
    world.ask("CreateEndpoint", EndpointName="My-Endpoint", EndpointConfigName="c")
    code, message = world.refused("CreateEndpoint", EndpointName="my-eNDPOINT", EndpointConfigName="c")
    assert (code, message) == (
        VALIDATION,
        f'Cannot create already existing endpoint "{ARN}:endpoint/My-Endpoint".',
    )
    assert world.ask("DescribeEndpoint", EndpointName="My-Endpoint")["EndpointName"] == "My-Endpoint"
    message = not_there("endpoint", "endpoint/my-endpoint")
    assert world.refused("DescribeEndpoint", EndpointName="my-endpoint") == (VALIDATION, message)


def test_names_of_other_resources_differ_by_case(world):
    world.ask("CreateModel", ModelName="M", PrimaryContainer={})
    world.ask("CreateEndpointConfig", EndpointConfigName="C", ProductionVariants=[VARIANT])
    assert world.ask("DescribeModel", ModelName="M")["ModelArn"] == f"{ARN}:model/M"
    assert world.ask("DescribeModel", ModelName="m")["ModelArn"] == f"{ARN}:model/m"
    assert world.ask("DescribeEndpointConfig", EndpointConfigName="C")["EndpointConfigName"] == "C"


NAMES = {
    "model": ("CreateModel", "ModelName"),
    "config": ("CreateEndpointConfig", "EndpointConfigName"),
    "endpoint": ("CreateEndpoint", "EndpointName"),
    "component": ("CreateInferenceComponent", "InferenceComponentName"),
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("a", True), ("A-b-9", True), ("9", True), ("a--b", True), ("a" * 63, True),
        ("", False), ("-a", False), ("a-", False), ("a_b", False), ("a.b", False), ("ä", False),
        ("a b", False), ("a\n", False), ("a" * 64, False),
    ],
)  # fmt: skip
def test_names_have_sagemakers_pattern(world, kind, name, allowed):
    operation, member = NAMES[kind]
    request = {
        "CreateModel": {"PrimaryContainer": {}},
        "CreateEndpointConfig": {"ProductionVariants": [VARIANT]},
        "CreateEndpoint": {"EndpointConfigName": "c"},
        "CreateInferenceComponent": {"EndpointName": "hosts", "Specification": SPECIFICATION},
    }[operation] | {member: name}
    if allowed:
        (arn,) = world.ask(operation, **request).values()
        assert arn.endswith(f"/{name}")
    else:
        code, message = world.refused(operation, **request)
        assert (code, f"at '{member[:1].lower()}{member[1:]}'" in message) == (VALIDATION, True)


@pytest.mark.parametrize(
    ("operation", "request_", "message"),
    [
        ("DeleteModel", {"ModelName": "m"}, not_there("model", "model/m")),
        (
            "DeleteEndpointConfig",
            {"EndpointConfigName": "c"},
            not_there("endpoint configuration", "endpoint-config/c"),
        ),
        (
            "DeleteEndpoint",
            {"EndpointName": "ep"},
            f'Cannot update in-progress endpoint "{ARN}:endpoint/ep".',
        ),
    ],
)
def test_a_second_deletion_is_refused(world, operation, request_, message):
    assert world.ask(operation, **request_) == {}
    assert world.refused(operation, **request_) == (VALIDATION, message)


def test_an_endpoint_in_service_outlives_its_configuration_and_model(world):
    world.ask("DeleteEndpointConfig", EndpointConfigName="c")
    world.ask("DeleteModel", ModelName="m")
    described = world.ask("DescribeEndpoint", EndpointName="ep")
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "c")


def test_a_name_is_free_again_after_its_deletion(world):
    world.ask("DeleteModel", ModelName="bare")
    created = world.ask("CreateModel", ModelName="bare", PrimaryContainer={"Image": "other"})
    assert created["ModelArn"] == f"{ARN}:model/bare"
    assert world.ask("ListTags", ResourceArn=f"{ARN}:model/bare")["Tags"] == []


# --- Tags -------------------------------------------------------------------------------------------

TAGGED = ["model/m", "endpoint-config/c", "endpoint/ep", "inference-component/comp"]


@pytest.mark.parametrize("path", TAGGED)
def test_every_kind_of_resource_has_tags(world, path):
    arn = f"{ARN}:{path}"
    tag, other = {"Key": "team", "Value": "große Straße"}, {"Key": "Team", "Value": ""}
    assert world.ask("ListTags", ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    added = world.ask("AddTags", ResourceArn=arn, Tags=[tag, other])["Tags"]
    assert added == [{"Key": "k", "Value": "v"}, tag, other]
    assert world.ask("ListTags", ResourceArn=arn)["Tags"] == added
    world.ask("AddTags", ResourceArn=arn, Tags=[tag | {"Value": "new"}])
    world.ask("DeleteTags", ResourceArn=arn, TagKeys=["k", "Team", "never-there"])
    assert world.ask("ListTags", ResourceArn=arn)["Tags"] == [tag | {"Value": "new"}]
    world.ask("DeleteTags", ResourceArn=arn, TagKeys=["team"])
    assert world.ask("ListTags", ResourceArn=arn)["Tags"] == []


def tags(count, prefix="t"):
    return [{"Key": f"{prefix}{number}", "Value": "v"} for number in range(count)]


def test_a_resource_has_fifty_tags_and_no_more(world):
    arn = f"{ARN}:model/bare"
    world.ask("AddTags", ResourceArn=arn, Tags=tags(50))
    assert len(world.ask("ListTags", ResourceArn=arn, MaxResults=50)["Tags"]) == 50
    assert world.refused("AddTags", ResourceArn=arn, Tags=tags(1, "more")) == (
        VALIDATION,
        "The resource would have 51 tags. At most 50 are allowed.",
    )
    world.ask("AddTags", ResourceArn=arn, Tags=tags(50))  # the same keys
    assert "length less than or equal to 50" in world.refused("AddTags", ResourceArn=arn, Tags=tags(51))[1]
    more = world.refused("CreateModel", ModelName="x", PrimaryContainer={}, Tags=tags(51))
    assert "length less than or equal to 50" in more[1]


@pytest.mark.parametrize(
    ("tag", "allowed"),
    [
        ({"Key": "k" * 128, "Value": "v" * 256}, True),
        ({"Key": "a b_.:/=+-@ж1", "Value": ""}, True),
        ({"Key": "", "Value": "v"}, False),
        ({"Key": "k" * 129, "Value": "v"}, False),
        ({"Key": "k", "Value": "v" * 257}, False),
        ({"Key": "k#", "Value": "v"}, False),
        ({"Key": "k", "Value": "v\n"}, False),
        ({"Key": "k"}, False),
    ],
)
def test_keys_and_values_of_tags_have_lengths_and_characters(world, tag, allowed):
    arn = f"{ARN}:endpoint/ep"
    if allowed:
        assert tag in world.ask("AddTags", ResourceArn=arn, Tags=[tag])["Tags"]
    else:
        code, message = world.refused("AddTags", ResourceArn=arn, Tags=[tag])
        assert (code, "at 'tags.1.member." in message) == (VALIDATION, True)


def test_a_key_is_given_once_in_a_request(world):
    code, message = world.refused("CreateModel", ModelName="x", PrimaryContainer={}, Tags=tags(1) * 2)
    assert (code, message) == (VALIDATION, 'Tag key "t0" is given twice. Each key may be given once.')


@pytest.mark.parametrize(
    "arn",
    [
        f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:model/m",
        f"arn:aws:sagemaker:{REGION}:999999999999:model/m",
        f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/m",
        f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:Model/m",
        f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model",
        f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model/",
    ],
)
@pytest.mark.parametrize("operation", ["AddTags", "ListTags", "DeleteTags"])
def test_arns_of_elsewhere_and_of_other_kinds_are_refused(world, operation, arn):
    more = {"AddTags": {"Tags": []}, "ListTags": {}, "DeleteTags": {"TagKeys": ["k"]}}[operation]
    code, message = world.refused(operation, ResourceArn=arn, **more)
    assert (code, message.startswith(f'ResourceArn "{arn}" names no model, ')) == (VALIDATION, True)


@pytest.mark.parametrize("arn", ["model/m", "arn:aws:s3:::bucket", f"arn:aws:sagemaker:{REGION}:1:model/m"])
def test_what_is_no_arn_of_sagemaker_breaks_the_pattern(world, arn):
    code, message = world.refused("ListTags", ResourceArn=arn)
    assert (code, "regular expression pattern: arn:aws" in message) == (VALIDATION, True)


@pytest.mark.parametrize(("more", "text"), [({"MaxResults": 49}, "to 50"), ({"NextToken": "x"}, "NextToken")])
def test_tags_come_on_one_page_of_fifty_at_least(world, more, text):
    code, message = world.refused("ListTags", ResourceArn=f"{ARN}:model/m", **more)
    assert (code, text in message) == (VALIDATION, True)


# --- Lists ------------------------------------------------------------------------------------------

LISTS = {
    "ListModels": ("Models", "ModelName"),
    "ListEndpointConfigs": ("EndpointConfigs", "EndpointConfigName"),
    "ListEndpoints": ("Endpoints", "EndpointName"),
    "ListInferenceComponents": ("InferenceComponents", "InferenceComponentName"),
}
COUNT = 25


def add(world, operation, name):
    """Create one of what an operation lists, a second after the one before it."""
    world.clock.now_s += 1
    match operation:
        case "ListModels":
            world.ask("CreateModel", ModelName=name, PrimaryContainer={})
        case "ListEndpointConfigs":
            world.ask("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[VARIANT])
        case "ListEndpoints":
            world.ask("CreateEndpoint", EndpointName=name, EndpointConfigName="c")
        case _:
            world.ask(
                "CreateInferenceComponent",
                InferenceComponentName=name,
                EndpointName="hosts",
                Specification=SPECIFICATION,
            )


@pytest.fixture(params=LISTS)
def listed(request, world):
    """Return a function that lists, in a world with 25 of each kind whose names begin with ``x``."""
    operation = request.param
    world.clock.now_s += 1000
    for number in (7 * n % COUNT for n in range(COUNT)):  # names are in another order than times
        add(world, operation, f"x{number:02}")
    member, name = LISTS[operation]

    def ask(**more):
        output = world.ask(operation, **more)
        return [one[name] for one in output[member]], output.get("NextToken")

    ask.world, ask.operation = world, operation
    return ask


BY_TIME = [f"x{7 * n % COUNT:02}" for n in range(COUNT)]
BY_NAME = sorted(BY_TIME)


def test_ten_are_listed_newest_first_when_nothing_else_is_asked(listed):
    names, token = listed()
    assert names == BY_TIME[::-1][:10]
    assert token


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"SortBy": "Name", "SortOrder": "Ascending"}, BY_NAME),
        ({"SortBy": "Name"}, BY_NAME[::-1]),
        ({"SortBy": "CreationTime", "SortOrder": "Ascending"}, BY_TIME),
        ({"SortOrder": "Descending"}, BY_TIME[::-1]),
    ],
)
@pytest.mark.parametrize("size", [1, 7, COUNT, 100])
def test_pages_follow_each_other_in_every_order(listed, query, expected, size):
    names, token = listed(NameContains="x", MaxResults=size, **query)
    found = names
    while token:
        assert len(names) == size
        names, token = listed(NameContains="x", MaxResults=size, NextToken=token, **query)
        found = found + names
    assert found == expected


def test_a_page_may_have_another_size_than_the_one_before(listed):
    names, token = listed(NameContains="x", MaxResults=3)
    more, _ = listed(NameContains="x", MaxResults=5, NextToken=token)
    assert names + more == BY_TIME[::-1][:8]


def test_pages_miss_and_repeat_nothing_that_is_there_all_the_time(listed):
    query = {"NameContains": "x", "SortBy": "Name", "SortOrder": "Ascending", "MaxResults": 10}
    names, token = listed(**query)
    add(listed.world, listed.operation, "x00a")  # before the border
    add(listed.world, listed.operation, "x99")  # after it
    if listed.operation == "ListModels":
        listed.world.ask("DeleteModel", ModelName=names[-1])  # the border itself
    rest = []
    while token:
        more, token = listed(NextToken=token, **query)
        rest += more
    assert names + rest == [*BY_NAME, "x99"]


@pytest.mark.parametrize("token", ["garbage", "e30=", "WyJhIiwgMSwgImIiXQ==", "[" * 3000, "ü"])
def test_a_token_that_was_never_given_is_refused(listed, token):
    code, message = listed.world.refused(listed.operation, NextToken=token)
    assert (code, message.startswith("NextToken is not one that")) == (VALIDATION, True)


def test_a_token_is_good_for_its_own_operation_filters_and_order_only(listed):
    _, token = listed(NameContains="x", MaxResults=2)
    others = [
        (listed.operation, {}),
        (listed.operation, {"NameContains": "x", "SortBy": "Name"}),
        (listed.operation, {"NameContains": "x", "SortOrder": "Ascending"}),
        (listed.operation, {"NameContains": "x", "CreationTimeAfter": 1}),
        *((operation, {"NameContains": "x"}) for operation in LISTS if operation != listed.operation),
    ]
    for operation, query in others:
        code, message = listed.world.refused(operation, NextToken=token, **query)
        assert (code, message.startswith("NextToken is not one that")) == (VALIDATION, True)


@pytest.mark.parametrize(
    ("size", "bound"), [(0, "greater than or equal to 1"), (101, "less than or equal to 100")]
)
def test_a_page_has_one_to_a_hundred(listed, size, bound):
    code, message = listed.world.refused(listed.operation, MaxResults=size)
    assert (code, f"Value '{size}' at 'maxResults'" in message, bound in message) == (VALIDATION, True, True)


def test_names_are_filtered_by_what_they_contain_with_its_case(listed):
    assert (
        listed(NameContains="x1", SortBy="Name", SortOrder="Ascending", MaxResults=100)[0] == BY_NAME[10:20]
    )
    assert listed(NameContains="14")[0] == ["x14"]
    assert listed(NameContains="X1")[0] == []


def test_creation_times_are_filtered_from_an_instant_on_and_until_before_it(listed):
    newest = listed.world.clock.now_s
    assert listed(CreationTimeAfter=newest)[0] == [BY_TIME[-1]]
    assert listed(CreationTimeAfter=newest - 1)[0] == BY_TIME[:-3:-1]
    assert listed(CreationTimeBefore=newest, MaxResults=1)[0] == [BY_TIME[-2]]
    assert listed(CreationTimeAfter=newest - 2, CreationTimeBefore=newest)[0] == BY_TIME[-2:-4:-1]
    assert listed(CreationTimeAfter=newest + 0.5)[0] == []
    assert listed(CreationTimeBefore=0)[0] == []


@pytest.mark.parametrize(
    ("operation", "kind", "status"),
    [
        ("ListEndpoints", "endpoint", EndpointStatus.FAILED),
        ("ListInferenceComponents", "inference_component", ComponentStatus.FAILED),
    ],
)
def test_what_changes_is_filtered_by_status_and_time_of_change(world, operation, kind, status):
    now_s = world.clock.now_s
    for name in ("x1", "x2"):
        add(world, operation, name)
    world.put(kind, "x1", status=status, modified_s=now_s + 500)
    member, name = LISTS[operation]

    def names(**query):
        return [one[name] for one in world.ask(operation, NameContains="x", **query)[member]]

    assert names(StatusEquals="Failed") == ["x1"]
    assert names(StatusEquals="Creating") == ["x2"]
    assert names(LastModifiedTimeAfter=now_s + 500) == ["x1"]
    assert names(LastModifiedTimeBefore=now_s + 500) == ["x2"]
    assert names(SortBy="Status", SortOrder="Ascending") == ["x2", "x1"]
    assert names(SortBy="Status") == ["x1", "x2"]
    assert names(StatusEquals="Failed", CreationTimeBefore=0) == []


def test_components_are_filtered_by_endpoint_and_variant(world):
    hosts = [
        {"VariantName": name, "InstanceType": VARIANT["InstanceType"], "InitialInstanceCount": 1}
        for name in "ab"
    ]
    role = f"arn:aws:iam::{ACCOUNT}:role/sm"
    world.ask(
        "CreateEndpointConfig", EndpointConfigName="two", ProductionVariants=hosts, ExecutionRoleArn=role
    )
    world.ask("CreateEndpoint", EndpointName="two", EndpointConfigName="two")
    for name in "ab":
        world.ask(
            "CreateInferenceComponent",
            InferenceComponentName=f"on-{name}",
            EndpointName="two",
            VariantName=name,
            Specification={"ModelName": "m", "ComputeResourceRequirements": NEEDS},
        )

    def names(**query):
        found = world.ask("ListInferenceComponents", SortBy="Name", SortOrder="Ascending", **query)
        return [one["InferenceComponentName"] for one in found["InferenceComponents"]]

    assert names(EndpointNameEquals="two") == ["on-a", "on-b"]
    assert names(EndpointNameEquals="hosts") == ["adapter", "comp", "other"]
    assert names(VariantNameEquals="b") == ["on-b"]
    assert names(EndpointNameEquals="two", VariantNameEquals="v") == []
    assert names(EndpointNameEquals="TWO") == []
