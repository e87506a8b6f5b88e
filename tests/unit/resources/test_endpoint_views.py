from dataclasses import replace

import pytest

from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import InstanceRecord, InstanceState, Rollout, RolloutPhase

S = EndpointStatus


def instance(api, number, group, state=InstanceState.IN_SERVICE):
    launch = api.endpoint().pending.variants[0].launch
    variant, revision = group
    api.put_instance(
        InstanceRecord(f"i-{number}", "ep", variant, revision, launch, 60.0, number, 0.0, state=state)
    )


@pytest.fixture
def creating(api, make_variant):
    api.model()
    routing = {
        "RoutingConfig": {"RoutingStrategy": "RANDOM"},
        "ManagedInstanceScaling": {"Status": "DISABLED"},
    }
    api.call(
        "CreateEndpointConfig",
        EndpointConfigName="c",
        ProductionVariants=[make_variant(**routing)],
        MetricsConfig={"EnableEnhancedMetrics": True},
    )
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    return api


def describe(api):
    return api.call("DescribeEndpoint", EndpointName="ep")


def test_an_endpoint_that_is_created_shows_what_comes(creating):
    instance(creating, 1, ("v", 1))
    instance(creating, 2, ("v", 1), InstanceState.STARTING)
    shown = describe(creating)
    assert (shown["EndpointStatus"], shown["EndpointConfigName"]) == ("Creating", "c")
    assert shown["MetricsConfig"] == {"EnableEnhancedMetrics": True}
    (variant,) = shown["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]) == (1, 2)
    assert variant["VariantStatus"][0]["Status"] == "Creating"
    (coming,) = shown["PendingDeploymentSummary"]["ProductionVariants"]
    assert (coming["InstanceType"], coming["CurrentInstanceCount"]) == ("ml.local", 1)
    assert coming["RoutingConfig"] == variant["RoutingConfig"] == {"RoutingStrategy": "RANDOM"}


def test_an_endpoint_in_service_shows_no_pending_deployment(creating):
    record = creating.endpoint()
    creating.put(
        replace(record, status=S.IN_SERVICE, active=record.pending, pending=None, last_policy={"p": 1})
    )
    shown = describe(creating)
    assert "PendingDeploymentSummary" not in shown
    assert "FailureReason" not in shown
    assert "VariantStatus" not in shown["ProductionVariants"][0]
    assert shown["LastDeploymentConfig"] == {"p": 1}
    assert shown["ProductionVariants"][0]["ManagedInstanceScaling"] == {"Status": "DISABLED"}


def test_an_update_shows_the_old_variants_with_what_is_wanted_of_them(creating):
    record = creating.endpoint()
    (old,) = record.pending.variants
    new = replace(old, count=5, weight=0.5)
    gone = replace(old, name="gone")
    active = replace(record.pending, variants=(old, gone))
    pending = replace(record.pending, config_name="c2", variants=(new,))
    creating.put(replace(record, status=S.UPDATING, active=active, pending=pending))
    shown = describe(creating)
    first, second = shown["ProductionVariants"]
    assert shown["EndpointConfigName"] == "c"
    assert (first["CurrentWeight"], first["DesiredWeight"]) == (1.0, 0.5)
    assert (first["DesiredInstanceCount"], second["DesiredInstanceCount"]) == (5, 2)
    assert shown["PendingDeploymentSummary"]["EndpointConfigName"] == "c2"


def test_a_failed_endpoint_says_why_and_has_nothing_pending(creating):
    creating.put(replace(creating.endpoint(), status=S.FAILED, failure_reason="because"))
    shown = describe(creating)
    assert (shown["EndpointStatus"], shown["FailureReason"]) == ("Failed", "because")
    assert "PendingDeploymentSummary" not in shown


def test_images_and_routing_that_were_not_given_are_not_shown(api, make_variant):
    api.call("CreateModel", ModelName="m", PrimaryContainer={})
    api.config()
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    (variant,) = describe(api)["ProductionVariants"]
    assert {"DeployedImages", "RoutingConfig"}.isdisjoint(variant)


def test_an_endpoint_that_does_not_exist(api):
    assert "Could not find endpoint" in api.refused("DescribeEndpoint", EndpointName="x").message


@pytest.mark.parametrize("sort_by", ["Name", "CreationTime", "Status"])
def test_endpoints_are_listed(creating, sort_by):
    (listed,) = creating.call("ListEndpoints", SortBy=sort_by)["Endpoints"]
    assert listed["EndpointStatus"] == "Creating"
    assert set(listed) == {
        "EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus"
    }  # fmt: skip


# --- deployments in steps ----------------------------------------------------------------------


POLICY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 60,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 25},
        },
    }
}


@pytest.fixture
def updating(creating, make_variant):
    """An endpoint whose update with a canary has begun."""
    creating.model("m2", Image="other")
    creating.call(
        "CreateEndpointConfig", EndpointConfigName="c2", ProductionVariants=[make_variant(ModelName="m2")]
    )
    record = creating.endpoint()
    creating.put(replace(record, status=S.IN_SERVICE, active=record.pending, pending=None))
    creating.call("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c2", DeploymentConfig=POLICY)
    for number, revision in enumerate((1, 1, 2, 2)):
        instance(creating, number, ("v", revision))
    return creating


