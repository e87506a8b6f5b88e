"""Streams of a real engine through warmroute: llama.cpp closes its connection after each of them."""

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request

import pytest

from warmroute.adapters.images import LLAMA_CPP, built_in_images
from warmroute.adapters.providers.local import LocalProvider
from warmroute.controlplane.ports import InstanceOrder
from warmroute.core.ids import EndpointName, InstanceId, VariantName
from warmroute.core.machines import InstanceType, ProviderKind

pytestmark = [pytest.mark.process]
TYPES = {"ml.local": InstanceType("ml.local", ProviderKind.LOCAL, image=LLAMA_CPP)}
CLIENTS, STREAMS = 4, 200


@pytest.fixture
def engine_url(tmp_path):
    provider = LocalProvider(instance_types=TYPES, images=built_in_images(), data_dir=tmp_path / "engine")
    order = InstanceOrder(InstanceId("i-1"), EndpointName("llm"), VariantName("v"), "ml.local", None, {})
    asyncio.run(provider.start(order))
    (fact,) = asyncio.run(provider.list())
    url = f"http://{fact.host}:{fact.port}"
    end = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            break
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, "llama.cpp did not come up"
            time.sleep(0.02)
    yield url
    asyncio.run(provider.stop(fact.instance_id, 2))


def test_streams_one_after_another_meet_no_connection_that_the_engine_is_closing(
    engine_url, warmroute_server
):
    server = warmroute_server("--instances", engine_url, "--endpoint", "llm", ready=True)
    body = json.dumps(
        {"model": "llm", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "stream": True}
    ).encode()
    failures: list[str] = []

    def ask():
        request = urllib.request.Request(
            f"{server.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        for _ in range(STREAMS):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    if not answer.read().endswith(b"data: [DONE]\n\n"):
                        failures.append("cut short")
            except urllib.error.HTTPError as error:
                failures.append(f"{error.code}: {error.read().decode()}")

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()

    assert failures == []
