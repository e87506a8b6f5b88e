"""What an operator declares about the places to run on: instance types and images."""

from dataclasses import dataclass, field
from enum import StrEnum

from warmroute.core.fleet import NativeMapping


class ProviderKind(StrEnum):
    """The providers an instance type can name."""

    STATIC = "static"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An ``InstanceType`` value and who serves it.

    Attributes:
        name: As callers write it in a ProductionVariant.
        provider: Who starts and stops its instances.
        urls: Static only: base URLs of servers that run already; one is one instance.
        image: Image assumed for a model whose container names none; None for the provider's default.
        instances_max: Local only: how many may run at once; None for no bound but the machine's.
        api_key: Static only: the servers' own key, sent to them as a bearer token.
    """

    name: str
    provider: ProviderKind
    urls: tuple[str, ...] = ()
    image: str | None = None
    instances_max: int | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Image:
    """A launch template: how a container image's name becomes a model server here.

    Attributes:
        name: As callers write it in ``PrimaryContainer.Image``.
        command: Argument vector for the local provider. ``{host}``, ``{port}``, ``{model}`` (the
            path in ModelDataUrl, without ``file://``), ``{data_dir}`` and ``{python}`` are filled in;
            empty for images that only static instances use.
        environment: Added to the server's environment, under the model's own Environment.
        health_path: Answers 200 when the server is ready; None tries ``/ping``, then ``/health``.
        native: How native invocations reach it.
        hold_first_event: See ``Target.hold_first_event``.
        startup_s_max: Health must be good by then (ContainerStartupHealthCheckTimeoutInSeconds
            of the variant comes first).
    """

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    health_path: str | None = None
    native: NativeMapping = NativeMapping.AUTO
    hold_first_event: bool = False
    startup_s_max: float = 480.0
