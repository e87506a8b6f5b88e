"""What every adapter loader must do, and what the HTTP one makes of each engine's own words."""

import asyncio
import contextlib

import pytest

from tests.stub_server import StubServer
from warmroute.adapters.lora.loader import HttpAdapterLoader
from warmroute.adapters.lora.memory import MemoryAdapterLoader
from warmroute.controlplane.ports import AdapterAnswer, AdapterOutcome, InstanceFact, InstancePhase
from warmroute.core import limits
from warmroute.core.machines import AdapterRoutes

ENGINES = ("vllm", "sglang", "sagemaker", "lmi")
DONE = AdapterAnswer(AdapterOutcome.DONE)


def fact_of(port, **changes):
    values = {
        "instance_id": "i-1",
        "instance_type": "t",
        "phase": InstancePhase.RUNNING,
        "generation": 1,
        "host": "127.0.0.1",
        "port": port,
    }
    return InstanceFact(**values | changes)


class Bench:
    """A loader, a server that it is used on, and what the server has loaded."""

    def __init__(self, kind, stub):
        self.stub = stub
        self.loader = MemoryAdapterLoader() if kind == "memory" else HttpAdapterLoader()
        self.fact = fact_of(stub.port)

    def load(self, name="a", path="/adapters/a", routes=AdapterRoutes.AUTO):
        return asyncio.run(self.loader.load(self.fact, routes, name=name, path=path))

    def unload(self, name="a", routes=AdapterRoutes.AUTO):
        return asyncio.run(self.loader.unload(self.fact, routes, name=name))

    def loaded(self, routes=AdapterRoutes.AUTO):
        return asyncio.run(self.loader.loaded(self.fact, routes))

    def refuse(self, name, why):
        if isinstance(self.loader, MemoryAdapterLoader):
            self.loader.refusals[name] = why
        else:
            self.stub.behaviour.adapter_refusals[name] = why


@pytest.fixture(params=["memory", *ENGINES])
def bench(request):
    routes = "vllm" if request.param == "memory" else request.param
    with StubServer(adapter_routes=routes) as stub:
        yield Bench(request.param, stub)


@pytest.fixture
def vllm():
    with StubServer(adapter_routes="vllm") as stub:
        yield Bench("http", stub)


def server(**behaviour):
    return StubServer(**behaviour)


# --- every loader ------------------------------------------------------------------------------
def test_an_adapter_is_loaded_and_listed(bench):
    assert bench.load() == DONE
    assert bench.loaded() == {"a": "/adapters/a"}


def test_loading_twice_is_done(bench):
    bench.load()
    assert bench.load() == DONE
    assert bench.loaded() == {"a": "/adapters/a"}


def test_another_path_takes_the_place_of_the_first(bench):
    bench.load()
    assert bench.load(path="/adapters/b") == DONE
    assert bench.loaded() == {"a": "/adapters/b"}


def test_an_adapter_is_unloaded(bench):
    bench.load()
    assert bench.unload() == DONE
    assert bench.loaded() == {}


def test_unloading_what_is_not_loaded_is_done(bench):
    assert bench.unload() == DONE


def test_names_need_not_be_plain(bench):
    name = "team a/b?c=d&e"
    assert bench.load(name) == DONE
    assert bench.loaded() == {name: "/adapters/a"}
    assert bench.unload(name) == DONE
    assert bench.loaded() == {}


def test_a_refusal_has_the_words_of_the_engine(bench):
    bench.refuse("a", "LoRA rank 64 is greater than max_lora_rank 16.")
    answer = bench.load()
    assert answer.outcome is AdapterOutcome.REFUSED
    assert "LoRA rank 64 is greater than max_lora_rank 16." in answer.detail
    assert bench.loaded() == {}


@pytest.mark.parametrize("routes", [AdapterRoutes.NONE, AdapterRoutes.LLAMA_CPP])
def test_an_image_without_adapters_refuses(bench, routes):
    assert bench.load(routes=routes).outcome is AdapterOutcome.REFUSED
    assert bench.unload(routes=routes).outcome is AdapterOutcome.REFUSED
    assert bench.loaded(routes=routes) is None


@pytest.mark.parametrize("engine", ENGINES)
def test_only_sglang_wants_the_models_name_before_the_adapters(engine):
    with StubServer(adapter_routes=engine) as stub:
        assert Bench("http", stub).load().after_base is (engine == "sglang")


# --- HTTP --------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
def test_declared_routes_are_not_looked_for(engine):
    routes = AdapterRoutes.SAGEMAKER if engine == "lmi" else AdapterRoutes(engine)
    with server(adapter_routes=engine) as stub:
        assert Bench("http", stub).load(routes=routes) == DONE
        assert [request.method for request in stub.requests] == ["POST"]


def test_a_server_is_asked_for_its_routes_once(vllm):
    vllm.load("a")
    vllm.load("b")
    assert [request.path for request in vllm.stub.requests if request.method == "GET"] == [
        "/v1/load_lora_adapter"
    ]


def test_a_new_generation_is_asked_again(vllm):
    vllm.load("a")
    vllm.fact = fact_of(vllm.stub.port, generation=2)
    vllm.load("b")
    assert sum(request.method == "GET" for request in vllm.stub.requests) == 2


def test_containers_get_a_body_and_a_query():
    with server(adapter_routes="sagemaker") as stub:
        Bench("http", stub).load("a", "/data/a b")
        post = stub.posts()[0] if stub.posts() else stub.requests[-1]
    assert post.json() == {"name": "a", "src": "/data/a b", "preload": True}
    assert post.path == "/adapters?name=a&src=%2Fdata%2Fa+b&preload=true"


