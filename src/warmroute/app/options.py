"""What the supervisor tells its children, as JSON on their standard input.

Not in the arguments or the environment, which other users or later children could read: the control
process's options hold secrets. A router process imports this module, so it imports little itself.
"""

import sys
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from warmroute.core import limits
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import AccessKey, ApiKey
from warmroute.core.machines import Image, InstanceType

EXIT_CONFIGURATION = 2
"""Exit status of a child whose options or files cannot work: at the first start the supervisor gives up."""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds on what a router holds; ``[limits]`` of the settings. Reasons in ``core/limits.py``.

    Attributes:
        body_bytes: One request body.
        buffered_bodies_bytes: All request bodies held at once by one router.
        head_bytes: Request line and headers together.
        header_count: Header fields in one request.
        upstream_idle_connections: Idle connections kept per target.
        write_high_water_bytes: Unsent bytes towards one peer above which reading from the other stops.
    """

    body_bytes: int = limits.BODY_BYTES_MAX
    buffered_bodies_bytes: int = limits.BUFFERED_BODIES_BYTES_MAX
    head_bytes: int = limits.HEAD_BYTES_MAX
    header_count: int = limits.HEADER_COUNT_MAX
    upstream_idle_connections: int = limits.UPSTREAM_IDLE_CONNECTIONS_MAX
    write_high_water_bytes: int = limits.WRITE_HIGH_WATER_BYTES


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a router waits, in seconds; ``[timeouts]`` of the settings. Reasons in ``core/limits.py``.

    Attributes:
        connect_s: Opening a connection to an instance.
        first_byte_native_s: Until an instance answers a native invocation.
        first_byte_openai_s: The same on the OpenAI routes.
        chunk_idle_s: Between two pieces of a response.
        native_stream_total_s: A native response stream as a whole.
        head_read_s: From the first byte of a request to the end of its headers.
        body_idle_s: Between two pieces of a request body.
        keep_alive_idle_s: A client connection without a request.
        upstream_idle_s: An idle connection to an instance is retired then.
    """

    connect_s: float = limits.CONNECT_S
    first_byte_native_s: float = limits.FIRST_BYTE_NATIVE_S
    first_byte_openai_s: float = limits.FIRST_BYTE_OPENAI_S
    chunk_idle_s: float = limits.CHUNK_IDLE_S
    native_stream_total_s: float = limits.NATIVE_STREAM_TOTAL_S
    head_read_s: float = limits.HEAD_READ_S_MAX
    body_idle_s: float = limits.BODY_IDLE_S_MAX
    keep_alive_idle_s: float = limits.KEEP_ALIVE_IDLE_S_MAX
    upstream_idle_s: float = limits.UPSTREAM_IDLE_S_MAX


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
        access_log: A path, ``-`` for standard output, empty for none.
        limits: Bounds.
        timeouts: Deadlines.
    """

    name: str
    listen_fd: int
    stream_path: str
    control_path: str
    fleet_path: str
    drain_s: float
    access_log: str = ""
    limits: RelayLimits = RelayLimits()
    timeouts: Timeouts = Timeouts()


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Options of the control process.

    Attributes:
        admin_fd: The admin listener, bound and listening, inherited.
        stream_path: Unix socket to make, on which fleets are published to the routers.
        control_path: Unix socket to make, for the SageMaker JSON API as the routers pass it on.
        data_dir: Absolute path; mode 0700.
        store_url: SQLAlchemy URL of the store.
        region: In ARNs and signatures.
        account: Twelve digits.
        access_keys: As declared; empty together with ``api_keys`` means no authentication.
        api_keys: As declared.
        instance_types: Built-in and declared, by name.
        images: Built-in and declared, by name.
        keep_instances: Leave local instances running at SIGTERM.
        stop_s: From SIGTERM to the end of the process, stopping local instances included.
        describe_hold_s: How long DescribeEndpoint may hold its answer while an endpoint is about to change.
        router_count: Routers to wait for at an update.
        declare: From the flags of ``serve``; None without them.
    """

    admin_fd: int
    stream_path: str
    control_path: str
    data_dir: str
    store_url: str
    region: str
    account: str
    access_keys: tuple[AccessKey, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()
    instance_types: dict[str, InstanceType] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    keep_instances: bool = False
    stop_s: float = 8.0
    describe_hold_s: float = 20.0
    router_count: int = 1
    declare: EndpointDeclaration | None = None


Options = TypeVar("Options", RouterOptions, ControlOptions)


def encode(options: RouterOptions | ControlOptions) -> bytes:
    """Return the options as one line of JSON."""
    return msgspec.json.encode(options) + b"\n"


def receive(kind: type[Options]) -> Options:
    """Read this process's options from its standard input, to the end.

    Raises:
        msgspec.ValidationError: They do not fit, which means parent and child differ in version.
    """
    return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
