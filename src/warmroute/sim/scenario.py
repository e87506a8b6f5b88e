"""Scenarios: a cluster, a workload and faults, made from named parameters that anybody may override."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from random import Random

from warmroute.core.errors import ConfigurationError
from warmroute.engine.profile import PROFILES, Profile
from warmroute.engine.step import StepCost
from warmroute.routing.books import KV_TUNING
from warmroute.routing.kvbook import KvTuning
from warmroute.sim.driver import simulate
from warmroute.sim.faults import Fault, faults_of
from warmroute.sim.policies import POLICIES
from warmroute.sim.policy import Settings
from warmroute.sim.records import Run
from warmroute.sim.setup import Setup
from warmroute.workload.arrivals import NS_PER_S, Source
from warmroute.workload.partitions import PARTITIONS_MAX, Partitioned

Value = int | float | str
Read = Callable[[str], Iterable[str]]
"""Returns the lines of a data file by its path below the data directory."""

_TUNING = {field.name: float(getattr(KV_TUNING, field.name)) for field in fields(KvTuning)}
COMMON: Mapping[str, Value] = {
    "instances": 7,
    "profile": "llama-3.1-70b-8xh100",
    "compute_scale": 1.0,
    "cache_scale": 1.0,
    "overhead_ms": 33.0,
    "overhead_us_per_token": 0.0,
    "signal_ms": 0.0,
    "signal_loss": 0.0,
    "signal_resync_ms": 0.0,
    "metrics_ms": 0.0,
    "jitter": 0.0,
    "patience_s": 0.0,
    "timeout_s": 0.0,
    "adapters": 0,
    "adapter_zipf": 0.0,
    "adapter_slots": 8,
    "adapter_load_ms": 300.0,
    "salts": 0,
    "update_s": 0.0,
    "prefix_length": 4096,
    "threshold": 0,
    "routers": 1,
    **{f"kv_{field}": value for field, value in _TUNING.items()},
    "duration_s": 600.0,
    "warmup_s": 0.0,
    "fault": "",
    "fault_s": 0.0,
    "fault_instance": 0,
    "fault_notice_ms": 0.0,
}
"""Parameters of every scenario, with the values that hold where a scenario has no other."""
PARAMETER_HELP: Mapping[str, str] = {
    "instances": "Model servers at the start.",
    "profile": "Engine profile of every instance.",
    "compute_scale": "Factor on the cost of prompt tokens, for sensitivity runs.",
    "cache_scale": "Factor on the size of every instance's cache.",
    "overhead_ms": "Per request at the instance before its engine has it: HTTP, tokenizer, queues.",
    "overhead_us_per_token": "The same per prompt token.",
    "signal_ms": "Age of what engines tell of their caches when routers hear it.",
    "signal_loss": "Share of it that a router does not get, 0 to 1.",
    "signal_resync_ms": "From noticing that until the engine has told all it has; 0 = never.",
    "metrics_ms": "Routers that want it poll engines' metrics so often; 0 = never.",
    "jitter": "Sigma of a lognormal factor on the time of every engine step, 0 to 1.",
    "patience_s": "A client without a first token by then gives up; 0 = never.",
    "timeout_s": "A router without a first token by then gives up; 0 = never.",
    "adapters": "LoRA adapters, one for every client; 0 = none.",
    "adapter_zipf": "Exponent of their popularity; 0 = equal.",
    "adapter_slots": "Adapters that an engine has room for.",
    "adapter_load_ms": "How long an engine loads one; everything in it waits.",
    "salts": "Tenants with a cache salt of their own: they share nothing; 0 = none.",
    "update_s": "The start of every prompt changes so often; 0 = never.",
    "prefix_length": "PrefixLength of PREFIX_AWARE, in characters.",
    "threshold": "ConcurrencyThreshold of PREFIX_AWARE; 0 lets the scenario choose.",
    "routers": "Routers that share nothing.",
    "kv_anchor": "KV_AWARE: what a copy off home costs at least, as a part of its prefill.",
    "kv_price": "KV_AWARE: the same per share of evicted blocks that are asked for again.",
    "kv_blind": "KV_AWARE: the same per other router, where engines tell nothing.",
    "kv_harm": "KV_AWARE: what computing a token costs each request in flight on the target.",
    "kv_decode": "KV_AWARE: what a token of context costs a token of an answer, until it is learnt.",
    "kv_answers": "KV_AWARE: how much it counts when it is learnt; 0 keeps kv_decode.",
    "kv_spread": "KV_AWARE: a start has at most one home over its share of requests times targets.",
    "kv_room": "KV_AWARE: what computing a token costs more in the fullest cache than in an empty one.",
    "kv_copies": "KV_AWARE: which part of a popular start's prefill one more copy saves later.",
    "duration_s": "Virtual seconds in which requests arrive.",
    "warmup_s": "Requests before this do not count.",
    "fault": "kill, drain, add or replace an instance; a list like drain@60:2,add@90; empty for none.",
    "fault_s": "When, for those without a time; 0 is half of the duration.",
    "fault_instance": "Which instance, from 0, for those without one.",
    "fault_notice_ms": "After a kill: until the routers are told.",
    "clients": "Clients that each wait for an answer, think, and ask again.",
    "qps": "Requests per second, in the mean; in ladder the stage to run, 0 = all.",
    "swing": "Share of the mean by which the rate goes up and down, 0 to 1.",
    "period_s": "From one rise of the rate to the next.",
    "wave": "sine or square.",
    "instances_min": "Instances are never scaled below this.",
    "instances_max": "Instances are never scaled beyond this.",
    "instance_qps": "Requests per second for which an instance is added.",
    "scale_every_s": "How often instances are added or drained.",
    "start_s": "Until an added instance serves; in a recording, where to begin.",
    "prefixes": "Shared prefixes there are, or are live at a time.",
    "uses": "Requests on a prefix before it is replaced.",
    "zipf": "Exponent of the popularity of prefixes or system prompts; 0 = equal.",
    "hot": "Share of the requests that have the first prefix.",
    "common_tokens": "A start that all prefixes share, before their own prefix_tokens.",
    "systems": "System prompts; every conversation has one.",
    "documents": "Documents that are asked about at a time.",
    "start_max_s": "The seed draws where in the recording to begin, up to here.",
    "spread_s": "The seed moves every arrival of a recording by up to so much; 0 replays it as it is.",
}

_POSITIVE = frozenset({
    "instances", "routers", "prefix_length", "compute_scale", "cache_scale", "duration_s", "clients",
    "prefixes", "uses", "prompts", "sessions", "speed", "unique_tokens", "output_tokens", "turns_min",
    "context_tokens", "adapter_slots", "systems", "documents", "period_s", "instances_min", "instance_qps",
    "scale_every_s",
})  # fmt: skip
_SHARES = frozenset({"hot", "jitter", "signal_loss", "swing"})


class Parameters:
    """Named values of a scenario.

    Args:
        values: All of them.
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = dict(values)

    def whole(self, name: str) -> int:
        """Return a whole number."""
        return int(self.values[name])

    def number(self, name: str) -> float:
        """Return a number."""
        return float(self.values[name])

    def text(self, name: str) -> str:
        """Return a text."""
        return str(self.values[name])

    def ns(self, name: str) -> int:
        """Return a number of seconds (``…_s``) or milliseconds (``…_ms``) in nanoseconds."""
        return round(self.number(name) * (NS_PER_S if name.endswith("_s") else 1e6))

    @property
    def end_ns(self) -> int:
        """When arrivals end."""
        return self.ns("duration_s")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case.

    Attributes:
        name: As users type it.
        title: What it is, in a line.
        own: Its parameters and defaults: those of its own, and other values for common ones.
        source: Makes the requests from parameters, a source of randomness and data files.
        threshold: What ``threshold`` 0 stands for.
        data: Files it reads, below the data directory.
        changes: What happens to its instances by itself, before anybody sets a fault.
    """

    name: str
    title: str
    own: Mapping[str, Value]
    source: Callable[[Parameters, Random, Read], Source]
    threshold: Callable[[Parameters], int] = lambda _: 32
    data: tuple[str, ...] = ()
    changes: Callable[[Parameters], tuple[Fault, ...]] = lambda _: ()

    @property
    def defaults(self) -> dict[str, Value]:
        """Every parameter with its default."""
        return {**COMMON, **self.own}

    def parameters(self, overrides: Mapping[str, str]) -> Parameters:
        """Return the parameters with some overridden by texts.

        Raises:
            ConfigurationError: There is no such parameter, or the text is no such value.
        """
        values = self.defaults
        for name, text in overrides.items():
            if name not in values:
                raise ConfigurationError(
                    f"{self.name} has no parameter {name}; it has {', '.join(sorted(values))}"
                )
            kind = type(values[name])
            try:
                values[name] = kind(text)
            except ValueError:
                wanted = {int: "a whole number", float: "a number"}[kind]
                raise ConfigurationError(f"{name} must be {wanted}, got {text}") from None
        _validate(values)
        parameters = Parameters(values)
        _faults(parameters)
        return parameters


def _validate(values: Mapping[str, Value]) -> None:
    if values["profile"] not in PROFILES:
        raise ConfigurationError(f"profile must be one of {', '.join(PROFILES)}, got {values['profile']}")
    for name, value in values.items():
        if not isinstance(value, str):
            _validate_number(name, value)
    if float(values["warmup_s"]) >= float(values["duration_s"]):
        raise ConfigurationError(
            f"warmup_s must be less than duration_s ({values['duration_s']}), got {values['warmup_s']}"
        )
    for least, most in (("turns_min", "turns_max"), ("instances_min", "instances_max")):
        if int(values.get(least, 0)) > int(values.get(most, 0)):
            raise ConfigurationError(f"{least} must not be more than {most}")
    _validate_partitions(values)


def _validate_partitions(values: Mapping[str, Value]) -> None:
    versions = float(values["duration_s"]) // float(values["update_s"]) + 1 if values["update_s"] else 1
    partitions = versions * max(1, int(values["salts"])) * (int(values["adapters"]) + 1)
    if partitions > PARTITIONS_MAX:
        raise ConfigurationError(
            f"adapters, salts and updates of prompts may make {PARTITIONS_MAX} partitions of the caches "
            f"together, got {partitions:.0f}"
        )


def _validate_number(name: str, value: float) -> None:
    if not isfinite(value) or value < 0:
        raise ConfigurationError(f"{name} must be 0 or more, got {value}")
    if not value and name in _POSITIVE:
        raise ConfigurationError(f"{name} must be more than 0, got {value}")
    if value > 1 and name in _SHARES:
        raise ConfigurationError(f"{name} must be a share from 0 to 1, got {value}")


def run_scenario(
    scenario: Scenario,
    parameters: Parameters,
    *,
    policy: str,
    seed: int,
    read: Read,
    stopwatch: Callable[[], int] | None = None,
) -> Run:
    """Run a scenario once.

    Equal arguments give equal runs, to the byte of their logs. Seeds are paired: the workload of a seed is
    the same for every policy, as far as clients that wait for answers let it.

    Args:
        scenario: Which.
        parameters: From `Scenario.parameters`.
        policy: Name of one of `POLICIES`.
        seed: Of everything random.
        read: Gives the data files.
        stopwatch: Returns nanoseconds of a real clock, to measure decisions.
    """
    profile = PROFILES[parameters.text("profile")].scaled(
        parameters.number("compute_scale"), cache=parameters.number("cache_scale")
    )
    settings = Settings(
        prefix_length=parameters.whole("prefix_length"),
        concurrency_threshold=parameters.whole("threshold") or scenario.threshold(parameters),
        cache_blocks=profile.kv_blocks,
        prefill_tokens_per_s=_prefill_tokens_per_s(profile),
        routers=parameters.whole("routers"),
        tuning=KvTuning(**{field: parameters.number(f"kv_{field}") for field in _TUNING}),
    )
    # Seeded by text: independent streams, and the same ones under any PYTHONHASHSEED.
    choosers = [
        POLICIES[policy](settings, Random(f"{seed} router {number}"))  # noqa: S311  (a simulation)
        for number in range(parameters.whole("routers"))
    ]
    setup = Setup(
        profile=profile,
        instances=parameters.whole("instances"),
        source=_source(scenario, parameters, seed, read),
        overhead_ns=parameters.ns("overhead_ms"),
        token_overhead_ns=round(parameters.number("overhead_us_per_token") * 1000),
        signal_ns=parameters.ns("signal_ms"),
        signal_loss=parameters.number("signal_loss"),
        signal_resync_ns=parameters.ns("signal_resync_ms"),
        metrics_ns=parameters.ns("metrics_ms"),
        patience_ns=parameters.ns("patience_s"),
        timeout_ns=parameters.ns("timeout_s"),
        jitter=parameters.number("jitter"),
        adapter_slots=parameters.whole("adapter_slots"),
        adapter_load_ns=parameters.ns("adapter_load_ms"),
        faults=(*scenario.changes(parameters), *_faults(parameters)),
        seed=seed,
    )
    return simulate(setup, choosers, Random(f"{seed} balancer"), stopwatch=stopwatch)  # noqa: S311


def _prefill_tokens_per_s(profile: Profile) -> float:
    """Return what a prompt as long as a step yields on an idle instance."""
    tokens = profile.batch_tokens
    return tokens * 1e12 / StepCost(profile).mixed_ps([(tokens, 0)], decoding=0, context=0)


def _source(scenario: Scenario, parameters: Parameters, seed: int, read: Read) -> Source:
    source = scenario.source(parameters, Random(f"{seed} workload"), read)  # noqa: S311  (a simulation)
    if not any(parameters.number(name) for name in ("adapters", "salts", "update_s")):
        return source
    return Partitioned(
        source,
        Random(f"{seed} partitions"),  # noqa: S311
        adapters=parameters.whole("adapters"),
        exponent=parameters.number("adapter_zipf"),
        salts=parameters.whole("salts"),
        every_ns=parameters.ns("update_s"),
    )


def _faults(parameters: Parameters) -> tuple[Fault, ...]:
    return faults_of(
        parameters.text("fault"),
        at_ns=parameters.ns("fault_s") or parameters.end_ns // 2,
        instance=parameters.whole("fault_instance"),
        notice_ns=parameters.ns("fault_notice_ms"),
        instances=parameters.whole("instances"),
    )
