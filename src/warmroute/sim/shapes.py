"""Sources of the made-up cases, from their parameters."""

from collections.abc import Callable
from math import ceil
from random import Random

from warmroute.core.errors import ConfigurationError
from warmroute.sim.faults import Fault, scaled
from warmroute.sim.scenario import Parameters, Read
from warmroute.workload.arrivals import NS_PER_S, ClosedLoop, OpenLoop, Source, thinking, varying, wave
from warmroute.workload.prompts import Conversations, FixedPrefixes, Lengths, Maker
from warmroute.workload.texts import Dialogues, RenewedDocuments, dialogues, documents

MT_BENCH = "mt_bench/question.jsonl"
SQUALITY = "rag_squality/dev.jsonl"
WAVES = ("sine", "square")


def closed(parameters: Parameters, maker: Maker, rng: Random) -> Source:
    """Return clients that wait for answers and think."""
    return ClosedLoop(
        parameters.whole("clients"),
        maker,
        think=thinking(parameters.number("think_s"), rng),
        ramp_ns=parameters.ns("ramp_s"),
        end_ns=parameters.end_ns,
    )


def lengths(parameters: Parameters) -> Lengths:
    """Return the lengths of what nobody shares and of answers."""
    return Lengths(
        unique=parameters.number("unique_tokens"),
        output=parameters.number("output_tokens"),
        sigma=parameters.number("sigma"),
    )


def per_client(parameters: Parameters) -> int:
    """Return a threshold: four times what an instance has when clients are spread evenly."""
    return max(8, -(-4 * parameters.whole("clients") // parameters.whole("instances")))


def conversations(parameters: Parameters, rng: Random, _: Read) -> Source:
    """Return clients that talk, all on one system prompt or on several."""
    low, high = parameters.whole("turns_min"), parameters.whole("turns_max")
    maker = Conversations(
        system_tokens=parameters.whole("system_tokens"),
        lengths=lengths(parameters),
        turns=lambda source: source.randint(low, high),
        rng=rng,
        opening_tokens=parameters.number("opening_tokens"),
        systems=parameters.whole("systems"),
        exponent=parameters.number("zipf"),
    )
    return closed(parameters, maker, rng)


def fixed_prefixes(parameters: Parameters, rng: Random, _: Read) -> Source:
    """Return clients that draw from the same prefixes all the time."""
    return closed(parameters, _fixed(parameters, rng), rng)


def wavy_prefixes(parameters: Parameters, rng: Random, _: Read) -> Source:
    """Return requests on the same prefixes all the time, at a rate that goes up and down."""
    rate, highest = rate_of(parameters)
    times = varying(rate, highest, rng, start_ns=0, end_ns=parameters.end_ns)
    return OpenLoop(times, _fixed(parameters, rng))


def rate_of(parameters: Parameters) -> tuple[Callable[[float], float], float]:
    """Return requests per second at a time in seconds, and the highest.

    Raises:
        ConfigurationError: There is no such wave.
    """
    shape = parameters.text("wave")
    if shape not in WAVES:
        raise ConfigurationError(f"wave must be {' or '.join(WAVES)}, got {shape}")
    mean, swing = parameters.number("qps"), parameters.number("swing")
    rate = wave(mean, swing, parameters.number("period_s"), square=shape == "square")
    return rate, mean * (1 + swing)


def scaling(parameters: Parameters) -> tuple[Fault, ...]:
    """Return the changes of an endpoint whose instances follow the load."""
    rate, _ = rate_of(parameters)
    every_ns = parameters.ns("scale_every_s")
    low, high = parameters.whole("instances_min"), parameters.whole("instances_max")
    wanted = []
    for at_ns in range(every_ns, parameters.end_ns, every_ns):
        needed = ceil(rate(at_ns / NS_PER_S) / parameters.number("instance_qps"))
        wanted.append((at_ns, min(max(needed, low), high)))
    return tuple(scaled(wanted, instances=parameters.whole("instances"), start_ns=parameters.ns("start_s")))


def mt_bench(parameters: Parameters, rng: Random, read: Read) -> Source:
    """Return clients that ask MT-bench's questions of two turns."""
    asked = dialogues(read(MT_BENCH))
    rng.shuffle(asked)
    answers = Lengths(1, parameters.number("output_tokens"), parameters.number("sigma"))
    return closed(parameters, Dialogues(asked, lengths=answers, rng=rng), rng)


def squality(parameters: Parameters, rng: Random, read: Read) -> Source:
    """Return clients that ask SQuALITY's questions about its stories."""
    stories = documents(read(SQUALITY))
    rng.shuffle(stories)
    maker = RenewedDocuments(stories, live=parameters.whole("documents"), rng=rng)
    return closed(parameters, maker, rng)


def _fixed(parameters: Parameters, rng: Random) -> Maker:
    return FixedPrefixes(
        count=parameters.whole("prefixes"),
        exponent=parameters.number("zipf"),
        prefix_tokens=parameters.whole("prefix_tokens"),
        lengths=lengths(parameters),
        rng=rng,
        hot=parameters.number("hot"),
        common_tokens=parameters.whole("common_tokens"),
    )
