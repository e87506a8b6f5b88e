from dataclasses import replace

import pytest

from warmroute.controlplane.ports import InstanceFact, InstancePhase
from warmroute.controlplane.publish import Identity, build_fleet
from warmroute.core.fleet import AccessKey, ApiKey, NativeMapping, Routing, RoutingStrategy, TargetState
from warmroute.core.machines import Image
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.planner import Rules
from warmroute.resources.records import (
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    Rollout,
    RolloutPhase,
    VariantRecord,
)

S = EndpointStatus
LAUNCH = Launch("t", "m", image="img")
RULES = Rules(images={"img": Image("img", native=NativeMapping.OPENAI, hold_first_event=True)})
ROUTING = Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10)
VARIANT = VariantRecord("v", 1, LAUNCH, 1, 0.5, ROUTING)
ENDPOINT = EndpointRecord("ep", "arn", S.IN_SERVICE, 0.0, 0.0, active=Deployment("c", (VARIANT,), 0.0))
INSTANCE = InstanceRecord(
    "i-1",
    "ep",
    "v",
    1,
    LAUNCH,
    60.0,
    0.0,
    0.0,
    InstanceState.IN_SERVICE,
    served=True,
    returns=2,
    model_name="llm",
)
FACT = InstanceFact(
    "i-1", "t", InstancePhase.RUNNING, 3, "10.0.0.1", 8000, tls=True, path_prefix="/p", api_key="key"
)


def fleet(*endpoints, instances=(INSTANCE,), facts=(FACT,), version=7):
    return build_fleet(
        endpoints or (ENDPOINT,),
        instances,
        facts={fact.instance_id: fact for fact in facts},
        rules=RULES,
        identity=Identity("r", "1", (AccessKey("A", "s"),), (ApiKey("p", "k"),), "key of ids"),
        version=version,
    )


def targets(built):
    return [target for endpoint in built.endpoints for v in endpoint.variants for target in v.targets]


def test_a_target_says_all_that_a_router_needs():
    built = fleet()
    assert (built.version, built.region, built.account) == (7, "r", "1")
    assert (len(built.access_keys), len(built.api_keys), built.session_key) == (1, 1, "key of ids")
    (variant,) = built.endpoints[0].variants
    assert (variant.name, variant.weight, variant.routing) == ("v", 0.5, ROUTING)
    (target,) = variant.targets
    assert (target.target_id, target.instance_id, target.generation) == ("i-1", "i-1", 5)
    assert (target.host, target.port, target.tls, target.path_prefix) == ("10.0.0.1", 8000, True, "/p")
    assert (target.model_name, target.api_key) == ("llm", "key")
    assert (target.native, target.hold_first_event) == (NativeMapping.OPENAI, True)


def test_images_that_are_not_declared_leave_the_defaults():
    other = replace(INSTANCE, launch=Launch("t", "m", image="other"), revision=9)
    (target,) = targets(fleet(instances=(other,)))
    assert (target.native, target.hold_first_event) == (NativeMapping.AUTO, False)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"state": InstanceState.STARTING}, None),
        ({"state": InstanceState.STOPPING}, None),
        ({"served": False}, None),
        ({"state": InstanceState.DRAINING}, TargetState.DRAINING),
        ({}, TargetState.IN_SERVICE),
    ],
)
def test_only_instances_that_serve_or_drain_are_in_the_fleet(changes, state):
    assert [t.state for t in targets(fleet(instances=(replace(INSTANCE, **changes),)))] == [state] * bool(
        state
    )


def test_an_instance_that_is_not_listed_is_not_in_the_fleet():
    assert targets(fleet(facts=())) == []


def test_instances_of_variants_that_are_gone_drain_without_a_share():
    old = replace(INSTANCE, variant="old", state=InstanceState.DRAINING)
    first, second = fleet(instances=(old,)).endpoints[0].variants
    assert (first.name, first.targets) == ("v", ())
    assert (second.name, second.weight, second.routing) == ("old", 0.0, Routing())
    assert len(second.targets) == 1


