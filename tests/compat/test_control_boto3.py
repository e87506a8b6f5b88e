"""Stock boto3 against the control plane: the real HTTP application on a TCP port, a pretended provider."""

import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, field

import pytest
from botocore.exceptions import WaiterError

from tests.clients import refused
from tests.served import Served
from warmroute.adapters.clock import SystemClock
from warmroute.adapters.control_http import api_app
from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.adapters.service_model import load_schema
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.tasks import Tasks
from warmroute.controlplane.providers import ProviderByType
from warmroute.controlplane.publish import Identity
from warmroute.controlplane.reconcile import Reconciler
from warmroute.controlplane.service import ControlService
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.arns import Place
from warmroute.resources.planner import Rules

REGION, ACCOUNT = "eu-central-1", "111122223333"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
TYPES = {
    "ml.local": InstanceType("ml.local", ProviderKind.LOCAL),
    "my.gpu-box": InstanceType("my.gpu-box", ProviderKind.LOCAL),
}


@pytest.fixture(scope="session")
def schema():
    return load_schema(TYPES)


class NoRouters:
    """No router is connected: every fleet counts as acknowledged at once."""

    def __init__(self):
        self.fleets = []

    async def publish(self, fleet, wait_s):
        if not self.fleets or self.fleets[-1].version != fleet.version:
            self.fleets.append(fleet)
        return True

    def open_leases(self, target_id, generation):
        return 0

    def router_count(self):
        return 1

    def version_floor(self):
        return 0


@dataclass
class Control(Served):
    """A control plane on a thread of its own."""

    schema: object
    hold_s: float = 20.0
    provider: MemoryProvider = field(default_factory=MemoryProvider)
    store: MemoryStore = field(default_factory=MemoryStore)
    routers: NoRouters = field(default_factory=NoRouters)

    def make_app(self):
        self._tasks, clock = Tasks(), SystemClock()
        self.reconciler = Reconciler(
            store=self.store,
            provider=ProviderByType(providers={ProviderKind.LOCAL: self.provider}, instance_types=TYPES),
            probe=self.provider,
            routers=self.routers,
            tasks=self._tasks,
            clock=clock,
            rules=Rules(instance_types=TYPES, images={"img": Image("img")}),
            identity=Identity(REGION, ACCOUNT),
        )

        async def get_schema():
            return self.schema

        self.service = ControlService(
            store=self.store,
            reconciler=self.reconciler,
            schema=get_schema,
            place=Place(REGION, ACCOUNT),
            instance_types=TYPES,
            clock=clock,
            describe_hold_s=self.hold_s,
        )
        self._tasks.spawn(self.reconciler.run(), name="reconcile")
        return api_app(self.service)

    async def close(self):
        await self._tasks.cancel_all()

    def set(self, change):
        """Change the provider on the loop's own thread."""
        done = threading.Event()

        def run():
            change(self.provider)
            self.reconciler.kick()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(5)


@pytest.fixture
def control(schema):
    with Control(schema) as running:
        yield running


@pytest.fixture
def sm(control):
    client = control.client("sagemaker", REGION)
    client.create_model(ModelName="m", PrimaryContainer={"Image": "img", "Environment": {"A": "1"}})
    yield client
    client.close()


PREFIX_AWARE = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
}


def variant(**changes):
    return {
        "VariantName": "AllTraffic",
        "ModelName": "m",
        "InstanceType": "ml.local",
        "InitialInstanceCount": 2,
    } | changes


def make_config(sm, name="c1", **changes):
    return sm.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant(**changes)])


def make_endpoint(sm, name="ep", config="c1", **changes):
    make_config(sm, config, **changes)
    sm.create_endpoint(EndpointName=name, EndpointConfigName=config)
    sm.get_waiter("endpoint_in_service").wait(EndpointName=name)


def count_describes(sm):
    calls = []
    sm.meta.events.register("before-call.sagemaker.DescribeEndpoint", lambda **_: calls.append(1))
    return calls


