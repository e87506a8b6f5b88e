"""What the control process is told at its start. Apart from ``options``, which a router imports too."""

from dataclasses import dataclass, field

from warmroute.app.options import AdapterTimes
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import AccessKey, ApiKey
from warmroute.core.machines import Image, InstanceType
from warmroute.resources.metrics.alarms import Alarm


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
        router_count: Routers that the supervisor keeps running: an update waits for one that is missing.
        declare: From the flags of ``serve``; None without them.
        alarms: As declared.
        autoscaling_speed: Seconds that pass for autoscaling in one.
        adapters: As set.
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
    router_count: int = 0
    declare: EndpointDeclaration | None = None
    alarms: tuple[Alarm, ...] = ()
    autoscaling_speed: float = 1.0
    adapters: AdapterTimes = field(default_factory=AdapterTimes)
