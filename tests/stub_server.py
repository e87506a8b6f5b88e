"""A model server for tests: the routes of one, canned answers, and every way to go wrong on purpose.

In the test's own process::

    with StubServer(name="a") as stub:
        stub.behaviour.delay_s = 0.2
        ...  # stub.url, stub.port
        assert stub.counters.executions == 1

As a process of its own, to be killed: ``python tests/stub_server.py --name a`` prints its URL; then
``GET /stub`` returns the counters and ``POST /stub`` sets the behaviour. ``StubProcess`` wraps that.

Routes: GET /ping, /health, /v1/models; POST /invocations, /v1/chat/completions, /v1/completions and,
with a bare answer, /v1/embeddings, /v1/responses and /v1/messages. A request may carry its own
behaviour: a JSON member ``"stub": {"delay_s": 1}`` goes on top of the server's.

With ``adapter_routes`` it also loads and unloads LoRA adapters, in the words of the engine it names, and
then answers 404, as vLLM does, to a ``model`` that is neither its own nor loaded.

Standard library only.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Self

FAULTS = (
    "",
    "close_before_answer",  # FIN instead of an answer
    "reset_before_answer",  # RST instead of an answer
    "stall_before_answer",  # nothing, ever
    "close_in_answer",  # FIN after `fault_after` pieces of a stream, or after half a plain answer
    "reset_in_answer",  # RST there
    "stall_in_answer",  # nothing more there
    "garbage",  # bytes that are not HTTP
)


@dataclass
class Behaviour:
    """What the server does. Change it at any time; each request sees what was set when it arrived."""

    model: str = "stub-model"
    answer: str = "Hello from {name}."
    """Text of an answer; ``{name}`` is the server's name."""
    pieces: int = 5
    """Events of a stream that carry text."""
    delay_s: float = 0.0
    """Before the first byte of an answer."""
    piece_delay_s: float = 0.0
    """Before each piece of a stream."""
    status: int = 200
    """Of every POST route; another one sends ``error_body``."""
    error_body: str = '{"error": {"message": "stub error", "type": "server_error", "code": null}}'
    headers: dict[str, str] = field(default_factory=dict)
    """Added to every answer."""
    ready: bool = True
    """False: health routes and POST routes answer 503 "Loading model", as llama.cpp does."""
    has_invocations: bool = True
    has_ping: bool = True
    chunked: bool = False
    """Send plain answers chunked too."""
    keep_alive_s: float = 60.0
    """An idle connection is closed then."""
    keep_alive_requests: int = 1_000_000
    """A connection is closed after so many, without saying so before."""
    fault: str = ""
    """One of ``FAULTS``."""
    fault_after: int = 2
    """Pieces before a fault inside a stream."""
    cached_prompts: int = 8
    """How many prompts the pretended prefix cache holds."""
    adapter_routes: str = ""
    """``vllm``, ``sglang``, ``sagemaker``, ``lmi`` (its routes, read from the query) or ``llama_cpp``."""
    adapter_delay_s: float = 0.0
    """Before an adapter is loaded or unloaded."""
    adapter_refusals: dict[str, str] = field(default_factory=dict)
    """Why adapters of these names cannot be loaded."""

    def updated(self, changes: dict) -> "Behaviour":
        return dataclasses.replace(self, **changes)


@dataclass
class Counters:
    """What happened, since the start."""

    connections: int = 0
    executions: int = 0
    """POST requests whose body arrived whole: a model would have worked on them."""
    completed: int = 0
    """Answers written to their end."""
    aborted: int = 0
    """Executions whose client went away before the end of the answer."""
    running: int = 0
    running_max: int = 0
    health_checks: int = 0
    adapter_loads: int = 0
    adapter_unloads: int = 0
    adapters_most: int = 0
    """Adapters that were loaded at once."""
    adapters_missed: int = 0
    """Requests that named a model which was not there."""
    unloaded_in_use: int = 0
    """Adapters that were unloaded while a request for them ran."""


@dataclass(frozen=True)
class Request:
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict:
        return json.loads(self.body)