# --- Life cycle ----------------------------------------------------------------------------------


def test_create_wait_describe_and_delete_take_one_question_each(sm):
    make_config(sm, RoutingConfig=PREFIX_AWARE)
    asked = count_describes(sm)
    created = sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
    assert created["EndpointArn"] == f"{ARN}:endpoint/ep"
    sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    assert len(asked) == 1
    described = sm.describe_endpoint(EndpointName="ep")
    assert described["EndpointStatus"] == "InService"
    assert described["EndpointConfigName"] == "c1"
    summary = described["ProductionVariants"][0]
    assert summary["RoutingConfig"] == PREFIX_AWARE
    assert summary["CurrentInstanceCount"] == summary["DesiredInstanceCount"] == 2
    assert summary["DeployedImages"][0]["SpecifiedImage"] == "img"
    del asked[:]
    sm.delete_endpoint(EndpointName="ep")
    sm.get_waiter("endpoint_deleted").wait(EndpointName="ep")
    assert len(asked) == 1
    assert sm.list_endpoints()["Endpoints"] == []


def test_a_change_of_strategy_is_in_service_before_the_call_returns_and_keeps_instances(sm, control):
    make_endpoint(sm)
    before = set(control.provider.instances)
    make_config(sm, "c2", RoutingConfig=PREFIX_AWARE)
    sm.update_endpoint(EndpointName="ep", EndpointConfigName="c2")
    raw = sm.list_endpoints()["Endpoints"][0]["EndpointStatus"]
    assert raw == "InService"
    described = sm.describe_endpoint(EndpointName="ep")
    assert described["EndpointConfigName"] == "c2"
    assert described["ProductionVariants"][0]["RoutingConfig"] == PREFIX_AWARE
    assert set(control.provider.instances) == before
    assert control.routers.fleets[-1].endpoints[0].variants[0].routing.prefix_length == 4096


def test_switching_to_kv_aware_and_back_is_in_service_at_once_and_starts_nothing(sm, control):
    make_endpoint(sm, RoutingConfig=PREFIX_AWARE)
    before = set(control.provider.instances)
    targets = control.routers.fleets[-1].endpoints[0].variants[0].targets
    make_config(sm, "kv", RoutingConfig={"RoutingStrategy": "KV_AWARE"})
    for config, routing in (("kv", {"RoutingStrategy": "KV_AWARE"}), ("c1", PREFIX_AWARE)) * 2:
        sm.update_endpoint(EndpointName="ep", EndpointConfigName=config)
        assert sm.list_endpoints()["Endpoints"][0]["EndpointStatus"] == "InService"
        described = sm.describe_endpoint(EndpointName="ep")["ProductionVariants"][0]
        assert described["RoutingConfig"] == routing
        variant = control.routers.fleets[-1].endpoints[0].variants[0]
        assert variant.routing.strategy == routing["RoutingStrategy"]
        assert variant.targets == targets  # the same generations: leases and servers stay
    assert set(control.provider.instances) == before
    assert control.reconciler.tally.starts == 2
    assert control.reconciler.tally.stops == 0


def test_weights_and_counts_are_updated(sm, control):
    sm.create_endpoint_config(
        EndpointConfigName="c1",
        ProductionVariants=[variant(VariantName="a"), variant(VariantName="b", InitialInstanceCount=1)],
    )
    sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
    sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    sm.update_endpoint_weights_and_capacities(
        EndpointName="ep",
        DesiredWeightsAndCapacities=[
            {"VariantName": "a", "DesiredWeight": 0.25},
            {"VariantName": "b", "DesiredInstanceCount": 3},
        ],
    )
    sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    a, b = sm.describe_endpoint(EndpointName="ep")["ProductionVariants"]
    assert (a["CurrentWeight"], a["CurrentInstanceCount"]) == (0.25, 2)
    assert (b["CurrentWeight"], b["CurrentInstanceCount"]) == (1.0, 3)
    assert len(control.provider.instances) == 5


