"""The operations of the Warmroute prefix: describe an endpoint, drain an instance, read a log."""

import json

import pytest

from tests.unit.controlplane.conftest import TYPES
from warmroute.controlplane.operator import OperatorService
from warmroute.controlplane.ports import LogPiece
from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError


class Logs:
    def __init__(self):
        self.asked = []

    def read(self, instance_id, *, begin, bytes_max):
        self.asked.append((instance_id, begin, bytes_max))
        return LogPiece("hello\n", 0, 6, 6) if instance_id == "i-known" else None


class Operator:
    """The service over a control plane in pieces."""

    def __init__(self, plane):
        self.logs = Logs()
        self.in_flight = {}
        self.service = OperatorService(
            store=plane.store,
            reconciler=plane.reconciler,
            service=plane.service,
            logs=self.logs,
            in_flight=lambda: self.in_flight,
            instance_types=TYPES,
            clock=plane.clock,
        )

    async def __call__(self, operation, **members):
        return await self.service.call(operation, json.dumps(members).encode())

    async def refused(self, operation, **members):
        with pytest.raises(ApiError) as caught:
            await self(operation, **members)
        return caught.value


def test_an_endpoint_is_described_with_its_variants_and_instances(plane):
    async def test(p):
        operator = Operator(p)
        await p.create(count=2)
        await p.settle()
        first, second = (record.instance_id for record in p.instances())
        operator.in_flight = {first: 3}
        shown = await operator("DescribeEndpoint", EndpointName="ep")
        assert shown["Endpoint"]["EndpointStatus"] == "InService"
        (variant,) = shown["Variants"]
        assert variant["VariantName"] == "v"
        assert variant["ModelName"] == "m"
        assert variant["DesiredInstanceCount"] == 2
        assert variant["Share"] == 1.0
        assert not variant["Pending"]
        instances = {one["InstanceId"]: one for one in shown["Instances"]}
        assert instances.keys() == {first, second}
        assert instances[first]["State"] == "in_service"
        assert instances[first]["InFlight"] == 3
        assert "InFlight" not in instances[second]
        assert instances[first]["Url"].startswith("http://")

    plane(test)


def test_an_endpoint_that_changes_shows_what_is_deployed_beside_what_serves(plane):
    async def test(p):
        operator = Operator(p)
        await p.create(count=1)
        await p.settle()
        await p.config("c2", count=1, InstanceType="fixed")
        p.service._apply("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c2"})
        shown = await operator("DescribeEndpoint", EndpointName="ep")
        assert [(one["ConfigName"], one["Pending"], one["Share"]) for one in shown["Variants"]] == [
            ("c", False, 1.0),
            ("c2", True, 0.0),
        ]

    plane(test)


def test_a_drained_instance_is_replaced_and_leaves_when_it_is_idle(plane):
    async def test(p):
        operator = Operator(p)
        await p.create(count=2)
        await p.settle()
        first = p.instances()[0].instance_id
        p.routers.leases = 1
        answer = await operator("DrainInstance", InstanceId=first)
        assert answer == {"InstanceId": first, "EndpointName": "ep", "State": "draining", "Replaced": True}
        await p.step(5)
        states = {record.instance_id: str(record.state) for record in p.instances()}
        assert states.pop(first) == "draining"
        assert list(states.values()) == ["in_service", "in_service"]
        p.routers.leases = 0
        await p.settle()
        assert first not in [record.instance_id for record in p.instances()]

    plane(test)


def test_a_drain_outlives_a_restart_of_control(plane):
    async def test(p):
        operator = Operator(p)
        await p.create(count=1)
        await p.settle()
        first = p.instances()[0].instance_id
        await operator("DrainInstance", InstanceId=first)
        p.restart()
        await p.settle()
        (left,) = p.instances()
        assert left.instance_id != first

    plane(test)


def test_a_drain_without_replacement_shrinks_the_variant(plane):
    async def test(p):
        operator = Operator(p)
        await p.create(count=2)
        await p.settle()
        first = p.instances()[0].instance_id
        assert not (await operator("DrainInstance", InstanceId=first, Replace=False))["Replaced"]
        await p.settle()
        assert [record.instance_id for record in p.instances()] != [first]
        assert len(p.instances()) == 1
        shown = await operator("DescribeEndpoint", EndpointName="ep")
        assert shown["Variants"][0]["DesiredInstanceCount"] == 1

    plane(test)


def test_a_log_is_read_piece_by_piece(plane):
    async def test(p):
        operator = Operator(p)
        answer = await operator("ReadLog", InstanceId="i-known", Begin=4)
        assert answer == {
            "InstanceId": "i-known",
            "Text": "hello\n",
            "Begin": 0,
            "End": 6,
            "Size": 6,
            "Ended": False,
        }
        assert operator.logs.asked == [("i-known", 4, limits.LOG_PIECE_BYTES_MAX)]

    plane(test)


@pytest.mark.parametrize(
    ("operation", "members", "text"),
    [
        ("DescribeEndpoint", {"EndpointName": "no"}, "Could not find endpoint"),
        ("DescribeEndpoint", {}, "Object missing required field `EndpointName`."),
        ("DescribeEndpoint", {"EndpointName": 1}, "Expected `str`, got `int` - at `$.EndpointName`."),
        ("DrainInstance", {"InstanceId": "i-no"}, 'Could not find instance "i-no".'),
        ("DrainInstance", {"InstanceId": "i", "Force": True}, "Object contains unknown field `Force`."),
        ("ReadLog", {"InstanceId": "i-no"}, 'There is no log of instance "i-no" here.'),
        ("ReadLog", {"InstanceId": "i-known", "Begin": -1}, "Begin is -1. It must be 0 or more"),
    ],
)
def test_what_is_wrong_is_said(plane, operation, members, text):
    async def test(p):
        error = await Operator(p).refused(operation, **members)
        assert error.code is ApiCode.VALIDATION
        assert text in error.message

    plane(test)


def test_an_unknown_operation_and_a_body_that_is_no_json_are_refused(plane):
    async def test(p):
        operator = Operator(p)
        error = await operator.refused("Reboot")
        assert error.code is ApiCode.UNKNOWN_OPERATION
        assert "Warmroute.Reboot is no operation. There are: DescribeEndpoint, DrainInstance" in error.message
        with pytest.raises(ApiError) as caught:
            await operator.service.call("ReadLog", b"{")
        assert caught.value.code is ApiCode.SERIALIZATION

    plane(test)
