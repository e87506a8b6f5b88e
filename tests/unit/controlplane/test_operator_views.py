"""Documents of variants and instances: what is not known is left out."""

from dataclasses import replace

from warmroute.controlplane.operator_views import instance_document, rollout_document, variant_documents
from warmroute.controlplane.ports import InstanceFact, InstancePhase
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import EndpointStatus
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

BLUE = VariantRecord("v", 1, Launch("local", "m"), 2, routing=Routing(RoutingStrategy.PREFIX_AWARE, 2048, 8))
GREEN = replace(BLUE, revision=2, launch=Launch("local", "m2"))
ENDPOINT = EndpointRecord(
    "ep",
    "arn",
    EndpointStatus.UPDATING,
    0.0,
    0.0,
    active=Deployment("c1", (BLUE,), 0.0),
    pending=Deployment("c2", (GREEN,), 5.0),
)
RECORD = InstanceRecord("i-1", "ep", "v", 1, Launch("local", "m"), 60.0, 7.0, 7.0)
TARGET = Target("i-1", "i-1", 1, "127.0.0.1", 80, adapters=("lora",))


def fleet(*variants, name="ep"):
    return Fleet(1, "r", "a", endpoints=(Endpoint(name, True, variants),))


def shares(published):
    return [(one["Revision"], one["Share"]) for one in variant_documents(ENDPOINT, published)]


def test_each_revision_has_the_share_that_routers_give_it():
    routing = Routing()
    both = fleet(
        Variant("v", 1.0, routing, (), revision=1, share=0.9),
        Variant("v", 1.0, routing, (), revision=2, share=0.1),
    )
    assert shares(both) == [(1, 0.9), (2, 0.1)]


def test_a_revision_that_routers_do_not_know_has_no_share():
    assert shares(None) == [(1, 0.0), (2, 0.0)]
    assert shares(fleet(Variant("v", 1.0, Routing(), ()))) == [(1, 1.0), (2, 0.0)]
    assert shares(fleet(Variant("w", 1.0, Routing(), ()))) == [(1, 0.0), (2, 0.0)]
    assert shares(fleet(Variant("v", 1.0, Routing(), ()), name="other")) == [(1, 0.0), (2, 0.0)]


def test_a_shadow_is_shown_with_the_part_it_gets_copies_of():
    shadow = replace(BLUE, name="s", weight=0.2)
    endpoint = replace(ENDPOINT, active=replace(ENDPOINT.active, shadow=shadow), pending=None)
    target = replace(TARGET, adapters=("lora",))
    copied = Variant("s", 1.0, Routing(), (target,), revision=1, share=0.2)
    published = Fleet(1, "r", "a", endpoints=(Endpoint("ep", True, (), shadow=copied),))
    _, shown = variant_documents(endpoint, published)
    assert (shown["VariantName"], shown["Shadow"], shown["Share"]) == ("s", True, 0.2)
    instance = instance_document(RECORD, fact=None, observed=None, in_flight=None, fleet=published)
    assert instance["Adapters"] == ["lora"]


def test_what_a_failed_rollback_has_left_is_shown():
    mixed = replace(ENDPOINT, pending=None, mixed=(BLUE, GREEN))
    assert [(one["Revision"], one["ConfigName"]) for one in variant_documents(mixed, None)] == [
        (1, "c1"),
        (2, ""),
    ]


def test_a_deployment_in_steps_says_where_it_stands():
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 60}
    canary = routing | {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50}}
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": canary}}
    changing = replace(
        ENDPOINT,
        pending=replace(ENDPOINT.pending, policy=policy),
        rollout=Rollout(step=1, phase=RolloutPhase.BAKING, since_s=9.0),
    )
    assert rollout_document(changing) == {
        "Step": 1,
        "Steps": 2,
        "Phase": "baking",
        "Since": 9.0,
        "RollingBack": False,
    }
    assert rollout_document(ENDPOINT) is None
    assert rollout_document(replace(changing, pending=None)) is None


def test_a_variant_that_stays_is_shown_once():
    same = replace(ENDPOINT, pending=Deployment("c2", (replace(BLUE, count=5),), 5.0))
    (shown,) = variant_documents(same, None)
    assert shown == {
        "VariantName": "v",
        "Revision": 1,
        "InstanceType": "local",
        "DesiredInstanceCount": 5,
        "Weight": 1.0,
        "Share": 0.0,
        "ModelName": "m",
        "RoutingConfig": {
            "RoutingStrategy": "PREFIX_AWARE",
            "PrefixAwareRoutingConfig": {"PrefixLength": 2048, "ConcurrencyThreshold": 8},
        },
        "ConfigName": "c1",
        "Pending": False,
    }


def test_an_endpoint_without_a_model_or_a_strategy_says_neither():
    bare = replace(BLUE, launch=Launch("local", ""), routing=None)
    (shown,) = variant_documents(replace(ENDPOINT, active=None, pending=Deployment("c", (bare,), 0.0)), None)
    assert "ModelName" not in shown
    assert "RoutingConfig" not in shown


def test_of_an_instance_that_is_not_there_yet_little_is_known():
    assert instance_document(RECORD, fact=None, observed=None, in_flight=None, fleet=None) == {
        "InstanceId": "i-1",
        "EndpointName": "ep",
        "VariantName": "v",
        "Revision": 1,
        "State": "starting",
        "InstanceType": "local",
        "CreationTime": 7.0,
        "Attempt": 1,
    }


def test_what_is_known_of_an_instance_is_shown_and_no_key_of_its_server():
    record = replace(
        RECORD, state=InstanceState.DRAINING, in_service_s=8.0, draining_s=9.0, drain_ordered=True, reason="r"
    )
    fact = InstanceFact(
        "i-1", "local", InstancePhase.RUNNING, 1, "::1", 80, path_prefix="/p", api_key="hidden", pid=42
    )
    shown = instance_document(
        record,
        fact=fact,
        observed=Observed(running=True, failures=2, detail="503"),
        in_flight=0,
        fleet=fleet(
            Variant("v", 1.0, Routing(), (TARGET, replace(TARGET, target_id="i-2", adapters=("x",))))
        ),
    )
    assert {
        name: shown[name] for name in ("InFlight", "Url", "ProcessId", "Health", "FailedHealthChecks")
    } == {
        "InFlight": 0,
        "Url": "http://[::1]:80/p",
        "ProcessId": 42,
        "Health": "503",
        "FailedHealthChecks": 2,
    }
    assert shown["Adapters"] == ["lora"]
    assert shown["DrainOrdered"] is True
    assert shown["DrainingTime"] == 9.0
    assert "hidden" not in str(shown)


def test_a_copy_names_its_component_host_and_devices():
    copy = replace(RECORD, component="c", host="i-0", devices=(0, 1))
    shown = instance_document(copy, fact=None, observed=None, in_flight=None, fleet=fleet(name="other"))
    assert (shown["InferenceComponentName"], shown["HostInstanceId"], shown["Devices"]) == (
        "c",
        "i-0",
        [0, 1],
    )
    host = instance_document(
        replace(RECORD, carries_copies=True), fact=None, observed=None, in_flight=None, fleet=None
    )
    assert host["CarriesCopies"] is True