def test_another_model_gets_new_instances_and_the_old_ones_go(sm, control):
    make_endpoint(sm)
    old = set(control.provider.instances)
    sm.create_model(ModelName="m2", PrimaryContainer={"Image": "img"})
    make_config(sm, "c2", ModelName="m2", InitialInstanceCount=1)
    sm.update_endpoint(EndpointName="ep", EndpointConfigName="c2")
    sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    described = sm.describe_endpoint(EndpointName="ep")
    assert described["EndpointConfigName"] == "c2"
    assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 1
    serving = {t.instance_id for t in control.routers.fleets[-1].endpoints[0].variants[0].targets}
    assert not serving & old or len(control.routers.fleets) > 2


def test_an_update_whose_instances_fail_is_rolled_back(sm, control):
    make_endpoint(sm)
    control.set(lambda provider: setattr(provider, "refuse_with", "No room on this machine."))
    sm.create_model(ModelName="m2", PrimaryContainer={"Image": "img"})
    make_config(sm, "c2", ModelName="m2")
    sm.update_endpoint(EndpointName="ep", EndpointConfigName="c2")
    sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    described = sm.describe_endpoint(EndpointName="ep")
    assert described["EndpointStatus"] == "InService"
    assert described["EndpointConfigName"] == "c1"
    assert described["FailureReason"] == "No room on this machine."
    assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 2


def test_a_creation_that_fails_says_why_and_can_be_deleted(sm, control):
    control.set(lambda provider: setattr(provider, "refuse_with", "No room on this machine."))
    make_config(sm)
    sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
    with pytest.raises(WaiterError, match="terminal failure"):
        sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    described = sm.describe_endpoint(EndpointName="ep")
    assert described["EndpointStatus"] == "Failed"
    assert described["FailureReason"] == "No room on this machine."
    code, message = refused(sm.update_endpoint, EndpointName="ep", EndpointConfigName="c1")
    assert (code, "Failed" in message) == ("ValidationException", True)
    sm.delete_endpoint(EndpointName="ep")
    sm.get_waiter("endpoint_deleted").wait(EndpointName="ep")
    assert not control.provider.instances


def test_an_instance_type_nobody_serves_fails_the_creation(sm):
    make_config(sm, InstanceType="ml.p5.48xlarge")
    sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
    with pytest.raises(WaiterError):
        sm.get_waiter("endpoint_in_service").wait(EndpointName="ep")
    reason = sm.describe_endpoint(EndpointName="ep")["FailureReason"]
    assert 'No provider serves instance type "ml.p5.48xlarge"' in reason


# --- Messages of misuse --------------------------------------------------------------------------


def test_messages_of_things_that_exist_already(sm):
    make_endpoint(sm)
    assert refused(sm.create_endpoint, EndpointName="ep", EndpointConfigName="c1") == (
        "ValidationException",
        f'Cannot create already existing endpoint "{ARN}:endpoint/ep".',
    )
    assert refused(sm.create_endpoint, EndpointName="EP", EndpointConfigName="c1") == (
        "ValidationException",
        f'Cannot create already existing endpoint "{ARN}:endpoint/ep".',
    )
    assert refused(make_config, sm=sm) == (
        "ValidationException",
        f'Cannot create already existing endpoint configuration "{ARN}:endpoint-config/c1".',
    )
    assert refused(sm.create_model, ModelName="m", PrimaryContainer={"Image": "img"}) == (
        "ValidationException",
        f'Cannot create already existing model "{ARN}:model/m".',
    )


