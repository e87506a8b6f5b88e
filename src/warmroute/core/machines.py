"""What an operator declares about the places to run on: instance types and images."""

from dataclasses import dataclass, field
from enum import StrEnum

from warmroute.core.fleet import NativeMapping


class ProviderKind(StrEnum):
    """The providers an instance type can name."""

    STATIC = "static"
    LOCAL = "local"


class AdapterRoutes(StrEnum):
    """How a model server is told to load and unload LoRA adapters while it runs."""

    VLLM = "vllm"
    """``POST /v1/load_lora_adapter`` and ``/v1/unload_lora_adapter``."""
    SGLANG = "sglang"
    """``POST /load_lora_adapter`` and ``/unload_lora_adapter``."""
    SAGEMAKER = "sagemaker"
    """``POST /adapters`` and ``DELETE /adapters/NAME``, as SageMaker's own containers have it."""
    LLAMA_CPP = "llama_cpp"
    """Adapters are fixed when the server starts: nothing can be loaded into it."""
    NONE = "none"
    """The server takes no adapters."""
    AUTO = "auto"
    """Found out by asking the server once which of these routes it has."""


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
        accelerators: Devices of one instance; 0 on a static type counts as unknown.
        cpus: Cores that component copies may reserve on one instance; None for no bound.
        memory_mb: Memory that component copies may reserve on one instance, in MB; None for no bound.
    """

    name: str
    provider: ProviderKind
    urls: tuple[str, ...] = ()
    image: str | None = None
    instances_max: int | None = None
    api_key: str | None = field(default=None, repr=False)
    accelerators: int = 0
    cpus: float | None = None
    memory_mb: int | None = None


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
        adapters: How LoRA adapters are loaded into it.
        adapters_max: Adapters loaded into one copy at once, where the base component's Environment does
            not say; None for ``limits.ADAPTERS_PER_COPY``.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    health_path: str | None = None
    native: NativeMapping = NativeMapping.AUTO
    hold_first_event: bool = False
    startup_s_max: float = 480.0
    adapters: AdapterRoutes = AdapterRoutes.AUTO
    adapters_max: int | None = None
