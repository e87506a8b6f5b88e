"""Scenarios made of a recording that the user has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from warmroute.core.errors import ConfigurationError
from warmroute.sim.scenario import Parameters, Read, Scenario, Value
from warmroute.workload.arrivals import Arrival, Recorded, SessionLoop, Source
from warmroute.workload.traces import agentic, azure, chat, mooncake, servegen

ALL_OF_IT_S = 1e7
"""Longer than any recording."""
_RECORDED: Mapping[str, Value] = {
    "speed": 1.0, "start_max_s": 0.0, "spread_s": 0.0, "duration_s": ALL_OF_IT_S,
}  # fmt: skip
_PARAMETERS: Mapping[str, Mapping[str, Value]] = {
    "mooncake": _RECORDED,
    "blocks": _RECORDED,
    "azure": _RECORDED,
    "chat": _RECORDED,
    "agentic": {
        "sessions": 100, "context_tokens": 128_000, "think_max_s": 60.0, "ramp_s": 60.0, "duration_s": 1800.0,
    },
    "servegen": {"speed": 1.0, "start_s": 0, "prefix_tokens": 2048, "duration_s": 120.0},
}  # fmt: skip
FORMATS = tuple(_PARAMETERS)
"""Names of the formats."""


def recording(file: str, format_name: str) -> Scenario:
    """Return a scenario that replays a file.

    Args:
        file: As its reader knows it. For ``servegen``, the one with the rates; the one with the lengths lies
            beside it and is called the same but for that word.
        format_name: One of `FORMATS`.

    Raises:
        ConfigurationError: There is no such format, or a ServeGen file is called otherwise.
    """
    if format_name not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, got {format_name}")
    files: tuple[str, ...] = (file,)
    source: Callable[[Parameters, Random, Read], Source]
    match format_name:
        case "agentic":
            source = partial(_sessions, file)
        case "servegen":
            if "rates" not in file.rpartition("/")[2]:
                raise ConfigurationError(f"a ServeGen file of rates has that word in its name, got {file}")
            folder, slash, name = file.rpartition("/")
            lengths = f"{folder}{slash}{name.replace('rates', 'lengths')}"
            files = (file, lengths)
            source = partial(_population, (file, lengths))
        case _:
            source = partial(_replay, file, format_name)
    return Scenario("trace", f"{file} ({format_name})", _PARAMETERS[format_name], source, data=files)


def _replay(file: str, format_name: str, parameters: Parameters, rng: Random, read: Read) -> Source:
    arrivals: Iterator[Arrival]
    match format_name:
        case "mooncake":
            arrivals = mooncake(read(file))
        case "blocks":
            arrivals = mooncake(read(file), block_tokens=None)
        case "azure":
            arrivals = azure(read(file))
        case _:
            arrivals = chat(read(file))
    speed = parameters.number("speed")
    start_ns = round(rng.random() * parameters.ns("start_max_s"))
    end_ns = start_ns + parameters.end_ns * speed
    spread_ns = parameters.ns("spread_s")
    if spread_ns:
        moved = [replace(each, at_ns=each.at_ns + round(rng.random() * spread_ns)) for each in arrivals]
        arrivals = iter(sorted(moved, key=lambda each: each.at_ns))
    inside = (each for each in arrivals if start_ns <= each.at_ns < end_ns)
    return Recorded((replace(each, at_ns=each.at_ns - start_ns) for each in inside), speed=speed)


def _sessions(file: str, parameters: Parameters, rng: Random, read: Read) -> Source:
    sessions = agentic(
        read(file),
        context_tokens=parameters.whole("context_tokens"),
        think_ns_max=parameters.ns("think_max_s"),
    )
    rng.shuffle(sessions)
    return SessionLoop(
        sessions,
        at_once=parameters.whole("sessions"),
        ramp_ns=parameters.ns("ramp_s"),
        end_ns=parameters.end_ns,
    )


def _population(files: tuple[str, str], parameters: Parameters, rng: Random, read: Read) -> Source:
    speed = parameters.number("speed")
    arrivals = servegen(
        read(files[0]), read(files[1]), rng=rng, start_s=parameters.whole("start_s"),
        duration_s=round(parameters.number("duration_s") * speed),
        prefix_tokens=parameters.whole("prefix_tokens"),
    )  # fmt: skip
    return Recorded(arrivals, speed=speed)
