from dataclasses import replace

import pytest

from warmroute.core import limits
from warmroute.resources.errors import ApiCode
from warmroute.resources.lifecycle import CHANGING, EndpointStatus
from warmroute.resources.records import InstanceRecord, Rollout

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:endpoint/ep"
S = EndpointStatus


def serving(api, *variants, config="c"):
    """An endpoint in service."""
    api.model()
    api.config(config, *variants)
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName=config)
    record = api.endpoint()
    api.put(replace(record, status=S.IN_SERVICE, active=record.pending, pending=None))


def pending(api):
    return api.endpoint().pending


def update(api, config="c2", **more):
    api.call("UpdateEndpoint", EndpointName="ep", EndpointConfigName=config, **more)
    return pending(api)


def test_creation_writes_down_what_is_wanted(api):
    api.model()
    api.config()
    created = api.call(
        "CreateEndpoint", EndpointName="ep", EndpointConfigName="c", Tags=[{"Key": "k", "Value": "v"}]
    )
    assert created == {"EndpointArn": ARN}
    record = api.endpoint()
    assert (record.status, record.active, record.tags) == (S.CREATING, None, {"k": "v"})
    (variant,) = record.pending.variants
    assert (variant.name, variant.count, variant.revision) == ("v", 2, 1)


def test_names_differ_in_more_than_case(api):
    serving(api)
    error = api.refused("CreateEndpoint", EndpointName="EP", EndpointConfigName="c")
    assert error.message == f'Cannot create already existing endpoint "{ARN}".'


def test_the_number_of_endpoints_is_bounded(api, monkeypatch):
    monkeypatch.setattr(limits, "ENDPOINTS_MAX", 1)
    serving(api)
    assert api.refused("CreateEndpoint", EndpointName="e2", EndpointConfigName="c").code is ApiCode.LIMIT


def test_what_does_not_exist_is_named(api):
    assert (
        "endpoint-config/c"
        in api.refused("CreateEndpoint", EndpointName="ep", EndpointConfigName="c").message
    )
    for operation in ("UpdateEndpoint", "UpdateEndpointWeightsAndCapacities", "DeleteEndpoint"):
        assert api.refused(operation, EndpointName="ep").message == f'Could not find endpoint "{ARN}".'
    api.model()
    api.config()
    api.call("DeleteModel", ModelName="m")
    error = api.refused("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    assert error.message.startswith("Could not find model")


@pytest.mark.parametrize("status", sorted(CHANGING))
def test_an_endpoint_that_is_changing_takes_no_change(api, status):
    serving(api)
    api.put(replace(api.endpoint(), status=status))
    for operation in ("UpdateEndpoint", "UpdateEndpointWeightsAndCapacities", "DeleteEndpoint"):
        config = {"EndpointConfigName": "c"} if operation == "UpdateEndpoint" else {}
        error = api.refused(operation, EndpointName="ep", **config)
        assert error.message == f'Cannot update in-progress endpoint "{ARN}".'


def test_a_failed_endpoint_can_only_be_deleted(api):
    serving(api)
    api.put(replace(api.endpoint(), status=S.FAILED))
    error = api.refused("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c")
    assert "status is Failed" in error.message
    api.call("DeleteEndpoint", EndpointName="ep")
    assert api.endpoint().status is S.DELETING


@pytest.mark.parametrize(
    "changes",
    [
        {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}},
        {"InitialInstanceCount": 5},
        {"InitialVariantWeight": 0.5},
        {"VolumeSizeInGB": 10},
    ],
)
def test_changes_that_no_server_notices_keep_the_instances(api, make_variant, changes):
    serving(api)
    api.config("c2", make_variant(**changes))
    (variant,) = update(api).variants
    assert variant.revision == 1
    assert (api.endpoint().status, api.endpoint().active.config_name) == (S.UPDATING, "c")


def test_another_model_needs_new_instances_of_a_revision_never_used(api, make_variant):
    serving(api)
    api.model("m2")
    launch = api.endpoint().active.variants[0].launch
    api.put_instance(InstanceRecord("i-1", "ep", "v", 4, launch, 60.0, 0.0, 0.0))
    api.put_instance(InstanceRecord("i-2", "ep", "other", 9, launch, 60.0, 0.0, 0.0))
    api.config("c2", make_variant(ModelName="m2"))
    (variant,) = update(api).variants
    assert variant.revision == 5


