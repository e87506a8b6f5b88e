"""``warmroute serve`` as a story: hold the directory, bind, say what is where, run until told to stop."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warmroute.adapters.decision_log import check
from warmroute.adapters.images import built_in_images
from warmroute.app.alarms import alarms_of
from warmroute.app.control_options import ControlOptions
from warmroute.app.credentials import SECRET_VARIABLES, access_keys, api_keys
from warmroute.app.directories import Directories, opened
from warmroute.app.listeners import listen, url_of
from warmroute.app.machines import images_of, instance_types_of
from warmroute.app.options import RouterOptions, encode
from warmroute.app.processes import ChildSpec
from warmroute.app.settings import Settings
from warmroute.app.supervisor import Supervisor
from warmroute.app.timing import StopSchedule
from warmroute.core.declaration import EndpointDeclaration

_STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to say once the listeners are bound.

    Attributes:
        public_url: Base URL of the public listener.
        admin_url: Base URL of the admin listener.
        settings: In force.
        declaration: From the flags; None without them.
    """

    public_url: str
    admin_url: str
    settings: Settings
    declaration: EndpointDeclaration | None


def serve(
    settings: Settings,
    *,
    declaration: EndpointDeclaration | None,
    environment: Mapping[str, str],
    announce: Callable[[Started], None],
) -> None:
    """Run warmroute in the foreground until SIGTERM, SIGINT or SIGHUP.

    Args:
        settings: Complete, as ``config.load`` returns them.
        declaration: An endpoint to be there.
        environment: For the children; secrets are left out.
        announce: Called once, when the listeners are bound and before anything is started.

    Raises:
        ConfigurationError: A directory, port or setting cannot be used.
    """
    os.umask(0o077)  # whatever any of our processes writes is for this user alone
    server = settings.server
    if settings.router.decision_log:
        check(settings.router.decision_log)
    with (
        opened(Path(server.data_dir)) as directories,
        listen(host=server.host, port=server.port, host_key="server.host", port_flag="--port") as public,
        listen(
            host=server.admin_host,
            port=server.admin_port,
            host_key="server.admin_host",
            port_flag="--admin-port",
        ) as admin,
    ):
        announce(Started(url_of(public), url_of(admin), settings, declaration))
        Supervisor(
            control=_control(settings, directories, admin, declaration),
            routers=tuple(_router(settings, directories, public, index) for index in range(server.routers)),
            total_s=server.drain_seconds,
            keep_instances=server.keep_instances,
            environment={name: value for name, value in environment.items() if name not in SECRET_VARIABLES},
            write_log=_write_log,
        ).run()


def control_options(
    settings: Settings, directories: Directories, *, admin_fd: int, declaration: EndpointDeclaration | None
) -> ControlOptions:
    """Return what the control process is told.

    Raises:
        ConfigurationError: A declared instance type or image does not fit.
    """
    server = settings.server
    images = images_of(settings, built_in_images())
    instance_types = instance_types_of(settings, images)
    if declaration is not None:
        instance_types[declaration.instance_type.name] = declaration.instance_type
    return ControlOptions(
        admin_fd=admin_fd,
        stream_path=str(directories.stream_socket),
        control_path=str(directories.control_socket),
        data_dir=str(directories.data),
        store_url=server.store_url,
        region=server.region,
        account=server.account,
        access_keys=access_keys(settings),
        api_keys=api_keys(settings),
        instance_types=instance_types,
        images=images,
        keep_instances=server.keep_instances,
        stop_s=StopSchedule.of(server.drain_seconds).control_s,
        describe_hold_s=server.describe_hold_s,
        router_count=server.routers,
        declare=declaration,
        alarms=alarms_of(settings),
        autoscaling_speed=settings.autoscaling.speed,
        adapters=settings.adapters,
    )


def router_options(
    settings: Settings, directories: Directories, *, listen_fd: int, index: int
) -> RouterOptions:
    """Return what a router is told."""
    name = f"router-{index}"
    access_log = settings.access_log.path
    return RouterOptions(
        name=name,
        listen_fd=listen_fd,
        stream_path=str(directories.stream_socket),
        control_path=str(directories.control_socket),
        fleet_path=str(directories.fleet(name)),
        drain_s=StopSchedule.of(settings.server.drain_seconds).drain_s,
        region=settings.server.region,
        access_keys=access_keys(settings),
        api_keys=api_keys(settings),
        access_log="" if access_log == "off" else access_log,
        decision_log=_numbered(settings.router.decision_log, index),
        decision_log_bytes_max=settings.router.decision_log_bytes_max,
        limits=settings.limits,
        timeouts=settings.timeouts,
    )


def _control(
    settings: Settings,
    directories: Directories,
    admin: socket.socket,
    declaration: EndpointDeclaration | None,
) -> ChildSpec:
    options = control_options(settings, directories, admin_fd=admin.fileno(), declaration=declaration)
    return ChildSpec(
        name="control",
        command=_module("warmroute.app.control_process"),
        options=encode(options),
        descriptors=(admin.fileno(),),
        # Not SIGTERM, at which it stops its model servers: those outlive a crash of the supervisor too.
        death_signal=signal.SIGKILL,
    )


def _router(settings: Settings, directories: Directories, public: socket.socket, index: int) -> ChildSpec:
    options = router_options(settings, directories, listen_fd=public.fileno(), index=index)
    return ChildSpec(
        name=options.name,
        command=_module("warmroute.app.router_process"),
        options=encode(options),
        descriptors=(public.fileno(),),
        death_signal=signal.SIGTERM,
    )


def _numbered(path: str, index: int) -> str:
    """Return a router's own file, ``decisions-1.jsonl`` of the second one."""
    if not path or not index:
        return path
    return str(Path(path).with_stem(f"{Path(path).stem}-{index}"))


def _module(name: str) -> tuple[str, ...]:
    # -P: a file of the working directory must not stand in for a module of ours.
    return (sys.executable, "-P", "-m", name)


def _write_log(lines: bytes) -> None:
    rest = memoryview(lines)
    try:
        while rest:
            rest = rest[os.write(_STANDARD_ERROR, rest) :]
    except OSError:
        return  # nobody reads our log any more; serving goes on
