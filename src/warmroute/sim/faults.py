"""What goes wrong or changes in the middle of a run."""

from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What happens to an instance."""

    KILL = "kill"
    """It dies: what it has fails, new connections are refused until the routers are told."""
    DRAIN = "drain"
    """The routers give it nothing new; it finishes what it has."""
    ADD = "add"
    """A new one, with an empty cache, comes into service."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One change.

    Attributes:
        at_ns: When.
        kind: What.
        instance: Which one, from 0; not used for ADD, which takes the next number.
        notice_ns: After a KILL: until the routers are told.
    """

    at_ns: int
    kind: FaultKind
    instance: int = 0
    notice_ns: int = 0
