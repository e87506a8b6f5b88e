"""The settings: every key with its type, range, default and meaning, declared once.

``config`` reads them, ``reference`` turns them into documentation. Keys of the sections up to
``router`` can also be given as environment variables, ``WARMROUTE_<SECTION>__<KEY>``.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

from msgspec import Meta

from warmroute.app.options import AdapterTimes, RelayLimits, Timeouts
from warmroute.core import limits
from warmroute.core.fleet import NativeMapping
from warmroute.core.machines import AdapterRoutes, ProviderKind
from warmroute.resources.metrics.alarms import Comparison, MissingData, Statistic

_SECRET: Final = {"secret": True}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where warmroute listens, what it calls itself, and where it keeps its files."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address of the public listener. "
            "Without access keys it must be a loopback address: anybody who reaches it may use and change "
            "every endpoint.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the public listener; 0 takes any free one.")
    ] = 8080
    admin_host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address of the admin listener (metrics, health). It asks for no credentials.",
        ),
    ] = "127.0.0.1"
    admin_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the admin listener; 0 takes any free one.")
    ] = 8081
    data_dir: Annotated[
        str,
        Meta(
            description="Directory of the store, logs and sockets; one warmroute per directory. "
            "Made with mode 0700. Default: `warmroute` under `$XDG_DATA_HOME`, else under "
            "`~/.local/share`.",
            extra={"path": True},
        ),
    ] = ""
    region: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9-]{0,64}$",
            description="Region in ARNs and signatures. Default: `$AWS_REGION`, else `us-east-1`.",
            extra={"allowed": "a Region such as us-east-1"},
        ),
    ] = ""
    account: Annotated[
        str,
        Meta(
            pattern=r"^\d{12}$",
            description="Account number in ARNs and messages.",
            extra={"allowed": "twelve digits, in quotes"},
        ),
    ] = "000000000000"
    drain_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="From SIGTERM to the end of everything: requests that still run near the end of "
            "it get an error, then local instances are stopped.",
        ),
    ] = limits.DRAIN_S
    keep_instances: Annotated[
        bool,
        Meta(description="Leave local model servers running at the end; the next start adopts them again."),
    ] = False
    routers: Annotated[
        int,
        Meta(
            ge=1,
            le=1,
            description="Router processes. This version runs one.",
            extra={"allowed": "1: this version runs one router process"},
        ),
    ] = 1
    describe_hold_s: Annotated[
        float,
        Meta(
            ge=0,
            le=50,
            description="How long DescribeEndpoint may hold its answer while an endpoint is changing, so "
            "that waiters, which sleep 30 s between calls, return soon after the change. boto3 stops "
            "reading at 60 s.",
        ),
    ] = limits.DESCRIBE_HOLD_S
    store_url: Annotated[
        str,
        Meta(
            pattern=r"^(sqlite:///(?!:memory:).+|postgresql://.*)?$",
            description="SQLAlchemy URL of the store: `postgresql://user@host/database` (needs "
            "`warmroute[postgres]`), or `sqlite:///` and a path. One control process per database. "
            "Default: `sqlite:///<data_dir>/warmroute.db`.",
            extra={"allowed": "a URL, sqlite:///FILE or postgresql://…"} | _SECRET,
        ),
    ] = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AccessLogSettings:
    """One line of JSON per request."""

    path: Annotated[
        str,
        Meta(
            description="A file, `-` for standard output, or `off`. "
            "Default: `access.log` in the data directory.",
            extra={"path": True},
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """What a router notes for those who ask why it decided as it did."""

    decision_log: Annotated[
        str,
        Meta(
            description="A file for every routing decision with what it was made from, which "
            "`warmroute simulate replay` makes again. It holds hashes and lengths of prompts, no text. Each "
            "start of the router begins a new one; the one before is kept as `<name>.1`. Default: none.",
            extra={"path": True},
        ),
    ] = ""
    decision_log_bytes_max: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 40,
            description="Length at which the decision log stops, with a warning; serving goes on.",
        ),
    ] = limits.DECISION_LOG_BYTES_MAX


@dataclass(frozen=True, slots=True)
class AccessKeySettings:
    """A credential for boto3 (SigV4) and for SageMaker bearer tokens."""

    access_key_id: Annotated[
        str,
        Meta(
            pattern=r"^[\w.-]{3,128}$",
            description="The public half.",
            extra={"allowed": "3 to 128 letters, digits, '_', '.' or '-'"},
        ),
    ]
    secret_access_key: Annotated[
        str,
        Meta(min_length=8, description="The secret half, or give the next key.", extra=_SECRET),
    ] = field(default="", repr=False)
    secret_access_key_file: Annotated[
        str, Meta(description="A file that holds nothing but the secret half.", extra={"path": True})
    ] = ""
    principal: Annotated[str, Meta(min_length=1, max_length=64, description="Who this is, in logs.")] = "root"


@dataclass(frozen=True, slots=True)
class ApiKeySettings:
    """A plain bearer key for the ``/v1`` routes."""

    principal: Annotated[str, Meta(min_length=1, max_length=64, description="Who this is, in logs.")]
    key: Annotated[str, Meta(min_length=8, description="The key, or give the next key.", extra=_SECRET)] = (
        field(default="", repr=False)
    )
    key_file: Annotated[
        str, Meta(description="A file that holds nothing but the key.", extra={"path": True})
    ] = ""


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """Who may call.

    Credentials can also come from the environment: ``WARMROUTE_ACCESS_KEY_ID`` with
    ``WARMROUTE_SECRET_ACCESS_KEY`` or ``WARMROUTE_SECRET_ACCESS_KEY_FILE``, and ``WARMROUTE_API_KEYS``
    (``name:key`` or ``key``, separated by commas). They are added to those of the file.
    """

    access_keys: Annotated[
        tuple[AccessKeySettings, ...],
        Meta(description="Credentials for boto3 and SageMaker bearer tokens. Without any, no route asks."),
    ] = ()
    api_keys: Annotated[
        tuple[ApiKeySettings, ...],
        Meta(description="Bearer keys of the plain `/v1` routes. They need at least one access key beside."),
    ] = ()
    allow_anonymous: Annotated[
        bool,
        Meta(
            description="Listen on an address that is not loopback although nobody has to authenticate. "
            "For networks where everybody may change every endpoint."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class InstanceTypeSettings:
    """A value of ``InstanceType`` in a production variant, and who serves it.

    ``ml.local`` (provider ``local``) is there without being declared.
    """

    provider: Annotated[
        ProviderKind,
        Meta(
            description="`static`: model servers that run already. `local`: child processes on this machine."
        ),
    ]
    urls: Annotated[
        tuple[Annotated[str, Meta(extra={"allowed": "a URL such as http://10.0.0.7:8000"})], ...],
        Meta(description="Static only: base URLs of the model servers; each is one instance."),
    ] = ()
    image: Annotated[
        str | None,
        Meta(description="Image of a model whose container names none. Built in or declared below."),
    ] = None
    instances_max: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="Local only: how many may run at once. Copies on one instance count as one."),
    ] = None
    accelerators: Annotated[
        int,
        Meta(
            ge=0,
            le=1024,
            description="Accelerator devices of one instance. Local instances get devices of their own, "
            "numbered from 0 over the machine, in `CUDA_VISIBLE_DEVICES` and the like; component copies get "
            "theirs out of those of their instance. 0 on a static type: not known, any copy fits.",
        ),
    ] = 0
    cpus: Annotated[
        Annotated[float, Meta(ge=0.25, le=65_536)] | None,
        Meta(description="CPU cores of one instance that component copies may reserve. Default: no bound."),
    ] = None
    memory_mb: Annotated[
        Annotated[int, Meta(ge=128, le=1_000_000_000)] | None,
        Meta(
            description="Memory of one instance that component copies may reserve, in MB. Default: no bound."
        ),
    ] = None
    api_key: Annotated[
        str | None,
        Meta(description="Static only: the servers' own key, sent to them as a bearer token.", extra=_SECRET),
    ] = field(default=None, repr=False)
    api_key_file: Annotated[
        str, Meta(description="A file that holds nothing but that key.", extra={"path": True})
    ] = ""


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """A launch template: how a name in ``PrimaryContainer.Image`` becomes a model server here.

    ``warmroute/llama.cpp`` is there without being declared.
    """

    command: Annotated[
        tuple[str, ...],
        Meta(
            description="Argument vector for the local provider. `{host}`, `{port}`, `{model}` (the path in "
            "ModelDataUrl), `{data_dir}` and `{python}` are filled in; other braces stay."
        ),
    ] = ()
    environment: Annotated[
        dict[str, str],
        Meta(description="Added to the server's environment; the model's own Environment comes after."),
    ] = field(default_factory=dict)
    health_path: Annotated[
        Annotated[str, Meta(pattern="^/")] | None,
        Meta(
            description="Route that answers 200 when the server is ready. Default: `/ping`, then `/health`.",
            extra={"allowed": "a path that begins with /"},
        ),
    ] = None
    native: Annotated[
        NativeMapping,
        Meta(
            description="How native invocations reach it. `invocations`: its own `/invocations` route. "
            "`openai`: the chat or completion route, by the shape of the body. `auto`: found out."
        ),
    ] = NativeMapping.AUTO
    hold_first_event: Annotated[
        bool,
        Meta(
            description="Hold a stream's 200 until its first event, for engines that report overload there."
        ),
    ] = False
    startup_s_max: Annotated[
        float,
        Meta(
            ge=1,
            le=86_400,
            description="A server must be ready by then. ContainerStartupHealthCheckTimeoutInSeconds comes "
            "first.",
        ),
    ] = 480.0
    adapters: Annotated[
        AdapterRoutes,
        Meta(
            description="How LoRA adapters are loaded while it runs. `vllm`: `/v1/load_lora_adapter`. "
            "`sglang`: `/load_lora_adapter`. `sagemaker`: `/adapters`. `llama_cpp`: not, they are fixed at "
            "the start. `none`: it takes none. `auto`: found out by asking."
        ),
    ] = AdapterRoutes.AUTO
    adapters_max: Annotated[
        Annotated[int, Meta(ge=1, le=limits.ADAPTERS_PER_COPY_MAX)] | None,
        Meta(
            description="LoRA adapters loaded into one copy at once. The base component's Environment comes "
            "first: SAGEMAKER_MAX_NUMBER_OF_ADAPTERS_IN_MEMORY, OPTION_MAX_CPU_LORAS, OPTION_MAX_LORAS, "
            f"SM_VLLM_MAX_CPU_LORAS, SM_VLLM_MAX_LORAS. Default: {limits.ADAPTERS_PER_COPY}.",
            extra={"allowed": f"1 to {limits.ADAPTERS_PER_COPY_MAX}"},
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AlarmMetricSettings:
    """One metric of an expression. The metrics are listed in the how-to about autoscaling."""

    id: Annotated[
        str,
        Meta(
            pattern=r"^[a-z]\w{0,63}$",
            description="Its name in the expression.",
            extra={"allowed": "1 to 64 letters, digits or '_', the first a small letter"},
        ),
    ]
    metric: Annotated[str, Meta(min_length=1, description="Such as `Invocations`.")]
    statistic: Annotated[Statistic, Meta(description="What is taken of a period.")] = Statistic.AVERAGE
    endpoint: Annotated[str, Meta(description="EndpointName, with `variant`.")] = ""
    variant: Annotated[str, Meta(description="VariantName, with `endpoint`.")] = ""
    component: Annotated[str, Meta(description="InferenceComponentName, in place of these.")] = ""


@dataclass(frozen=True, slots=True)
class AlarmSettings:
    """An alarm on one metric or on an expression over several, for scaling policies and for rollback.

    Deployments refer to it by its name in `AutoRollbackConfiguration`; it names the step scaling policies
    that act on it. Alarms are evaluated every ten seconds.
    """

    threshold: Annotated[
        float, Meta(description="What values are compared with.", extra={"allowed": "a number"})
    ]
    metric: Annotated[str | None, Meta(description="Such as `ModelLatency`; or give `metrics`.")] = None
    statistic: Annotated[Statistic, Meta(description="What is taken of a period.")] = Statistic.AVERAGE
    endpoint: Annotated[str, Meta(description="EndpointName, with `variant`.")] = ""
    variant: Annotated[str, Meta(description="VariantName, with `endpoint`.")] = ""
    component: Annotated[str, Meta(description="InferenceComponentName, in place of these.")] = ""
    metrics: Annotated[
        tuple[AlarmMetricSettings, ...], Meta(description="The metrics that `expression` reads.")
    ] = ()
    expression: Annotated[
        str,
        Meta(
            max_length=1024,
            description="Arithmetic over `metrics` by their ids: numbers, `+ - * /`, parentheses, `min()`, "
            "`max()`, and `fill(id, number)` for where a metric has no value.",
        ),
    ] = ""
    comparison: Annotated[Comparison, Meta(description="When a value breaches.")] = (
        Comparison.GREATER_OR_EQUAL
    )
    period_s: Annotated[int, Meta(ge=10, le=3600, description="Seconds of one value; a multiple of 10.")] = 60
    evaluation_periods: Annotated[
        int, Meta(ge=1, le=limits.ALARM_PERIODS_MAX, description="How many of the newest values count.")
    ] = 1
    datapoints_to_alarm: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.ALARM_PERIODS_MAX,
            description="How many of these must breach; 0 for all of them.",
        ),
    ] = 0
    missing: Annotated[MissingData, Meta(description="What a period without data counts as.")] = (
        MissingData.MISSING
    )
    policies: Annotated[
        tuple[Annotated[str, Meta(extra={"allowed": "a PolicyName or PolicyARN"})], ...],
        Meta(description="Step scaling policies that act on it, by name or ARN."),
    ] = ()


@dataclass(frozen=True, slots=True)
class AutoscalingSettings:
    """How alarms, scaling policies and scheduled actions run."""

    speed: Annotated[
        float,
        Meta(
            ge=1,
            le=600,
            description="Seconds that pass for alarms, cooldowns and schedules in one. For trying policies "
            "out; leave it at 1 otherwise.",
        ),
    ] = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator can set. Sections are fields; quoted names make a table of its own each."""

    server: ServerSettings = field(default_factory=ServerSettings)
    limits: RelayLimits = field(default_factory=RelayLimits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    access_log: AccessLogSettings = field(default_factory=AccessLogSettings)
    router: RouterSettings = field(default_factory=RouterSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    instance_types: dict[str, InstanceTypeSettings] = field(default_factory=dict)
    images: dict[str, ImageSettings] = field(default_factory=dict)
    adapters: AdapterTimes = field(default_factory=AdapterTimes)
    autoscaling: AutoscalingSettings = field(default_factory=AutoscalingSettings)
    alarms: dict[str, AlarmSettings] = field(default_factory=dict)
