from dataclasses import replace

import pytest

from warmroute.core import limits
from warmroute.resources.components.operations import internal_state
from warmroute.resources.errors import ApiCode
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import InstanceRecord, Launch

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:inference-component"
NEEDS = {"MinMemoryRequiredInMb": 256}
SPECIFICATION = {"ModelName": "m", "ComputeResourceRequirements": NEEDS}
ADAPTER = {"BaseInferenceComponentName": "ic", "Container": {"ArtifactUrl": "s3://b/a.tar.gz"}}
VARIANT = {"VariantName": "v", "InstanceType": "ml.local", "InitialInstanceCount": 1}


@pytest.fixture
def carrying(api):
    api.model()
    api.config("c", VARIANT)
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    return api


def create(api, name="ic", **changes):
    request = {"EndpointName": "ep", "Specification": SPECIFICATION} | changes
    return api.call("CreateInferenceComponent", InferenceComponentName=name, **request)


def refused(api, **changes):
    request = {"InferenceComponentName": "ic", "EndpointName": "ep", "Specification": SPECIFICATION} | changes
    given = {name: value for name, value in request.items() if value is not None}
    return api.refused("CreateInferenceComponent", **given)


def read(api, name="ic"):
    with api.store.transaction() as tables:
        return tables.inference_component(name)


def serve(api, name="ic", **changes):
    """Do what the planner will have done."""
    record = read(api, name)
    settled = {
        "status": ComponentStatus.IN_SERVICE,
        "active": record.pending or record.active,
        "pending": None,
    }
    api.put(replace(record, **(settled | changes)))


def test_a_component_is_creating_first(carrying):
    assert create(carrying, RuntimeConfig={"CopyCount": 3}) == {"InferenceComponentArn": f"{ARN}/ic"}
    record = read(carrying)
    assert (record.status, record.variant, record.count, record.base) == ("Creating", "v", 3, "")
    assert (record.active, record.pending.revision) == (None, 1)
    assert record.pending.for_type("anything").launch.image == "img"
    assert internal_state(record) == "CREATE_IN_PROGRESS"


def test_one_copy_is_wanted_unless_said_otherwise(carrying):
    create(carrying)
    assert read(carrying).count == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"EndpointName": "x"}, "Could not find endpoint"),
        ({"Specification": None}, "needs Specification or Specifications"),
        (
            {"VariantName": "w"},
            'The variant name(s) "w" is/are not present within endpoint configuration "c".',
        ),
        ({"Specification": ADAPTER}, "Could not find inference component"),
    ],
)
def test_what_cannot_be_created_is_refused(carrying, changes, text):
    assert text in refused(carrying, **changes).message


def test_names_are_taken_once_wherever_the_endpoint(carrying):
    create(carrying)
    assert refused(carrying).message == f'Cannot create already existing inference component "{ARN}/ic".'


def test_endpoints_of_models_take_none(api):
    api.model()
    api.config()
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    assert "is not for inference components" in refused(api).message


@pytest.mark.parametrize("status", [EndpointStatus.FAILED, EndpointStatus.DELETING])
def test_endpoints_that_end_take_none(carrying, status):
    carrying.put(replace(carrying.endpoint(), status=status))
    assert f"because its status is {status}" in refused(carrying).message


def test_with_several_variants_one_must_be_named(api):
    api.model()
    api.config("c", VARIANT, VARIANT | {"VariantName": "w"})
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    assert refused(api).message == 'Give VariantName: endpoint "ep" has v, w.'
    create(api, VariantName="w")
    assert read(api).variant == "w"


def test_numbers_are_bounded(carrying, monkeypatch):
    most = limits.COPIES_PER_COMPONENT_MAX
    assert refused(carrying, RuntimeConfig={"CopyCount": most + 1}).code is ApiCode.LIMIT
    create(carrying, RuntimeConfig={"CopyCount": most})
    monkeypatch.setattr(limits, "INFERENCE_COMPONENTS_MAX", 1)
    assert refused(carrying, InferenceComponentName="one-more").code is ApiCode.LIMIT