def test_a_variant_that_is_new_begins_with_its_first_revision(api, make_variant):
    serving(api)
    api.config("c2", make_variant(), make_variant(VariantName="w"))
    assert [variant.revision for variant in update(api).variants] == [1, 1]


def test_static_servers_serve_whatever_the_model_is_called(api, make_variant):
    serving(api, make_variant(InstanceType="fixed"))
    api.model("m2")
    api.config("c2", make_variant(InstanceType="fixed", ModelName="m2"))
    (variant,) = update(api).variants
    assert (variant.revision, variant.launch.model_name) == (1, "m2")


@pytest.mark.parametrize(
    ("excluded", "count", "weight"),
    [
        ([], 7, 0.3),
        (["DesiredInstanceCount"], 2, 0.3),
        (["DesiredWeight"], 7, 1.0),
        (["DesiredInstanceCount", "DesiredWeight", "DataCaptureConfig"], 2, 1.0),
    ],
)
def test_counts_and_weights_in_force_can_be_retained(api, make_variant, excluded, count, weight):
    serving(api)
    active = api.endpoint().active
    changed = replace(active.variants[0], count=7, weight=0.3)
    api.put(replace(api.endpoint(), active=replace(active, variants=(changed,))))
    api.config("c2", make_variant(), make_variant(VariantName="new"))
    variant, new = update(
        api,
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": kind} for kind in excluded],
    ).variants
    assert (variant.count, variant.weight) == (count, weight)
    assert (new.count, new.weight) == (2, 1.0)


def test_counts_and_weights_come_from_the_config_otherwise(api):
    serving(api)
    active = api.endpoint().active
    api.put(replace(api.endpoint(), active=replace(active, variants=(replace(active.variants[0], count=7),))))
    assert update(api, "c").variants[0].count == 2


def test_exclusions_without_retention_are_refused(api):
    serving(api)
    error = api.refused(
        "UpdateEndpoint",
        EndpointName="ep",
        EndpointConfigName="c",
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
    )
    assert "RetainAllVariantProperties" in error.message


def test_a_deployment_config_can_be_retained_but_not_given_as_well(api):
    policy = {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
        }
    }
    serving(api)
    update(api, "c", DeploymentConfig=policy)
    assert api.endpoint().last_policy == policy
    api.put(replace(api.endpoint(), status=S.IN_SERVICE, pending=None))
    both = {"RetainDeploymentConfig": True, "DeploymentConfig": policy}
    error = api.refused("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c", **both)
    assert "RetainDeploymentConfig" in error.message
    assert update(api, "c", RetainDeploymentConfig=True).policy == policy


def test_weights_and_counts_of_variants_in_service_change(api, make_variant):
    serving(api, make_variant(), make_variant(VariantName="w"))
    api.call(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="ep",
        DesiredWeightsAndCapacities=[
            {"VariantName": "v", "DesiredWeight": 0},
            {"VariantName": "w", "DesiredInstanceCount": 0},
        ],
    )
    v, w = pending(api).variants
    assert (v.weight, v.count, w.weight, w.count) == (0.0, 2, 1.0, 0)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            [{"VariantName": "x"}, {"VariantName": "y"}],
            'The variant name(s) "x", "y" is/are not present within endpoint configuration "c".',
        ),
        (
            [{"VariantName": "v"}, {"VariantName": "v"}],
            'The variant name "v" was non-unique within the request.',
        ),
        ([{"VariantName": "v", "ServerlessUpdateConfig": {"MaxConcurrency": 1}}], "ServerlessUpdateConfig"),
        ([{"VariantName": "v", "DesiredInstanceCount": 1001}], "At most 1000"),
    ],
)
def test_weights_and_counts_that_are_refused(api, items, text):
    serving(api)
    error = api.refused(
        "UpdateEndpointWeightsAndCapacities", EndpointName="ep", DesiredWeightsAndCapacities=items
    )
    assert text in error.message


def carrying(make_variant, **changes):
    given = make_variant(**changes)
    return {name: value for name, value in given.items() if name != "ModelName" and value is not None}


