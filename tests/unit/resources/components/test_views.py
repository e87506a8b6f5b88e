from dataclasses import replace

import pytest

from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.records import InstanceRecord, InstanceState, Launch

NEEDS = {"MinMemoryRequiredInMb": 256}


@pytest.fixture
def carrying(api):
    api.model()
    api.config("c", {"VariantName": "v", "InstanceType": "ml.local", "InitialInstanceCount": 1})
    for name in ("ep", "ep2"):
        api.call("CreateEndpoint", EndpointName=name, EndpointConfigName="c")
    return api


def create(api, name, endpoint="ep", **item):
    specification = item or {"ModelName": "m", "ComputeResourceRequirements": NEEDS}
    api.call(
        "CreateInferenceComponent",
        InferenceComponentName=name,
        EndpointName=endpoint,
        Specification=specification,
    )


def describe(api, name="ic"):
    return api.call("DescribeInferenceComponent", InferenceComponentName=name)


def change(api, name, **changes):
    with api.store.transaction() as tables:
        record = tables.inference_component(name)
    api.put(replace(record, **changes))


def test_a_component_is_described(carrying):
    create(carrying, "ic")
    shown = describe(carrying)
    assert shown["Specification"] == {"ModelName": "m", "ComputeResourceRequirements": NEEDS}
    assert shown["RuntimeConfig"] == {"DesiredCopyCount": 1, "CurrentCopyCount": 0}
    assert shown["EndpointArn"].endswith(":endpoint/ep")
    assert not {"FailureReason", "LastDeploymentConfig"} & set(shown)


def test_the_image_is_shown_as_it_is_deployed(carrying):
    create(
        carrying,
        "ic",
        Container={"Image": "img", "ArtifactUrl": "s3://b/k"},
        ComputeResourceRequirements=NEEDS,
    )
    assert describe(carrying)["Specification"]["Container"] == {
        "ArtifactUrl": "s3://b/k",
        "DeployedImage": {"SpecifiedImage": "img", "ResolvedImage": "img"},
    }


def test_what_serves_is_shown_while_something_else_is_rolled_out(carrying):
    create(carrying, "ic")
    with carrying.store.transaction() as tables:
        pending = tables.inference_component("ic").pending
    other = replace(pending, document={"Specifications": [{"InstanceType": "a", "ModelName": "m"}]})
    change(carrying, "ic", active=other)
    assert describe(carrying)["Specifications"] == [{"InstanceType": "a", "ModelName": "m"}]


def test_copies_are_counted_by_instance_type_and_only_while_they_serve(carrying):
    create(carrying, "ic")
    for number, (name, state, component) in enumerate(
        [
            ("a", InstanceState.IN_SERVICE, "ic"),
            ("b", InstanceState.IN_SERVICE, "ic"),
            ("a", InstanceState.IN_SERVICE, "ic"),
            ("a", InstanceState.STARTING, "ic"),
            ("a", InstanceState.IN_SERVICE, "other"),
        ]
    ):
        launch = Launch(name, "m")
        carrying.put_instance(
            InstanceRecord(
                f"i-{number}", "ep", "v", 1, launch, 60.0, 1.0, 1.0, state=state, component=component
            )
        )
    assert describe(carrying)["RuntimeConfig"] == {
        "DesiredCopyCount": 1,
        "CurrentCopyCount": 3,
        "PlacementStatus": [
            {"InstanceType": "a", "CurrentCopyCount": 2},
            {"InstanceType": "b", "CurrentCopyCount": 1},
        ],
    }


def test_an_adapter_has_its_bases_variant_and_no_copies(carrying):
    create(carrying, "ic")
    create(carrying, "lora", BaseInferenceComponentName="ic", Container={"ArtifactUrl": "s3://b/a"})
    shown = describe(carrying, "lora")
    assert shown["VariantName"] == "v"
    assert "RuntimeConfig" not in shown


def test_failures_and_policies_are_shown(carrying):
    create(carrying, "ic")
    change(carrying, "ic", failure_reason="why", last_policy={"x": 1}, status=ComponentStatus.FAILED)
    shown = describe(carrying)
    assert (shown["FailureReason"], shown["LastDeploymentConfig"]) == ("why", {"x": 1})


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["b2", "b1", "a"]),
        ({"EndpointNameEquals": "ep2"}, ["b2"]),
        ({"VariantNameEquals": "v"}, ["b2", "b1", "a"]),
        ({"VariantNameEquals": "w"}, []),
        ({"StatusEquals": "InService"}, ["a"]),
        ({"NameContains": "b"}, ["b2", "b1"]),
        ({"LastModifiedTimeAfter": 5000}, ["a"]),
        ({"LastModifiedTimeBefore": 5000}, ["b2", "b1"]),
        ({"SortBy": "Name", "SortOrder": "Ascending"}, ["a", "b1", "b2"]),
        ({"SortBy": "Status", "SortOrder": "Descending"}, ["a", "b2", "b1"]),
        ({"MaxResults": 1}, ["b2"]),
    ],
)
def test_components_are_listed_and_filtered(carrying, filters, names):
    create(carrying, "a")
    create(carrying, "b1")
    create(carrying, "b2", "ep2")
    change(carrying, "a", status=ComponentStatus.IN_SERVICE, modified_s=9000.0)
    output = carrying.call("ListInferenceComponents", **filters)
    assert [item["InferenceComponentName"] for item in output["InferenceComponents"]] == names
    assert ("NextToken" in output) is ("MaxResults" in filters)
