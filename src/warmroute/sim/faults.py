"""What goes wrong or changes in the middle of a run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warmroute.core.errors import ConfigurationError


class FaultKind(StrEnum):
    """What happens to an instance."""

    KILL = "kill"
    """It dies: what it has fails, new connections are refused until the routers are told."""
    DRAIN = "drain"
    """The routers give it nothing new; it finishes what it has and is gone."""
    ADD = "add"
    """A new one, with an empty cache, comes into service."""


REPLACE = "replace"
"""One drains and a new one comes, at the same time."""
_FAULT = re.compile(r"(\w+)(?:@([0-9.]+))?(?::(\d+))?")
_FORM = "a comma-separated list of kill, drain, add or replace, each with @SECONDS and :INSTANCE if need be"


@dataclass(frozen=True, slots=True)
class Fault:
    """One change.

    Attributes:
        at_ns: When.
        kind: What.
        instance: Which one, from 0; not used for ADD, which takes the next number. Nothing happens to one
            that is not there yet or no more.
        notice_ns: After a KILL: until the routers are told.
    """

    at_ns: int
    kind: FaultKind
    instance: int = 0
    notice_ns: int = 0


def faults_of(text: str, *, at_ns: int, instance: int, notice_ns: int, instances: int) -> tuple[Fault, ...]:
    """Return the faults that a text names: ``drain``, or ``drain@600:2,add@700``, or nothing.

    Args:
        text: Kinds, separated by commas; each may have its time in seconds and its instance.
        at_ns: When those without a time happen.
        instance: Which instance those without one happen to.
        notice_ns: After a kill: until the routers are told.
        instances: How many there are at the start.

    Raises:
        ConfigurationError: The text is no such list, or an instance that it names is never there.
    """
    faults: list[Fault] = []
    for part in filter(None, text.split(",")):
        found = _FAULT.fullmatch(part.strip())
        kinds = _kinds(found[1]) if found else ()
        if not found or not kinds:
            raise ConfigurationError(f"fault must be empty or {_FORM}, got {text}")
        try:
            when_ns = at_ns if found[2] is None else round(float(found[2]) * 1e9)
        except ValueError:
            raise ConfigurationError(f"fault must be empty or {_FORM}, got {text}") from None
        which = instance if found[3] is None else int(found[3])
        faults += [Fault(when_ns, kind, which, notice_ns) for kind in kinds]
    there = instances + sum(fault.kind is FaultKind.ADD for fault in faults)
    for fault in faults:
        if fault.kind is not FaultKind.ADD and fault.instance >= there:
            raise ConfigurationError(
                f"a fault's instance must be below their number ({there}), got {fault.instance}"
            )
    return tuple(faults)


def _kinds(word: str) -> Sequence[FaultKind]:
    if word == REPLACE:
        return (FaultKind.DRAIN, FaultKind.ADD)
    return (FaultKind(word),) if word in list(FaultKind) else ()


def scaled(wanted: Sequence[tuple[int, int]], *, instances: int, start_ns: int) -> Iterator[Fault]:
    """Return the changes of an endpoint that is scaled to a schedule; the youngest instance goes first.

    Args:
        wanted: Times and how many instances there shall be from then on, at least 1.
        instances: How many there are at the start.
        start_ns: How long a new one takes to come into service; one that is starting is not stopped.
    """
    # Numbers of those there are or will be, with the time from which they serve.
    there = [(number, 0) for number in range(instances)]
    number = instances
    for at_ns, count in wanted:
        while len(there) < count:
            there.append((number, at_ns + start_ns))
            number += 1
            yield Fault(at_ns + start_ns, FaultKind.ADD)
        while len(there) > count and there[-1][1] <= at_ns:
            gone, _ = there.pop()
            yield Fault(at_ns, FaultKind.DRAIN, gone)