def test_an_update_keeps_the_hosts_that_copies_need_within_the_new_range(api, make_variant):
    def scaled(most):
        scaling = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": most}
        return carrying(make_variant, InitialInstanceCount=1, ManagedInstanceScaling=scaling)

    api.config("c", scaled(5))
    api.config("same", scaled(5))
    api.config("fewer", scaled(2))
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    record = api.endpoint()
    grown = replace(record.pending, variants=(replace(record.pending.variants[0], count=4),))
    for config, expected in (("same", 4), ("fewer", 2)):
        api.put(replace(record, status="InService", active=grown, pending=None))
        api.call("UpdateEndpoint", EndpointName="ep", EndpointConfigName=config)
        assert api.endpoint().pending.variants[0].count == expected


@pytest.mark.parametrize(("first", "second"), [("models", "copies"), ("copies", "models")])
def test_an_endpoint_stays_of_its_kind(api, make_variant, first, second):
    api.model()
    api.config("models", make_variant())
    api.config("copies", carrying(make_variant))
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName=first)
    record = api.endpoint()
    api.put(replace(record, status="InService", active=record.pending, pending=None))
    error = api.refused("UpdateEndpoint", EndpointName="ep", EndpointConfigName=second)
    assert error.message.startswith('Update operation is not supported for endpoint "arn:')
    assert error.message.endswith("Create another endpoint.")


def test_an_update_keeps_instances_only_when_every_pool_is_the_same(api, make_variant):
    def pools(*types):
        listed = [{"InstanceType": name, "Priority": place} for place, name in enumerate(types, 1)]
        return carrying(make_variant, InstanceType=None, InstancePools=listed)

    def revision():
        return api.endpoint().pending.variants[0].revision

    api.config("one", pools("a", "b"))
    api.config("same", pools("a", "b"))
    api.config("more", pools("a", "b", "c"))
    api.config("other", pools("a", "c"))
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="one")
    record = api.endpoint()
    serving = replace(record, status="InService", active=record.pending, pending=None)
    for config, expected in (("same", 1), ("more", 2), ("other", 2)):
        api.put(serving)
        api.call("UpdateEndpoint", EndpointName="ep", EndpointConfigName=config)
        assert revision() == expected, config


# --- deployments in steps ------------------------------------------------------------------------


def canary(**more):
    routing = {
        "Type": "CANARY",
        "WaitIntervalInSeconds": 60,
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
    }
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing} | more}


def other_model(api, make_variant, **changes):
    serving(api)
    api.model("m2", Image="other")
    api.config("c2", make_variant(ModelName="m2", **changes))


def test_a_deployment_in_steps_begins_with_its_first(api, make_variant):
    other_model(api, make_variant)
    update(api, DeploymentConfig=canary())
    record = api.endpoint()
    assert (record.rollout, record.last_policy) == (Rollout(since_s=api.now_s), canary())


def test_a_change_of_strategy_alone_goes_at_once_whatever_the_policy(api, make_variant):
    serving(api)
    api.config("c2", make_variant(RoutingConfig={"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}))
    update(api, DeploymentConfig=canary())
    assert api.endpoint().rollout is None


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (canary(MaximumExecutionTimeoutInSeconds=120), "the deployment waits 120 s: 2 times"),
        (canary() | {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "x"}]}}, 'do not exist: "x"'),
        (
            {
                "RollingUpdatePolicy": {
                    "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 2},
                    "WaitIntervalInSeconds": 0,
                }
            },
            "2 of the 2 instances",
        ),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(api, make_variant, policy, text):
    other_model(api, make_variant)
    error = api.refused("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c2", DeploymentConfig=policy)
    assert text in error.message
    assert api.endpoint().status is S.IN_SERVICE


def test_a_policy_can_be_given_at_creation_and_retained(api, make_variant):
    api.model()
    api.config()
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c", DeploymentConfig=canary())
    record = api.endpoint()
    assert record.last_policy == canary()
    api.put(replace(record, status=S.IN_SERVICE, active=record.pending, pending=None))
    api.model("m2", Image="other")
    api.config("c2", make_variant(ModelName="m2"))
    update(api, RetainDeploymentConfig=True)
    assert api.endpoint().rollout is not None


