"""Inference components by boto3: real model-server processes on this machine, real routers in front."""

import contextlib
import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.clients import Cluster
from tests.faults.test_processes import post
from tests.running import alive, command_line, wait_until

pytestmark = pytest.mark.process

STUB = Path(__file__).parents[1] / "stub_server.py"
SETTINGS = f"""
[instance_types."ml.four"]
provider = "local"
instances_max = 2
accelerators = 4
memory_mb = 8192

[images."stub"]
command = ["{{python}}", "{STUB}", "--port", "{{port}}", "--name", "{{port}}"]
"""
THRESHOLD = 2
ROUTING = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": THRESHOLD},
}


class ComponentCluster(Cluster):
    """A cluster whose endpoint carries components."""

    def __init__(self, server):
        super().__init__(server)
        self.runtime.meta.events.register("before-sign.sagemaker-runtime.*", ask_why)
        self.open = []

    def endpoint(self, **variant):
        production = {"VariantName": "AllTraffic", "InstanceType": "ml.four", "InitialInstanceCount": 2}
        self.sagemaker.create_endpoint_config(
            EndpointConfigName="c",
            ExecutionRoleArn="arn:aws:iam::000000000000:role/any",
            ProductionVariants=[production | {"RoutingConfig": ROUTING} | variant],
        )
        self.sagemaker.create_endpoint(EndpointName="llm", EndpointConfigName="c")
        waiter = self.sagemaker.get_waiter("endpoint_in_service")
        waiter.wait(EndpointName="llm", WaiterConfig={"Delay": 1, "MaxAttempts": 30})

    def component(self, name, copies, **environment):
        self.sagemaker.create_inference_component(
            InferenceComponentName=name,
            EndpointName="llm",
            VariantName="AllTraffic",
            Specification=specification(**environment),
            RuntimeConfig={"CopyCount": copies},
        )

    def hold(self, component, prefix):
        """Begin a streamed answer that takes long; return its decision receipt."""
        body = json.dumps({"prompt": prefix, "stream": True, "stub": {"piece_delay_s": 2.0, "pieces": 30}})
        answer = self.runtime.invoke_endpoint_with_response_stream(
            EndpointName="llm", InferenceComponentName=component, Body=body, ContentType="application/json"
        )
        self.open.append(answer["Body"])
        return json.loads(answer["ResponseMetadata"]["HTTPHeaders"]["x-warmroute-decision"])

    def call(self, component, **member):
        answer = self.runtime.invoke_endpoint(
            EndpointName="llm",
            InferenceComponentName=component,
            Body=json.dumps({"prompt": "x", "stub": member}),
            ContentType="application/json",
        )
        return answer["Body"].read().decode()

    def let_go(self):
        for stream in self.open:
            stream.close()
        self.open.clear()

    def processes(self):
        """Return the environment of every model server of this warmroute, by process id."""
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if str(STUB) not in command_line(int(directory.name)) or not alive(int(directory.name)):
                    continue
                lines = (directory / "environ").read_bytes().decode().split("\0")
            except OSError:
                continue
            environment = dict(line.split("=", 1) for line in lines if "=" in line)
            if str(self.server.data_dir) in environment.get("WARMROUTE_INSTANCE_DIRECTORY", ""):
                found[int(directory.name)] = environment
        return found


def ask_why(request, **_):
    request.headers["x-warmroute-explain"] = "1"


def port_of(pid):
    return re.search(r"--port (\d+)", command_line(pid))[1]


def specification(**environment):
    return {
        "Container": {"Image": "stub", "Environment": environment},
        "ComputeResourceRequirements": {
            "MinMemoryRequiredInMb": 1024,
            "NumberOfAcceleratorDevicesRequired": 1,
        },
    }


@pytest.fixture
def cluster(warmroute_server, tmp_path):
    (tmp_path / "components.toml").write_text(SETTINGS)
    server = warmroute_server("--config", tmp_path / "components.toml")
    server.wait_for_control()
    made = ComponentCluster(server)
    yield made
    made.let_go()
    for pid in made.processes():
        with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
            os.kill(pid, signal.SIGKILL)


def test_two_components_of_two_copies_each_on_two_instances_with_prefix_aware(cluster):
    cluster.endpoint()
    cluster.component("a", 2)
    cluster.component("b", 2)
    assert cluster.settled("a", "b") == ["InService", "InService"]
    devices = sorted(one["CUDA_VISIBLE_DEVICES"] for one in cluster.processes().values())
    assert len(devices) == len(set(devices)) == 4

    overview = json.loads(cluster.server.get("/", admin=True)[1])
    assert overview["components"] == {"a": "InService", "b": "InService"}
    hosts = {one["id"] for one in overview["instances"] if "component" not in one}
    copies = [one for one in overview["instances"] if "component" in one]
    assert sorted((one["component"], one["host"]) for one in copies) == sorted(
        (name, host) for name in ("a", "b") for host in hosts
    )
    assert len({one["url"] for one in copies}) == 4

    # The threshold counts per copy: what is in flight on "a" does not count for "b" on the same instance.
    first = [cluster.hold("a", "same prefix") for _ in range(THRESHOLD)]
    assert {receipt["reason"] for receipt in first} == {"affinity"}
    assert len({receipt["copy"] for receipt in first}) == 1
    beside = cluster.hold("b", "same prefix")
    assert (beside["reason"], beside["in_flight"]) == ("affinity", 0)
    spilled = cluster.hold("a", "same prefix")
    assert (spilled["reason"], spilled["component"], spilled["rank"]) == ("overflow", "a", 1)
    assert spilled["instance"] != first[0]["instance"], "one copy of each component is on each instance"
    cluster.let_go()