class _Connection(asyncio.StreamReaderProtocol):
    """Tells its handler at once when the client is gone, which plain streams do not."""

    def __init__(self, serve, loop, open_transports):
        super().__init__(asyncio.StreamReader(limit=1 << 20, loop=loop), self._connected, loop=loop)
        self._serve = serve
        self._serving = None
        self._open = open_transports

    def connection_made(self, transport):
        self._open[self] = transport
        super().connection_made(transport)

    def _connected(self, reader, writer):
        self._serving = asyncio.get_running_loop().create_task(self._serve(reader, writer))

    def eof_received(self):
        super().eof_received()
        self._gone()
        return True

    def connection_lost(self, exc):
        self._open.pop(self, None)
        super().connection_lost(exc)
        self._gone()

    def _gone(self):
        if self._serving is not None:
            self._serving.cancel()


async def _rounds_of_the_loop() -> None:
    """Wait as long as it takes from the accept of a connection to its protocol's first word."""
    for _ in range(3):
        await asyncio.sleep(0)


class StubServer:
    """The server, on a thread with a loop of its own; a context manager."""

    def __init__(self, name: str = "stub", *, port: int = 0, **behaviour):
        self.name = name
        self.behaviour = Behaviour(**behaviour)
        self.counters = Counters()
        self.requests: list[Request] = []
        self.adapters: dict[str, str] = {}
        self._using: list[str] = []
        self._prompts: list[str] = []
        self._tasks: set[asyncio.Task] = set()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=1024)
        # asyncio leaves this out for a socket made elsewhere, and every answer would wait for an ACK, 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"stub {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._socket.close()

    def posts(self) -> list[Request]:
        """Return the executions in the order they arrived."""
        return [request for request in self.requests if request.method == "POST"]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        transports: dict[_Connection, asyncio.Transport] = {}
        server = await loop.create_server(
            lambda: _Connection(self._serve, loop, transports), sock=self._socket
        )
        await self._stop.wait()
        # First nothing more is accepted, and what has been accepted gets its transport: a server that is
        # closed between the two leaves the socket to the garbage collector.
        loop.remove_reader(self._socket)
        await _rounds_of_the_loop()
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A connection that was just accepted has no task yet, one with bytes left to send stays open.
        async with asyncio.timeout(5):
            await _rounds_of_the_loop()
            while transports:
                for transport in list(transports.values()):
                    transport.abort()
                await asyncio.sleep(0.001)

    async def _serve(self, reader, writer) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.counters.connections += 1
        try:
            for _ in range(self.behaviour.keep_alive_requests):
                # Not wait_for: in Python 3.11 it may lose the news that the client went (gh-86296).
                async with asyncio.timeout(self.behaviour.keep_alive_s):
                    request = await _read_request(reader, writer)
                self.requests.append(request)
                if not await self._answer(request, writer):
                    break
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request: Request, writer) -> bool:
        """Answer one request; return whether the connection may carry another."""
        if request.path == "/stub":
            return await self._answer_stub(request, writer)
        if self.behaviour.adapter_routes and _is_adapter_call(request, self.behaviour.adapter_routes):
            return await self._answer_adapter_call(request, writer)
        if request.method != "POST":
            self.counters.health_checks += request.path in {"/ping", "/health"}
            return await self._answer_get(request, writer)
        behaviour = self.behaviour.updated(_own_behaviour(request))
        self.counters.executions += 1
        self.counters.running += 1
        self.counters.running_max = max(self.counters.running_max, self.counters.running)
        try:
            again = await self._execute(request, behaviour, writer)
            self.counters.completed += 1
        except asyncio.CancelledError:
            self.counters.aborted += 1
            raise
        finally:
            self.counters.running -= 1
        return again

    async def _answer_stub(self, request: Request, writer) -> bool:
        if request.method == "POST":
            self.behaviour = self.behaviour.updated(request.json())
        await _send_plain(writer, 200, json.dumps(dataclasses.asdict(self.counters)).encode())
        return True

    async def _answer_get(self, request: Request, writer) -> bool:
        behaviour = self.behaviour
        if request.path == "/v1/models":
            listed = [{"id": behaviour.model, "object": "model", "root": behaviour.model, "parent": None}]
            if behaviour.adapter_routes in {"vllm", "sglang", "sagemaker"}:
                listed += [
                    {"id": name, "object": "model", "root": path, "parent": behaviour.model}
                    for name, path in self.adapters.items()
                ]
            models = {"object": "list", "data": listed}
            await _send_plain(writer, 200, json.dumps(models).encode())
        elif request.path == "/health" or (request.path == "/ping" and behaviour.has_ping):
            if behaviour.ready:
                await _send_plain(writer, 200, b"{}")
            else:
                await _send_plain(writer, 503, _LOADING)
        else:
            await _send_plain(writer, 404, b'{"error": {"message": "Not Found", "code": 404}}')
        return True

    async def _execute(self, request: Request, behaviour: Behaviour, writer) -> bool:
        if behaviour.fault == "close_before_answer":
            return False
        if behaviour.fault == "reset_before_answer":
            _reset(writer)
            return False
        if behaviour.fault == "stall_before_answer":
            await asyncio.sleep(3600)
        if behaviour.fault == "garbage":
            writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
            return False
        if behaviour.delay_s:
            await asyncio.sleep(behaviour.delay_s)
        if not behaviour.ready:
            await _send_plain(writer, 503, _LOADING)
            return True
        if behaviour.status != 200:
            await _send_plain(
                writer, behaviour.status, behaviour.error_body.encode(), headers=behaviour.headers
            )
            return True
        if request.path == "/invocations" and not behaviour.has_invocations:
            await _send_plain(writer, 404, b'{"error": {"message": "File Not Found", "code": 404}}')
            return True
        if not behaviour.adapter_routes:
            return await self._generate(request, behaviour, writer)
        model = _asked_model(request)
        if model and model != behaviour.model and model not in self.adapters:
            self.counters.adapters_missed += 1
            text = f"The model `{model}` does not exist."
            error = {"message": text, "type": "NotFoundError", "param": "model", "code": 404}
            await _send_plain(writer, 404, json.dumps({"error": error}).encode())
            return True
        self._using.append(model)
        try:
            return await self._generate(request, behaviour, writer)
        finally:
            self._using.remove(model)

    async def _answer_adapter_call(self, request: Request, writer) -> bool:
        """Load, unload or list, in the words of the engine that the behaviour names."""
        routes, path = self.behaviour.adapter_routes, request.path.partition("?")[0]
        if request.method == "GET":
            listed = {"adapters": [{"name": name, "src": src} for name, src in self.adapters.items()]}
            if routes == "lmi":
                await _send_plain(writer, 200, json.dumps(listed).encode())
            elif routes == "llama_cpp":
                await _send_plain(writer, 200, b"[]")
            else:
                await _send_plain(writer, 405, b'{"detail":"Method Not Allowed"}')
            return True
        await asyncio.sleep(self.behaviour.adapter_delay_s)
        name, src = _asked_adapter(request, routes)
        loads = request.method == "POST" and "unload" not in path
        status, answer = self._load(name, src) if loads else self._unload(name)
        if routes == "sglang":
            success = status == 200
            answer = {"success": success, "loaded_adapters": self.adapters} | (
                {} if success else {"error_message": answer}
            )
        elif routes == "lmi":
            answer = {"status": answer} if status == 200 else {"code": status, "message": answer}
        elif status != 200:
            kind = "NotFoundError" if status == 404 else "InvalidUserInput"
            answer = {"error": {"message": answer, "type": kind, "param": None, "code": status}}
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        await _send_plain(writer, 400 if routes == "sglang" and status != 200 else status, data)
        return True

    def _load(self, name: str, src: str) -> tuple[int, str]:
        words = _ADAPTER_WORDS[self.behaviour.adapter_routes]
        if name in self.behaviour.adapter_refusals:
            return 400, self.behaviour.adapter_refusals[name]
        if name in self.adapters:
            return 400, words["already"].format(name)
        self.adapters[name] = src
        self.counters.adapter_loads += 1
        self.counters.adapters_most = max(self.counters.adapters_most, len(self.adapters))
        return 200, words["loaded"].format(name)

    def _unload(self, name: str) -> tuple[int, str]:
        words = _ADAPTER_WORDS[self.behaviour.adapter_routes]
        if name not in self.adapters:
            return 404, words["absent"].format(name)
        del self.adapters[name]
        self.counters.adapter_unloads += 1
        self.counters.unloaded_in_use += name in self._using
        return 200, words["unloaded"].format(name)

    async def _generate(self, request: Request, behaviour: Behaviour, writer) -> bool:
        headers = {"x-stub": self.name, **behaviour.headers}
        if "x-amzn-sagemaker-custom-attributes" in request.headers:
            headers["X-Amzn-SageMaker-Custom-Attributes"] = request.headers[
                "x-amzn-sagemaker-custom-attributes"
            ]
        body = _json_or_none(request.body)
        text = behaviour.answer.format(name=self.name)
        usage = self._usage(_prompt_of(body) if body is not None else "", behaviour)
        if body is not None and body.get("stream"):
            kind = "completion" if request.path == "/v1/completions" else "chat"
            include_usage = (body.get("stream_options") or {}).get("include_usage", False)
            events = list(
                _events(kind, behaviour.model, text, behaviour.pieces, usage if include_usage else None)
            )
            return await _send_stream(writer, events, behaviour, headers)
        answer = _plain_answer(request, body, behaviour.model, text, usage)
        return await _send_plain(
            writer, 200, json.dumps(answer).encode(), headers=headers, behaviour=behaviour
        )

    def _usage(self, prompt: str, behaviour: Behaviour) -> dict:
        """Count four characters as a token, and what a small LRU cache of prompts would have had."""
        best = max((len(os.path.commonprefix([prompt, known])) for known in self._prompts), default=0)
        self._prompts = [known for known in self._prompts if known != prompt]
        self._prompts = [*self._prompts, prompt][-behaviour.cached_prompts :]
        return {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": behaviour.pieces,
            "total_tokens": len(prompt) // 4 + behaviour.pieces,
            "prompt_tokens_details": {"cached_tokens": best // 4},
        }


class StubProcess:
    """The same server as a process of its own, with ``url``, ``pid``, ``counters()`` and ``set(...)``."""

    def __init__(self, name: str = "stub", *, port: int = 0):
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--name", name, "--port", str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = name
        self.pid = self._process.pid
        self.url = self._process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.kill()

    def counters(self) -> Counters:
        with urllib.request.urlopen(f"{self.url}/stub", timeout=5) as answer:
            return Counters(**json.load(answer))

    def set(self, **behaviour) -> None:
        data = json.dumps(behaviour).encode()
        with urllib.request.urlopen(f"{self.url}/stub", data=data, timeout=5) as answer:
            answer.read()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


_ADAPTER_PATHS = {
    "vllm": ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "sglang": ("/load_lora_adapter", "/unload_lora_adapter"),
    "sagemaker": ("/adapters",),
    "lmi": ("/adapters",),
    "llama_cpp": ("/lora-adapters",),
}
_VLLM_WORDS = {
    "loaded": "Success: LoRA adapter '{}' added successfully.",
    "already": "The lora adapter '{}' has already been loaded. If you want to load the adapter in place, "
    "set 'load_inplace' to True.",
    "unloaded": "Success: LoRA adapter '{}' removed successfully.",
    "absent": "The lora adapter '{}' cannot be found.",
}
_ADAPTER_WORDS = {
    "vllm": _VLLM_WORDS,
    "sglang": {
        "loaded": "",
        "already": "LoRA with name {} already exists. Loaded LoRAs: dict_keys([])",
        "unloaded": "",
        "absent": "LoRA with name {} does not exist. Loaded LoRAs: dict_keys([])",
    },
    # As the vLLM container has it: its own words for success, vLLM's for failure.
    "sagemaker": _VLLM_WORDS | {"loaded": "Adapter {} registered", "unloaded": "Adapter {} unregistered"},
    "lmi": {
        "loaded": "Adapter {} registered",
        "already": "Adapter {} is already registered.",
        "unloaded": "Adapter {} unregistered",
        "absent": "The adapter {} was not found",
    },
}
"""What each engine says, ``{}`` for the name."""
_LOADING = b'{"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}'


async def _read_request(reader, writer) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise ConnectionError from error
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, body)


