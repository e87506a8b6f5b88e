"""What the supervisor tells its children, as JSON on their standard input.

Not in the arguments or the environment, which other users or later children could read: the control
process's options hold secrets. A router process imports this module, so it imports little itself.
"""

import sys
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from warmroute.core import limits
from warmroute.core.fleet import AccessKey, ApiKey

EXIT_CONFIGURATION = 2
"""Exit status of a child whose options or files cannot work: at the first start the supervisor gives up."""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds on what one router process holds. The reasons for the defaults are in ``core/limits.py``."""

    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30, description="One request body.")] = (
        limits.BODY_BYTES_MAX
    )
    buffered_bodies_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 40,
            description="All request bodies held at once; a request beyond it is answered with 503.",
        ),
    ] = limits.BUFFERED_BODIES_BYTES_MAX
    head_bytes: Annotated[
        int, Meta(ge=4096, le=1 << 20, description="Request line and headers of one request together.")
    ] = limits.HEAD_BYTES_MAX
    header_count: Annotated[int, Meta(ge=16, le=1000, description="Header fields in one request.")] = (
        limits.HEADER_COUNT_MAX
    )
    upstream_idle_connections: Annotated[
        int, Meta(ge=0, le=10_000, description="Idle connections kept open to each instance.")
    ] = limits.UPSTREAM_IDLE_CONNECTIONS_MAX
    write_high_water_bytes: Annotated[
        int,
        Meta(
            ge=4096,
            le=1 << 26,
            description="Unsent bytes towards one peer above which reading from the other one stops.",
        ),
    ] = limits.WRITE_HIGH_WATER_BYTES


@dataclass(frozen=True, slots=True)
class AdapterTimes:
    """When LoRA adapters are loaded and unloaded, in seconds. Reasons are in ``core/limits.py``."""

    residence_s: Annotated[
        float,
        Meta(ge=0, le=86_400, description="What was just loaded stays at least so long."),
    ] = limits.ADAPTER_RESIDENCE_S
    patience_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="How long an adapter that is loaded nowhere waits for an idle one to be unloaded, "
            "before one in use is emptied.",
        ),
    ] = limits.ADAPTER_PATIENCE_S
    cold_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Unused for so long, an adapter's place may go to a further place of another one.",
        ),
    ] = limits.ADAPTER_COLD_S
    surplus_s: Annotated[
        float,
        Meta(ge=1, le=86_400, description="A further place that was not needed for so long is given up."),
    ] = limits.ADAPTER_SURPLUS_S


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a router waits, in seconds. The reasons for the defaults are in ``core/limits.py``."""

    connect_s: Annotated[
        float,
        Meta(
            ge=0.05,
            le=60,
            description="Opening a connection to an instance; then the next instance is tried.",
        ),
    ] = limits.CONNECT_S
    first_byte_native_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=3600,
            description="Until an instance answers a native invocation. "
            "boto3 stops reading at 60 s and sends again, so a longer time needs a longer `read_timeout` "
            "in every client.",
        ),
    ] = limits.FIRST_BYTE_NATIVE_S
    first_byte_openai_s: Annotated[
        float, Meta(ge=0.1, le=86_400, description="Until an instance answers on an OpenAI route.")
    ] = limits.FIRST_BYTE_OPENAI_S
    chunk_idle_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="Between two pieces of an instance's answer.")
    ] = limits.CHUNK_IDLE_S
    native_stream_total_s: Annotated[
        float, Meta(ge=1, le=86_400, description="A native response stream from beginning to end.")
    ] = limits.NATIVE_STREAM_TOTAL_S
    head_read_s: Annotated[
        float,
        Meta(ge=0.1, le=600, description="From the first byte of a request to the end of its headers."),
    ] = limits.HEAD_READ_S_MAX
    body_idle_s: Annotated[
        float, Meta(ge=0.1, le=600, description="Between two pieces of a request body.")
    ] = limits.BODY_IDLE_S_MAX
    keep_alive_idle_s: Annotated[
        float, Meta(ge=0.1, le=86_400, description="A client connection on which no request runs.")
    ] = limits.KEEP_ALIVE_IDLE_S_MAX
    upstream_idle_s: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="An idle connection to an instance is closed then. "
            "Keep it below the keep-alive time of the model servers: 5 s for uvicorn and llama.cpp.",
        ),
    ] = limits.UPSTREAM_IDLE_S_MAX


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """Options of a router process.

    Attributes:
        name: ``router-0``; its name towards control.
        listen_fd: The public listener, bound and listening, inherited.
        stream_path: Unix socket on which control publishes fleets.
        control_path: Unix socket of control's HTTP server, for the SageMaker JSON API.
        fleet_path: File with the last fleet this router saw, mode 0600.
        drain_s: From SIGTERM until what still runs is ended with an error.
        region: That signatures must name.
        access_keys: As declared: who may call until control has published a fleet.
        api_keys: Likewise.
        access_log: A path, ``-`` for standard output, empty for none.
        decision_log: A path, empty for none.
        decision_log_bytes_max: Where that log stops.
        limits: Bounds.
        timeouts: Deadlines.
    """

    name: str
    listen_fd: int
    stream_path: str
    control_path: str
    fleet_path: str
    drain_s: float
    region: str = "us-east-1"
    access_keys: tuple[AccessKey, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()
    access_log: str = ""
    decision_log: str = ""
    decision_log_bytes_max: int = limits.DECISION_LOG_BYTES_MAX
    limits: RelayLimits = RelayLimits()
    timeouts: Timeouts = Timeouts()


Options = TypeVar("Options")


def encode(options: object) -> bytes:
    """Return the options of a process as one line of JSON."""
    return msgspec.json.encode(options) + b"\n"


def receive(kind: type[Options]) -> Options:
    """Read this process's options from its standard input, to the end.

    Raises:
        msgspec.ValidationError: They do not fit, which means parent and child differ in version.
    """
    return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