def test_messages_of_things_that_do_not_exist(sm):
    no_endpoint = ("ValidationException", f'Could not find endpoint "{ARN}:endpoint/no".')
    no_config = ("ValidationException", f'Could not find endpoint configuration "{ARN}:endpoint-config/no".')
    no_model = ("ValidationException", f'Could not find model "{ARN}:model/no".')
    make_endpoint(sm)
    assert refused(sm.describe_endpoint, EndpointName="no") == no_endpoint
    assert refused(sm.delete_endpoint, EndpointName="no") == no_endpoint
    assert refused(sm.update_endpoint, EndpointName="no", EndpointConfigName="c1") == no_endpoint
    assert (
        refused(
            sm.update_endpoint_weights_and_capacities,
            EndpointName="no",
            DesiredWeightsAndCapacities=[{"VariantName": "a"}],
        )
        == no_endpoint
    )
    assert refused(sm.create_endpoint, EndpointName="e2", EndpointConfigName="no") == no_config
    assert refused(sm.update_endpoint, EndpointName="ep", EndpointConfigName="no") == no_config
    assert refused(sm.describe_endpoint_config, EndpointConfigName="no") == no_config
    assert refused(sm.delete_endpoint_config, EndpointConfigName="no") == no_config
    assert refused(sm.describe_model, ModelName="no") == no_model
    assert refused(sm.delete_model, ModelName="no") == no_model
    assert refused(make_config, sm=sm, name="c9", ModelName="no") == no_model
    make_config(sm, "c3")
    sm.delete_model(ModelName="m")
    assert refused(sm.create_endpoint, EndpointName="e3", EndpointConfigName="c3") == (
        "ValidationException",
        f'Could not find model "{ARN}:model/m".',
    )


def test_messages_of_changes_to_an_endpoint_that_is_changing(schema):
    with Control(schema, hold_s=0) as control:
        sm = control.client("sagemaker", REGION)
        control.set(lambda provider: provider.set_ready(False))
        sm.create_model(ModelName="m", PrimaryContainer={"Image": "img"})
        make_config(sm)
        make_config(sm, "c2")
        sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
        in_progress = ("ValidationException", f'Cannot update in-progress endpoint "{ARN}:endpoint/ep".')
        described = sm.describe_endpoint(EndpointName="ep")
        assert described["EndpointStatus"] == "Creating"
        assert described["PendingDeploymentSummary"]["EndpointConfigName"] == "c1"
        weights = {"EndpointName": "ep", "DesiredWeightsAndCapacities": [{"VariantName": "AllTraffic"}]}
        assert refused(sm.update_endpoint, EndpointName="ep", EndpointConfigName="c2") == in_progress
        assert refused(sm.update_endpoint_weights_and_capacities, **weights) == in_progress
        assert refused(sm.delete_endpoint, EndpointName="ep") == in_progress
        sm.close()


def test_messages_of_variants_that_are_unknown_or_named_twice(sm):
    make_endpoint(sm)
    update = sm.update_endpoint_weights_and_capacities
    assert refused(update, EndpointName="ep", DesiredWeightsAndCapacities=[{"VariantName": "x"}]) == (
        "ValidationException",
        'The variant name(s) "x" is/are not present within endpoint configuration "c1".',
    )
    twice = [{"VariantName": "AllTraffic"}, {"VariantName": "AllTraffic"}]
    assert refused(update, EndpointName="ep", DesiredWeightsAndCapacities=twice) == (
        "ValidationException",
        'The variant name "AllTraffic" was non-unique within the request.',
    )


