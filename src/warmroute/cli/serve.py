"""``warmroute serve``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from warmroute.app.serve import Started

F = TypeVar("F", bound=Callable[..., object])

_SERVER_FLAGS = {
    "host": ("ADDRESS", "Address of the public listener [127.0.0.1]."),
    "port": ("PORT", "Port of the public listener; 0 takes a free one [8080]."),
    "admin_port": ("PORT", "Port of the admin listener; 0 takes a free one [8081]."),
    "data_dir": (
        "DIRECTORY",
        "Store, logs and sockets; one warmroute per directory [~/.local/share/warmroute].",
    ),
    "routers": ("N", "Router processes; this version runs 1."),
    "drain_seconds": ("SECONDS", "From SIGTERM to the end of everything [10]."),
}
_ENDPOINT_FLAGS = {
    "instances": ("URLS", "Model servers that run already, as base URLs separated by commas."),
    "endpoint": ("NAME", "Name of the endpoint that serves them."),
    "strategy": ("STRATEGY", "RANDOM (default), LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE or KV_AWARE."),
    "prefix_length": ("N", "PREFIX_AWARE: bytes or characters that make the routing key, 1024 to 65536."),
    "concurrency_threshold": (
        "N",
        "PREFIX_AWARE: in-flight requests at which an instance is full, 1 to 1024.",
    ),
}


def _options(flags: dict[str, tuple[str, str]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for name, (metavar, text) in reversed(flags.items()):
            function = click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, help=text)(function)
        return function

    return decorate


@click.command()
@_options(_ENDPOINT_FLAGS)
@_options(_SERVER_FLAGS)
@click.option(
    "--keep-instances/--stop-instances",
    default=None,
    help="Leave local model servers running at the end, or stop them [stop].",
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings file [./warmroute.toml].")
def serve(file: Path | None, keep_instances: bool | None, **given: str | None) -> None:
    """Run warmroute in the foreground.

    Everything can also be set in warmroute.toml; a flag comes before the environment, that before the
    file. With --instances, an endpoint over servers that run already is there after the start:

    \b
      warmroute serve --instances http://a:8000,http://b:8000 --endpoint llm \\
        --strategy PREFIX_AWARE --prefix-length 4096 --concurrency-threshold 32
    """  # noqa: D301  (\b keeps click from joining the lines)
    from warmroute.app.config import Sources, load
    from warmroute.app.declare import EndpointFlags, declaration_of
    from warmroute.app.serve import serve as run

    flags: dict[str, object] = {
        f"server.{name}": given[name] for name in _SERVER_FLAGS if given[name] is not None
    }
    if keep_instances is not None:
        flags["server.keep_instances"] = keep_instances
    declaration = declaration_of(EndpointFlags(**{name: given[name] for name in _ENDPOINT_FLAGS}))
    settings = load(Sources(config=file, environment=os.environ, flags=flags, directory=Path.cwd()))
    run(settings, declaration=declaration, environment=os.environ, announce=_announce)


def _announce(started: "Started") -> None:
    from warmroute.app.welcome import lines, warnings

    for line in lines(started):
        click.echo(line)
    for warning in warnings(started.settings):
        click.echo(f"warmroute: warning: {warning}", err=True)