@pytest.mark.parametrize(
    ("step", "phase", "weights", "statuses"),
    [
        (0, RolloutPhase.PROVISIONING, (1.0, 0.0), ("Updating", "Creating")),
        (0, RolloutPhase.SHIFTING, (0.75, 0.25), ("ActivatingTraffic", "ActivatingTraffic")),
        (0, RolloutPhase.BAKING, (0.75, 0.25), ("Baking", "Baking")),
        (1, RolloutPhase.BAKING, (0.0, 1.0), ("Baking", "Baking")),
        (1, RolloutPhase.TERMINATING, (0.0, 1.0), ("Deleting", "Updating")),
    ],
)
def test_a_deployment_in_steps_shows_where_it_is(updating, step, phase, weights, statuses):
    updating.put(replace(updating.endpoint(), rollout=Rollout(step, phase, 77.0)))
    shown = describe(updating)
    (old,), (new,) = shown["ProductionVariants"], shown["PendingDeploymentSummary"]["ProductionVariants"]
    assert (old["CurrentWeight"], new["CurrentWeight"]) == weights
    assert (old["DesiredWeight"], new["DesiredWeight"]) == (1.0, 1.0)
    assert (old["CurrentInstanceCount"], new["CurrentInstanceCount"]) == (2, 2)
    assert (old["VariantStatus"][0]["Status"], new["VariantStatus"][0]["Status"]) == statuses
    if phase is not RolloutPhase.PROVISIONING:
        assert old["VariantStatus"][0]["StartTime"] == 77.0
        assert old["VariantStatus"][0]["StatusMessage"]
    assert shown["LastDeploymentConfig"] == POLICY
    assert shown["EndpointConfigName"] == "c"


def test_other_weights_alone_are_no_pending_deployment(creating):
    record = creating.endpoint()
    creating.put(replace(record, status=S.IN_SERVICE, active=record.pending, pending=None))
    creating.call(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="ep",
        DesiredWeightsAndCapacities=[{"VariantName": "v", "DesiredWeight": 0.5}],
    )
    shown = describe(creating)
    assert shown["EndpointStatus"] == "Updating"
    assert "PendingDeploymentSummary" not in shown
    assert shown["ProductionVariants"][0]["DesiredWeight"] == 0.5


def test_a_failed_rollback_shows_the_instances_of_both_revisions(updating):
    record = updating.endpoint()
    old, new = record.active.variants[0], record.pending.variants[0]
    updating.put(
        replace(record, status=S.UPDATE_ROLLBACK_FAILED, pending=None, rollout=None, mixed=(old, new))
    )
    shown = describe(updating)
    assert shown["EndpointStatus"] == "UpdateRollbackFailed"
    assert shown["ProductionVariants"][0]["CurrentInstanceCount"] == 4
    assert "VariantStatus" not in shown["ProductionVariants"][0]


def test_a_shadow_is_shown_beside_production(creating, make_variant):
    creating.call(
        "CreateEndpointConfig",
        EndpointConfigName="cs",
        ProductionVariants=[make_variant()],
        ShadowProductionVariants=[make_variant(VariantName="s", InitialVariantWeight=0.5)],
    )
    creating.call("CreateEndpoint", EndpointName="es", EndpointConfigName="cs")
    shown = creating.call("DescribeEndpoint", EndpointName="es")
    (shadow,) = shown["ShadowProductionVariants"]
    assert (shadow["VariantName"], shadow["CurrentWeight"], shadow["DesiredInstanceCount"]) == ("s", 0.5, 2)
    assert shown["PendingDeploymentSummary"]["ShadowProductionVariants"][0]["VariantName"] == "s"


def test_pools_show_how_many_instances_of_each_type_serve(api, make_variant):
    pools = [{"InstanceType": "a", "Priority": 1}, {"InstanceType": "b", "Priority": 2}]
    variant = {k: v for k, v in make_variant(InstancePools=pools).items() if k != "InstanceType"}
    api.model()
    api.config("c", variant)
    api.call("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    launch = api.endpoint().pending.variants[0].pools[1]
    for number, state in enumerate((InstanceState.IN_SERVICE, InstanceState.STARTING)):
        api.put_instance(InstanceRecord(f"i-{number}", "ep", "v", 1, launch, 60.0, number, 0.0, state=state))
    shown = describe(api)
    (pending,) = shown["PendingDeploymentSummary"]["ProductionVariants"]
    assert "InstanceType" not in pending
    expected = [
        {"InstanceType": "a", "CurrentInstanceCount": 0},
        {"InstanceType": "b", "CurrentInstanceCount": 1},
    ]
    assert shown["ProductionVariants"][0]["InstancePools"] == pending["InstancePools"] == expected