def test_adapters_are_on_the_variant_of_their_base_and_have_no_copies(carrying):
    create(carrying)
    create(carrying, "lora", Specification=ADAPTER)
    record = read(carrying, "lora")
    assert (record.base, record.variant, record.count) == ("ic", "v", 0)
    assert (record.pending.artifact_url, record.pending.copies) == ("s3://b/a.tar.gz", ())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"Specification": ADAPTER | {"BaseInferenceComponentName": "lora"}}, "is an adapter itself"),
        ({"VariantName": "w"}, 'is on variant "v"'),
        ({"RuntimeConfig": {"CopyCount": 1}}, "an adapter has no copies"),
        ({"EndpointName": "other"}, 'is on endpoint "ep", not on "other"'),
    ],
)
def test_adapters_that_do_not_fit_their_base_are_refused(carrying, changes, text):
    create(carrying)
    create(carrying, "lora", Specification=ADAPTER)
    carrying.call("CreateEndpoint", EndpointName="other", EndpointConfigName="c")
    given = {"InferenceComponentName": "second", "Specification": ADAPTER} | changes
    assert text in refused(carrying, **given).message


def test_a_base_that_is_being_deleted_takes_no_adapter(carrying):
    create(carrying)
    serve(carrying, status=ComponentStatus.DELETING)
    assert (
        "is being deleted" in refused(carrying, InferenceComponentName="lora", Specification=ADAPTER).message
    )


def test_another_number_of_copies(carrying):
    create(carrying)
    serve(carrying)
    carrying.call(
        "UpdateInferenceComponentRuntimeConfig",
        InferenceComponentName="ic",
        DesiredRuntimeConfig={"CopyCount": 0},
    )
    record = read(carrying)
    assert (record.status, record.count, record.pending) == ("Updating", 0, None)
    assert internal_state(record) == "UPDATE_RC_IN_PROGRESS"


def update(api, **changes):
    api.call("UpdateInferenceComponent", InferenceComponentName="ic", **changes)
    return read(api)


def test_other_copies_get_a_revision_of_their_own(carrying):
    create(carrying)
    serve(carrying)
    carrying.put_instance(
        InstanceRecord("i-1", "ep", "v", 4, Launch("ml.local", ""), 60.0, 1.0, 1.0, component="ic")
    )
    record = update(
        carrying,
        Specification=SPECIFICATION | {"ComputeResourceRequirements": {"MinMemoryRequiredInMb": 512}},
    )
    assert (record.active.revision, record.pending.revision) == (1, 5)
    assert record.rollout is not None
    assert internal_state(record) == "UPDATE_IN_PROGRESS"


def test_copies_that_run_the_same_thing_stay(carrying):
    create(carrying)
    serve(carrying)
    record = update(
        carrying, Specification=SPECIFICATION | {"SchedulingConfig": {"PlacementStrategy": "BINPACK"}}
    )
    assert record.pending.revision == record.active.revision == 1
    assert record.pending.copies[0].binpack


def test_both_kinds_of_update_in_one_call(carrying):
    create(carrying)
    serve(carrying)
    rolling = {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 2},
            "WaitIntervalInSeconds": 9,
        }
    }
    record = update(
        carrying,
        Specification={"Container": {"Image": "new"}, "ComputeResourceRequirements": NEEDS},
        RuntimeConfig={"CopyCount": 4},
        DeploymentConfig=rolling,
    )
    assert (record.count, record.rollout.batch, record.rollout.wait_s) == (4, 2, 9.0)
    assert record.rollout.old_max == 1
    assert record.last_policy == rolling


def test_an_adapter_always_gets_a_new_revision_for_its_files_may_be_new(carrying):
    create(carrying)
    create(carrying, "lora", Specification=ADAPTER)
    serve(carrying, "lora")
    carrying.call("UpdateInferenceComponent", InferenceComponentName="lora", Specification=ADAPTER)
    record = read(carrying, "lora")
    assert (record.pending.revision, record.rollout) == (2, None)


