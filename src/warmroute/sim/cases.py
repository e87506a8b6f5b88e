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
from warmroute.sim.shapes import (
    MT_BENCH,
    SQUALITY,
    closed,
    conversations,
    fixed_prefixes,
    lengths,
    mt_bench,
    per_client,
    scaling,
    squality,
    wavy_prefixes,
)
from warmroute.workload.arrivals import (
    NS_PER_S,
    OpenLoop,
    Source,
    Stages,
    poisson,
    scattered,
)
from warmroute.workload.prompts import Maker, RenewedPrefixes, Rounds

LADDER = ((9, 30), (3, 210), (4, 180), (5, 120), (6, 120), (8, 90), (10, 70), (12, 60), (15, 50), (20, 50))
"""Requests per second and seconds of llm-d's 37-capacity report; the first is its warm-up."""
DRAIN_S = 60.0
"""Pause between the stages of the ladder, at least: the generator waits until all of a stage have ended."""


# --- AWS ------------------------------------------------------------------------------------


def _aws_long(parameters: Parameters, rng: Random, _: Read) -> Source:
    maker = RenewedPrefixes(
        live=parameters.whole("prefixes"),
        uses=parameters.whole("uses"),
        prefix_tokens=parameters.whole("prefix_tokens"),
        lengths=lengths(parameters),
        rng=rng,
    )
    return closed(parameters, maker, rng)


_AWS_LONG: Mapping[str, Value] = {
    "clients": 14, "prefixes": 60, "uses": 6, "prefix_tokens": 8192, "unique_tokens": 200.0,
    "output_tokens": 256.0, "sigma": 0.3, "think_s": 0.0, "ramp_s": 3.0, "duration_s": 3600.0,
    "warmup_s": 300.0,
}  # fmt: skip


_AWS_SHORT: Mapping[str, Value] = {
    "clients": 140, "think_s": 5.0, "turns_min": 2, "turns_max": 5, "system_tokens": 0, "systems": 1,
    "zipf": 0.0, "opening_tokens": 250.0, "unique_tokens": 60.0, "output_tokens": 280.0, "sigma": 0.4,
    "ramp_s": 10.0, "duration_s": 1800.0, "warmup_s": 120.0, "prefix_length": 1024,
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
        lengths=lengths(parameters),
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


_FIXED: Mapping[str, Value] = {
    "clients": 56, "prefixes": 600, "zipf": 0.0, "common_tokens": 0, "prefix_tokens": 8000, "hot": 0.0,
    "unique_tokens": 300.0, "output_tokens": 150.0, "sigma": 0.3, "think_s": 0.0, "ramp_s": 5.0,
    "warmup_s": 60.0,
}  # fmt: skip
_CHAT: Mapping[str, Value] = {
    "clients": 280, "think_s": 10.0, "turns_min": 2, "turns_max": 10, "system_tokens": 2048, "systems": 1,
    "zipf": 0.0, "opening_tokens": 1000.0, "unique_tokens": 150.0, "output_tokens": 250.0, "sigma": 0.5,
    "ramp_s": 10.0, "warmup_s": 60.0, "prefix_length": 12_288,
}  # fmt: skip
_WAVE: Mapping[str, Value] = {
    "qps": 14.0, "swing": 0.8, "period_s": 60.0, "wave": "square",
    **{name: value for name, value in _FIXED.items() if name not in ("clients", "think_s", "ramp_s")},
}  # fmt: skip
_TEXTS: Mapping[str, Value] = {"think_s": 0.0, "ramp_s": 3.0}


def _published() -> Iterator[Scenario]:
    """Cases that others have published results or recordings of."""
    case = partial(Scenario, threshold=per_client)
    yield case("aws-long", "AWS's test with 8,000-token prefixes, each used six times", _AWS_LONG, _aws_long)
    yield case("aws-short", "AWS's test with ShareGPT-like conversations", _AWS_SHORT, conversations)
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


def _shapes() -> Iterator[Scenario]:
    """Shapes of traffic in which one thing is hard, or nothing is to be gained."""
    case = partial(Scenario, threshold=per_client)
    yield case(
        "do-no-harm",
        "Prefixes of 256 tokens: nothing to gain, nothing may be lost",
        {**_FIXED, "prefixes": 256, "prefix_tokens": 256, "unique_tokens": 200.0, "prefix_length": 1024},
        fixed_prefixes,
    )
    yield _recorded(
        "bursts", "Azure's recorded code completions, very bursty", "azure", AZURE, duration_s=3600.0
    )
    yield _recorded(
        "skew", "ServeGen's m-small clients, one prefix each; the top client sends 30 %", "servegen",
        SERVEGEN, start_s=129_600, warmup_s=20.0,
    )  # fmt: skip
    yield case("hot", "60 % of the traffic has one prefix", {**_FIXED, "hot": 0.6}, fixed_prefixes)
    yield case("prefixes", "600 shared prefixes; set zipf for their popularity", _FIXED, fixed_prefixes)
    yield case(
        "churn",
        "aws-long with one instance drained in mid-run (or fault=kill, add or replace)",
        {**_AWS_LONG, "duration_s": 900.0, "warmup_s": 120.0, "fault": "drain"},
        _aws_long,
    )


def _further() -> Iterator[Scenario]:
    """What published tests left open."""
    case = partial(Scenario, threshold=per_client)
    yield case(
        "mt-bench", "MT-bench's short questions of two turns: nothing to gain, nothing may be lost",
        {**_TEXTS, "clients": 56, "output_tokens": 250.0, "sigma": 0.5, "warmup_s": 30.0,
         "prefix_length": 1024},
        mt_bench, data=(MT_BENCH,),
    )  # fmt: skip
    yield case(
        "rag", "SQuALITY's stories, each asked its five questions: aws-long with the lengths of real texts",
        {**_TEXTS, "clients": 14, "documents": 60, "duration_s": 3600.0, "warmup_s": 300.0},
        squality, data=(SQUALITY,),
    )  # fmt: skip
    yield case(
        "chat", "Conversations on one system prompt, or several; set systems and zipf", _CHAT, conversations
    )
    yield case(
        "updates", "chat with a system prompt that changes every minute", {**_CHAT, "update_s": 60.0},
        conversations,
    )  # fmt: skip
    yield case(
        "tenants", "200 tenants with the same system prompt but for a name in its middle",
        {**_FIXED, "prefixes": 200, "common_tokens": 3008, "prefix_tokens": 3008, "prefix_length": 16_384},
        fixed_prefixes,
    )  # fmt: skip
    yield Scenario(
        "waves", "A rate that jumps between a fifth and nine fifths of its mean every half minute", _WAVE,
        wavy_prefixes,
    )  # fmt: skip
    yield Scenario(
        "autoscaling", "An hour whose load rises and falls, and instances that follow it",
        {**_WAVE, "qps": 12.0, "swing": 0.6, "period_s": 3600.0, "wave": "sine", "instances": 4,
         "instances_min": 2, "instances_max": 8, "instance_qps": 3.0, "scale_every_s": 120.0,
         "start_s": 180.0, "duration_s": 3600.0, "warmup_s": 120.0},
        wavy_prefixes, changes=scaling,
    )  # fmt: skip


CASES: Mapping[str, Scenario] = {
    scenario.name: scenario for scenario in (*_published(), *_shapes(), *_further())
}
"""Every built-in scenario by its name."""