async def _read_chunked(reader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return bytes(body)
        body += data[:-2]


async def _send_plain(writer, status: int, body: bytes, *, headers=None, behaviour=None) -> bool:
    fault = behaviour.fault if behaviour else ""
    chunked = behaviour is not None and behaviour.chunked
    framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
    _write_head(writer, status, {"Content-Type": "application/json", **framing, **(headers or {})})
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    if fault.endswith("_in_answer"):
        writer.write(body[: len(body) // 2])
        return await _fail(writer, fault)
    writer.write(body)
    await writer.drain()
    return True


async def _send_stream(writer, events, behaviour: Behaviour, headers) -> bool:
    _write_head(
        writer,
        200,
        {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked", **headers},
    )
    for number, event in enumerate(events):
        if behaviour.fault.endswith("_in_answer") and number == behaviour.fault_after:
            await writer.drain()
            return await _fail(writer, behaviour.fault)
        if behaviour.piece_delay_s:
            await asyncio.sleep(behaviour.piece_delay_s)
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _fail(writer, fault: str) -> bool:
    if fault == "stall_in_answer":
        await asyncio.sleep(3600)
    if fault == "reset_in_answer":
        await asyncio.sleep(0.05)  # let what was written leave first: RST discards it otherwise
        _reset(writer)
    return False


def _write_head(writer, status: int, headers: dict[str, str]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} Stub\r\n{lines}\r\n".encode("latin-1"))


def _reset(writer) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _is_adapter_call(request: Request, routes: str) -> bool:
    path = request.path.partition("?")[0]
    return (
        path in _ADAPTER_PATHS[routes]
        or path.startswith("/adapters/")
        and "/adapters" in _ADAPTER_PATHS[routes]
    )


def _asked_adapter(request: Request, routes: str) -> tuple[str, str]:
    path, _, query = request.path.partition("?")
    if request.method == "DELETE":
        return urllib.parse.unquote(path.removeprefix("/adapters/")), ""
    asked = dict(urllib.parse.parse_qsl(query)) if routes == "lmi" else request.json()
    return asked.get("lora_name") or asked.get("name", ""), asked.get("lora_path") or asked.get("src", "")


def _asked_model(request: Request) -> str:
    """Return the model of a request; SageMaker's header comes before the body's member."""
    named = request.headers.get("x-amzn-sagemaker-adapter-identifier")
    return named or str((_json_or_none(request.body) or {}).get("model") or "")


def _json_or_none(body: bytes) -> dict | None:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body)
        return value if isinstance(value, dict) else None
    return None


def _own_behaviour(request: Request) -> dict:
    return (_json_or_none(request.body) or {}).get("stub", {})


def _prompt_of(body: dict) -> str:
    if "messages" not in body:
        return str(body.get("prompt", body.get("input", "")))
    return "\n".join(str(message.get("content")) for message in body["messages"])


def _plain_answer(request: Request, body: dict | None, model: str, text: str, usage: dict) -> dict:
    if body is not None and (request.path == "/v1/chat/completions" or "messages" in body):
        message = {"role": "assistant", "content": text}
        return {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 1700000000,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage,
        }
    if request.path == "/v1/completions":
        return {
            "id": "cmpl-stub",
            "object": "text_completion",
            "created": 1700000000,
            "model": model,
            "choices": [{"index": 0, "text": text, "finish_reason": "stop"}],
            "usage": usage,
        }
    return {"text": text, "path": request.path, "bytes": len(request.body)}


def _events(kind: str, model: str, text: str, pieces: int, usage: dict | None):
    size = max(1, -(-len(text) // pieces))
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    common = {"id": f"{kind}-stub", "created": 1700000000, "model": model}
    if kind == "chat":
        common["object"] = "chat.completion.chunk"
        choices = [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]
        yield _event({**common, "choices": choices})
    else:
        common["object"] = "text_completion"
    for part in parts:
        said = {"delta": {"content": part}} if kind == "chat" else {"text": part}
        yield _event({**common, "choices": [{"index": 0, **said, "finish_reason": None}]})
    end = {"delta": {}} if kind == "chat" else {"text": ""}
    yield _event({**common, "choices": [{"index": 0, **end, "finish_reason": "stop"}]})
    if usage is not None:
        yield _event({**common, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _event(value: dict) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="stub")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", type=json.loads, default={}, help="as JSON")
    arguments = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with StubServer(arguments.name, port=arguments.port, **arguments.behaviour) as stub:
        print(stub.url, flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
