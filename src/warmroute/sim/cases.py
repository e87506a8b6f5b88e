"""The built-in scenarios.

Their shapes follow published reports (``docs/concepts/simulator.md`` says which). Where a report leaves
something out, the value here is an inference that fits, not a fact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from warmroute.core.errors import ConfigurationError
from warmroute.sim.recordings import recording
from warmroute.sim.scenario import Parameters, Read, Scenario, Value
from warmroute.workload.arrivals import (
    NS_PER_S,
    ClosedLoop,
    OpenLoop,
    Source,
    Stages,
    poisson,
    scattered,
    thinking,
)
from warmroute.workload.prompts import Conversations, FixedPrefixes, Lengths, Maker, RenewedPrefixes, Rounds

LADDER = ((9, 30), (3, 210), (4, 180), (5, 120), (6, 120), (8, 90), (10, 70), (12, 60), (15, 50), (20, 50))
"""Requests per second and seconds of llm-d's 37-capacity report; the first is its warm-up."""
DRAIN_S = 60.0
"""Pause between the stages of the ladder, at least: the generator waits until all of a stage have ended."""


def _closed(parameters: Parameters, maker: Maker, rng: Random) -> Source:
    return ClosedLoop(
        parameters.whole("clients"),
        maker,
        think=thinking(parameters.number("think_s"), rng),
        ramp_ns=parameters.ns("ramp_s"),
        end_ns=parameters.end_ns,
    )


def _lengths(parameters: Parameters) -> Lengths:
    return Lengths(
        unique=parameters.number("unique_tokens"),
        output=parameters.number("output_tokens"),
        sigma=parameters.number("sigma"),
    )


