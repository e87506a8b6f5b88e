"""LoRA adapters over servers that speak vLLM's routes: ten over four copies of three, under load."""

import asyncio
import json
import os
import signal
import tarfile
from pathlib import Path

import pytest

from tests.clients import Cluster
from tests.running import command_line, descendants_of, get, wait_until
from tests.stub_server import StubServer

pytestmark = pytest.mark.process

STUB = Path(__file__).parents[1] / "stub_server.py"
ADAPTERS = [f"lora-{number}" for number in range(10)]
LIMIT = 3
SETTINGS = """
[adapters]
residence_s = 0.5
patience_s = 0.2
cold_s = 2
surplus_s = 3

[instance_types."ml.four"]
provider = "static"
urls = [{urls}]
memory_mb = 8192
"""
ROUTING = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": 2},
}


class AdapterCluster(Cluster):
    """A cluster whose component has adapters, and its model servers."""

    def __init__(self, server, stubs, directory):
        super().__init__(server)
        self.stubs = stubs
        self.directory = directory

    def create(self, copies, *, instance_type="ml.four", instances=None, image=None):
        production = {
            "VariantName": "v",
            "InstanceType": instance_type,
            "InitialInstanceCount": instances or copies,
        }
        container = {"Environment": {"SAGEMAKER_MAX_NUMBER_OF_ADAPTERS_IN_MEMORY": str(LIMIT)}}
        if image is not None:
            container["Image"] = image
        self.sagemaker.create_endpoint_config(
            EndpointConfigName="c",
            ExecutionRoleArn="arn:aws:iam::000000000000:role/any",
            ProductionVariants=[production | {"RoutingConfig": ROUTING}],
        )
        self.sagemaker.create_endpoint(EndpointName="llm", EndpointConfigName="c")
        self.sagemaker.create_inference_component(
            InferenceComponentName="base",
            EndpointName="llm",
            VariantName="v",
            Specification={
                "Container": container,
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
            },
            RuntimeConfig={"CopyCount": copies},
        )
        self.settled("base")

    def adapter(self, name, url=None):
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        self.sagemaker.create_inference_component(
            InferenceComponentName=name,
            EndpointName="llm",
            Specification={
                "BaseInferenceComponentName": "base",
                "Container": {"ArtifactUrl": url or directory.as_uri()},
            },
        )

    def loaded(self):
        """Return how many servers have each adapter."""
        return {name: sum(name in stub.adapters for stub in self.stubs) for name in ADAPTERS}

    def load(self, *names, seconds, clients, delay_s=0.02):
        """Send chats for adapters, in turn, for some time; return the statuses and what answered."""
        return asyncio.run(_load(self.server.url, names, seconds, clients, delay_s))

    def check_engines(self):
        for stub in self.stubs:
            counters = stub.counters
            assert counters.adapters_most <= LIMIT
            assert counters.adapters_missed == 0, "a request met a server without its adapter"
            assert counters.unloaded_in_use == 0, "an adapter was unloaded under a request"