def test_a_failed_creation_can_be_tried_again(carrying):
    create(carrying)
    carrying.put(replace(read(carrying), status=ComponentStatus.FAILED, failure_reason="why"))
    record = update(carrying, RuntimeConfig={"CopyCount": 2})
    assert (record.status, record.count, record.failure_reason, record.rollout) == ("Updating", 2, None, None)
    assert record.pending is not None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "needs Specification, Specifications or RuntimeConfig"),
        ({"DeploymentConfig": {}}, "needs Specification, Specifications or RuntimeConfig"),
        (
            {"RuntimeConfig": {"CopyCount": 1}, "DeploymentConfig": {}},
            "DeploymentConfig is allowed only with",
        ),
        ({"RuntimeConfig": {"CopyCount": 1001}}, "At most 1000 are allowed"),
        ({"Specification": ADAPTER}, "BaseInferenceComponentName cannot be changed"),
    ],
)
def test_updates_that_ask_for_nothing_or_too_much_are_refused(carrying, changes, text):
    create(carrying)
    serve(carrying)
    assert (
        text in carrying.refused("UpdateInferenceComponent", InferenceComponentName="ic", **changes).message
    )


def test_an_adapter_stays_one_and_has_no_number_of_copies(carrying):
    create(carrying)
    create(carrying, "lora", Specification=ADAPTER)
    serve(carrying, "lora")
    name = {"InferenceComponentName": "lora"}
    assert (
        "is an adapter of"
        in carrying.refused("UpdateInferenceComponent", **name, Specification=SPECIFICATION).message
    )
    error = carrying.refused(
        "UpdateInferenceComponentRuntimeConfig", **name, DesiredRuntimeConfig={"CopyCount": 1}
    )
    assert "has no copies of its own" in error.message


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Creating", "CREATE_IN_PROGRESS"),
        ("Updating", "UPDATE_RC_IN_PROGRESS"),
        ("Deleting", "DELETE_IN_PROGRESS"),
    ],
)
def test_a_component_in_transition_takes_no_change(carrying, status, state):
    create(carrying)
    serve(carrying, status=ComponentStatus(status))
    name = {"InferenceComponentName": "ic"}
    text = f'inference component "{ARN}/ic" while it is in state {state}.'
    assert carrying.refused("DeleteInferenceComponent", **name).message == f"Cannot delete {text}"
    error = carrying.refused(
        "UpdateInferenceComponentRuntimeConfig", **name, DesiredRuntimeConfig={"CopyCount": 1}
    )
    assert error.message == f"Cannot update {text}"


def test_deletion_waits_for_the_copies(carrying):
    create(carrying)
    serve(carrying)
    assert internal_state(read(carrying)) == "InService"
    carrying.call("DeleteInferenceComponent", InferenceComponentName="ic")
    assert read(carrying).status is ComponentStatus.DELETING


def test_a_base_with_adapters_stays(carrying):
    create(carrying)
    create(carrying, "lora", Specification=ADAPTER)
    serve(carrying)
    error = carrying.refused("DeleteInferenceComponent", InferenceComponentName="ic")
    assert (
        "is a base inference component for one or more associated inference components: lora" in error.message
    )


def test_components_outlive_their_endpoint_and_can_be_deleted_then(carrying):
    create(carrying)
    serve(carrying)
    with carrying.store.transaction() as tables:
        tables.remove(tables.endpoint("ep"))
    name = {"InferenceComponentName": "ic"}
    error = carrying.refused(
        "UpdateInferenceComponentRuntimeConfig", **name, DesiredRuntimeConfig={"CopyCount": 1}
    )
    assert "Could not find endpoint" in error.message
    carrying.call("DeleteInferenceComponent", **name)
    assert read(carrying) is None


@pytest.mark.parametrize("operation", ["DescribeInferenceComponent", "DeleteInferenceComponent"])
def test_components_that_do_not_exist(api, operation):
    error = api.refused(operation, InferenceComponentName="x")
    assert error.message == f'Could not find inference component "{ARN}/x".'