def _per_client(parameters: Parameters) -> int:
    """Four times what an instance has when clients are spread evenly."""
    return max(8, -(-4 * parameters.whole("clients") // parameters.whole("instances")))


# --- AWS ------------------------------------------------------------------------------------


def _aws_long(parameters: Parameters, rng: Random, _: Read) -> Source:
    maker = RenewedPrefixes(
        live=parameters.whole("prefixes"),
        uses=parameters.whole("uses"),
        prefix_tokens=parameters.whole("prefix_tokens"),
        lengths=_lengths(parameters),
        rng=rng,
    )
    return _closed(parameters, maker, rng)


_AWS_LONG: Mapping[str, Value] = {
    "clients": 14, "prefixes": 60, "uses": 6, "prefix_tokens": 8192, "unique_tokens": 200.0,
    "output_tokens": 256.0, "sigma": 0.3, "think_s": 0.0, "ramp_s": 3.0, "duration_s": 3600.0,
    "warmup_s": 300.0,
}  # fmt: skip


def _aws_short(parameters: Parameters, rng: Random, _: Read) -> Source:
    low, high = parameters.whole("turns_min"), parameters.whole("turns_max")
    maker = Conversations(
        system_tokens=parameters.whole("system_tokens"),
        lengths=_lengths(parameters),
        turns=lambda source: source.randint(low, high),
        rng=rng,
        opening_tokens=parameters.number("opening_tokens"),
    )
    return _closed(parameters, maker, rng)


_AWS_SHORT: Mapping[str, Value] = {
    "clients": 140, "think_s": 5.0, "turns_min": 2, "turns_max": 5, "system_tokens": 0,
    "opening_tokens": 250.0, "unique_tokens": 60.0, "output_tokens": 280.0, "sigma": 0.4, "ramp_s": 10.0,
    "duration_s": 1800.0, "warmup_s": 120.0, "prefix_length": 1024,
}  # fmt: skip


# --- llm-d ----------------------------------------------------------------------------------


def _ladder(parameters: Parameters, rng: Random, _: Read) -> Source:
    chosen = parameters.number("qps")
    rates = [stage for number, stage in enumerate(LADDER) if not chosen or not number or stage[0] == chosen]
    if chosen and len(rates) == 1:
        rates.append((round(chosen), 60))
    return Stages(
        rates,
        lambda rate, start, end: scattered(rate, rng, start_ns=start, end_ns=end),
        _rounds(parameters, rng),
        pause_ns=round(DRAIN_S * NS_PER_S),
    )


def _pressure(parameters: Parameters, rng: Random, _: Read) -> Source:
    if not parameters.number("qps"):
        raise ConfigurationError("qps must be more than 0, got 0")
    times = poisson(parameters.number("qps"), rng, start_ns=0, end_ns=parameters.end_ns)
    return OpenLoop(times, _rounds(parameters, rng))


def _rounds(parameters: Parameters, rng: Random) -> Maker:
    return Rounds(
        count=parameters.whole("prefixes"),
        prompts=parameters.whole("prompts"),
        prefix_tokens=parameters.whole("prefix_tokens"),
        lengths=_lengths(parameters),
        rng=rng,
    )


# --- recorded -------------------------------------------------------------------------------

MOONCAKE = "mooncake/conversation_trace.jsonl"
AGENTIC = "agentic/sessions.jsonl"
AZURE = "azure/AzureLLMInferenceTrace_code.csv"
SERVEGEN = "servegen/language_m-small_rates.csv.gz"


def _recorded(name: str, title: str, format_name: str, file: str, **own: Value) -> Scenario:
    scenario = recording(file, format_name)
    return replace(scenario, name=name, title=title, own={**scenario.own, **own})


# --- made up --------------------------------------------------------------------------------


def _fixed(parameters: Parameters, rng: Random, _: Read) -> Source:
    maker = FixedPrefixes(
        count=parameters.whole("prefixes"),
        exponent=parameters.number("zipf"),
        prefix_tokens=parameters.whole("prefix_tokens"),
        lengths=_lengths(parameters),
        rng=rng,
        hot=parameters.number("hot"),
    )
    return _closed(parameters, maker, rng)


_FIXED: Mapping[str, Value] = {
    "clients": 56, "prefixes": 600, "zipf": 0.0, "prefix_tokens": 8000, "hot": 0.0, "unique_tokens": 300.0,
    "output_tokens": 150.0, "sigma": 0.3, "think_s": 0.0, "ramp_s": 5.0, "warmup_s": 60.0,
}  # fmt: skip


def _all() -> Iterator[Scenario]:
    case = partial(Scenario, threshold=_per_client)
    yield case("aws-long", "AWS's test with 8,000-token prefixes, each used six times", _AWS_LONG, _aws_long)
    yield case("aws-short", "AWS's test with ShareGPT-like conversations", _AWS_SHORT, _aws_short)
    yield Scenario(
        "ladder",
        "llm-d's 37-capacity ladder: 83 prefixes x 3 prompts on 4 pods",
        {"instances": 4, "profile": "llama-3.1-70b-4xh100", "qps": 0.0, "prefixes": 83, "prompts": 3,
         "prefix_tokens": 8000, "unique_tokens": 1000.0, "output_tokens": 1000.0, "sigma": 0.0,
         "overhead_ms": 40.0, "overhead_us_per_token": 5.0, "warmup_s": 90.0, "threshold": 96},
        _ladder,
    )  # fmt: skip
    yield Scenario(
        "pressure",
        "llm-d's 73-capacity shape: 150 prefixes x 5 prompts on 8 pods, most of the caches in use",
        {"instances": 8, "profile": "qwen3-32b-2xh100", "qps": 8.0, "prefixes": 150, "prompts": 5,
         "prefix_tokens": 6000, "unique_tokens": 1200.0, "output_tokens": 1000.0, "sigma": 0.0,
         "duration_s": 300.0, "warmup_s": 60.0, "threshold": 96},
        _pressure,
    )  # fmt: skip
    yield _recorded("mooncake", "Mooncake's recorded conversations", "mooncake", MOONCAKE, duration_s=3600.0)
    yield _recorded(
        "agents", "Recorded sessions of coding agents, a number of them at the same time", "agentic", AGENTIC,
        warmup_s=300.0, prefix_length=65_536,
    )  # fmt: skip
    yield case(
        "do-no-harm",
        "Prefixes of 256 tokens: nothing to gain, nothing may be lost",
        {**_FIXED, "prefixes": 256, "prefix_tokens": 256, "unique_tokens": 200.0, "prefix_length": 1024},
        _fixed,
    )
    yield _recorded(
        "bursts", "Azure's recorded code completions, very bursty", "azure", AZURE, duration_s=3600.0
    )
    yield _recorded(
        "skew", "ServeGen's m-small clients, one prefix each; the top client sends 30 %", "servegen",
        SERVEGEN, start_s=129_600, warmup_s=20.0,
    )  # fmt: skip
    yield case("hot", "60 % of the traffic has one prefix", {**_FIXED, "hot": 0.6}, _fixed)
    yield case("prefixes", "600 shared prefixes; set zipf for their popularity", _FIXED, _fixed)
    yield case(
        "churn",
        "aws-long with one instance drained in mid-run (or fault=kill, fault=add)",
        {**_AWS_LONG, "duration_s": 900.0, "warmup_s": 120.0, "fault": "drain"},
        _aws_long,
    )


CASES: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _all()}
"""Every built-in scenario by its name."""