def test_a_prefix_overflows_to_the_other_copies_of_its_instance_first(cluster):
    cluster.endpoint()
    cluster.component("a", 4)
    cluster.component("b", 2)
    assert cluster.settled("a", "b") == ["InService", "InService"]
    receipts = [cluster.hold("a", "one hot prefix") for _ in range(4 * THRESHOLD)]
    copies = [receipt["copy"] for receipt in receipts]
    assert [copies.count(copy) for copy in dict.fromkeys(copies)] == [THRESHOLD] * 4
    assert copies == sorted(copies, key=copies.index), "a copy is full before the next one is used"
    instances = [receipt["instance"] for receipt in receipts]
    home, other = dict.fromkeys(instances)
    assert instances == [home] * (2 * THRESHOLD) + [other] * (2 * THRESHOLD)
    assert [receipt["rank"] for receipt in receipts] == [rank for rank in range(4) for _ in range(THRESHOLD)]
    assert list(dict.fromkeys(copies)) == receipts[0]["order"]
    assert cluster.hold("a", "one hot prefix")["reason"] == "saturated"
    assert cluster.hold("b", "one hot prefix")["reason"] == "affinity"
    cluster.let_go()


def test_components_are_reached_by_every_route(cluster):
    cluster.endpoint()
    cluster.component("a", 1, MARK="a")
    cluster.component("b", 1, MARK="b")
    cluster.settled("a", "b")
    ports = {one["MARK"]: port_of(pid) for pid, one in cluster.processes().items()}
    chat = {"messages": [{"role": "user", "content": "x"}]}
    for name in ("a", "b"):
        own = f"/endpoints/llm/inference-components/{name}/openai/v1/chat/completions"
        for path, model in ((own, "any"), ("/v1/chat/completions", f"llm/{name}")):
            status, answer = post(cluster.server.url, path, chat | {"model": model})
            assert status == 200, answer
            assert f"Hello from {ports[name]}." in answer.decode()
        assert f"Hello from {ports[name]}." in cluster.call(name)


def test_control_that_is_killed_while_copies_come_leaves_none_behind(cluster):
    cluster.endpoint()
    cluster.component("a", 1)
    cluster.settled("a")
    for copies in (4, 2, 5, 1):
        scale = {"InferenceComponentName": "a", "DesiredRuntimeConfig": {"CopyCount": copies}}
        cluster.sagemaker.update_inference_component_runtime_config(**scale)
        os.kill(cluster.server.child("control"), signal.SIGKILL)
        assert "Hello from" in cluster.call("a"), "routers go on by what they know"
        cluster.server.wait_until(
            lambda: cluster.server.get("/healthz", admin=True)[0] == 200, "control never came back"
        )
        assert cluster.settled("a") == ["InService"]
        wait_until(lambda: len(cluster.processes()) == copies, explain=cluster.server.log_text)
        devices = [one["CUDA_VISIBLE_DEVICES"] for one in cluster.processes().values()]
        assert len(set(devices)) == copies, "two copies share a device"


def test_instances_follow_the_copies(cluster):
    scaling = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}
    cluster.endpoint(InitialInstanceCount=1, ManagedInstanceScaling=scaling)
    cluster.component("a", 4)
    cluster.settled("a")

    def instances():
        (variant,) = cluster.sagemaker.describe_endpoint(EndpointName="llm")["ProductionVariants"]
        return variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]

    assert instances() == (1, 1)
    cluster.component("b", 1)
    assert cluster.settled("b") == ["InService"]
    assert instances() == (2, 2)
    cluster.component("c", 4)
    assert cluster.settled("c") == ["Failed"]
    assert cluster.describe("c")["FailureReason"].startswith("There is not enough hardware resources")


def test_a_components_life_to_zero_copies_and_back(cluster):
    cluster.endpoint()
    cluster.component("a", 1)
    cluster.settled("a")
    assert "Hello from" in cluster.call("a")
    scale = {"InferenceComponentName": "a", "DesiredRuntimeConfig": {"CopyCount": 0}}
    cluster.sagemaker.update_inference_component_runtime_config(**scale)
    cluster.settled("a")
    with pytest.raises(ClientError) as caught:
        cluster.call("a")
    assert caught.value.response["Error"]["Code"] == "ValidationError"
    assert caught.value.response["Error"]["Message"].startswith(
        "Inference Component has no capacity to process this request."
    )
    wait_until(lambda: not cluster.processes(), explain=cluster.server.log_text)
    scale["DesiredRuntimeConfig"] = {"CopyCount": 2}
    cluster.sagemaker.update_inference_component_runtime_config(**scale)
    assert cluster.settled("a") == ["InService"]
    assert cluster.describe("a")["RuntimeConfig"] == {
        "DesiredCopyCount": 2,
        "CurrentCopyCount": 2,
        "PlacementStatus": [{"InstanceType": "ml.four", "CurrentCopyCount": 2}],
    }
    cluster.sagemaker.delete_inference_component(InferenceComponentName="a")
    with pytest.raises(ClientError, match="Could not find inference component"):
        wait_until(lambda: cluster.describe("a") is None)
    assert not cluster.processes()