def test_bounds_of_sizes_hold_for_retained_counts(api, make_variant):
    other_model(api, make_variant, InitialInstanceCount=4)
    rolling = {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 2},
            "WaitIntervalInSeconds": 0,
        }
    }
    error = api.refused(
        "UpdateEndpoint",
        EndpointName="ep",
        EndpointConfigName="c2",
        DeploymentConfig=rolling,
        RetainAllVariantProperties=True,
    )
    assert "2 of the 2 instances" in error.message
    update(api, DeploymentConfig=rolling)
    assert api.endpoint().rollout is not None


@pytest.fixture
def mixed(api, make_variant):
    """An endpoint whose rollback failed: one instance of the old revision, two of the new."""
    other_model(api, make_variant)
    (new,) = update(api, DeploymentConfig=canary()).variants
    record = api.endpoint()
    old = record.active.variants[0]
    api.put(
        replace(
            record,
            status=S.UPDATE_ROLLBACK_FAILED,
            pending=None,
            rollout=None,
            awaits=9,
            mixed=(replace(old, count=1), new),
        )
    )
    return api


@pytest.mark.parametrize(("config", "revision"), [("c", 1), ("c2", 2)])
def test_a_repair_keeps_the_instances_of_either_revision(mixed, config, revision):
    (variant,) = update(mixed, config, DeploymentConfig=canary()).variants
    assert variant.revision == revision
    record = mixed.endpoint()
    assert (record.status, record.rollout, record.awaits) == (S.UPDATING, None, None)


def test_a_repair_with_a_third_model_goes_in_steps(mixed, make_variant):
    mixed.model("m3", Image="third")
    mixed.config("c3", make_variant(ModelName="m3"))
    update(mixed, "c3", DeploymentConfig=canary())
    assert mixed.endpoint().rollout is not None


def test_weights_and_counts_wait_for_the_repair(mixed):
    items = [{"VariantName": "v", "DesiredWeight": 2}]
    error = mixed.refused(
        "UpdateEndpointWeightsAndCapacities", EndpointName="ep", DesiredWeightsAndCapacities=items
    )
    assert "Repair it with UpdateEndpoint" in error.message


def test_what_a_failed_rollback_left_can_be_deleted(mixed):
    mixed.call("DeleteEndpoint", EndpointName="ep")
    record = mixed.endpoint()
    assert (record.status, record.mixed, record.rollout) == (S.DELETING, (), None)


# --- shadow variants -------------------------------------------------------------------------------


@pytest.fixture
def shadowed(api, make_variant):
    api.model()
    api.call(
        "CreateEndpointConfig",
        EndpointConfigName="c",
        ProductionVariants=[make_variant()],
        ShadowProductionVariants=[make_variant(VariantName="s", InitialVariantWeight=0.5)],
    )
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    record = api.endpoint()
    api.put(replace(record, status=S.IN_SERVICE, active=record.pending, pending=None))
    return api


def test_a_shadow_is_a_variant_of_its_own(shadowed):
    active = shadowed.endpoint().active
    assert [variant.name for variant in active.variants] == ["v"]
    assert (active.shadow.name, active.shadow.weight, active.shadow.count) == ("s", 0.5, 2)
    assert active.variant("s") is active.shadow


def test_a_shadows_weight_and_count_change_by_its_name(shadowed):
    items = [{"VariantName": "s", "DesiredWeight": 0.25, "DesiredInstanceCount": 1}]
    shadowed.call("UpdateEndpointWeightsAndCapacities", EndpointName="ep", DesiredWeightsAndCapacities=items)
    changed = pending(shadowed)
    assert (changed.shadow.weight, changed.shadow.count) == (0.25, 1)
    assert changed.variants == shadowed.endpoint().active.variants


def test_a_shadow_that_runs_the_same_keeps_its_instances_and_may_leave(shadowed, make_variant):
    assert update(shadowed, "c").shadow.revision == shadowed.endpoint().active.shadow.revision
    record = shadowed.endpoint()
    shadowed.put(replace(record, status=S.IN_SERVICE, pending=None))
    shadowed.config("plain", make_variant())
    assert update(shadowed, "plain").shadow is None