def test_llama_cpp_says_that_it_cannot():
    with server(adapter_routes="llama_cpp") as stub:
        answer = Bench("http", stub).load()
    assert answer.outcome is AdapterOutcome.REFUSED
    assert "--lora" in answer.detail


def test_a_server_without_routes_is_refused_with_what_to_do():
    with server() as stub:
        bench = Bench("http", stub)
        answer = bench.load()
        assert bench.loaded() is None
    assert answer.outcome is AdapterOutcome.REFUSED
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" in answer.detail


def test_a_missing_unload_route_is_no_success():
    async def unload(loader, fact):
        return await loader.unload(fact, AdapterRoutes.VLLM, name="a")

    answer = against(404, b'{"detail":"Not Found"}', unload)
    assert (answer.outcome, answer.detail) == (AdapterOutcome.REFUSED, "Not Found (HTTP 404)")


def test_nobody_there_is_unclear(vllm):
    vllm.stub.close()
    for answer in (vllm.load(), vllm.unload()):
        assert answer.outcome is AdapterOutcome.UNCLEAR
        assert "no answer" in answer.detail
    assert vllm.loaded() is None


def test_a_load_that_takes_too_long_is_unclear(vllm):
    vllm.loader = HttpAdapterLoader(load_s=0.05, unload_s=0.05)
    vllm.stub.behaviour.adapter_delay_s = 30
    load, unload = vllm.load(), vllm.unload()
    assert load == AdapterAnswer(
        AdapterOutcome.UNCLEAR, "The model server gave no answer: It did not answer within 0.05 s."
    )
    assert unload.outcome is AdapterOutcome.UNCLEAR


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_in_trouble_is_unclear(status):
    answer = asked_of(status, b"busy")
    assert (answer.outcome, answer.detail) == (AdapterOutcome.UNCLEAR, f"busy (HTTP {status})")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"error":{"message":"no such file","code":404}}', "no such file (HTTP 500)"),
        (b'{"error":"no such file"}', "no such file (HTTP 500)"),
        (b'{"detail":"no such file"}', "no such file (HTTP 500)"),
        (b'{"success":false,"error_message":"no such file"}', "no such file (HTTP 500)"),
        (b'{"error":{}}', '{"error":{}} (HTTP 500)'),
        (b"", "It gave no reason. (HTTP 500)"),
        (b"[" * 100_000, "[" * limits.ADAPTER_DETAIL_CHARACTERS_MAX + " (HTTP 500)"),
        (b"\xff\xfe", "\ufffd\ufffd (HTTP 500)"),
    ],
)
def test_the_reason_is_found_wherever_it_stands(body, detail):
    answer = asked_of(500, body)
    assert (answer.outcome, answer.detail) == (AdapterOutcome.REFUSED, detail)


def test_a_success_that_says_failure_is_a_refusal():
    answer = asked_of(200, b'{"success":false,"error_message":"out of memory"}')
    assert (answer.outcome, answer.detail) == (AdapterOutcome.REFUSED, "out of memory (HTTP 200)")


def test_an_answer_that_is_no_http_is_unclear():
    assert asked_of(0, b"SSH-2.0-x\r\n").outcome is AdapterOutcome.UNCLEAR


@pytest.mark.parametrize("body", [b"[]", b'{"data": {}}', b"nonsense"])
def test_a_list_that_is_none_says_nothing(body):
    async def one(loader, fact):
        return await loader.loaded(fact, AdapterRoutes.VLLM)

    assert against(200, body, one) is None


def test_a_path_that_cannot_be_unloaded_is_not_loaded_anew():
    with server(adapter_routes="vllm") as stub:
        bench = Bench("http", stub)
        bench.load()
        bench.loader = HttpAdapterLoader(unload_s=0.05)
        stub.behaviour.adapter_delay_s = 0.3
        answer = bench.load(path="/adapters/b")
        assert stub.adapters == {"a": "/adapters/a"}
    assert answer.outcome is AdapterOutcome.UNCLEAR


def test_the_memory_of_routes_is_bounded(monkeypatch):
    monkeypatch.setattr("warmroute.adapters.lora.loader._MEMORY_MAX", 1)
    with server(adapter_routes="vllm") as stub:
        bench = Bench("http", stub)
        for generation in (1, 2, 1):
            bench.fact = fact_of(stub.port, generation=generation)
            bench.unload()
        assert sum(request.method == "GET" for request in stub.requests) == 3


def test_the_memory_loader_can_be_silent():
    loader = MemoryAdapterLoader(silent=True)
    fact = fact_of(1)
    told = []
    loader.on_call = lambda *call: told.append(call)
    answer = asyncio.run(loader.load(fact, AdapterRoutes.AUTO, name="a", path="/a"))
    assert answer.outcome is AdapterOutcome.UNCLEAR
    assert asyncio.run(loader.loaded(fact, AdapterRoutes.AUTO)) is None
    assert told == loader.calls == [("load", "i-1", "a")]


def against(status, body, use):
    """Return what a loader makes of a server that always answers so."""

    serving = set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) if status else b""
        writer.write(head + body)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def main():
        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            return await use(HttpAdapterLoader(), fact_of(listener.sockets[0].getsockname()[1]))
        finally:
            await asyncio.gather(*serving)
            listener.close()
            await listener.wait_closed()

    return asyncio.run(main())


def asked_of(status, body):
    async def load(loader, fact):
        return await loader.load(fact, AdapterRoutes.VLLM, name="a", path="/a")

    return against(status, body, load)