@pytest.mark.parametrize(
    ("status", "active", "in_service"),
    [
        (S.CREATING, False, False),
        (S.CREATING, True, True),
        (S.IN_SERVICE, True, True),
        (S.UPDATING, True, True),
        (S.ROLLING_BACK, True, True),
        (S.DELETING, True, False),
        (S.FAILED, False, False),
    ],
)
def test_an_endpoint_serves_while_it_has_something_to_serve_with(status, active, in_service):
    record = replace(ENDPOINT, status=status)
    if not active:
        record = replace(record, active=None, pending=ENDPOINT.active)
    assert fleet(record).endpoints[0].in_service is in_service


def test_a_fleet_does_not_depend_on_the_order_of_records():
    other = replace(ENDPOINT, name="a")
    second, fact = replace(INSTANCE, instance_id="i-0"), replace(FACT, instance_id="i-0")
    one = fleet(ENDPOINT, other, instances=(INSTANCE, second), facts=(FACT, fact))
    two = fleet(other, ENDPOINT, instances=(second, INSTANCE), facts=(fact, FACT))
    assert one == two
    assert [endpoint.name for endpoint in one.endpoints] == ["a", "ep"]


# --- deployments in steps, and shadows -----------------------------------------------------------
CANARY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 60,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 25},
        },
    }
}


def test_a_deployment_in_steps_shows_both_revisions_with_their_shares():
    green = replace(VARIANT, revision=2, routing=None)
    endpoint = replace(
        ENDPOINT, status=S.UPDATING, pending=Deployment("c2", (green,), 0.0, policy=CANARY),
        rollout=Rollout(0, RolloutPhase.BAKING, 0.0),
    )  # fmt: skip
    other = replace(INSTANCE, instance_id="i-2", revision=2)
    built = fleet(endpoint, instances=(INSTANCE, other), facts=(FACT, replace(FACT, instance_id="i-2")))
    old, new = built.endpoints[0].variants
    assert (old.name, old.revision, old.weight, old.share, old.routing) == ("v", 1, 0.5, 0.75, ROUTING)
    assert (new.name, new.revision, new.weight, new.share, new.routing) == ("v", 2, 0.5, 0.25, Routing())
    assert [t.target_id for t in old.targets + new.targets] == ["i-1", "i-2"]


def test_an_endpoint_whose_rollback_failed_serves_with_both_revisions():
    mixed = (VARIANT, replace(VARIANT, revision=2, count=3))
    built = fleet(replace(ENDPOINT, status=S.UPDATE_ROLLBACK_FAILED, mixed=mixed))
    assert built.endpoints[0].in_service
    assert [variant.share for variant in built.endpoints[0].variants] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("weight", "production", "share"), [(0.5, 1.0, 0.5), (1.0, 2.0, 0.5), (3.0, 1.0, 1.0), (1.0, 0.0, 0.0)]
)
def test_a_shadow_gets_copies_by_its_weight_over_that_of_production(weight, production, share):
    shadow = VariantRecord("s", 4, LAUNCH, 1, weight)
    active = replace(ENDPOINT.active, variants=(replace(VARIANT, weight=production),), shadow=shadow)
    instance = replace(INSTANCE, instance_id="i-2", variant="s", revision=4)
    draining = replace(instance, instance_id="i-3", revision=3, state=InstanceState.DRAINING)
    facts = [replace(FACT, instance_id=name) for name in ("i-1", "i-2", "i-3")]
    (built,) = fleet(
        replace(ENDPOINT, active=active), instances=(INSTANCE, instance, draining), facts=facts
    ).endpoints
    assert (built.shadow.name, built.shadow.revision, built.shadow.share) == ("s", 4, share)
    assert [target.target_id for target in built.shadow.targets] == ["i-2"]
    assert [(v.name, v.revision, v.share) for v in built.variants] == [("v", 1, 1.0), ("s", 3, 0.0)]