@pytest.mark.parametrize(
    ("routing", "text"),
    [
        (
            {
                "RoutingStrategy": "PREFIX_AWARE",
                "PrefixAwareRoutingConfig": {"PrefixLength": 100000, "ConcurrencyThreshold": 10},
            },
            (
                "1 validation error detected: Value '100000' at 'productionVariants.1.member.routingConfig."
                "prefixAwareRoutingConfig.prefixLength' failed to satisfy constraint: "
                "Member must have value less than or equal to 65536"
            ),
        ),
        (
            {
                "RoutingStrategy": "PREFIX_AWARE",
                "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 5000},
            },
            "less than or equal to 1024",
        ),
        ({"RoutingStrategy": "BOGUS"}, "Member must satisfy enum value set: [LEAST_OUTSTANDING_REQUESTS, "),
        ({"RoutingStrategy": "PREFIX_AWARE"}, "Missing: PrefixLength, ConcurrencyThreshold."),
        (
            {"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": {"PrefixLength": 4096}},
            "Missing: ConcurrencyThreshold.",
        ),
        (
            {
                "RoutingStrategy": "RANDOM",
                "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
            },
            "PrefixAwareRoutingConfig is allowed only with RoutingStrategy PREFIX_AWARE",
        ),
        (
            {
                "RoutingStrategy": "KV_AWARE",
                "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
            },
            "only with RoutingStrategy PREFIX_AWARE, and the strategy is KV_AWARE.",
        ),
    ],
)
def test_routing_configs_that_the_server_refuses(sm, routing, text):
    code, message = refused(make_config, sm=sm, RoutingConfig=routing)
    assert code == "ValidationException"
    assert text in message


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"InstanceType": "ml.bogus"}, "Member must satisfy enum value set: [ml.t2.medium"),
        ({"VariantName": "-a"}, "Member must satisfy regular expression pattern"),
        ({"VariantName": "a" * 64}, "Member must have length less than or equal to 63"),
        ({"InitialInstanceCount": 100_000}, "At most 1000 per variant"),
        ({"ContainerStartupHealthCheckTimeoutInSeconds": 4000}, "less than or equal to 3600"),
    ],
)
def test_variants_that_the_server_refuses(sm, changes, text):
    code, message = refused(make_config, sm=sm, **changes)
    assert code in ("ValidationException", "ResourceLimitExceeded")
    assert text in message


def test_a_declared_instance_type_is_allowed(sm):
    make_config(sm, InstanceType="my.gpu-box")
    described = sm.describe_endpoint_config(EndpointConfigName="c1")
    assert described["ProductionVariants"][0]["InstanceType"] == "my.gpu-box"


def test_an_operation_that_is_not_served_is_named(sm):
    code, message = refused(sm.list_training_jobs)
    assert code == "UnknownOperationException"
    assert "ListTrainingJobs is not supported by warmroute" in message


# --- Round trips and lists -----------------------------------------------------------------------


def test_what_has_no_meaning_here_is_stored_and_returned(sm):
    vpc = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    sm.create_model(
        ModelName="full",
        PrimaryContainer={
            "Image": "img",
            "ImageConfig": {"RepositoryAccessMode": "Vpc"},
            "ModelDataUrl": "file:///models/x.gguf",
        },
        ExecutionRoleArn="arn:aws:iam::111122223333:role/sm",
        VpcConfig=vpc,
        EnableNetworkIsolation=True,
        Tags=[{"Key": "team", "Value": "große Straße"}],
    )
    described = sm.describe_model(ModelName="full")
    assert described["VpcConfig"] == vpc
    assert described["EnableNetworkIsolation"] is True
    assert described["PrimaryContainer"]["ImageConfig"] == {"RepositoryAccessMode": "Vpc"}
    assert described["PrimaryContainer"]["ModelDataUrl"] == "file:///models/x.gguf"
    arn = described["ModelArn"]
    assert sm.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "große Straße"}]
    sm.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    sm.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert sm.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "b"}]


def test_lists_are_paged_filtered_and_sorted(sm):
    for index in range(25):
        sm.create_model(ModelName=f"x{index:02}", PrimaryContainer={"Image": "img"})
    pages = list(sm.get_paginator("list_models").paginate(NameContains="x", SortBy="Name"))
    names = [model["ModelName"] for page in pages for model in page["Models"]]
    assert names == [f"x{index:02}" for index in reversed(range(25))]
    first = sm.list_models(NameContains="x", SortBy="Name", SortOrder="Ascending", MaxResults=3)
    assert [model["ModelName"] for model in first["Models"]] == ["x00", "x01", "x02"]
    code, message = refused(sm.list_models, NextToken=first["NextToken"])
    assert (code, "NextToken" in message) == ("ValidationException", True)
    assert sm.list_models(CreationTimeBefore=first["Models"][0]["CreationTime"])["Models"][-1]["ModelName"]


