"""Reads a decision log from a file and replays it."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from warmroute.core import limits
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import RoutingStrategy
from warmroute.sim.replay import Replay, ReplayError, replay
from warmroute.sim.what_if import WhatIf, what_if

THRESHOLD = "concurrency_threshold"
_Found = TypeVar("_Found", Replay, WhatIf)


def replay_file(file: Path) -> Replay:
    """Make the decisions of a log again.

    Raises:
        ConfigurationError: The file cannot be read, or is no log that this version understands.
    """
    return _read(file, replay)


def imagine(file: Path, policy: str, overrides: Sequence[tuple[str, str]]) -> WhatIf:
    """Let another strategy decide about a log's requests.

    Args:
        file: The log.
        policy: Name of a strategy.
        overrides: Parameters by name, as texts: ``concurrency_threshold`` alone.

    Raises:
        ConfigurationError: There is no such strategy or parameter, or as `replay_file`.
    """
    if policy not in RoutingStrategy.__members__:
        allowed = ", ".join(RoutingStrategy)
        raise ConfigurationError(f"--policy of a replay must be one of {allowed}, got {policy}")
    threshold = None
    for name, text in overrides:
        if name != THRESHOLD:
            raise ConfigurationError(f"a replay has the parameter {THRESHOLD} alone, got {name}")
        threshold = _threshold(text)
    return _read(file, lambda data: what_if(data, RoutingStrategy(policy), threshold=threshold))


def _threshold(text: str) -> int:
    low, high = limits.CONCURRENCY_THRESHOLD_MIN, limits.CONCURRENCY_THRESHOLD_MAX
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ConfigurationError(f"{THRESHOLD} must be a whole number from {low} to {high}, got {text}")
    return int(text)


def _read(file: Path, follow: Callable[[Iterable[bytes]], _Found]) -> _Found:
    try:
        with file.open("rb") as lines:
            return follow(lines)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ReplayError as error:
        raise ConfigurationError(f"{file} cannot be replayed: {error}") from None
