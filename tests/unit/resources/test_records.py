import pytest

from warmroute.adapters.store.documents import decode, encode
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import (
    KIND_OF,
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    Resource,
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