def test_endpoints_are_listed_by_status(sm):
    make_endpoint(sm)
    assert len(sm.list_endpoints(StatusEquals="InService")["Endpoints"]) == 1
    assert sm.list_endpoints(StatusEquals="Failed")["Endpoints"] == []


# --- Without an SDK ------------------------------------------------------------------------------


def send(control, body=b"{}", target="SageMaker.ListModels", method="POST", path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", control.port, timeout=10)
    given = {"Content-Type": "application/x-amz-json-1.1"} | headers
    if target is not None:
        given["X-Amz-Target"] = target
    connection.request(method, path, body=body, headers=given)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, json.loads(data)


def test_answers_are_json_1_1_with_a_request_id(control):
    response, document = send(control)
    assert (response.status, document) == (200, {"Models": []})
    assert response.headers["Content-Type"].startswith("application/x-amz-json-1.1")
    assert len(response.headers["x-amzn-RequestId"]) == 36


@pytest.mark.parametrize(
    ("request_", "status", "code", "text"),
    [
        ({"body": b"{"}, 400, "SerializationException", "not JSON"),
        ({"body": b"\xff\xfe"}, 400, "SerializationException", "not JSON"),
        ({"body": b"[]"}, 400, "SerializationException", "Start of list"),
        (
            {"body": b'{"MaxResults": "5"}'},
            400,
            "SerializationException",
            "STRING_VALUE can not be converted",
        ),
        ({"body": b'{"MaxResults": 101}'}, 400, "ValidationException", "less than or equal to 100"),
        ({"body": b" " * (1024 * 1024 + 1)}, 413, "RequestEntityTooLargeException", "1048576 bytes"),
        ({"target": None}, 404, "UnknownOperationException", "X-Amz-Target is missing"),
        ({"target": "AnyScaleFrontendService.X"}, 404, "UnknownOperationException", "other services"),
        ({"target": "SageMaker."}, 404, "UnknownOperationException", "not one of SageMaker's"),
        (
            {"target": "SageMaker.CreateDomain"},
            404,
            "UnknownOperationException",
            "CreateDomain is not supported",
        ),
        ({"method": "GET", "body": None}, 404, "UnknownOperationException", "use POST /"),
        ({"path": "/x"}, 404, "UnknownOperationException", "use POST /"),
    ],
)
def test_bad_requests_get_the_documented_error_and_the_next_one_works(control, request_, status, code, text):
    response, document = send(control, **request_)
    assert (response.status, document["__type"]) == (status, code)
    assert response.headers["x-amzn-errortype"] == code
    assert text in document["message"]
    assert send(control)[0].status == 200


def test_a_body_of_the_longest_length_is_read(control):
    assert send(control, body=b" " * (1024 * 1024 - 2) + b"{}")[0].status == 200


def test_a_failure_of_ours_is_an_internal_failure_with_its_request_id(control, caplog):
    control.set(lambda _: setattr(control.store, "transaction", None))
    response, document = send(control)
    assert (response.status, document["__type"]) == (500, "InternalFailure")
    assert response.headers["x-amzn-RequestId"] in document["message"]


def test_a_client_that_leaves_ends_its_held_describe(control, sm):
    control.set(lambda provider: provider.set_ready(False))
    make_config(sm)
    sm.create_endpoint(EndpointName="ep", EndpointConfigName="c1")
    with socket.create_connection(("127.0.0.1", control.port)) as connection:
        body = b'{"EndpointName": "ep"}'
        connection.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: SageMaker.DescribeEndpoint\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        wait_until(lambda: control.service._held == 1)
    wait_until(lambda: control.service._held == 0)


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