async def _load(url, names, seconds, clients, delay_s):
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    until_s = loop.time() + seconds
    results = []

    async def client(number):
        reader, writer = await asyncio.open_connection(host, int(port))
        turn = number
        try:
            while loop.time() < until_s:
                name = names[turn % len(names)]
                turn += 1
                body = json.dumps(
                    {
                        "model": "",
                        "messages": [{"role": "user", "content": f"{name} {turn % 7}"}],
                        "stub": {"delay_s": delay_s},
                    }
                ).encode()
                path = f"/endpoints/llm/inference-components/{name}/openai/v1/chat/completions"
                writer.write(
                    f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                answer = await reader.readexactly(length)
                results.append((name, int(head.split()[1]), answer))
        finally:
            writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return results


def failed(results):
    return [(name, status, answer[:300]) for name, status, answer in results if status != 200]


@pytest.fixture
def cluster(warmroute_server, tmp_path):
    stubs = [StubServer(f"s{number}", adapter_routes="vllm", adapter_delay_s=0.05) for number in range(4)]
    for stub in stubs:
        stub.__enter__()
    urls = ", ".join(f'"{stub.url}"' for stub in stubs)
    (tmp_path / "adapters.toml").write_text(SETTINGS.format(urls=urls))
    server = warmroute_server("--config", tmp_path / "adapters.toml")
    server.wait_for_control()
    made = AdapterCluster(server, stubs, tmp_path)
    yield made
    for stub in stubs:
        stub.close()


@pytest.mark.slow
def test_ten_adapters_over_four_copies_of_three_under_load(cluster):
    cluster.create(copies=4)
    for name in ADAPTERS:
        cluster.adapter(name)
    assert cluster.settled(*ADAPTERS) == ["InService"] * 10
    assert set(cluster.loaded().values()) == {1}, "each has its first place"
    cluster.check_engines()

    everybody = cluster.load(*ADAPTERS, seconds=4, clients=10)
    assert failed(everybody) == []
    assert {name for name, _, _ in everybody} == set(ADAPTERS)
    cluster.check_engines()

    hot = cluster.load("lora-0", seconds=8, clients=16, delay_s=0.1)
    assert failed(hot) == []
    grown = cluster.loaded()
    assert grown["lora-0"] >= 3, f"the set of one adapter under load grew: {grown}"
    assert sum(grown.values()) <= 4 * LIMIT
    cluster.check_engines()
    unloads = sum(stub.counters.adapter_unloads for stub in cluster.stubs)
    assert unloads >= 1, "the least recently used went for it"

    again = cluster.load(*ADAPTERS, seconds=8, clients=10)
    assert failed(again) == []
    assert {name for name, _, _ in again} == set(ADAPTERS)
    cluster.check_engines()

    wait_until(lambda: cluster.loaded()["lora-0"] <= 1, seconds=40, explain=lambda: f"{cluster.loaded()}")
    last = cluster.load("lora-0", seconds=1, clients=1)
    assert failed(last) == []
    cluster.check_engines()


@pytest.mark.slow
def test_more_adapters_than_places_take_turns_without_a_failed_request(cluster):
    cluster.create(copies=2)
    for name in ADAPTERS[:8]:
        cluster.adapter(name)
    assert cluster.settled(*ADAPTERS[:8]) == ["InService"] * 8
    results = cluster.load(*ADAPTERS[:8], seconds=10, clients=4)
    assert failed(results) == []
    assert {name for name, _, _ in results} == set(ADAPTERS[:8])
    cluster.check_engines()


def test_an_adapter_by_boto3_its_update_its_deletion_and_the_end_of_processes(cluster):
    cluster.create(copies=2)
    cluster.adapter("lora-0")
    cluster.adapter("lora-1")
    assert cluster.settled("lora-0", "lora-1") == ["InService", "InService"]
    assert cluster.describe("lora-0")["VariantName"] == "v"
    body = json.dumps({"prompt": "x"})
    answer = cluster.runtime.invoke_endpoint(
        EndpointName="llm", InferenceComponentName="lora-0", Body=body, ContentType="application/json"
    )
    assert json.loads(answer["Body"].read())["text"].startswith("Hello")
    assert any(
        request.headers.get("x-amzn-sagemaker-adapter-identifier") == "lora-0"
        for stub in cluster.stubs
        for request in stub.requests
    )

    new = cluster.directory / "new"
    new.mkdir()
    cluster.sagemaker.update_inference_component(
        InferenceComponentName="lora-0",
        Specification={
            "BaseInferenceComponentName": "base",
            "Container": {"ArtifactUrl": new.as_uri()},
        },
    )
    during = cluster.load("lora-0", seconds=3, clients=4)
    assert failed(during) == []
    assert cluster.settled("lora-0") == ["InService"]
    paths = {stub.adapters["lora-0"] for stub in cluster.stubs if "lora-0" in stub.adapters}
    assert paths == {str(new)}

    os.kill(cluster.server.child("control"), signal.SIGKILL)
    assert failed(cluster.load("lora-0", "lora-1", seconds=3, clients=4)) == []
    cluster.server.wait_until(
        lambda: cluster.server.get("/healthz", admin=True)[0] == 200, "control never came back"
    )
    cluster.adapter("lora-2")
    assert cluster.settled("lora-2") == ["InService"]

    _, metrics = cluster.server.get("/metrics", admin=True)
    assert b'warmroute_adapter_places{adapter="lora-0",component="base",state="serving"}' in metrics
    assert b'warmroute_adapter_calls_total{outcome="done",verb="load"}' in metrics

    cluster.sagemaker.delete_inference_component(InferenceComponentName="lora-1")
    wait_until(lambda: cluster.loaded()["lora-1"] == 0, explain=cluster.server.log_text)
    with pytest.raises(cluster.sagemaker.exceptions.ClientError, match="is a base inference component"):
        cluster.sagemaker.delete_inference_component(InferenceComponentName="base")
    cluster.check_engines()


LOCAL = f"""
[adapters]
residence_s = 0.5

[instance_types."ml.here"]
provider = "local"
instances_max = 1
memory_mb = 8192

[images."stub"]
command = [
  "{{python}}", "{STUB}", "--port", "{{port}}", "--name", "{{port}}",
  "--behaviour", '{{"adapter_routes": "vllm", "adapter_delay_s": 0.2}}',
]
"""


def counters_of(server):
    """Return what the servers of this warmroute have counted, by URL."""
    _, overview = server.get("/", admin=True)
    urls = [each["url"] for each in json.loads(overview)["instances"] if "url" in each]
    return {url: json.loads(body) for url in urls if (body := get(f"{url}/stub")[1])}


@pytest.fixture
def local(warmroute_server, tmp_path):
    """Return a cluster of two copies in processes of their own, with three adapters."""
    (tmp_path / "local.toml").write_text(LOCAL)
    server = warmroute_server("--config", tmp_path / "local.toml")
    server.wait_for_control()
    made = AdapterCluster(server, [], tmp_path)
    made.create(copies=2, instance_type="ml.here", instances=1, image="stub")
    for name in ADAPTERS[:3]:
        made.adapter(name)
    assert made.settled(*ADAPTERS[:3]) == ["InService"] * 3
    return made


def test_copies_that_are_exchanged_or_leave_hand_their_adapters_on(local):
    container = {"Image": "stub", "Environment": {"OTHER": "1"}}
    local.sagemaker.update_inference_component(
        InferenceComponentName="base",
        Specification={
            "Container": container,
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
        },
    )
    assert failed(local.load(*ADAPTERS[:3], seconds=6, clients=4)) == []
    assert local.settled("base") == ["InService"]
    local.sagemaker.update_inference_component_runtime_config(
        InferenceComponentName="base", DesiredRuntimeConfig={"CopyCount": 1}
    )
    assert failed(local.load(*ADAPTERS[:3], seconds=4, clients=4)) == []
    assert local.settled("base") == ["InService"]
    (counters,) = counters_of(local.server).values()
    assert (counters["adapters_missed"], counters["unloaded_in_use"]) == (0, 0)


def test_servers_that_die_get_their_adapters_again_before_they_count(local):
    cluster, server = local, local.server
    for _ in range(3):
        victim = next(pid for pid in descendants_of(server.pid) if str(STUB) in command_line(pid))
        os.kill(victim, signal.SIGKILL)
        results = cluster.load(*ADAPTERS[:3], seconds=4, clients=4)
        # What ran on the server when it died cannot be sent again; all else is served, if need be later. A
        # dying process closes one connection after the other, so a client can meet it twice.
        assert len(failed(results)) <= 2 * 4, failed(results)[:9]
        assert {name for name, status, _ in results if status == 200} == set(ADAPTERS[:3])
    counters = counters_of(server)
    assert len(counters) == 2
    for each in counters.values():
        assert (each["adapters_missed"], each["unloaded_in_use"]) == (0, 0)


def test_what_cannot_be_loaded_says_why(cluster):
    cluster.create(copies=1)
    for stub in cluster.stubs:
        stub.behaviour.adapter_refusals["lora-1"] = "LoRA rank 64 is greater than max_lora_rank 16."
    cluster.adapter("lora-0", url="s3://bucket/lora-0.tar.gz")
    cluster.adapter("lora-1")
    assert cluster.settled("lora-0", "lora-1") == ["Failed", "Failed"]
    assert "nothing from s3://" in cluster.describe("lora-0")["FailureReason"]
    assert "rank 64 is greater" in cluster.describe("lora-1")["FailureReason"]


def test_what_was_unpacked_is_what_the_engine_is_told(cluster):
    (cluster.directory / "files").mkdir()
    (cluster.directory / "files" / "adapter_config.json").write_text("{}")
    archive = cluster.directory / "lora.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(cluster.directory / "files", arcname="lora")
    cluster.create(copies=1)
    cluster.adapter("lora-0", url=archive.as_uri())
    assert cluster.settled("lora-0") == ["InService"]
    (path,) = {stub.adapters["lora-0"] for stub in cluster.stubs if "lora-0" in stub.adapters}
    assert (Path(path) / "adapter_config.json").exists()
    assert str(cluster.server.data_dir) in path