def test_a_copy_that_is_killed_is_replaced_on_its_own_devices(cluster):
    cluster.endpoint()
    cluster.component("a", 2)
    cluster.settled("a")
    before = cluster.processes()
    victim = next(iter(before))
    os.kill(victim, signal.SIGKILL)

    def replaced():
        now = cluster.processes()
        serving = cluster.describe("a")["RuntimeConfig"]["CurrentCopyCount"]
        return victim not in now and len(now) == 2 and serving == 2

    wait_until(replaced, explain=cluster.server.log_text)
    devices = sorted(one["CUDA_VISIBLE_DEVICES"] for one in cluster.processes().values())
    assert devices == sorted(one["CUDA_VISIBLE_DEVICES"] for one in before.values())
    assert cluster.describe("a")["InferenceComponentStatus"] == "InService"


class Callers:
    """Clients that call a component without a pause until the block ends."""

    def __init__(self, cluster, component, clients=4):
        self.answers, self.failures = 0, []
        self._cluster, self._component = cluster, component
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(clients)]

    def _call(self):
        while not self._stop.is_set():
            try:
                assert "Hello from" in self._cluster.call(self._component, delay_s=0.02)
                self.answers += 1
            except Exception as error:
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_an_update_is_rolled_out_under_load_without_a_failed_request(cluster):
    cluster.endpoint()
    cluster.component("a", 2)
    cluster.settled("a")
    with Callers(cluster, "a") as callers:
        wait_until(lambda: callers.answers > 20)
        cluster.sagemaker.update_inference_component(
            InferenceComponentName="a", Specification=specification(NEW="1")
        )
        assert cluster.settled("a") == ["InService"]
        wait_until(lambda: len(cluster.processes()) == 2, explain=cluster.server.log_text)
        before = callers.answers
        wait_until(lambda: callers.answers > before + 20)
    assert callers.failures == []
    assert all(one.get("NEW") == "1" for one in cluster.processes().values())


def test_a_bad_update_is_rolled_back_under_load_without_a_failed_request(cluster):
    cluster.endpoint()
    cluster.component("a", 2)
    cluster.settled("a")
    old = set(cluster.processes())
    with Callers(cluster, "a") as callers:
        wait_until(lambda: callers.answers > 20)
        bad = specification() | {"Container": {"Image": "not-there"}}
        cluster.sagemaker.update_inference_component(InferenceComponentName="a", Specification=bad)
        assert cluster.settled("a") == ["InService"]
    assert callers.failures == []
    assert set(cluster.processes()) == old
    shown = cluster.describe("a")
    assert 'Image "not-there" is not declared here' in shown["FailureReason"]
    assert shown["Specification"]["Container"]["DeployedImage"]["SpecifiedImage"] == "stub"


def test_servers_that_run_already_carry_one_copy_each(warmroute_server, tmp_path, stub_servers):
    first, second = stub_servers("first"), stub_servers("second")
    urls = json.dumps([first.url, second.url])
    text = f'[instance_types."ours"]\nprovider = "static"\nurls = {urls}\n'
    (tmp_path / "static.toml").write_text(text)
    server = warmroute_server("--config", tmp_path / "static.toml")
    server.wait_for_control()
    cluster = ComponentCluster(server)
    cluster.endpoint(InstanceType="ours")
    for name in ("a", "b", "c"):
        cluster.component(name, 1)
        cluster.settled(name)
    assert [cluster.describe(name)["InferenceComponentStatus"] for name in ("a", "b", "c")] == [
        "InService",
        "InService",
        "Failed",
    ]
    answers = {name: cluster.call(name) for name in ("a", "b")}
    said = {who for who in ("first", "second") for text in answers.values() if f"Hello from {who}." in text}
    assert said == {"first", "second"}
    cluster.sagemaker.delete_inference_component(InferenceComponentName="a")
    scale = {"InferenceComponentName": "c", "DesiredRuntimeConfig": {"CopyCount": 1}}
    wait_until(lambda: "a" not in names_of(cluster), explain=server.log_text)
    cluster.sagemaker.update_inference_component_runtime_config(**scale)
    assert cluster.settled("c") == ["InService"]
    assert "Hello from" in cluster.call("c")


def names_of(cluster):
    listed = cluster.sagemaker.list_inference_components(EndpointNameEquals="llm")["InferenceComponents"]
    return [component["InferenceComponentName"] for component in listed]
