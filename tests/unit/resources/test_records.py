from dataclasses import replace

import msgspec
import pytest

from warmroute.adapters.store.documents import decode, encode
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import (
    KIND_OF,
    ComponentRollout,
    ComponentSpecification,
    CopyNeeds,
    CopySpecification,
    Deployment,
    EndpointRecord,
    HostScaling,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    Resource,
    Rollout,
    RolloutPhase,
    VariantRecord,
)

LAUNCH = Launch("ml.local", "m", environment={"A": "1"})
VARIANT = VariantRecord(
    name="v", revision=3, launch=LAUNCH, count=2, routing=Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10)
)
DEPLOYMENT = Deployment("c", (VARIANT,), started_s=1.0)


def endpoint(**changes):
    values = {"name": "e", "arn": "a", "status": EndpointStatus.CREATING, "created_s": 1.0, "modified_s": 1.0}
    return EndpointRecord(**values | changes)


def test_every_resource_has_a_kind():
    assert set(KIND_OF) == set(Resource.__args__)


def test_an_endpoint_names_its_active_config_before_the_pending_one():
    other = Deployment("d", (), started_s=2.0)
    assert endpoint(pending=DEPLOYMENT).config_name == "c"
    assert endpoint(active=other, pending=DEPLOYMENT).config_name == "d"
    with pytest.raises(AssertionError):
        _ = endpoint().config_name


def test_variants_are_found_by_name_and_grouped_with_their_instances():
    assert DEPLOYMENT.variant("v") is VARIANT
    assert DEPLOYMENT.variant("w") is None
    instance = InstanceRecord("i-1", "e", "v", 3, LAUNCH, 60.0, 0.0, 0.0)
    assert instance.group == VARIANT.group == ("v", 3)
    assert instance.state is InstanceState.STARTING


def test_records_survive_being_written_down():
    record = endpoint(active=DEPLOYMENT, tags={"k": "v"}, last_policy={"x": [1]})
    assert decode(encode(record), EndpointRecord) == record


NEEDS = CopyNeeds(1024, 2048, 2.5, 1)
SPECIFICATION = ComponentSpecification(
    1,
    {"Specification": {"ModelName": "m"}},
    1.0,
    (CopySpecification(LAUNCH, NEEDS, "ml.x", 60.0, binpack=True),),
)


def component(**changes):
    values = {"name": "ic", "arn": "a", "endpoint": "e", "variant": "v", "status": ComponentStatus.UPDATING}
    return InferenceComponentRecord(**values | {"created_s": 1.0, "modified_s": 1.0} | changes)


def test_component_records_survive_being_written_down():
    record = component(
        active=SPECIFICATION,
        pending=SPECIFICATION,
        count=2,
        rollout=ComponentRollout(1, alarms=("a",)),
        tags={"k": "v"},
    )
    assert decode(encode(record), InferenceComponentRecord) == record
    scaling = VariantRecord(
        "v", 1, LAUNCH, 1, carries_copies=True, scaling=HostScaling(0, 4), pools=(LAUNCH,)
    )
    owner = endpoint(active=Deployment("c", (scaling,), 1.0))
    assert decode(encode(owner), EndpointRecord) == owner


def test_a_component_shows_what_serves_before_what_is_rolled_out():
    other = ComponentSpecification(2, {}, 2.0, artifact_url="s3://b/a.tar.gz")
    assert component(pending=other).specification is other
    assert component(active=SPECIFICATION, pending=other).specification is SPECIFICATION
    with pytest.raises(AssertionError):
        _ = component().specification


def test_copies_are_grouped_by_component_and_never_taken_for_a_variants_instances():
    copy = InstanceRecord("i-2", "e", "v", 3, LAUNCH, 60.0, 0.0, 0.0, component="v", host="i-1", devices=(1,))
    assert copy.group == ("/v", 3) != VARIANT.group
    assert decode(encode(copy), InstanceRecord) == copy


def test_instances_written_before_there_were_copies_can_be_read():
    old = (
        '{"instance_id":"i-1","endpoint":"e","variant":"v","revision":1,"launch":{"instance_type":"t",'
        '"model_name":"m"},"startup_s":60.0,"created_s":1.0,"not_before_s":1.0}'
    )
    record = decode(old, InstanceRecord)
    assert (record.component, record.host, record.devices, record.carries_copies) == ("", None, (), False)


def test_records_from_before_there_were_steps_and_shadows_are_read_as_without():
    record = endpoint(active=DEPLOYMENT, pending=DEPLOYMENT)
    old = msgspec.json.decode(encode(record))
    for name in ("rollout", "mixed"):
        del old[name]
    for name in ("active", "pending"):
        del old[name]["shadow"]
    assert decode(msgspec.json.encode(old).decode(), EndpointRecord) == record


def test_where_a_deployment_stands_survives_the_store():
    record = endpoint(
        active=replace(DEPLOYMENT, shadow=VARIANT),
        rollout=Rollout(2, RolloutPhase.BAKING, 7.5, back=1, kept=3),
        mixed=(VARIANT,),
    )
    assert decode(encode(record), EndpointRecord) == record
    assert record.active.all_variants == (VARIANT, VARIANT)
